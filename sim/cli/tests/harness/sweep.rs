//! Sweeps, whole and in shards.

use std::path::Path;

use sim_harness::engine::LoadOptions;
use sim_harness::engine::load::{DeviationChange, scenarios};
use sim_harness::engine::progress::Unobserved;
use sim_harness::engine::seeds::Seeds;
use sim_harness::engine::sweep::*;
use sim_harness::plan::Plan;

#[test]
fn seeds_sum_up_to_the_same_whatever_the_number_of_workers() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/smoke/counter-calm.toml");
    let ready = scenarios(&LoadOptions { scenarios: vec![file], ..LoadOptions::default() }).unwrap();
    let swept = |jobs, shard: Option<&str>| {
        let options = SweepOptions {
            seeds: Seeds { first: 5, count: Some(20), shard: shard.map(|shard| shard.parse().unwrap()) },
            jobs,
            budget: None,
            every_crash_point: false,
            exhaustive: None,
            resume: false,
            out: std::env::temp_dir(),
            tables: None,
            plans: true,
            shrink: true,
        };
        let report = run(&ready, &options, &Unobserved).unwrap();
        (report.scenarios[0].digest, report.scenarios[0].seeds)
    };
    let (digest, seeds) = swept(1, None);
    assert_eq!(((digest, seeds), seeds), (swept(2, None), 20));
    assert_ne!(swept(1, Some("1/2")).0, digest);
    assert_eq!(swept(1, Some("2/2")).1, 10);
}

#[test]
fn failures_of_one_cause_are_one_finding_with_one_smaller_plan() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/smoke/counter-calm.toml");
    let mutation = sim_harness::deviation::DeviationName::new("counter-decides-once").unwrap();
    let deviations = DeviationChange { add: vec![mutation], ..DeviationChange::default() };
    let ready = scenarios(&LoadOptions { scenarios: vec![file], deviations, ..LoadOptions::default() }).unwrap();
    let out = tempfile::tempdir().unwrap();
    let seeds = Seeds { first: 0, count: Some(6), shard: None };
    let (jobs, budget, every_crash_point, tables) = (1, None, false, None);
    let options = SweepOptions {
        seeds,
        jobs,
        budget,
        every_crash_point,
        exhaustive: None,
        resume: false,
        out: out.path().into(),
        tables,
        plans: true,
        shrink: true,
    };
    let report = run(&ready, &options, &Unobserved).unwrap();
    let scenario = &report.scenarios[0];
    let [finding] = scenario.findings.as_slice() else { panic!("one cause, but {:#?}", scenario.findings) };
    assert_eq!(finding.cause.as_deref(), Some("counter-decides-once"));
    let claims: Vec<&str> = finding.claims.iter().map(|count| &*count.claim).collect();
    assert_eq!(claims, ["no-increment-is-lost", "counter-never-goes-back"], "what hurts users comes first");
    assert_eq!((finding.seeds, finding.seed), (scenario.violated, scenario.failures[0].seed));
    let named: u128 = finding.seed_ranges.iter().map(|range| range.count()).sum();
    assert_eq!(named, u128::from(finding.seeds), "every seed that showed it is named");

    // One plan for each failed seed, and one smaller plan, which violates every claim whose failure names it.
    let names = std::fs::read_dir(out.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let (smaller, whole): (Vec<String>, Vec<String>) = names.partition(|name| name.ends_with("-min.toml"));
    assert_eq!((smaller.len(), whole.len() as u64), (1, scenario.violated));
    let plan = Plan::read(Path::new(finding.plan.as_ref().unwrap())).unwrap();
    let outcome = sim_harness::engine::run::run_plan(&plan, &ready[0].stage, Default::default()).unwrap();
    for failure in scenario.failures.iter().filter(|failure| failure.shrunk.is_some()) {
        assert!(
            outcome.violations.iter().any(|violation| violation.claim == failure.claim),
            "{} does not break by its plan",
            failure.claim
        );
    }
}
