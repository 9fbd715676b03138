//! The node lifecycle controller's memory of a node: when it last saw a sign of life (K §6.1).
//!
//! Only the moment at which the controller itself sees a change counts, not the time written in a lease or a status; and it sees changes
//! only at its scans.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use sim_config::time::SimTime;

use crate::node::heartbeat::SEEN_AFTER;

/// The interval at which the controller looks at all nodes (`--node-monitor-period`).
pub(super) const SCANS_EVERY: Duration = Duration::from_secs(5);

/// The times at which one life of the controller scans.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scans {
    begun: SimTime,
}

impl Scans {
    pub(super) fn since(begun: SimTime) -> Self {
        Self { begun }
    }

    /// The first scan at `at` or after.
    pub(super) fn at_or_after(self, at: SimTime) -> SimTime {
        let every = SCANS_EVERY.as_micros() as u64;
        let ago = at.as_micros().saturating_sub(self.begun.as_micros());
        SimTime::from_micros(self.begun.as_micros() + ago.div_ceil(every) * every)
    }

    /// The first scan after `at`.
    pub(super) fn after(self, at: SimTime) -> SimTime {
        self.at_or_after(SimTime::from_micros(at.as_micros() + 1))
    }
}

/// The signs of life of a node as the informers show them at a scan.
#[derive(Clone, Debug, Default)]
pub(super) struct Signs {
    /// The renewal time of its lease.
    pub(super) renewed: Option<MicroTime>,
    /// The heartbeat time of its condition Ready.
    pub(super) posted: Option<Time>,
    /// Renewals that took place but were not sent.
    pub(super) unsent: [Option<SimTime>; 2],
}

/// The time at which the controller last saw a sign of life of one node, and the values that it compares the next ones with.
#[derive(Clone, Debug)]
pub(super) struct Health {
    heard: SimTime,
    renewed: Option<MicroTime>,
    posted: Option<Time>,
}

impl Health {
    /// The health of a node that is seen for the first time, which counts as a sign of life.
    pub(super) fn first(now: SimTime, signs: Signs) -> Self {
        Self { heard: now, renewed: signs.renewed, posted: signs.posted }
    }

    /// Takes in the result of a scan.
    pub(super) fn look(&mut self, now: SimTime, signs: Signs, scans: Scans) {
        if signs.renewed > self.renewed || signs.posted != self.posted {
            self.heard = now;
        }
        (self.renewed, self.posted) = (signs.renewed.or(self.renewed.take()), signs.posted);
        // The scan that would have seen a renewal may have been skipped, as scans are while all nodes are healthy.
        for renewal in signs.unsent.into_iter().flatten() {
            let seen = scans.at_or_after(renewal + SEEN_AFTER);
            if seen <= now {
                self.heard = self.heard.max(seen);
            }
        }
    }

    /// Whether the node has been silent for `grace` or longer.
    pub(super) fn is_silent(&self, now: SimTime, grace: Duration) -> bool {
        now >= self.heard + grace
    }

    /// Counts `now` as a sign of life.
    pub(super) fn forgive(&mut self, now: SimTime) {
        self.heard = now;
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn at(seconds: u64) -> SimTime {
        SimTime::from_secs(seconds)
    }

    fn renewed(second: i64) -> Signs {
        Signs { renewed: Some(MicroTime(Timestamp::from_second(second).unwrap())), ..Signs::default() }
    }

    fn unsent(last: u64) -> Signs {
        Signs { unsent: [Some(at(last)), Some(at(last - 10))], ..renewed(1) }
    }

    const GRACE: Duration = Duration::from_secs(50);

    #[test]
    fn scans_are_five_seconds_apart_from_the_start() {
        let scans = Scans::since(at(3));
        assert_eq!((scans.at_or_after(at(3)), scans.after(at(3)), scans.at_or_after(at(4))), (at(3), at(8), at(8)));
    }

    #[test]
    fn silence_begins_at_the_scan_that_saw_the_last_renewal_whatever_it_says() {
        let (scans, mut health) = (Scans::since(at(0)), Health::first(at(0), renewed(1)));
        health.look(at(5), renewed(1_000_000), scans);
        health.look(at(10), renewed(1_000_000), scans);
        assert!(!health.is_silent(at(54), GRACE) && health.is_silent(at(55), GRACE));
    }

    #[test]
    fn a_renewal_that_was_not_sent_counts_when_a_scan_would_have_seen_it() {
        let (scans, mut health) = (Scans::since(at(0)), Health::first(at(0), renewed(1)));
        // There was no scan for an hour. The last renewal before the silence was at 3 592 s; the scan at 3 595 s would have seen it.
        health.look(at(3_600), unsent(3_592), scans);
        assert!(!health.is_silent(at(3_640), GRACE) && health.is_silent(at(3_645), GRACE));
        // Only the renewal before the last one was seen.
        let mut health = Health::first(at(0), renewed(1));
        let signs = Signs { unsent: [None, Some(at(3_586))], ..renewed(1) };
        health.look(at(3_595), signs, scans);
        assert!(health.is_silent(at(3_640), GRACE));
    }

    #[test]
    fn a_post_is_a_sign_of_life_and_a_missing_lease_is_none() {
        let (scans, mut health) = (Scans::since(at(0)), Health::first(at(0), renewed(1)));
        let posted = Signs { posted: Some(Time(Timestamp::from_second(9).unwrap())), ..renewed(1) };
        health.look(at(20), posted.clone(), scans);
        health.look(at(30), Signs { renewed: None, ..posted }, scans);
        assert!(!health.is_silent(at(69), GRACE) && health.is_silent(at(70), GRACE));
    }
}
