//! The metrics of a point.

use crate::pool::PoolRun;
use crate::statistics::{self, Estimate};

/// A figure of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// The number of refused writes per call.
    ConflictsPerCall,
    /// The number of writes per call.
    AttemptsPerCall,
    /// The share of writes that were refused.
    ConflictRate,
    /// The number of retries per call that was granted an address.
    RetriesPerSuccess,
    /// The share of calls that gave up after all attempts.
    Exhausted,
    /// The share of bursts in which a call gave up.
    SomeExhausted,
    /// The share of writes that gave no caller an address that it could keep: refused, or overwritten later.
    WastedWrites,
    /// The number of calls of a burst that were granted an address.
    Granted,
    /// The number of those without a record at the end.
    Lost,
    /// The share of acknowledged calls that lost their record.
    LostRate,
    /// The number of calls of a burst that were granted an address that another call was granted, too.
    Sharing,
    /// The share of bursts in which an address had two holders.
    SomeShared,
    /// The time within which half of the calls that were granted an address received it, in seconds.
    AllocateP50,
    /// The time of 90 % of these calls.
    AllocateP90,
    /// The time of 99 % of these calls.
    AllocateP99,
    /// The time of 99.9 % of these calls.
    AllocateP999,
    /// The time from the first call of a burst to its last answer, in seconds.
    Makespan,
    /// The number of refused writes of first calls, per first call.
    FirstConflicts,
    /// The share of first calls that gave up: calls that ask again for the same pod are left out.
    FirstExhausted,
    /// The mean time that a request waits for its server, in seconds.
    ServerWait,
    /// The number of refused writes of releases, per release: of DELs, where agents of Spiderpool share a pool.
    ReleaseConflicts,
    /// The share of releases that gave up after all attempts.
    ReleaseExhausted,
    /// The share of calls that were refused for a reason other than giving up after all attempts: an error or a timeout, no free address.
    RefusedOtherwise,
    /// The share of calls that got no answer: their process crashed, or the run ended.
    Unanswered,
    /// The share of bursts in which a fault that took hold of something was active between the first call and the last answer.
    MetFault,
}

/// The number of metrics in total.
pub const METRICS: usize = 25;

impl Metric {
    /// All metrics, in the order of their columns.
    pub const ALL: [Metric; METRICS] = [
        Metric::ConflictsPerCall,
        Metric::AttemptsPerCall,
        Metric::ConflictRate,
        Metric::RetriesPerSuccess,
        Metric::Exhausted,
        Metric::SomeExhausted,
        Metric::WastedWrites,
        Metric::Granted,
        Metric::Lost,
        Metric::LostRate,
        Metric::Sharing,
        Metric::SomeShared,
        Metric::AllocateP50,
        Metric::AllocateP90,
        Metric::AllocateP99,
        Metric::AllocateP999,
        Metric::Makespan,
        Metric::FirstConflicts,
        Metric::FirstExhausted,
        Metric::ServerWait,
        Metric::ReleaseConflicts,
        Metric::ReleaseExhausted,
        Metric::RefusedOtherwise,
        Metric::Unanswered,
        Metric::MetFault,
    ];

    /// The metrics whose columns come last in a table, because they were added later.
    pub const LATER: [Metric; 5] =
        [Metric::FirstConflicts, Metric::FirstExhausted, Metric::ServerWait, Metric::ReleaseConflicts, Metric::ReleaseExhausted];

    /// The metrics of points with faults; other points have none of them.
    pub const OF_FAULTS: [Metric; 3] = [Metric::RefusedOtherwise, Metric::Unanswered, Metric::MetFault];

