//! The processes of the pool: what they are configured with, and what they have read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ipam_byom::PoolConfig;
use kube_machinery::api::Reason;
use kube_sim::rt::ProcessId;
use kube_sim::trace::Outcome;
use sim_config::time::SimTime;

/// A version of the pool as somebody can have seen it.
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

/// A question for the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Asked {
    /// When the request was sent.
    pub(in super::super) at: SimTime,
    /// The clock of the process then, in whole seconds since 1970.
    pub(in super::super) clock: i64,
}

/// The last reads of a process, the latest first: upstream decides on one of them and takes the resourceVersion of another.
pub(in super::super) type Reads = [Option<Read>; 3];

/// What a process makes of its setting.
#[derive(Clone, Debug)]
pub(in super::super) struct Configuration {
    /// `VM_POOL_IPS` as it was set when the process started.
    pub(in super::super) setting: Arc<str>,
    /// The addresses that the process makes of the setting, in its order (B §4.4).
    pub(in super::super) config: PoolConfig,
}

/// A recovery under way.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Recovery {
    /// Whether meanwhile somebody else has written, or another task of the process.
    pub(in super::super) disturbed: bool,
    /// When the process said that it begins.
    pub(in super::super) at: SimTime,
    /// The moment at which it began, counted in notes and changes of processes.
    pub(in super::super) began: u64,
}

/// What a process does after its requests about the pool were refused.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Insistence {
    asked: Option<SimTime>,
    refused: Option<SimTime>,
    /// How often in a row it asked again at once after it had been refused soon.
    pub(in super::super) at_once: u32,
    /// How often it was told that a request is of no use, since one of its operations last began or ended.
    pub(in super::super) verdicts: u32,
}

impl Insistence {
    /// What is no sleep between two tries. One of full jitter may be so short, but not often in a row.
    const AT_ONCE: Duration = Duration::from_millis(1);
    /// A try that takes longer before it is refused is pause enough for whoever waits for it.
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

/// What is known of a process.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Process {
    /// Its last configuration; set = it is a process of the pool.
    pub(in super::super) configuration: Option<Configuration>,
    /// Whether it runs with it.
    pub(in super::super) runs: bool,
    /// Its last reads that were answered, the latest first.
    pub(in super::super) read: Reads,
    /// Its last read that was sent.
    pub(super) reads: Option<Sight>,
    /// When it first asked for the version that stands now, as far as its answer can have shown that, and when it asked last.
    pub(super) asked: Option<[Asked; 2]>,
    /// How it takes refusals.
    pub(in super::super) insistence: Insistence,
    /// When a request about the pool last failed for it, other than by a race.
    pub(in super::super) failed: Option<SimTime>,
    /// When a write of the pool by it last came second.
    pub(in super::super) raced: Option<SimTime>,
    /// When it last started.
    pub(in super::super) started: Option<SimTime>,
    /// Whether it stands still.
    pub(in super::super) paused: bool,
    /// When it last went on after a pause.
    pub(in super::super) resumed: Option<SimTime>,
    /// The recovery that it is about, or was last.
    pub(in super::super) recovery: Option<Recovery>,
    /// Whether that recovery is still under way.
    pub(in super::super) recovers: bool,
    /// When it lost its memory, counted in notes and changes of processes.
    pub(in super::super) ended: u64,
}

/// All that were heard of.
#[derive(Debug, Default)]
pub(in super::super) struct Processes(pub(super) BTreeMap<ProcessId, Process>);

impl Processes {
    /// What is known of one.
    pub(in super::super) fn get(&self, process: ProcessId) -> Option<&Process> {
        self.0.get(&process)
    }

    /// Whether it is a process of the pool.
    pub(in super::super) fn is_of_pool(&self, process: ProcessId) -> bool {
        self.configuration(process).is_some()
    }

    /// What it is or was last configured with.
    pub(in super::super) fn configuration(&self, process: ProcessId) -> Option<&Configuration> {
        self.get(process)?.configuration.as_ref()
    }

    /// The processes of the pool that run, and their configurations.
    pub(in super::super) fn running(&self) -> impl Iterator<Item = (ProcessId, &Configuration)> {
        self.0.iter().filter(|(_, process)| process.runs).filter_map(|(id, process)| Some((*id, process.configuration.as_ref()?)))
    }

    /// The processes of the pool that do not run any more.
    pub(in super::super) fn ended(&self) -> impl Iterator<Item = (ProcessId, &Process)> {
        self.0.iter().filter(|(_, process)| !process.runs && process.configuration.is_some()).map(|(id, process)| (*id, process))
    }

    pub(super) fn of(&mut self, process: ProcessId) -> &mut Process {
        self.0.entry(process).or_default()
    }
}
