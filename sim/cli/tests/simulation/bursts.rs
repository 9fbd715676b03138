//! Bursts of allocations, apart from the numbers that `conflicts.rs` compares: the counters and the tables of a run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use ipam_reports::RunReport;
use ipam_reports::pool::{PoolCall, PoolRun};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube_sim::object::Obj;
use kube_sim::testbed::from_json;
use serde_json::json;
use sim_config as input;
use sim_harness::scenario::Scenario;
use sim_harness::system::RunOptions;
use sim_harness::world::{Outcome, Stage, run};
use testkit::Folder;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A scenario with these lines in its workload, and others after it.
fn scenario(workload: &str) -> Scenario {
    let text = format!(
        "name = 'burst'\nwhy = 'a test'\n[phases]\nsafety = '60s'\n[check]\nalways = ['revisions-only-grow']\n\
         [workload]\nkind = 'byom-burst'\n{workload}"
    );
    input::toml::from_str("burst.toml", &text).unwrap_or_else(|problems| panic!("{problems}"))
}

fn outcome(scenario: &Scenario, seed: u64, stage: &Stage) -> Outcome {
    let outcome = run(&scenario.draw(seed), stage, RunOptions { calls: true, ..RunOptions::default() });
    assert_eq!(outcome.broken, None);
    outcome
}

fn pool(workload: &str, deviations: &[&str]) -> PoolRun {
    let mut scenario = scenario(workload);
    scenario.deviations = deviations.iter().map(|name| sim_harness::deviation::DeviationName::new(name).unwrap()).collect();
    outcome(&scenario, 1, &Stage::new(Vec::new())).figures.pool.unwrap()
}

/// A stage with the pool's namespace and ConfigMap, with `text` as the document.
fn with_document(text: &str) -> Stage {
    let mut stage = Stage::new(Vec::new());
    let namespace: Namespace = from_json(json!({"metadata": {"name": "confidential-containers-system"}}));
    let map: ConfigMap = from_json(json!({
        "metadata": {"name": "byom-ip-pool-state", "namespace": "confidential-containers-system"},
        "data": {"allocation-state": text},
    }));
    stage.objects =
        vec![(stage.registry.id::<Namespace>(), Arc::new(namespace) as Obj), (stage.registry.id::<ConfigMap>(), Arc::new(map) as Obj)];
    stage
}

#[test]
fn everybody_has_an_address_of_his_own_as_long_as_there_are_some() {
    let run = pool("instances = 6\nallocations = 3\naddresses = 10\ntaken = 1", &[]);
    let counts = run.counts;
    assert_eq!((counts.calls, counts.allocated, counts.refused), (18, 9, 9));
    assert_eq!((counts.lost, counts.sharing, counts.stuck_versions, counts.leaked), (0, 0, 0, 0));
    assert_eq!(run.calls.iter().filter(|call| call.outcome == "no-available").count(), 9);
    let addresses: std::collections::BTreeSet<_> = run.calls.iter().filter_map(|call| call.address.as_deref()).collect();
    assert_eq!(addresses.len(), 9);
    assert!(!addresses.contains("10.64.0.0"), "it was taken at the beginning");
    let sum = |of: fn(&PoolCall) -> u32| run.calls.iter().map(|call| u64::from(of(call))).sum::<u64>();
    assert_eq!(sum(|call| call.conflicts), counts.conflicts);
    assert_eq!(sum(|call| call.attempts), counts.attempts);
    assert!(run.calls.iter().all(|call| call.took.is_some_and(|took| took <= run.makespan)));
}

#[test]
fn upstream_loses_grants_and_shares_addresses_without_any_fault() {
    let counts = pool("instances = 8\nprobes = false", &["byom-decide-once", "byom-four-attempts"]).counts;
    assert!(counts.lost > 0 && counts.lost_at_end > 0 && counts.stuck_versions > 0, "{counts:?}");
    let first = pool("instances = 2", &["byom-decide-once", "byom-four-attempts", "byom-select-first"]).counts;
    assert_eq!((first.shared_addresses, first.sharing), (1, 2), "both take the first address: {first:?}");
}

#[test]
fn a_dead_vm_is_passed_over_unless_it_fails_the_call() {
    let burst = "instances = 4\naddresses = 8\ndead = 4";
    let hardened = pool(burst, &[]);
    assert_eq!((hardened.counts.allocated, hardened.counts.refused), (4, 0));
    let dead = ["10.64.0.0", "10.64.0.1", "10.64.0.2", "10.64.0.3"];
    assert!(hardened.calls.iter().all(|call| !dead.contains(&call.address.as_deref().unwrap())));
    assert!(hardened.counts.probes > 4, "somebody met a dead one: {:?}", hardened.counts);
    let upstream = pool(burst, &["byom-dead-vm-not-skipped", "byom-probe-in-critical-section"]);
    assert!(upstream.calls.iter().any(|call| call.outcome == "not-ready"));
}

