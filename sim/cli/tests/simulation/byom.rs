//! The BYOM pool: upstream's profile behaves as the reference describes, each deviation is found by a claim, and the hardened form holds
//! under the same faults.

use std::path::Path;

use ipam_byom::Policy;
use ipam_reports::finding::Violation;
use ipam_reports::pool::PoolCounts;
use sim_harness::deviation;
use sim_harness::deviation::DeviationName;
use sim_harness::plan::Plan;
use sim_harness::scenario::Scenario;
use sim_harness::system::RunOptions;
use sim_harness::world::{Outcome, Stage, run};

fn scenarios(file: &str) -> Vec<Scenario> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(file);
    Scenario::read_each(&path).unwrap_or_else(|problems| panic!("{problems}"))
}

fn row(file: &str, name: &str) -> Scenario {
    scenarios(file).into_iter().find(|scenario| scenario.name == name).unwrap_or_else(|| panic!("{file} has no row {name}"))
}

fn outcome(plan: &Plan) -> Outcome {
    let outcome = run(plan, &Stage::new(Vec::new()), RunOptions::default());
    assert_eq!(outcome.broken, None, "{} {}", plan.scenario, plan.seed);
    outcome
}

fn violates(plan: &Plan, claim: &str) -> bool {
    outcome(plan).violations.iter().any(|violation| violation.claim == claim && violation.excuse.is_none())
}

/// The violations of the first `seeds` seeds, with their seed.
fn violations(scenario: &Scenario, seeds: u64) -> Vec<(u64, Violation)> {
    (0..seeds).flat_map(|seed| outcome(&scenario.draw(seed)).violations.into_iter().map(move |violation| (seed, violation))).collect()
}

fn upstream(mut scenario: Scenario) -> Scenario {
    scenario.deviations.extend(deviation::upstream());
    scenario
}

/// The first plan of a scenario that violates the expected claim, but does not do so without the deviation that the row is named after, if
/// it also has others.
fn found(scenario: &Scenario) -> Plan {
    let expect = scenario.expect.as_ref().expect("a negative scenario expects something").as_str();
    let without_subject = |plan: &Plan| match scenario.deviations.as_slice() {
        [subject, _, ..] if subject.as_str() == scenario.name => {
            let others = plan.deviations.iter().filter(|deviation| *deviation != subject).cloned().collect();
            Some(Plan { deviations: others, ..plan.clone() })
        }
        _ => None,
    };
    let needed = |plan: &Plan| violates(plan, expect) && without_subject(plan).is_none_or(|plan| !violates(&plan, expect));
    (0..scenario.seeds)
        .map(|seed| scenario.draw(seed))
        .find(needed)
        .unwrap_or_else(|| panic!("{}: {expect} is not violated in {} seeds, or in all of them anyway", scenario.name, scenario.seeds))
}

/// Asserts that every row finds its claim, and that without any deviation the same plan, and a few others, violate nothing.
fn rows_are_found_and_hold_without_their_deviation(rows: &[Scenario]) {
    for scenario in rows {
        for plan in [found(scenario)].into_iter().chain((0..4).map(|seed| scenario.draw(seed))) {
            let hardened = outcome(&Plan { deviations: Vec::new(), ..plan });
            assert!(hardened.violations.is_empty(), "{} without any deviation: {:?}", scenario.name, hardened.violations);
        }
    }
}

#[test]
fn the_first_half_of_the_deviations_is_found_and_the_hardened_form_holds() {
    let rows = scenarios("negative/byom.toml");
    rows_are_found_and_hold_without_their_deviation(&rows[..rows.len() / 2]);
}

#[test]
fn the_second_half_of_the_deviations_is_found_and_the_hardened_form_holds() {
    let rows = scenarios("negative/byom.toml");
    rows_are_found_and_hold_without_their_deviation(&rows[rows.len() / 2..]);
}

#[test]
fn the_other_windows_of_the_reference_are_found_in_upstreams_profile_and_the_hardened_form_holds() {
    rows_are_found_and_hold_without_their_deviation(&scenarios("negative/byom-windows.toml"));
}

