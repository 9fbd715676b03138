//! Claims that hold for any cluster.

use kube_machinery::FxHashSet;
use kube_machinery::api::{Reason, TransportError};
use kube_sim::trace::{Event, EventKind, FaultChange, Interest, Outcome, ProcessChange};

use super::{Claim, Context, observing};

/// No process of the system under test panics.
pub(super) fn no_process_panics(context: &Context<'_>) -> Box<dyn Claim> {
    let rt = context.rt.clone();
    observing(Interest::PROCESS, move |event, findings| {
        findings.exercised();
        if let EventKind::Process { process, change: ProcessChange::Panicked } = event.kind {
            let name = rt.process_name(process);
            findings.violated(|| vec![format!("{name} panicked and is down")]);
        }
    })
}

/// Observes nothing: the claim is judged elsewhere.
pub(super) fn nothing(_: &Context<'_>) -> Box<dyn Claim> {
    observing(Interest::default(), |_, _| {})
}

/// Every committed write gets a greater revision than all writes before it.
pub(super) fn revisions_only_grow(_: &Context<'_>) -> Box<dyn Claim> {
    let mut last = 0;
    observing(Interest::COMMIT, move |event, findings| {
        let EventKind::Commit { revision, key, .. } = event.kind else { return };
        findings.exercised();
        if revision <= last {
            findings.violated(|| vec![format!("the write of {key} took revision {revision} after revision {last}")]);
        }
        last = revision;
    })
}

/// Holds as soon as an event of `interest` satisfies `is_one`.
fn seen(interest: Interest, is_one: fn(&Event<'_>) -> bool) -> Box<dyn Claim> {
    observing(interest, move |event, findings| {
        if is_one(event) {
            findings.held();
        }
    })
}

/// A write meets a conflict.
pub(super) fn conflict(_: &Context<'_>) -> Box<dyn Claim> {
    seen(Interest::ANSWER, |event| matches!(event.kind, EventKind::Answer { outcome: Outcome::Http(_, Reason::Conflict), .. }))
}

/// An answer leaves open whether the request took effect.
pub(super) fn ambiguous_answer(_: &Context<'_>) -> Box<dyn Claim> {
    seen(Interest::ANSWER, |event| match event.kind {
        EventKind::Answer { outcome: Outcome::Http(code, _), .. } => matches!(code, 500 | 502 | 503 | 504),
        EventKind::Answer { outcome: Outcome::Transport(error), .. } => error != TransportError::Refused,
        _ => false,
    })
}

/// A server answers that it accepts no more requests.
pub(super) fn throttled(_: &Context<'_>) -> Box<dyn Claim> {
    seen(Interest::ANSWER, |event| matches!(event.kind, EventKind::Answer { outcome: Outcome::Http(429, _), .. }))
}

/// A fault of the plan begins.
pub(super) fn fault_began(_: &Context<'_>) -> Box<dyn Claim> {
    seen(Interest::FAULT, |event| matches!(event.kind, EventKind::Fault { change: FaultChange::Began, .. }))
}

/// A process crashes and starts again.
pub(super) fn restarted(_: &Context<'_>) -> Box<dyn Claim> {
    let mut crashed = FxHashSet::default();
    observing(Interest::PROCESS, move |event, findings| match event.kind {
        EventKind::Process { process, change: ProcessChange::Crashed } => drop(crashed.insert(process)),
        EventKind::Process { process, change: ProcessChange::Started } if crashed.contains(&process) => findings.held(),
        _ => {}
    })
}
