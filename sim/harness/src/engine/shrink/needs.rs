//! The faults and deviations that a plan needs for its failure, alone and together.

use ipam_reports::shrink::{Need, Needs};

use super::trial::Trial;
use crate::fault_text::{name, text};
use crate::plan::Plan;

/// The largest number of faults of which pairs are tried: more have too many pairs.
const FAULTS_IN_PAIRS_MAX: usize = 12;

/// Runs `plan`, which fails, without each of its faults and deviations. `None` if the observer stops it: partial needs would be wrong.
pub(super) fn needs(trial: &mut Trial<'_>, plan: &Plan) -> Option<Needs> {
    let mut holds = |plan: Plan| (!trial.is_stopped()).then(|| trial.violated_at(&plan).is_none());
    let without = |gone: &[usize]| {
        let left = plan.fault.iter().enumerate().filter(|(index, _)| !gone.contains(index)).map(|(_, fault)| fault.clone());
        Plan { fault: left.collect(), ..plan.clone() }
    };
    let mut needs = Needs { holds_without_faults: holds(Plan { fault: Vec::new(), ..plan.clone() })?, ..Needs::default() };
    for (index, fault) in plan.fault.iter().enumerate() {
        // If no fault is needed, none is needed alone.
        let needed = needs.holds_without_faults && holds(without(&[index]))?;
        needs.faults.push(Need { what: text(fault), timeless: name(fault), needed });
    }
    let single = needs.faults.iter().any(|fault| fault.needed);
    if needs.holds_without_faults && !single && plan.fault.len() <= FAULTS_IN_PAIRS_MAX {
        for first in 0..plan.fault.len() {
            for second in first + 1..plan.fault.len() {
                if holds(without(&[first, second]))? {
                    needs.together.push([first, second].map(|index| needs.faults[index].what.clone()));
                }
            }
        }
    }
    for (index, name) in plan.deviations.iter().enumerate() {
        let mut without = plan.clone();
        without.deviations.remove(index);
        needs.deviations.push(Need { what: name.to_string(), timeless: String::new(), needed: holds(without)? });
    }
    Some(needs)
}