#[test]
fn upstreams_profile_shows_what_each_deviation_shows() {
    for mut scenario in scenarios("negative/byom.toml") {
        // Some are rare because of all the others.
        scenario.seeds = 200;
        let (scenario, expect) = (upstream(scenario.clone()), scenario.expect.unwrap());
        let found = (0..scenario.seeds).any(|seed| violates(&scenario.draw(seed), expect.as_str()));
        assert!(found, "{}: {expect}", scenario.name);
    }
}

#[test]
fn every_deviation_of_the_reference_has_a_row_that_is_named_after_it() {
    let rows = scenarios("negative/byom.toml");
    // These do no harm by themselves: they are tested with the documents, the settings and the controller.
    let elsewhere = [
        "byom-lenient-settings",
        "byom-owner-by-pod-name",
        "byom-stop-on-callers-deadline",
        "byom-stop-overlooks-start",
        "byom-controller-trusts-cache",
        "byom-younger-peer-pod-wins",
        "byom-controller-configuration-frozen",
    ];
    for deviation in Policy::DEVIATIONS {
        let has_row = rows.iter().any(|row| row.name == deviation.name && row.deviations[0] == DeviationName::new(deviation.name).unwrap());
        assert_eq!(has_row, !elsewhere.contains(&deviation.name), "{}", deviation.name);
    }
}

#[test]
fn upstream_gives_an_address_or_a_record_away_twice_within_ten_seeds_without_a_fault() {
    let scenario = upstream(row("smoke/byom-two.toml", "byom-two"));
    assert!(scenario.fault.is_empty());
    let lost = ["acknowledged-records-persist", "no-address-has-two-holders"];
    let first = violations(&scenario, 10).into_iter().find(|(_, violation)| lost.contains(&violation.claim.as_str()));
    let (_, violation) = first.expect("two adaptors and ten seeds are enough");
    // The readers, the writers, and the holder of the address.
    let story = violation.detail.join("\n");
    for part in ["read version", "wrote version", "given 10.9.0.", "told 10.9.0."] {
        assert!(story.contains(part), "`{part}` is not told:\n{story}");
    }
}

/// B L1 to L6 (B §7.2), distinguished by the violated claims and by whether there were conflicts.
#[test]
fn each_lost_update_schedule_of_the_reference_happens_upstream_without_a_fault() {
    let two = upstream(row("smoke/byom-two.toml", "byom-two"));
    let lost = |outcome: &Outcome, what: &str| {
        let of_records = outcome.violations.iter().filter(|violation| violation.claim == "acknowledged-records-persist");
        of_records.into_iter().any(|violation| violation.detail[0].ends_with(what))
    };
    let runs: Vec<Outcome> = (0..150).map(|seed| outcome(&two.draw(seed))).collect();
    let happens = |which: &dyn Fn(&Outcome) -> bool| runs.iter().any(which);
    assert!(happens(&|run| lost(run, "is lost") && run.counts.conflicts == 0), "L1: without any conflict");
    assert!(happens(&|run| lost(run, "is lost") && run.counts.conflicts > 0), "L2: over a conflict");
    assert!(happens(&|run| run.violations.iter().any(|violation| violation.claim == "no-address-has-two-holders")), "L3: the same choice");
    assert!(happens(&|run| lost(run, "is back")), "L4, B L6: a release undone");
    let recovering = upstream(row("negative/byom.toml", "byom-recover-decide-once"));
    assert!(violations(&recovering, 100).iter().any(|(_, violation)| violation.claim == "recovery-keeps-records"), "L5: recovery");
}

#[test]
fn what_recoveries_met_is_counted_beside_calls_and_releases() {
    let faults = row("chaos/byom-faults.toml", "byom-faults");
    let counts = |seed| outcome(&faults.draw(seed)).figures.pool.expect("a pool is counted").counts;
    let counts: Vec<_> = (0..40).map(counts).collect();
    let sum = |of: fn(&PoolCounts) -> u64| counts.iter().map(of).sum::<u64>();
    let (recoveries, conflicts) = (sum(|run| run.recoveries), sum(|run| run.recovery_conflicts));
    assert!(recoveries > 0 && conflicts > 0, "{recoveries} recoveries met {conflicts} conflicts");
}
