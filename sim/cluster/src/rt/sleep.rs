//! Waiting on the scaled clock.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sim_config::time::SimTime;

use super::{HostId, ProcessId, Rt};

/// Completes at a point in model time. See [`super::Rt::sleep_until`].
#[must_use = "a sleep does nothing until it is awaited"]
pub struct Sleep {
    rt: Rt,
    at: SimTime,
    /// Who is woken by the timer that is already in madsim's heap. Timers cannot be cancelled there, and each poll
    /// of madsim's own sleep adds another one; a task that polls again with the same waker needs none.
    armed: Option<Waker>,
}

impl Sleep {
    pub(super) fn new(rt: Rt, at: SimTime) -> Self {
        Self { rt, at, armed: None }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.at <= self.rt.now() {
            return Poll::Ready(());
        }
        if !self.armed.as_ref().is_some_and(|armed| armed.will_wake(cx.waker())) {
            self.rt.arm(cx, self.at);
            self.armed = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

/// Completes when the monotonic clock of a host has advanced so far, whatever rate it runs at by then. See [`Rt::sleep_by_clock`].
#[must_use = "a sleep does nothing until it is awaited"]
pub struct ClockSleep {
    host: HostId,
    until: Duration,
    sleep: Sleep,
}

impl Rt {
    /// Sleeps for `duration` by the clock of the host of `process`.
    pub fn sleep_by_clock(&self, process: ProcessId, duration: Duration) -> ClockSleep {
        let host = self.host_of(process);
        let clock = self.clock_of_host(host);
        let until = clock.monotonic(self.now()).saturating_add(duration);
        ClockSleep { host, until, sleep: self.sleep(clock.to_model(duration)) }
    }
}

impl Future for ClockSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let rt = self.sleep.rt.clone();
        let clock = rt.clock_of_host(self.host);
        let left = self.until.saturating_sub(clock.monotonic(rt.now()));
        if left.is_zero() {
            return Poll::Ready(());
        }
        // The rate has changed since.
        let at = rt.now() + clock.to_model(left);
        if clock.has_changed() && at != self.sleep.at {
            self.sleep = Sleep::new(rt.clone(), at);
        }
        rt.on_clock_change(self.host, cx.waker());
        Pin::new(&mut self.sleep).poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_follows_a_clock_whose_rate_changes_meanwhile() {
        /// Sleeps 30 s while the clock runs at another rate from 10 s to 20 s; when it ends.
        fn ends(ppb: i64, follows: bool) -> Duration {
            super::super::run(1, async |rt| {
                let process = rt.add_process(rt.add_host("node"), "sleeper");
                let host = rt.host_of(process);
                if follows {
                    rt.follow_clock(host);
                }
                for (seconds, ppb) in [(10, ppb), (20, 0)] {
                    let changing = rt.clone();
                    rt.at(SimTime::from_secs(seconds), move || changing.adjust_clock(host, |clock, now| clock.set_drift(now, ppb)));
                }
                rt.sleep_by_clock(process, Duration::from_secs(30)).await;
                rt.now().since(SimTime::ZERO)
            })
        }
        let secs = Duration::from_secs;
        assert_eq!(ends(0, true), secs(30));
        assert_eq!(ends(500_000_000, true), secs(25));
        assert_eq!(ends(-500_000_000, true), secs(35));
        // A host that is not followed wakes up late by its own clock, but never early.
        assert_eq!(ends(500_000_000, false), secs(30));
        assert_eq!(ends(-500_000_000, false), secs(35));
    }
}
