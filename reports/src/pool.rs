//! Effects of the instances of a BYOM pool on each other: sums over runs, and one record for each call (B §7, §8).

use serde::{Deserialize, Serialize};

use crate::Seconds;
use crate::distribution::Distribution;

macro_rules! counts {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $field:ident,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $name {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl $name {
            /// The sum, count by count; saturating.
            #[must_use]
            pub fn plus(self, other: $name) -> $name {
                $name { $($field: self.$field.saturating_add(other.$field),)* }
            }
        }
    };
}

counts! {
    /// Counts of events at a pool. A *call* is a request of an adaptor for an address.
    PoolCounts {
        /// Calls that began, answered or not.
        calls,
        /// Calls that were granted an address.
        allocated,
        /// Calls that were refused an address. A call in neither count = the adaptor crashed, or the run ended.
        refused,
        /// Reads of the document by calls.
        reads,
        /// Attempts of calls to write it.
        attempts,
        /// Attempts that met a conflict.
        conflicts,
        /// Attempts to create the document that came second.
        create_races,
        /// VMs that were tried by calls.
        probes,
        /// Calls that gave up after all attempts that their retry policy grants.
        exhausted,
        /// Calls that repeat an earlier one: for the same pod, or under the same allocation ID.
        repeated,
        /// The conflicts that repeated calls met.
        repeated_conflicts,
        /// Repeated calls that gave up after all attempts.
        repeated_exhausted,
        /// Releases that ended, done or given up.
        releases,
        /// Attempts of releases to write the document that met a conflict.
        other_conflicts,
        /// Releases that gave up after all attempts.
        other_exhausted,
        /// Recoveries that ended, done or given up. The time of a recovery for which a call or a release waited is part of the
        /// time of that call or release.
        recoveries,
        /// Attempts of recoveries to write the document that met a conflict.
        recovery_conflicts,
        /// Recoveries that gave up after all attempts.
        recovery_exhausted,
        /// Calls that were granted an address whose record was then lost without their release.
        lost,
        /// Calls of these that still had no record at the end.
        lost_at_end,
        /// Addresses that had two live holders at the same time.
        shared_addresses,
        /// Calls that were granted such an address.
        sharing,
        /// Commits of a document whose version is not higher than that of the document before.
        stuck_versions,
        /// Records at the end whose sandbox no longer holds anything, or never did.
        leaked,
        /// VMs that were booted while they served a live sandbox for which the boot was not requested.
        foreign_reboots,
    }
}

/// The queueing of the requests of a run at API servers that work on only a limited number of them at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerQueue {
    /// The number of requests and openings of watches that were worked on.
    pub requests: u64,
    /// The total time for which these had waited.
    pub waited: Seconds,
}

/// The events of one run at its pool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolRun {
    /// The counts of events.
    pub counts: PoolCounts,
    /// The time of each call that was granted an address.
    pub took: Vec<Seconds>,
    /// The total time for which operations waited for the mutex of their process.
    pub mutex_wait: Seconds,
    /// The time at which the first call began, since the beginning of the run.
    pub began: Seconds,
    /// The time from the first call to the last answer.
    pub makespan: Seconds,
    /// The calls, by time, if they were asked for.
    pub calls: Vec<PoolCall>,
    /// The queueing of all requests at the servers between the first call and the last answer; unset = servers work on everything at once,
    /// or it was not asked for.
    pub queue: Option<ServerQueue>,
    /// Whether a fault that took hold of something was active between the first call and the last answer.
    pub met_fault: bool,
}

