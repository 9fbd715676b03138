//! The same plan gives the same digest: over threads, over processes, over build profiles and machines.

#[path = "support/install.rs"]
mod install;

use std::path::{Path, PathBuf};
use std::process::Command;

use ipam_byom::{Address, PeerPod, PoolConfigMap, PoolDocument};
use ipam_reports::RunReport;
use ipam_spiderpool::{SpiderEndpoint, SpiderIPPool};
use k8s_openapi::api::coordination::v1::Lease;
use kube_machinery::{ClientExt, Object};
use kube_sim::testbed::{Testbed, config_map, from_json, key, pod};
use serde_json::json;
use sim_harness::plan::Plan;
use sim_harness::scenario::Scenario;
use sim_harness::system::RunOptions;
use sim_harness::world::{Stage, run};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The digest of a sweep in a separate process.
fn sweep(jobs: &str, scenario: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_ipam-sim"))
        .current_dir(root())
        .args(["run", scenario, "--seeds", "60", "--jobs", jobs, "--format", "json", "--out"])
        .arg(std::env::temp_dir().join(format!("ipam-sim-determinism-{}-{jobs}-{}", std::process::id(), scenario.replace('/', "-"))))
        .output()
        .unwrap();
    let report = RunReport::from_json(&String::from_utf8(output.stdout).unwrap()).unwrap_or_else(|error| panic!("{error}"));
    report.scenarios[0].digest.to_string()
}

#[test]
fn one_job_two_jobs_and_another_process_give_the_same_digest() {
    for scenario in [
        "scenarios/smoke/counter-faults.toml",
        "scenarios/negative/counter-decides-once.toml",
        "scenarios/chaos/byom-faults.toml",
        "scenarios/chaos/spiderpool-swarm.toml",
    ] {
        let one = sweep("1", scenario);
        assert_eq!(one, sweep("2", scenario), "{scenario}: two jobs differ from one");
        assert_eq!(one, sweep("1", scenario), "{scenario}: a second process differs from the first");
    }
}

#[test]
fn a_seed_alone_gives_the_digest_that_it_gives_after_others() {
    for file in [
        "scenarios/smoke/counter-faults.toml",
        "scenarios/chaos/byom-faults.toml",
        "scenarios/chaos/byom-roll-out.toml",
        "scenarios/chaos/spiderpool-swarm.toml",
    ] {
        let read = move || Scenario::read(&root().join(file)).unwrap();
        let scenario = read();
        let stage = Stage::new(Vec::new());
        let digest = |seed| run(&scenario.draw(seed), &stage, RunOptions::default()).digest;
        let after_others: Vec<_> = (0..20).map(digest).collect();
        let alone = std::thread::spawn(move || run(&read().draw(19), &Stage::new(Vec::new()), RunOptions::default()).digest);
        assert_eq!(after_others[19], alone.join().unwrap(), "{file}");
        assert_eq!(after_others[7], digest(7), "{file}: a seed differs when it is run again in the same thread");
        assert_ne!(after_others[0], after_others[1], "different seeds give different digests");
    }
}

#[test]
fn recording_does_not_change_the_run() {
    let scenario = Scenario::read(&root().join("scenarios/smoke/counter-faults.toml")).unwrap();
    let stage = Stage::new(Vec::new());
    for seed in 0..5 {
        let plan = scenario.draw(seed);
        let plain = run(&plan, &stage, RunOptions::default());
        let options = RunOptions { recording: true, dump: true, calls: true, planner: true, requests: true, ..RunOptions::default() };
        let watched = run(&plan, &stage, options);
        assert_eq!(plain.digest, watched.digest, "seed {seed}");
        assert_eq!(watched.recording.unwrap().0.len() as u64, plain.events);
    }
}

/// The scenarios and seeds of the kept plans.
const KEPT: [(&str, u64); 14] = [
    ("smoke/counter-calm.toml", 1),
    ("smoke/counter-faults.toml", 3),
    ("smoke/counter-faults.toml", 11),
    ("smoke/counter-faults.toml", 27),
    ("negative/counter-decides-once.toml", 0),
    ("smoke/byom-two.toml", 1),
    ("chaos/byom-faults.toml", 3),
    ("chaos/byom-faults.toml", 10),
    ("chaos/byom-roll-out.toml", 2),
    ("chaos/byom-state.toml", 5),
    ("smoke/spiderpool-calm.toml", 1),
    ("smoke/spiderpool-dual.toml", 2),
    ("smoke/spiderpool-static.toml", 3),
    ("chaos/spiderpool-swarm.toml", 4),
];