#[test]
fn a_rate_limit_slows_down_what_it_must() {
    let longest = |throttle: &str| {
        let run = pool(&format!("instances = 1\nallocations = 10\nprobes = false\nthrottle = '{throttle}'"), &[]);
        assert_eq!(run.counts.allocated, 10);
        run.makespan.as_f64()
    };
    // Twenty requests: all at once, all but ten at 5 per second, or all but one.
    assert!(longest("none") < 1.0);
    assert!((1.8..2.2).contains(&longest("client-go")));
    assert!((3.6..4.1).contains(&longest("drained")));
}

#[test]
fn upstreams_process_panics_over_a_null_map_and_the_hardened_one_refuses() {
    let stage = with_document(r#"{"availableIPs": ["10.64.0.0", "10.64.0.1"], "version": 3}"#);
    let mut scenario = scenario("instances = 1\nprobes = false");
    let hardened = outcome(&scenario, 1, &stage);
    assert!(hardened.violations.is_empty());
    assert_eq!(hardened.figures.pool.unwrap().calls[0].outcome, "owners");
    scenario.deviations = vec![sim_harness::deviation::DeviationName::new("byom-null-map").unwrap()];
    let upstream = outcome(&scenario, 1, &stage);
    assert_eq!(upstream.figures.pool.unwrap().calls[0].outcome, "panic");
    assert_eq!(upstream.violations.iter().map(|violation| &*violation.claim).collect::<Vec<_>>(), ["no-process-panics"]);
}

#[test]
fn a_document_over_1_mib_is_refused_and_nothing_is_lost() {
    let run = pool("instances = 2\naddresses = 16384\ntaken = 3000\nprobes = false", &[]);
    assert_eq!((run.counts.allocated, run.counts.refused, run.counts.lost), (0, 2, 0));
    assert!(run.calls.iter().all(|call| call.outcome == "writing" && call.attempts == 1));
}

#[test]
fn what_an_adaptor_left_behind_when_it_crashed_is_a_leak() {
    let mut scenario = scenario("instances = 1\nprobes = false");
    let text = "[[fault]]\nkind = 'crash-at-write'\nprocess = 'adaptor-0'\nnth = 1\nafter_commit = true\nat = '0s'\n";
    #[derive(serde::Deserialize)]
    struct Faults {
        fault: Vec<sim_harness::occurrence::DraftFault>,
    }
    scenario.fault = input::toml::from_str::<Faults>("faults.toml", text).unwrap_or_else(|problems| panic!("{problems}")).fault;
    let run = outcome(&scenario, 1, &Stage::new(Vec::new())).figures.pool.unwrap();
    assert_eq!((run.counts.calls, run.counts.allocated, run.counts.refused, run.counts.leaked), (1, 0, 0, 1));
    assert_eq!(run.calls[0].outcome, "unanswered");
}

/// Runs the program and returns its report and the two tables.
fn sweep(arguments: &[&str], name: &str) -> (RunReport, String, String) {
    let out = Folder::missing(name);
    let output = Command::new(env!("CARGO_BIN_EXE_ipam-sim"))
        .current_dir(root())
        .args(["run", "scenarios/capacity/pool-simultaneous.toml", "scenarios/capacity/pool-as-upstream.toml"])
        .args(["--set", "workload.instances=[2,4,8]", "--format", "json", "--out"])
        .arg(&out.0)
        .args(arguments)
        .output()
        .unwrap();
    let report = RunReport::from_json(&String::from_utf8(output.stdout).unwrap()).unwrap_or_else(|error| panic!("{error}"));
    (report, out.text("runs.csv"), out.text("calls.csv"))
}

#[test]
fn one_job_and_two_write_the_same_tables_and_shards_merge_to_the_whole() {
    let (mut one, runs, calls) = sweep(&["--seeds", "60", "--jobs", "1"], "one");
    let (two, runs_of_two, calls_of_two) = sweep(&["--seeds", "60", "--jobs", "2"], "two");
    assert!(runs == runs_of_two && calls == calls_of_two, "the tables differ");
    assert_eq!(runs.lines().count(), 1 + 120);
    let pool = one.scenarios[0].pool.clone().unwrap();
    let allocations = one.scenarios[0].allocations;
    assert_eq!(one.scenarios.iter().map(|scenario| scenario.allocations.attempted).sum::<u64>() as usize, calls.lines().count() - 1);
    assert_eq!((allocations.attempted, allocations.succeeded), (pool.counts.calls, pool.counts.allocated));
    assert_eq!(one.scenarios[0].api.retries_exhausted, pool.counts.exhausted);

    let shard = |part: &str| sweep(&["--seeds", "60", "--shard", part], &part.replace('/', "-")).0;
    let mut merged = ipam_reports::merge(vec![shard("1/2"), shard("2/2")]).unwrap();
    for report in [&mut one, &mut merged] {
        report.scenarios.iter_mut().for_each(|scenario| scenario.wall = ipam_reports::Seconds::ZERO);
    }
    assert_eq!(merged, one);
    assert_eq!(two.scenarios[1].pool, one.scenarios[1].pool);
}
