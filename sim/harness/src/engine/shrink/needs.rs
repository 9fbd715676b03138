//! What of a plan its failure needs: faults and deviations, alone and together.

use ipam_reports::shrink::{Need, Needs};
use kube_sim::fault::{Fault, FaultKind};
use sim_config::kinds::Kinds;

use super::trial::Trial;
use crate::plan::Plan;

/// Pairs of more faults than these are not tried: there would be too many.
const FAULTS_IN_PAIRS_MAX: usize = 12;

/// Runs `plan`, which fails, without each of its faults and deviations.
pub(super) fn needs(trial: &mut Trial<'_>, plan: &Plan) -> Needs {
    let mut holds = |plan: Plan| trial.violated_at(&plan).is_none();
    let without = |gone: &[usize]| {
        let left = plan.fault.iter().enumerate().filter(|(index, _)| !gone.contains(index)).map(|(_, fault)| fault.clone());
        Plan { fault: left.collect(), ..plan.clone() }
    };
    let mut needs = Needs { holds_without_faults: holds(Plan { fault: Vec::new(), ..plan.clone() }), ..Needs::default() };
    for (index, fault) in plan.fault.iter().enumerate() {
        // Where no fault is needed none is needed alone.
        let needed = needs.holds_without_faults && holds(without(&[index]));
        needs.faults.push(Need { what: text(fault), timeless: name(fault), needed });
    }
    let single = needs.faults.iter().any(|fault| fault.needed);
    if needs.holds_without_faults && !single && plan.fault.len() <= FAULTS_IN_PAIRS_MAX {
        for first in 0..plan.fault.len() {
            for second in first + 1..plan.fault.len() {
                if holds(without(&[first, second])) {
                    needs.together.push([first, second].map(|index| needs.faults[index].what.clone()));
                }
            }
        }
    }
    for (index, name) in plan.deviations.iter().enumerate() {
        let mut without = plan.clone();
        without.deviations.remove(index);
        needs.deviations.push(Need { what: name.to_string(), timeless: String::new(), needed: holds(without) });
    }
    needs
}

/// A fault as a person would name it: `partition(client-0, apiserver-1) at 3.204 s`.
pub(crate) fn text(fault: &Fault) -> String {
    match &fault.kind {
        FaultKind::CrashAtWrite(crash) => format!("{} {}", name(fault), crash.nth),
        _ => format!("{} at {}", name(fault), fault.common.at),
    }
}

/// The same without the time: `partition(client-0, apiserver-1)`.
fn name(fault: &Fault) -> String {
    let targets: Vec<String> = match &fault.kind {
        FaultKind::ConflictingWriter(writer) => vec![writer.object.clone()],
        kind => kind.targets().iter().map(ToString::to_string).collect(),
    };
    let about = if targets.is_empty() { String::new() } else { format!("({})", targets.join(", ")) };
    format!("{}{about}", fault.kind.kind())
}
