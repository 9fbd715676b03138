//! Pods that arrive and depart as in a trace of production.

use ipam_reports::RunReport;
use sim_harness::operation::OpKind;
use sim_harness::scenario::Scenario;
use sim_spiderpool::Operation;

use super::{ipam_sim, scenarios, scratch};

#[test]
fn every_pod_of_a_trace_comes_and_those_that_ended_go() {
    let file = scenarios().join("capacity/spiderpool-trace.toml");
    let plan = Scenario::read(&file).unwrap_or_else(|problems| panic!("{problems}")).draw(0);
    let count = |is: fn(&OpKind) -> bool| plan.op.iter().filter(|op| is(&op.kind)).count();
    let rows = std::fs::read_to_string(scenarios().join("traces/small.csv")).unwrap();
    let ended = rows.lines().skip(1).filter(|row| !row.split(',').nth(6).unwrap().is_empty()).count();
    assert_eq!(count(|op| matches!(op.own(), Operation::ApplyApp(_))), rows.lines().count() - 1);
    assert_eq!(count(|op| matches!(op.own(), Operation::DeleteApp(_))), ended);
    assert!(plan.op.iter().all(|op| op.common.at < plan.heal_at), "the safety phase is too short for the trace");
}

#[test]
fn machines_on_demand_serve_the_same_pods() {
    let file = scenarios().join("capacity/spiderpool-trace.toml").display().to_string();
    let adds = |on_demand: &str| {
        let set = format!("workload.on_demand={on_demand}");
        let (code, out, err) = ipam_sim(&["run", &file, "--seeds", "1", "--set", &set, "--format", "json"]);
        assert_eq!(code, 0, "{err}");
        RunReport::from_json(&out).unwrap().scenarios[0].allocations.succeeded
    };
    let (on, on_demand) = (adds("false"), adds("true"));
    // Pods that live for seconds may end before their agent is ready.
    assert!(on_demand > 30 && on_demand <= on, "{on_demand} of {on}");
}

#[test]
fn a_bad_line_is_told_with_its_file_and_its_number() {
    let trace = scratch("traces").join("bad.csv");
    std::fs::write(&trace, "name,creation_time,deletion_time,scheduled_time\na,0,1,0\nb,tomorrow,,\n").unwrap();
    let file = scenarios().join("capacity/spiderpool-trace.toml").display().to_string();
    let (code, _, err) = ipam_sim(&["run", &file, "--set", &format!("workload.trace={}", trace.display())]);
    assert_eq!(code, 2);
    assert!(err.contains("bad.csv:3:3: `tomorrow` is no time"), "{err}");
}
