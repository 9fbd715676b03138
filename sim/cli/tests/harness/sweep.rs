//! Sweeps, whole and in shards.

use std::path::Path;

use sim_harness::engine::LoadOptions;
use sim_harness::engine::load::scenarios;
use sim_harness::engine::progress::Unobserved;
use sim_harness::engine::seeds::Seeds;
use sim_harness::engine::sweep::*;

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
