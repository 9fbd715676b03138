//! Waiting on the clock of the model.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use sim_config::time::SimTime;

use super::timers::TimerId;
use super::{HostId, ProcessId, Rt};

/// Completes at a point in model time. See [`super::Rt::sleep_until`].
#[must_use = "a sleep does nothing until it is awaited"]
pub struct Sleep {
    rt: Rt,
    at: SimTime,
    /// The timer, from the first poll on, unless the time had come or never comes. It has fired when the time has come.
    timer: Option<TimerId>,
}

impl Sleep {
    pub(super) fn new(rt: Rt, at: SimTime) -> Self {
        Self { rt, at, timer: None }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.at <= self.rt.now() {
            return Poll::Ready(());
        }
        match self.timer {
            Some(timer) => self.rt.wake_instead(timer, cx.waker()),
            None => self.timer = self.rt.set_timer(self.at, cx.waker()),
        }
        Poll::Pending
    }
}

/// A dropped sleep wakes no task.
impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer
            && self.at > self.rt.now()
        {
            self.rt.cancel_timer(timer);
        }
    }
}

/// Completes when the monotonic clock of a host has advanced this far, whatever its rate is by then. See [`Rt::sleep_by_clock`].
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

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let (rt, clock) = (&this.sleep.rt, this.sleep.rt.clock_of_host(this.host));
        let left = this.until.saturating_sub(clock.monotonic(rt.now()));
        if left.is_zero() {
            return Poll::Ready(());
        }
        rt.on_clock_change(this.host, cx.waker());
        // The rate has changed since.
        let at = rt.now() + clock.to_model(left);
        if clock.has_changed() && at != this.sleep.at {
            this.sleep = Sleep::new(rt.clone(), at);
        }
        Pin::new(&mut this.sleep).poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_follows_a_clock_whose_rate_changes_meanwhile() {
        /// Sleeps 30 s while the clock runs at another rate from 10 s to 20 s. Returns the time of the end.
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
        // A host whose clock is not followed wakes up late by its own clock, but never early.
        assert_eq!(ends(500_000_000, false), secs(30));
        assert_eq!(ends(-500_000_000, false), secs(35));
    }
}
