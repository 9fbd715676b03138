//! Reclaim as a part of a process.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::caches::Caches;
use super::database::Database;
use super::entry::PodEntry;
use super::leadership::Leadership;
use super::observer::{Observer, ScanCause, ScanCounts};
use super::settings::ReclaimSettings;
use super::trace::Fired;
use crate::Policy;
use crate::join::join_all;
use crate::limiter::Limiter;
use kube_machinery::api::ObjectKey;
use kube_machinery::client::Client;
use kube_machinery::env::Env;
use kube_machinery::leader::ElectionConfig;
use kube_machinery::race::{Either, race};
use tokio::sync::mpsc;

/// What reclaim is told.
#[derive(Clone, Debug)]
pub struct ReclaimConfig {
    /// Its settings.
    pub settings: ReclaimSettings,
    /// What is done differently.
    pub policy: Policy,
}

impl ReclaimConfig {
    /// The defaults for a policy.
    pub fn new(policy: Policy) -> Self {
        Self { settings: ReclaimSettings::new(&policy), policy }
    }

    /// The election that these settings describe (G §8).
    pub fn election(&self, lease: ObjectKey, identity: impl Into<String>) -> ElectionConfig {
        let ReclaimSettings { lease_duration, renew_deadline, retry_period, .. } = self.settings;
        ElectionConfig { lease_duration, renew_deadline, retry_period, ..ElectionConfig::new(lease, identity) }
    }
}

/// Reclaim in one replica of the controller.
pub struct Reclaim<C, V, K, O = ()> {
    pub(super) client: C,
    /// For the informer whose events are traced.
    pub(super) raw: C,
    pub(super) env: V,
    pub(super) caches: K,
    pub(super) observer: O,
    pub(super) config: Arc<ReclaimConfig>,
    pub(super) database: Arc<Mutex<Database>>,
    pub(super) limiter: Limiter,
}

impl<C, V, K, O> fmt::Debug for Reclaim<C, V, K, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reclaim").field("config", &self.config).finish_non_exhaustive()
    }
}

impl<C: Client, V: Env, K: Caches, O: Observer> Reclaim<C, V, K, O> {
    /// A replica that has just started and remembers nothing.
    pub fn new(client: C, env: V, caches: K, observer: O, config: ReclaimConfig) -> Self {
        let database = Arc::new(Mutex::new(Database::new(config.settings.database, &config.policy)));
        let limiter = Limiter::new(config.settings.queue_length, config.policy.limiter_overtakes);
        let raw = client.clone();
        Self { client, raw, env, caches, observer, config: Arc::new(config), database, limiter }
    }

    /// The same with another client for the informer of pods whose events are traced; upstream's has a rate limit of its own.
    #[must_use]
    pub fn with_raw_client(self, raw: C) -> Self {
        Self { raw, ..self }
    }

    /// The same with what `wrap` makes of its caches.
    pub fn with_caches<W>(self, wrap: impl FnOnce(K) -> W) -> Reclaim<C, V, W, O> {
        let Self { client, raw, env, caches, observer, config, database, limiter } = self;
        Reclaim { client, raw, env, caches: wrap(caches), observer, config, database, limiter }
    }

    /// What it was told.
    pub fn config(&self) -> &ReclaimConfig {
        &self.config
    }

    /// The pods that are traced.
    pub fn traced(&self) -> Vec<PodEntry> {
        self.database.lock().unwrap().all()
    }

    /// Runs, and never ends by itself. Dropping it ends everything; what it has sent may still take effect.
    ///
    /// # Panics
    /// Where upstream's process crashes ([`Env::crash`]), with the deviation that says so.
    pub async fn run(&self, leadership: Leadership) {
        if !self.config.settings.enabled {
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
                // One that is queued already does as well.
                let _ = signal.try_send(ScanCause::Missed);
            }
            self.env.sleep(self.config.settings.trace_gap).await;
        }
    }

    /// Scans at signals and at the interval, which begins anew after each scan (G §1.5); never ends.
    async fn scan_loop(&self, leadership: &Leadership, signals: &mut mpsc::Receiver<ScanCause>) {
        let ReclaimSettings { interval, signal_gap, .. } = self.config.settings;
        let mut next = self.env.monotonic() + interval;
        loop {
            let pause = self.env.sleep(next.saturating_sub(self.env.monotonic()));
            let counts = match race(pause, signals.recv()).await {
                Either::Left(()) => {
                    // A signal that waits has its scan with this turn.
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

    /// How long to wait after a scan. One that failed in a part is not left alone for a whole interval: it may have been the one that was to
    /// make up for what tracing gave up.
    fn until_the_next(&self, counts: &ScanCounts) -> Duration {
        let ReclaimSettings { interval, trace_gap, max_retries, .. } = self.config.settings;
        let failed = counts.failed > 0 || counts.incomplete;
        if failed && !self.config.policy.reclaim.event_lost_on_error {
            return interval.min(trace_gap.saturating_mul(max_retries.saturating_add(1)));
        }
        interval
    }
}
