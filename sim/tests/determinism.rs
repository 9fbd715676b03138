//! The same plan gives the same digest: over threads, over processes, over build profiles and machines.

use std::path::{Path, PathBuf};
use std::process::Command;

use ipam_reports::RunReport;
use ipam_sim::plan::Plan;
use ipam_sim::scenario::Scenario;
use ipam_sim::world::{Stage, Wish, run};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The digest of a sweep in a process of its own.
fn sweep(jobs: &str, scenario: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_ipam-sim"))
        .current_dir(root())
        .args(["run", scenario, "--seeds", "60", "--jobs", jobs, "--format", "json", "--out"])
        .arg(std::env::temp_dir().join(format!("ipam-sim-determinism-{}-{jobs}", std::process::id())))
        .output()
        .unwrap();
    let report = RunReport::from_json(&String::from_utf8(output.stdout).unwrap()).unwrap_or_else(|error| panic!("{error}"));
    report.scenarios[0].digest.to_string()
}

#[test]
fn one_job_two_jobs_and_another_process_give_the_same_digest() {
    for scenario in ["scenarios/smoke/counter-faults.toml", "scenarios/negative/counter-decides-once.toml"] {
        let one = sweep("1", scenario);
        assert_eq!(one, sweep("2", scenario), "{scenario}: two jobs differ from one");
        assert_eq!(one, sweep("1", scenario), "{scenario}: a second process differs from the first");
    }
}

#[test]
fn a_seed_alone_gives_the_digest_that_it_gives_after_others() {
    let scenario = Scenario::read(&root().join("scenarios/smoke/counter-faults.toml")).unwrap();
    let stage = Stage::new(Vec::new());
    let digest = |seed| run(&scenario.draw(seed), &stage, Wish::default()).digest;
    let after_others: Vec<_> = (0..20).map(digest).collect();
    let alone = std::thread::spawn(move || {
        let scenario = Scenario::read(&root().join("scenarios/smoke/counter-faults.toml")).unwrap();
        run(&scenario.draw(19), &Stage::new(Vec::new()), Wish::default()).digest
    });
    assert_eq!(after_others[19], alone.join().unwrap());
    assert_eq!(after_others[7], digest(7), "a seed differs when it is run again in the same thread");
    assert_ne!(after_others[0], after_others[1], "different seeds give different digests");
}

#[test]
fn recording_does_not_change_the_run() {
    let scenario = Scenario::read(&root().join("scenarios/smoke/counter-faults.toml")).unwrap();
    let stage = Stage::new(Vec::new());
    for seed in 0..5 {
        let plan = scenario.draw(seed);
        let plain = run(&plan, &stage, Wish::default());
        let watched = run(&plan, &stage, Wish { recording: true, dump: true, calls: true, until: None });
        assert_eq!(plain.digest, watched.digest, "seed {seed}");
        assert_eq!(watched.recording.unwrap().0.len() as u64, plain.events);
    }
}

/// Where the kept plans come from.
const KEPT: [(&str, u64); 5] = [
    ("smoke/counter-calm.toml", 1),
    ("smoke/counter-faults.toml", 3),
    ("smoke/counter-faults.toml", 11),
    ("smoke/counter-faults.toml", 27),
    ("negative/counter-decides-once.toml", 0),
];

/// Plans kept with their digests. A change that is meant to change behaviour re-records them with `UPDATE_PLANS=1`; any other
/// change that lets this fail has broken the promise that digests are equal across profiles and machines.
#[test]
fn kept_plans_give_their_recorded_digests() {
    let folder = root().join("ci/digests");
    let update = std::env::var_os("UPDATE_PLANS").is_some();
    if update {
        for (scenario, seed) in KEPT {
            let scenario = Scenario::read(&root().join("scenarios").join(scenario)).unwrap();
            std::fs::write(folder.join(format!("{}-{seed}.toml", scenario.name)), scenario.draw(seed).to_toml()).unwrap();
        }
    }
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 3, "there are plans to check");
    for file in files {
        let mut plan = Plan::read(&file).unwrap_or_else(|problems| panic!("{problems}"));
        let outcome = run(&plan, &Stage::new(Vec::new()), Wish::default());
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
        let saved: Plan = ipam_sim::input::toml::from_str("plan.toml", &plan.to_toml()).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(saved, plan, "seed {seed}");
        assert_eq!(run(&saved, &stage, Wish::default()).digest, run(&plan, &stage, Wish::default()).digest);
    }
}