    /// The name of the column in a table of points; ends in `_s` where the unit is seconds.
    pub fn name(self) -> &'static str {
        match self {
            Metric::ConflictsPerCall => "conflicts_per_call",
            Metric::AttemptsPerCall => "attempts_per_call",
            Metric::ConflictRate => "conflict_rate",
            Metric::RetriesPerSuccess => "retries_per_success",
            Metric::Exhausted => "exhausted",
            Metric::SomeExhausted => "some_exhausted",
            Metric::WastedWrites => "wasted_writes",
            Metric::Granted => "granted",
            Metric::Lost => "lost",
            Metric::LostRate => "lost_rate",
            Metric::Sharing => "sharing",
            Metric::SomeShared => "some_shared",
            Metric::AllocateP50 => "allocate_p50_s",
            Metric::AllocateP90 => "allocate_p90_s",
            Metric::AllocateP99 => "allocate_p99_s",
            Metric::AllocateP999 => "allocate_p999_s",
            Metric::Makespan => "makespan_s",
            Metric::FirstConflicts => "first_conflicts_per_call",
            Metric::FirstExhausted => "first_exhausted",
            Metric::ServerWait => "server_wait_s",
            Metric::ReleaseConflicts => "conflicts_per_release",
            Metric::ReleaseExhausted => "release_exhausted",
            Metric::RefusedOtherwise => "refused_otherwise",
            Metric::Unanswered => "unanswered",
            Metric::MetFault => "met_fault",
        }
    }

    /// The title of the metric, for the head of a figure or a table.
    pub fn title(self) -> &'static str {
        match self {
            Metric::ConflictsPerCall => "Conflicts per call",
            Metric::AttemptsPerCall => "Writes per call",
            Metric::ConflictRate => "Conflict rate",
            Metric::RetriesPerSuccess => "Retries per success",
            Metric::Exhausted => "Calls that exhaust their retries",
            Metric::SomeExhausted => "Bursts in which a call exhausts its retries",
            Metric::WastedWrites => "Wasted writes",
            Metric::Granted => "Calls granted",
            Metric::Lost => "Lost acknowledgements",
            Metric::LostRate => "Share of acknowledgements lost",
            Metric::Sharing => "Callers that share an address",
            Metric::SomeShared => "Bursts in which an address has two holders",
            Metric::AllocateP50 => "Time to allocate, p50",
            Metric::AllocateP90 => "Time to allocate, p90",
            Metric::AllocateP99 => "Time to allocate, p99",
            Metric::AllocateP999 => "Time to allocate, p99.9",
            Metric::Makespan => "First call to last answer",
            Metric::FirstConflicts => "Conflicts per first call",
            Metric::FirstExhausted => "First calls that exhaust their retries",
            Metric::ServerWait => "Wait of a request for its server",
            Metric::ReleaseConflicts => "Conflicts per release",
            Metric::ReleaseExhausted => "Releases that exhaust their retries",
            Metric::RefusedOtherwise => "Calls refused for another reason",
            Metric::Unanswered => "Calls without an answer",
            Metric::MetFault => "Bursts that meet a fault",
        }
    }

    /// The meaning of the column in a table of points, in a sentence.
    pub fn meaning(self) -> &'static str {
        match self {
            Metric::ConflictsPerCall => "Writes that were refused, for each call.",
            Metric::AttemptsPerCall => "Writes, for each call.",
            Metric::ConflictRate => "The share of writes that were refused.",
            Metric::RetriesPerSuccess => "Attempts that were tried again, for each call that was told an address.",
            Metric::Exhausted => "The share of calls that gave up after all attempts.",
            Metric::SomeExhausted => "The share of bursts in which a call gave up.",
            Metric::WastedWrites => "The share of writes that gave no caller an address that it could keep: refused, or overwritten later.",
            Metric::Granted => "Calls of a burst that were told an address.",
            Metric::Lost => "Calls of a burst that were told an address, and have no record at the end.",
            Metric::LostRate => "The share of acknowledged calls that lost their record.",
            Metric::Sharing => "Calls of a burst that were told an address which another one was told, too.",
            Metric::SomeShared => "The share of bursts in which an address had two holders.",
            Metric::AllocateP50 => "The time within which half of the calls that were told an address were told it.",
            Metric::AllocateP90 => "The time within which 90 % of the calls that were told an address were told it.",
            Metric::AllocateP99 => "The time within which 99 % of the calls that were told an address were told it.",
            Metric::AllocateP999 => "The time within which 99.9 % of the calls that were told an address were told it.",
            Metric::Makespan => "The time from the first call of a burst to its last answer.",
            Metric::FirstConflicts => "Writes of first calls that were refused, for each of them.",
            Metric::FirstExhausted => "The share of first calls that gave up: those that ask again for the same pod are left out.",
            Metric::ServerWait => {
                "How long a request waits for its server on average, from the first call to the last answer; empty without a width."
            }
            Metric::ReleaseConflicts => {
                "Writes of releases that were refused, for each of them (of Spiderpool: each DEL); empty without any."
            }
            Metric::ReleaseExhausted => "The share of releases that gave up after all attempts; empty without any.",
            Metric::RefusedOtherwise => {
                "The share of calls that were refused for another reason than that they gave up after all \
            attempts: an error or a timeout, no free address; empty without faults."
            }
            Metric::Unanswered => "The share of calls that got no answer: their process crashed, or the run ended; empty without faults.",
            Metric::MetFault => {
                "The share of bursts in which a fault that took hold of something held between the first \
            call and the last answer; empty without faults."
            }
        }
    }

    /// The unit of the metric, for an axis.
    pub fn unit(self) -> &'static str {
        match self {
            Metric::ConflictsPerCall => "conflicts per call",
            Metric::FirstConflicts => "conflicts per first call",
            Metric::AttemptsPerCall => "writes per call",
            Metric::ConflictRate => "share of writes refused",
            Metric::RetriesPerSuccess => "retries per granted call",
            Metric::Exhausted | Metric::RefusedOtherwise | Metric::Unanswered => "share of calls",
            Metric::FirstExhausted => "share of first calls",
            Metric::ReleaseConflicts => "conflicts per release",
            Metric::ReleaseExhausted => "share of releases",
            Metric::SomeExhausted | Metric::SomeShared | Metric::MetFault => "share of bursts",
            Metric::WastedWrites => "share of writes",
            Metric::Granted | Metric::Lost | Metric::Sharing => "calls per burst",
            Metric::LostRate => "share of granted calls",
            Metric::AllocateP50
            | Metric::AllocateP90
            | Metric::AllocateP99
            | Metric::AllocateP999
            | Metric::Makespan
            | Metric::ServerWait => "seconds",
        }
    }

    /// Whether the metric lies between 0 and 1.
    pub fn is_share(self) -> bool {
        self.unit().starts_with("share")
    }

    /// Whether the metric is a time in seconds.
    pub fn is_time(self) -> bool {
        self.unit() == "seconds"
    }

    /// The estimate of the metric from these bursts; `took` holds their times in microseconds, sorted burst by burst.
    pub(super) fn estimate(self, runs: &[PoolRun], took: &[Vec<u64>]) -> Option<Estimate> {
        let of = |count: fn(&PoolRun) -> u64| runs.iter().map(move |run| count(run) as f64);
        let pairs = |above: fn(&PoolRun) -> u64, below: fn(&PoolRun) -> u64| of(above).zip(of(below));
        let some =
            |count: fn(&PoolRun) -> u64| statistics::wilson(of(count).filter(|count| *count > 0.0).count() as f64, runs.len() as f64);
        let within = |p| statistics::quantile(took, p).map(|found| found.per(1e6));
        let found = match self {
            Metric::ConflictsPerCall => statistics::ratio(pairs(|run| run.counts.conflicts, |run| run.counts.calls)),
            Metric::AttemptsPerCall => statistics::ratio(pairs(|run| run.counts.attempts, |run| run.counts.calls)),
            Metric::ConflictRate => statistics::ratio(pairs(|run| run.counts.conflicts, |run| run.counts.attempts)),
            Metric::RetriesPerSuccess => statistics::ratio(pairs(
                |run| (run.counts.conflicts + run.counts.create_races).saturating_sub(run.counts.exhausted),
                |run| run.counts.allocated,
            )),
            Metric::Exhausted => statistics::share(pairs(|run| run.counts.exhausted, |run| run.counts.calls)),
            Metric::SomeExhausted => some(|run| run.counts.exhausted),
            Metric::WastedWrites => statistics::ratio(pairs(
                |run| (run.counts.attempts + run.counts.lost_at_end).saturating_sub(run.counts.allocated),
                |run| run.counts.attempts,
            )),
            Metric::Granted => statistics::mean(of(|run| run.counts.allocated)),
            Metric::Lost => statistics::mean(of(|run| run.counts.lost_at_end)),
            Metric::LostRate => statistics::share(pairs(|run| run.counts.lost_at_end, |run| run.counts.allocated)),
            Metric::Sharing => statistics::mean(of(|run| run.counts.sharing)),
            Metric::SomeShared => some(|run| run.counts.shared_addresses),
            Metric::AllocateP50 => within(0.5),
            Metric::AllocateP90 => within(0.9),
            Metric::AllocateP99 => within(0.99),
            Metric::AllocateP999 => within(0.999),
            Metric::Makespan => statistics::mean(runs.iter().map(|run| run.makespan.as_f64())),
            Metric::FirstConflicts => statistics::ratio(pairs(
                |run| run.counts.conflicts.saturating_sub(run.counts.repeated_conflicts),
                |run| run.counts.calls.saturating_sub(run.counts.repeated),
            )),
            Metric::FirstExhausted => statistics::share(pairs(
                |run| run.counts.exhausted.saturating_sub(run.counts.repeated_exhausted),
                |run| run.counts.calls.saturating_sub(run.counts.repeated),
            )),
            Metric::ReleaseConflicts => statistics::ratio(pairs(|run| run.counts.other_conflicts, |run| run.counts.releases)),
            Metric::ReleaseExhausted => statistics::share(pairs(|run| run.counts.other_exhausted, |run| run.counts.releases)),
            Metric::RefusedOtherwise => {
                statistics::share(pairs(|run| run.counts.refused.saturating_sub(run.counts.exhausted), |run| run.counts.calls))
            }
            Metric::Unanswered => statistics::share(pairs(
                |run| run.counts.calls.saturating_sub(run.counts.allocated + run.counts.refused),
                |run| run.counts.calls,
            )),
            Metric::MetFault => some(|run| u64::from(run.met_fault)),
            Metric::ServerWait => {
                let queues = runs.iter().filter_map(|run| run.queue);
                statistics::ratio(queues.map(|queue| (queue.waited.as_f64(), queue.requests as f64)))
            }
        };
        found.map(|found| found.clamped(0.0, if self.is_share() { 1.0 } else { f64::INFINITY }))
    }
}
