//! The claim that processes send no more requests than the scenario permits.

use std::collections::BTreeMap;

use kube_machinery::api::Verb;
use kube_sim::fault::Target;
use kube_sim::kinds::KindId;
use kube_sim::rt::ProcessId;
use kube_sim::trace::{EventKind, Interest};

use super::{Claim, Context, observing};
use crate::check::RequestBudget;

/// The limits of one pattern, and the requests that are left.
struct Budget {
    processes: String,
    /// The number of requests that are left, by verb and type.
    left: BTreeMap<(Verb, KindId), u32>,
    /// The limits whose violation was reported already.
    told: Vec<(Verb, KindId)>,
}

/// No process sends more requests than `check.budget` permits.
///
/// Exact: a request counts when it is sent, whatever its answer. A request of a process that matches several patterns counts for the first
/// of them.
pub(super) fn requests_stay_within_budget(context: &Context<'_>) -> Box<dyn Claim> {
    let (rt, registry) = (context.rt.clone(), context.registry);
    let plurals: Vec<&'static str> = registry.iter().map(|(_, def)| def.plural).collect();
    let kind_of = |plural: &str| registry.iter().find(|(_, def)| def.plural == plural).map(|(kind, _)| kind);
    let budget = |(processes, types): (&String, &BTreeMap<String, BTreeMap<String, u32>>)| {
        let of_type = |(plural, verbs): (&String, &BTreeMap<String, u32>)| {
            let kind = kind_of(plural)?;
            let of_verb = |(verb, most): (&String, &u32)| Some(((RequestBudget::verb(verb)?, kind), *most));
            Some(verbs.iter().filter_map(of_verb).collect::<Vec<_>>())
        };
        let left = types.iter().filter_map(of_type).flatten().collect();
        Budget { processes: processes.clone(), left, told: Vec::new() }
    };
    let mut budgets: Vec<Budget> = context.plan.check.budget.0.iter().map(budget).collect();
    let mut of_process: BTreeMap<ProcessId, Option<usize>> = BTreeMap::new();
    observing(Interest::REQUEST, move |event, findings| {
        let EventKind::Request { client, verb, kind, .. } = event.kind else { return };
        let place = *of_process.entry(client).or_insert_with(|| {
            let name = rt.process_name(client);
            budgets.iter().position(|budget| Target::from_text(&budget.processes).matches(&name))
        });
        let Some(budget) = place.map(|place| &mut budgets[place]) else { return };
        findings.exercised();
        match budget.left.get_mut(&(verb, kind)) {
            Some(left) if *left > 0 => *left -= 1,
            _ if budget.told.contains(&(verb, kind)) => {}
            left => {
                let plural = plurals.get(usize::from(kind.0)).copied().unwrap_or_default();
                let (request, processes) = (format!("{verb} {plural}"), &budget.processes);
                let name = rt.process_name(client);
                findings.violated(|| {
                    vec![match left {
                        Some(_) => format!("{name} asks once more to {request} than the budget of {processes} permits"),
                        None => format!("{name} asks to {request}, which the budget of {processes} does not have"),
                    }]
                });
                budget.told.push((verb, kind));
            }
        }
    })
}
