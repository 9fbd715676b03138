//! The permanent tasks of reclaim: events of pods, scans, traces and their executors, all concurrent (G §1.4, §1.5).

use std::pin::Pin;
use std::time::Duration;

use tokio::sync::mpsc;

use super::caches::Caches;
use super::entry::Fired;
use super::observer::{Observer, ScanCause, ScanCounts};
use super::process::Reclaim;
use super::settings::ReclaimSettings;
use crate::join::join_all;
use crate::leadership::Leadership;
use kube_machinery::client::Client;
use kube_machinery::env::Env;
use kube_machinery::race::{Either, race};

impl<C: Client, V: Env, K: Caches, O: Observer> Reclaim<C, V, K, O> {
    /// Runs, and never ends by itself. Dropping the future ends everything; a request that was sent may still take effect.
    ///
    /// # Panics
    /// If upstream's process crashes ([`Env::crash`]), with the mutation that causes it.
    pub async fn run(&self, leadership: Leadership) {
        if !self.config.settings.enabled && !self.config.policy.reclaim.reclaims_while_switched_off {
            return std::future::pending().await;
        }
        let (signal, mut signals) = mpsc::channel(1);
        let (fired, channel) = mpsc::channel(self.config.settings.channel.max(1));
        let channel = tokio::sync::Mutex::new(channel);
        let leadership = &leadership;
        let mut parts: Vec<Pin<Box<dyn Future<Output = ()> + Send + '_>>> = vec![
            Box::pin(async {
                let _ = signal.send(ScanCause::Asked).await;
            }),
            Box::pin(self.pod_events(leadership, &signal)),
            Box::pin(self.scan_loop(leadership, &mut signals)),
            Box::pin(self.trace_loop(leadership, &fired, &signal)),
        ];
        for _ in 0..self.config.settings.workers {
            parts.push(Box::pin(self.executor(leadership, &channel)));
        }
        join_all(parts).await;
    }

    /// The trace worker (G §1.4); never ends.
    async fn trace_loop(&self, leadership: &Leadership, fired: &mpsc::Sender<Fired>, signal: &mpsc::Sender<ScanCause>) {
        loop {
            if self.trace(leadership, fired).await {
                // A queued signal is sufficient.
                let _ = signal.try_send(ScanCause::Missed);
            }
            self.env.sleep(self.config.settings.trace_gap).await;
        }
    }

    /// Scans at signals and at the interval, which restarts after each scan (G §1.5); never ends.
    async fn scan_loop(&self, leadership: &Leadership, signals: &mut mpsc::Receiver<ScanCause>) {
        let ReclaimSettings { interval, signal_gap, .. } = self.config.settings;
        let mut next = self.env.monotonic() + interval;
        loop {
            let pause = self.env.sleep(next.saturating_sub(self.env.monotonic()));
            let counts = match race(pause, signals.recv()).await {
                Either::Left(()) => {
                    // A waiting signal gets its scan in this turn.
                    if let Ok(cause) = signals.try_recv() {
                        self.scan(leadership, cause).await
                    } else if leadership.is_leading() || !self.config.policy.reclaim.standbys_scan_once {
                        self.scan(leadership, ScanCause::Interval).await
                    } else {
                        ScanCounts::default()
                    }
                }
                Either::Right(cause) => {
                    let counts = self.scan(leadership, cause.unwrap_or(ScanCause::Asked)).await;
                    self.env.sleep(signal_gap).await;
                    counts
                }
            };
            next = self.env.monotonic() + self.until_the_next(&counts);
        }
    }

    /// The delay after a scan. A partly failed scan is repeated before a whole interval has passed: it may have been meant to make up for a
    /// pod that tracing gave up.
    fn until_the_next(&self, counts: &ScanCounts) -> Duration {
        let ReclaimSettings { interval, trace_gap, max_retries, .. } = self.config.settings;
        let failed = counts.failed > 0 || counts.incomplete;
        if failed && !self.config.policy.reclaim.event_lost_on_error {
            return interval.min(trace_gap.saturating_mul(max_retries.saturating_add(1)));
        }
        interval
    }
}
