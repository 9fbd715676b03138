//! The assumptions behind the answer of a report on a scenario, as the end of a sentence.

use ipam_reports::human;
use sim_config::Choice;
use sim_harness::scenario::Scenario;

/// The arrivals of pods, the faults, and the capacity of the servers: `pods come as in the trace, without faults, servers without a queue`.
pub(super) fn of(scenario: &Scenario) -> String {
    let draft = scenario.workload.get().map(sim_spiderpool::Drafts::cluster);
    let pods = draft.map(|draft| match (&draft.trace, draft.arrival.bounds().1) {
        (Some(_), _) if draft.trace_compression > 1 => format!("pods come as in the trace, {} times as fast", draft.trace_compression),
        (Some(_), _) => "pods come as in the trace".to_owned(),
        (None, latest) if latest.0.is_zero() => "all applications come at once".to_owned(),
        (None, latest) => format!("applications come over {}", human::duration((latest.0).into())),
    });
    let faults = match scenario.fault.is_empty() && scenario.swarm.is_none() {
        true => "without faults",
        false => "with the faults of the scenario",
    };
    let servers = match &scenario.cluster.capacity {
        None => "servers without a queue".to_owned(),
        Some(capacity) => match (&capacity.width, capacity.likelihood.get() >= 1.0) {
            (Choice::Is(width), true) => format!("servers that work on {width} at a time"),
            _ => "servers of another size from run to run".to_owned(),
        },
    };
    pods.into_iter().chain([faults.to_owned(), servers]).collect::<Vec<_>>().join(", ")
}
