//! Failures are shrunk, and the result is a plan.

use std::path::Path;

use crate::{Folder, json, run};

#[test]
fn the_first_failure_of_each_claim_is_shrunk_and_its_plan_replays() {
    let folder = Folder::new("shrunk");
    let out_dir = folder.0.display().to_string();
    let args = ["run", "scenarios/smoke/counter-faults.toml", "--seeds", "12", "--mutation", "counter-decides-once", "--out", &out_dir];
    let (code, report) = json(&[&args[..], &["--format", "json", "--jobs", "1"]].concat());
    assert_eq!(code, 1);
    let failures = report["scenarios"][0]["failures"].as_array().unwrap();
    let mut claims = Vec::new();
    for failure in failures {
        let first = !claims.contains(&&failure["claim"]);
        assert_eq!(failure["needs"].is_string(), first, "{failure}");
        if !first {
            continue;
        }
        claims.push(&failure["claim"]);
        if failure["shrunk"].is_null() {
            // It has the cause of another claim, whose plan ends before this one is violated.
            assert_eq!(failure["cause"], failures[0]["cause"]);
            continue;
        }
        let shrunk = &failure["shrunk"];
        assert!(shrunk["ops"].as_u64() <= Some(10) && shrunk["faults"].as_u64() <= Some(2), "{shrunk}");
        let plan = shrunk["plan"].as_str().unwrap();
        assert!(plan.ends_with("-min.toml"), "{plan}");
        let (_, replayed) = json(&["replay", plan, "--format", "json"]);
        assert_eq!((&replayed["digest"], &replayed["expected_digest"]), (&shrunk["digest"], &shrunk["digest"]), "{plan}");
        assert!(replayed["violations"].as_array().unwrap().iter().any(|violation| violation["claim"] == failure["claim"]), "{plan}");
    }
    assert_eq!(claims.len(), 2, "two claims notice lost updates");
    let findings = report["scenarios"][0]["findings"].as_array().unwrap();
    assert!(findings.len() == 1 && findings[0]["claims"].as_array().unwrap().len() == 2, "of one cause: {findings:?}");
    assert!(failures[0]["shrunk"].is_object(), "the cause has a smaller plan");
    // The number of workers has no effect.
    let (_, parallel) = json(&[&args[..], &["--format", "json", "--jobs", "3"]].concat());
    assert_eq!(&parallel["scenarios"][0]["failures"], &report["scenarios"][0]["failures"]);
    // The block names the smaller plan, which is the one to replay.
    let (_, out, _) = run(&args);
    let plan = failures[0]["shrunk"]["plan"].as_str().unwrap();
    assert!(out.contains(&format!("replay  ipam-sim replay {plan} --trace")), "{out}");
    let (_, out, _) = run(&[&args[..], &["--no-shrink"]].concat());
    assert!(!out.contains("shrunk from") && out.contains("needs  "), "{out}");
}

#[test]
fn a_negative_scenario_that_fails_as_it_must_is_not_shrunk() {
    let folder = Folder::new("negative-not-shrunk");
    let out_dir = folder.0.display().to_string();
    let (code, out, _) = run(&["run", "scenarios/negative/counter-decides-once.toml", "--seeds", "3", "--out", &out_dir]);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("needs  no fault, but the mutation counter-decides-once") && !out.contains("shrunk from"), "{out}");
    assert!(!folder.0.join("counter-decides-once-0-min.toml").exists());
}

#[test]
fn a_plan_file_is_shrunk_into_another() {
    let folder = Folder::new("shrink");
    let out_dir = folder.0.display().to_string();
    run(&["run", "scenarios/negative/counter-blind-writer.toml", "--seed", "0", "--out", &out_dir]);
    let plan = folder.0.join("counter-blind-writer-0.toml").display().to_string();
    let (code, out, err) = run(&["shrink", &plan]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    for expected in
        ["FAIL  counter-never-goes-back    seed 0", "needs  conflicting-writer(configmaps/default/counter) at ", "Shrunk: from "]
    {
        assert!(out.contains(expected), "{expected} is not in\n{out}");
    }
    let small = folder.0.join("counter-blind-writer-0-min.toml");
    assert!(out.contains(&format!("replay  ipam-sim replay {} --trace", small.display())), "{out}");
    let (code, out, _) = run(&["replay", &small.display().to_string()]);
    assert!(code == 1 && out.contains("FAIL  counter-never-goes-back") && out.contains("as recorded"), "{out}");

    // The same steps again give the same file, wherever it is written.
    let again = folder.0.join("again.toml").display().to_string();
    let (code, report) = json(&["shrink", &plan, "--out", &again, "--claim", "counter-never-goes-back", "--format", "json"]);
    assert_eq!((code, &report["schema"]), (0, &"ipam-sim/shrink/1".into()));
    // Except for the command that replays it, which names the file.
    let text = |file: &Path| {
        let text = std::fs::read_to_string(file).unwrap();
        text.lines().filter(|line| !line.starts_with("replay = ")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(text(Path::new(&again)), text(&small));
    let (_, report) = json(&["shrink", &plan, "--out", &again, "--runs", "1", "--format", "json"]);
    assert_eq!(report["shrunk"]["cut_off"], "runs");
}

#[test]
fn what_does_not_fail_cannot_be_shrunk() {
    let folder = Folder::new("not-shrunk");
    let out_dir = folder.0.display().to_string();
    run(&["run", "scenarios/negative/counter-blind-writer.toml", "--seed", "0", "--out", &out_dir]);
    let plan = folder.0.join("counter-blind-writer-0.toml").display().to_string();
    let text = std::fs::read_to_string(&plan).unwrap();
    let calm = folder.file("calm.toml", text.split("[[fault]]").next().unwrap());
    for (args, expected) in [
        (vec!["shrink", &calm], "calm.toml does not fail: every claim of its plan holds"),
        (vec!["shrink", &calm, "--claim", "counter-never-goes-back"], "does not fail: counter-never-goes-back holds"),
        (vec!["shrink", &plan, "--claim", "every-increment-ends"], "does not violate every-increment-ends, but counter-never-goes-back"),
        (vec!["shrink", &plan, "--claim", "nonsense"], "the nearest is `"),
        (vec!["shrink", "scenarios/smoke/counter-calm.toml"], "is a scenario"),
        (vec!["shrink", "no-such-plan.toml"], "no-such-plan.toml"),
        (vec!["shrink", &plan, "--out", "/no/such/folder/a.toml"], "cannot write"),
    ] {
        let (code, out, err) = run(&args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(err.contains(expected), "{args:?}: {err}");
    }
}