/// A call for an address, and its outcome.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolCall {
    /// The name of the adaptor's process.
    pub process: String,
    /// The allocation ID of the call (B A1).
    pub id: String,
    /// The time at which it began, since the beginning of the run.
    pub started: Seconds,
    /// The time that it took, by the clock of the process; unset = it never ended.
    pub took: Option<Seconds>,
    /// The outcome: `allocated`, or the reason why not.
    pub outcome: String,
    /// The address that it was granted.
    pub address: Option<String>,
    /// The number of reads of the document.
    pub reads: u32,
    /// The number of attempts to write it.
    pub attempts: u32,
    /// The number of attempts that met a conflict.
    pub conflicts: u32,
    /// The number of attempts to create the document that came second.
    pub create_races: u32,
    /// The number of VMs that were tried.
    pub probes: u32,
    /// Whether it gave up after all attempts.
    pub exhausted: bool,
    /// The time that it waited for the mutex of its process.
    pub mutex_wait: Seconds,
    /// Whether its record was lost without its release.
    pub lost: bool,
    /// Whether its address had a second live holder.
    pub shared: bool,
}

/// The events of the runs of a scenario at their pools.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PoolFigures {
    /// The number of runs summed up here.
    pub runs: u64,
    /// Runs in which a call gave up after all attempts.
    pub runs_exhausted: u64,
    /// Runs in which a record was lost.
    pub runs_lost: u64,
    /// Runs in which an address had two live holders.
    pub runs_shared: u64,
    /// The counts of events.
    #[serde(flatten)]
    pub counts: PoolCounts,
    /// The total time for which operations waited for the mutex of their process.
    #[serde(rename = "mutex_wait_s")]
    pub mutex_wait: Seconds,
    /// The times of calls that were granted an address.
    pub allocate: Distribution,
    /// The times from the first call of a run to its last answer.
    pub makespan: Distribution,
}

impl PoolFigures {
    /// Adds the sums of a run; its calls are not kept one by one.
    pub fn add(&mut self, run: &PoolRun) {
        self.runs += 1;
        self.runs_exhausted += u64::from(run.counts.exhausted > 0);
        self.runs_lost += u64::from(run.counts.lost > 0);
        self.runs_shared += u64::from(run.counts.shared_addresses > 0);
        self.counts = self.counts.plus(run.counts);
        self.mutex_wait += run.mutex_wait;
        run.took.iter().for_each(|took| self.allocate.add(*took));
        self.makespan.add(run.makespan);
    }

    /// Adds the runs of another part.
    pub fn join(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.runs, other.runs),
            (&mut self.runs_exhausted, other.runs_exhausted),
            (&mut self.runs_lost, other.runs_lost),
            (&mut self.runs_shared, other.runs_shared),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.counts = self.counts.plus(other.counts);
        self.mutex_wait += other.mutex_wait;
        self.allocate.join(&other.allocate);
        self.makespan.join(&other.makespan);
    }

    /// The ratio of `count` to the number of calls; 0 without calls.
    pub fn per_call(&self, count: u64) -> f64 {
        if self.counts.calls == 0 { 0.0 } else { count as f64 / self.counts.calls as f64 }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A run whose numbers follow from `number`.
    pub(crate) fn run(number: u64) -> PoolRun {
        PoolRun {
            counts: PoolCounts { calls: 3, allocated: 2, refused: 1, conflicts: number, lost: number % 2, ..PoolCounts::default() },
            took: vec![Seconds::from_micros(number * 1_000), Seconds::from_micros(number)],
            mutex_wait: Seconds::from_micros(number),
            began: Seconds::ZERO,
            makespan: Seconds::from_micros(number * 2_000),
            calls: Vec::new(),
            queue: None,
            met_fault: false,
        }
    }

    #[test]
    fn parts_give_the_whole_and_read_back() {
        let figures = |numbers: std::ops::Range<u64>| {
            let mut figures = PoolFigures::default();
            numbers.for_each(|number| figures.add(&run(number)));
            figures
        };
        let mut joined = figures(5..9);
        joined.join(&figures(0..5));
        assert_eq!(joined, figures(0..9));
        assert_eq!(
            (joined.runs, joined.runs_lost, joined.counts.conflicts, joined.per_call(joined.counts.conflicts)),
            (9, 4, 36, 36.0 / 27.0)
        );
        let text = serde_json::to_string(&joined).unwrap();
        assert_eq!(serde_json::from_str::<PoolFigures>(&text).unwrap(), joined);
    }
}