/// Compares kept plans with their digests. A change that is meant to change behaviour re-records them with `UPDATE_PLANS=1`; any other
/// change that makes this test fail has broken the promise that digests are equal across profiles and machines.
#[test]
fn kept_plans_give_their_recorded_digests() {
    let folder = root().join("ci/digests");
    let update = std::env::var_os("UPDATE_PLANS").is_some();
    if update {
        for (scenario, seed) in KEPT {
            let scenario = &Scenario::read_each(&root().join("scenarios").join(scenario)).unwrap()[0];
            std::fs::write(folder.join(format!("{}-{seed}.toml", scenario.name)), scenario.draw(seed).to_toml()).unwrap();
        }
    }
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 3, "there are plans to check");
    for file in files {
        let mut plan = Plan::read(&file).unwrap_or_else(|problems| panic!("{problems}"));
        let outcome = run(&plan, &Stage::new(Vec::new()), RunOptions::default());
        if update {
            plan.recorded = Some(outcome.recorded(&plan, "kept"));
            std::fs::write(&file, plan.to_toml()).unwrap();
        }
        let recorded = plan.recorded.unwrap_or_else(|| panic!("{} has no digest", file.display()));
        assert_eq!((outcome.digest, outcome.events), (recorded.digest, recorded.events), "{}", file.display());
        assert_eq!(outcome.checkpoints, recorded.checkpoints, "{}", file.display());
    }
}

#[test]
fn a_saved_plan_runs_as_the_drawn_one_did() {
    let scenario = Scenario::read(&root().join("scenarios/smoke/counter-faults.toml")).unwrap();
    let stage = Stage::new(Vec::new());
    for seed in 0..10 {
        let plan = scenario.draw(seed);
        let saved: Plan = sim_config::toml::from_str("plan.toml", &plan.to_toml()).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(saved, plan, "seed {seed}");
        assert_eq!(run(&saved, &stage, RunOptions::default()).digest, run(&plan, &stage, RunOptions::default()).digest);
    }
}

/// The digest of a run in which a client creates `object`.
fn digest_with<K: Object>(object: K) -> u128 {
    Testbed::run(1, async |bed| {
        bed.client("writer").create(object).await.unwrap();
        bed.cluster.recorder(|recorder| recorder.digest.value())
    })
}

#[test]
fn runs_that_differ_only_in_the_content_of_a_write_have_different_digests() {
    fn all_differ<K: Object>(objects: impl IntoIterator<Item = K>) {
        let digests: Vec<u128> = objects.into_iter().map(|object| digest_with(object)).collect();
        for (index, digest) in digests.iter().enumerate() {
            assert!(!digests[..index].contains(digest), "{} number {index}", std::any::type_name::<K>());
        }
    }
    all_differ(["0", "1"].map(|value| config_map("a", "field", value)));
    all_differ([("k", "v"), ("k", "w"), ("l", "v")].map(|(key, value)| {
        let mut map = config_map("a", "field", "0");
        map.metadata.annotations = Some([(key.to_owned(), value.to_owned())].into());
        map
    }));
    let document =
        |first, second| PoolDocument { available: [first, second].map(Address::new).into_iter().collect(), ..PoolDocument::default() };
    all_differ(
        [document("10.9.0.10", "10.9.0.11"), document("10.9.0.11", "10.9.0.10"), document("10.9.0.10", "10.9.0.12")]
            .map(|document| PoolConfigMap::new(&key("pool"), document.into())),
    );
    all_differ(["n1", "n2"].map(|node| pod("a", node)));
    let lease = |spec| from_json::<Lease>(json!({"metadata": {"name": "a", "namespace": "default"}, "spec": spec}));
    all_differ([
        lease(json!({"holderIdentity": "x", "renewTime": "2026-01-01T00:00:00.000001Z"})),
        lease(json!({"holderIdentity": "x", "renewTime": "2026-01-01T00:00:00.000002Z"})),
        lease(json!({"holderIdentity": "y", "renewTime": "2026-01-01T00:00:00.000001Z"})),
    ]);
    let pool = |spec| from_json::<SpiderIPPool>(json!({"metadata": {"name": "a"}, "spec": spec}));
    all_differ([
        pool(json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.1"]})),
        pool(json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.2"]})),
        pool(json!({"subnet": "10.0.0.0/24", "excludeIPs": ["10.0.0.1"]})),
    ]);
    let endpoint = |ip| {
        let ips = json!([{"interface": "eth0", "ipv4": ip}]);
        let status = json!({"current": {"uid": "u", "node": "n", "ips": ips}, "ownerControllerType": "Pod", "ownerControllerName": "a"});
        from_json::<SpiderEndpoint>(json!({"metadata": {"name": "a", "namespace": "default"}, "status": status}))
    };
    all_differ(["10.0.0.1/24", "10.0.0.2/24"].map(endpoint));
    let peer_pod = |spec| from_json::<PeerPod>(json!({"metadata": {"name": "a", "namespace": "default"}, "spec": spec}));
    all_differ([
        peer_pod(json!({"instanceID": "10.0.0.1"})),
        peer_pod(json!({"instanceID": "10.0.0.2"})),
        peer_pod(json!({"instanceID": "10.0.0.1", "allocationID": "a-1"})),
    ]);
}

#[test]
fn the_same_content_gives_the_same_digest() {
    let map = || PoolConfigMap::new(&key("pool"), PoolDocument::default().into());
    assert_eq!(digest_with(map()), digest_with(map()));
}
