//! The times at which the heartbeats of a kubelet are due: a pure function of time, which makes it possible not to send them
//! (`node::heartbeat`).

use std::time::Duration;

use sim_config::draw::{Concern, Draw};
use sim_config::time::SimTime;

use crate::rt::ProcessId;

/// The interval at which a kubelet renews its lease, and at which it looks at its status (K §6.1).
pub const RENEWS_EVERY: Duration = Duration::from_secs(10);

/// The times at which a kubelet's heartbeats are due: the same in each of its lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeartbeatSchedule {
    renews: SimTime,
    looks: SimTime,
}

impl HeartbeatSchedule {
    /// The schedule of a kubelet: drawn once, from a separate stream.
    pub fn of(seed: u64, kubelet: ProcessId) -> Self {
        let mut draw = Draw::new(seed, Concern::World, 1 << 63 | u64::from(kubelet.0));
        let mut phase = || SimTime::from_micros(draw.below(RENEWS_EVERY.as_micros() as u64));
        Self { renews: phase(), looks: phase() }
    }

    /// A schedule with these times and every 10 s after them.
    #[cfg(test)]
    pub(super) fn at(renews: SimTime, looks: SimTime) -> Self {
        Self { renews, looks }
    }

    /// The first renewal after `now`.
    pub fn next_renewal(self, now: SimTime) -> SimTime {
        after(self.renews, now)
    }

    /// The first look at the status after `now`.
    pub fn next_look(self, now: SimTime) -> SimTime {
        after(self.looks, now)
    }

    /// The last renewal at `now` or before.
    pub(super) fn last_renewal(self, now: SimTime) -> Option<SimTime> {
        before(self.renews, now)
    }
}

/// The first of `phase`, `phase` + 10 s and so on after `now`.
fn after(phase: SimTime, now: SimTime) -> SimTime {
    let (phase, now, every) = (phase.as_micros(), now.as_micros(), RENEWS_EVERY.as_micros() as u64);
    SimTime::from_micros(if now < phase { phase } else { phase + ((now - phase) / every + 1) * every })
}

/// The last of them at `now` or before.
fn before(phase: SimTime, now: SimTime) -> Option<SimTime> {
    let (phase, now, every) = (phase.as_micros(), now.as_micros(), RENEWS_EVERY.as_micros() as u64);
    (now >= phase).then(|| SimTime::from_micros(phase + (now - phase) / every * every))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beats_are_ten_seconds_apart_and_the_same_in_each_life() {
        let schedule = HeartbeatSchedule::of(7, ProcessId(3));
        assert_eq!(schedule, HeartbeatSchedule::of(7, ProcessId(3)));
        assert_ne!(schedule, HeartbeatSchedule::of(7, ProcessId(4)));
        let first = schedule.next_renewal(SimTime::ZERO);
        assert!(first < SimTime::from_secs(10) || first == SimTime::from_secs(10));
        assert_eq!(schedule.next_renewal(first), first + RENEWS_EVERY, "the next one, not this one");
        assert_eq!(schedule.last_renewal(first), Some(first), "this one, too");
        assert_eq!(schedule.last_renewal(first + Duration::from_secs(9)), Some(first));
        let early = HeartbeatSchedule { renews: SimTime::from_secs(5), looks: SimTime::ZERO };
        assert_eq!((early.last_renewal(SimTime::from_secs(4)), early.next_renewal(SimTime::ZERO)), (None, SimTime::from_secs(5)));
    }
}
