//! The processes of the pool: their configurations and their reads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ipam_byom::PoolConfig;
use kube_machinery::api::Reason;
use kube_sim::rt::ProcessId;
use kube_sim::trace::Outcome;
use sim_config::time::SimTime;

/// A version of the pool that a request can have seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Sight {
    /// The time of the request or the answer.
    pub(in super::super) at: SimTime,
    /// The revision; 0 = from before the run.
    pub(in super::super) revision: u64,
    /// The version of the document; `None` = there was none.
    pub(in super::super) version: Option<i64>,
}

/// A read that was answered: it saw the pool as it was at some point between its request and its answer.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Read {
    /// The pool when the read was sent: the oldest version that it can have seen.
    pub(in super::super) from: Sight,
    /// The pool when the answer arrived: the latest version that it can have seen.
    pub(in super::super) to: Sight,
}

/// A request for the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Asked {
    /// The time at which the request was sent.
    pub(in super::super) at: SimTime,
    /// The clock of the process then, in whole seconds since 1970.
    pub(in super::super) clock: i64,
}

/// The last reads of a process, the latest first: upstream decides on one of them and takes the resourceVersion of another.
pub(in super::super) type Reads = [Option<Read>; 3];

/// A process's reading of its setting.
#[derive(Clone, Debug)]
pub(in super::super) struct Configuration {
    /// `VM_POOL_IPS` as it was set when the process started.
    pub(in super::super) setting: Arc<str>,
    /// The addresses that the process derives from the setting, in its order (B §4.4).
    pub(in super::super) config: PoolConfig,
}

/// A recovery under way.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Recovery {
    /// Whether another writer, or another task of the process, has written meanwhile.
    pub(in super::super) disturbed: bool,
    /// The time at which the process noted its beginning.
    pub(in super::super) at: SimTime,
    /// The moment of its beginning, counted in notes and changes of processes.
    pub(in super::super) began: u64,
}

/// A process's requests about the pool after refusals.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Insistence {
    asked: Option<SimTime>,
    refused: Option<SimTime>,
    /// The number of consecutive requests that immediately followed an early refusal.
    pub(in super::super) at_once: u32,
    /// The number of requests rejected as hopeless since one of its operations last began or ended.
    pub(in super::super) verdicts: u32,
}

impl Insistence {
    /// The longest gap between two attempts that does not count as a sleep. A sleep with full jitter may be as short, but not often in a
    /// row.
    const AT_ONCE: Duration = Duration::from_millis(1);
    /// The duration of a refused attempt from which it counts as a pause by itself.
    const SOON: Duration = Duration::from_secs(1);

    pub(super) fn refused(&mut self, at: SimTime, outcome: Outcome) {
        self.refused = self.asked.filter(|asked| at.since(*asked) < Self::SOON).map(|_| at);
        let verdict = matches!(outcome, Outcome::Http(_, Reason::Unauthorized | Reason::Forbidden | Reason::Invalid | Reason::BadRequest));
        self.verdicts += u32::from(verdict);
    }

    pub(super) fn asks(&mut self, at: SimTime) {
        let at_once = self.refused.take().is_some_and(|refused| at.since(refused) <= Self::AT_ONCE);
        self.at_once = if at_once { self.at_once + 1 } else { 0 };
        self.asked = Some(at);
    }

    pub(super) fn begins_or_ends(&mut self) {
        self.verdicts = 0;
    }
}

/// The known state of a process.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Process {
    /// Its last configuration; set = it is a process of the pool.
    pub(in super::super) configuration: Option<Configuration>,
    /// Whether it runs with this configuration.
    pub(in super::super) runs: bool,
    /// Its last reads that were answered, the latest first.
    pub(in super::super) read: Reads,
    /// Its reads under way, in the order in which they were sent. Which of them an answer belongs to is not known: the last one counts as
    /// answered, and the first one bounds what the answer can have shown.
    pub(super) reading: Vec<(Sight, Asked)>,
    /// Its first request for the current version, as far as the answer can have shown that.
    pub(super) asked: Option<Asked>,
    /// Its reaction to refusals.
    pub(in super::super) insistence: Insistence,
    /// The time at which one of its requests about the pool last failed, other than by a race.
    pub(in super::super) failed: Option<SimTime>,
    /// The time at which one of its writes of the pool last lost a race.
    pub(in super::super) raced: Option<SimTime>,
    /// The time of its last start.
    pub(in super::super) started: Option<SimTime>,
    /// Whether it is paused.
    pub(in super::super) paused: bool,
    /// The time at which it last resumed after a pause.
    pub(in super::super) resumed: Option<SimTime>,
    /// Its current or last recovery.
    pub(in super::super) recovery: Option<Recovery>,
    /// Whether that recovery is still under way.
    pub(in super::super) recovers: bool,
    /// The moment at which it lost its memory, counted in notes and changes of processes.
    pub(in super::super) ended: u64,
}

/// All processes known so far.
#[derive(Debug, Default)]
pub(in super::super) struct Processes(pub(super) BTreeMap<ProcessId, Process>);

impl Processes {
    /// The known state of a process.
    pub(in super::super) fn get(&self, process: ProcessId) -> Option<&Process> {
        self.0.get(&process)
    }

    /// Whether it is a process of the pool.
    pub(in super::super) fn is_of_pool(&self, process: ProcessId) -> bool {
        self.configuration(process).is_some()
    }

    /// Its current or last configuration.
    pub(in super::super) fn configuration(&self, process: ProcessId) -> Option<&Configuration> {
        self.get(process)?.configuration.as_ref()
    }

    /// The processes of the pool that run, and their configurations.
    pub(in super::super) fn running(&self) -> impl Iterator<Item = (ProcessId, &Configuration)> {
        self.0.iter().filter(|(_, process)| process.runs).filter_map(|(id, process)| Some((*id, process.configuration.as_ref()?)))
    }

    /// The processes of the pool that have ended.
    pub(in super::super) fn ended(&self) -> impl Iterator<Item = (ProcessId, &Process)> {
        self.0.iter().filter(|(_, process)| !process.runs && process.configuration.is_some()).map(|(id, process)| (*id, process))
    }

    pub(super) fn of(&mut self, process: ProcessId) -> &mut Process {
        self.0.entry(process).or_default()
    }
}
