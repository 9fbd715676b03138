//! Claims about any cluster.

use kube_machinery::FxHashSet;
use kube_machinery::api::{Reason, TransportError};
use kube_sim::rt::{ProcessId, Rt};
use kube_sim::trace::{Event, EventKind, FaultChange, Interest, Outcome, ProcessChange};

use super::{Claim, Context, Findings};

/// No process of the system under test panics.
pub(super) struct NoProcessPanics {
    rt: Rt,
}

impl NoProcessPanics {
    pub(super) fn new(context: &Context<'_>) -> Self {
        Self { rt: context.rt.clone() }
    }
}

impl Claim for NoProcessPanics {
    fn interest(&self) -> Interest {
        Interest::PROCESS
    }

    fn observe(&mut self, event: &Event<'_>, findings: &mut Findings) {
        findings.exercised();
        if let EventKind::Process { process, change: ProcessChange::Panicked } = event.kind {
            let name = self.rt.process_name(process);
            findings.violated(|| vec![format!("{name} panicked and is down")]);
        }
    }
}

/// Sees nothing: the claim is judged elsewhere.
pub(super) struct Nothing;

impl Claim for Nothing {
    fn interest(&self) -> Interest {
        Interest::default()
    }

    fn observe(&mut self, _event: &Event<'_>, _findings: &mut Findings) {}
}

/// Every committed write takes a revision greater than all before it.
#[derive(Default)]
pub(super) struct RevisionsOnlyGrow {
    last: u64,
}

impl Claim for RevisionsOnlyGrow {
    fn interest(&self) -> Interest {
        Interest::COMMIT
    }

    fn observe(&mut self, event: &Event<'_>, findings: &mut Findings) {
        let EventKind::Commit { revision, key, .. } = event.kind else { return };
        findings.exercised();
        if revision <= self.last {
            let last = self.last;
            findings.violated(|| vec![format!("the write of {key} took revision {revision} after revision {last}")]);
        }
        self.last = revision;
    }
}

/// What can be seen in a single event.
#[derive(Clone, Copy)]
pub(super) enum Sight {
    /// A conflict.
    Conflict,
    /// An answer that leaves open what happened.
    AmbiguousAnswer,
    /// An answer from a server that takes on no more.
    Throttled,
    /// A fault that begins.
    FaultBegan,
}

/// Holds when something was seen.
pub(super) struct Seen(pub(super) Sight);

impl Claim for Seen {
    fn interest(&self) -> Interest {
        match self.0 {
            Sight::Conflict | Sight::AmbiguousAnswer | Sight::Throttled => Interest::ANSWER,
            Sight::FaultBegan => Interest::FAULT,
        }
    }

    fn observe(&mut self, event: &Event<'_>, findings: &mut Findings) {
        let seen = match (self.0, event.kind) {
            (Sight::Conflict, EventKind::Answer { outcome, .. }) => matches!(outcome, Outcome::Http(_, Reason::Conflict)),
            (Sight::AmbiguousAnswer, EventKind::Answer { outcome, .. }) => match outcome {
                Outcome::Ok => false,
                Outcome::Http(code, _) => matches!(code, 500 | 502 | 503 | 504),
                Outcome::Transport(error) => error != TransportError::Refused,
            },
            (Sight::Throttled, EventKind::Answer { outcome, .. }) => matches!(outcome, Outcome::Http(429, _)),
            (Sight::FaultBegan, EventKind::Fault { change, .. }) => change == FaultChange::Began,
            _ => false,
        };
        if seen {
            findings.held();
        }
    }
}

/// A process crashes and starts again.
#[derive(Default)]
pub(super) struct Restarted {
    crashed: FxHashSet<ProcessId>,
}

impl Claim for Restarted {
    fn interest(&self) -> Interest {
        Interest::PROCESS
    }

    fn observe(&mut self, event: &Event<'_>, findings: &mut Findings) {
        let EventKind::Process { process, change } = event.kind else { return };
        match change {
            ProcessChange::Crashed => {
                self.crashed.insert(process);
            }
            ProcessChange::Started if self.crashed.contains(&process) => findings.held(),
            _ => {}
        }
    }
}
