//! Faults of a plan in words.

use kube_sim::fault::{Fault, FaultKind, ObjectChange};
use sim_config::kinds::Kinds;

/// A fault as a person would name it: `partition(client-0, apiserver-1) at 3.204 s`, or `… at the 2nd update of pods/default/web-0`.
pub(crate) fn text(fault: &Fault) -> String {
    match &fault.kind {
        FaultKind::CrashAtWrite(crash) => format!("{} {}", name(fault), crash.nth),
        FaultKind::RequestFault(hit) => format!("{} {}", name(fault), hit.nth),
        FaultKind::ChangeLate(late) => format!("{} {}", name(fault), late.nth),
        _ if !fault.common.when.is_empty() => format!("{} at {}", name(fault), ObjectChange::text_of(&fault.common.when)),
        _ => format!("{} at {}", name(fault), fault.common.at),
    }
}

/// The same without the time: `partition(client-0, apiserver-1)`.
pub(crate) fn name(fault: &Fault) -> String {
    let targets: Vec<String> = match &fault.kind {
        FaultKind::ConflictingWriter(writer) => vec![writer.object.clone()],
        FaultKind::ForeignFinalizer(finalizer) => vec![finalizer.objects.clone()],
        kind => kind.targets().iter().map(ToString::to_string).collect(),
    };
    let about = if targets.is_empty() { String::new() } else { format!("({})", targets.join(", ")) };
    let effect = match &fault.kind {
        FaultKind::RequestFault(hit) => format!(" {}", hit.effect.name()),
        _ => String::new(),
    };
    format!("{}{about}{effect}", fault.kind.kind())
}
