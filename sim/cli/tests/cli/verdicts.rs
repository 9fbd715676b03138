//! Verdicts and exit codes, for the scenarios of the repository and for small ones.

use crate::{Folder, SMALL, json, run};

#[test]
fn everything_under_scenarios_passes_its_check() {
    let (code, out, _) = run(&["check", "scenarios"]);
    assert_eq!(code, 0, "{out}");
}

#[test]
fn the_smoke_scenarios_are_green() {
    let (code, out, _) = run(&["run", "scenarios/smoke", "--seeds", "20"]);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("ok  counter-calm"), "{out}");
}

#[test]
fn the_capacity_scenarios_hold_what_the_pool_promises() {
    let folder = Folder::new("capacity");
    let (code, out, _) = run(&["run", "scenarios/capacity", "--seeds", "6", "--out", &folder.0.display().to_string()]);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("ok  pool-large"), "{out}");
}

#[test]
fn the_negative_scenarios_find_their_violations_and_the_replay_command_reproduces_them() {
    let folder = Folder::new("negative");
    let out_dir = folder.0.display().to_string();
    // The rows of the pool's deviations have their own test.
    let files = ["counter-blind-writer", "counter-decides-once", "byom-windows"].map(|name| format!("scenarios/negative/{name}.toml"));
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let (code, out, _) = run(&[&["run"], &*files, &["--seeds", "20", "--out", &out_dir, "--format", "json"]].concat());
    assert_eq!(code, 0, "{out}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    for scenario in report["scenarios"].as_array().unwrap() {
        let first = &scenario["failures"][0];
        let plan = first["plan"].as_str().unwrap();
        let (code, replayed, _) = run(&["replay", plan, "--format", "json"]);
        let expected = if first["kind"] == "eventually" { 3 } else { 1 };
        assert_eq!(code, expected, "{replayed}");
        let replayed: serde_json::Value = serde_json::from_str(&replayed).unwrap();
        assert_eq!(replayed["digest"], first["digest"], "{plan}");
        let violations = replayed["violations"].as_array().unwrap();
        assert!(violations.iter().any(|violation| violation["claim"] == first["claim"] && violation["at_s"] == first["at_s"]), "{plan}");
    }
}

#[test]
fn a_hardened_scenario_with_a_deviation_fails_with_exit_code_1() {
    let folder = Folder::new("deviation");
    let out_dir = folder.0.display().to_string();
    let args = ["run", "scenarios/smoke/counter-calm.toml", "--seeds", "20", "--mutation", "counter-decides-once", "--out", &out_dir];
    let (code, out, _) = run(&args);
    assert_eq!(code, 1, "{out}");
    assert!(
        out.contains("FAIL")
            && out.contains("no-increment-is-lost")
            && out.contains("needs  no fault")
            && out.contains("replay  ipam-sim replay"),
        "{out}"
    );
}

#[test]
fn a_negative_scenario_that_does_not_fail_is_not_right() {
    let lonely = ["run", "scenarios/negative/counter-decides-once.toml", "--set", "workload.clients=1"];
    let (code, out, _) = run(&lonely);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("must fail, but does not"), "{out}");
}

#[test]
fn a_negative_scenario_without_its_deviation_has_to_hold() {
    for flags in [["--without", "counter-decides-once"], ["--seeds", "20"]] {
        let (code, out, _) = run(&[&["run", "scenarios/negative/counter-decides-once.toml"], &flags[..]].concat());
        assert_eq!(code, 0, "{out}");
        assert_eq!(out.contains("fails as it must"), flags[0] == "--seeds", "{out}");
    }
}

#[test]
fn what_does_not_come_true_in_time_gives_exit_code_3() {
    let folder = Folder::new("eventually");
    let hopeless = SMALL.replace("[check]", "[[op]]\nkind = \"increment\"\nat = \"24s\"\nactor = \"client-0\"\n[check]")
        + "eventually = [{ claim = \"every-increment-ends\", within = \"10s\" }]\n";
    let out_dir = folder.0.display().to_string();
    let (code, out, _) = run(&["run", &folder.file("eventually.toml", &hopeless), "--out", &out_dir]);
    assert_eq!(code, 3, "{out}");
    assert!(out.contains("1 of 1 increments have not come to an end"), "{out}");
}

#[test]
fn two_shards_merged_equal_the_whole() {
    let folder = Folder::new("shards");
    let whole = run(&["run", "scenarios/smoke", "--seeds", "7", "--format", "json"]).1;
    let shard = |part: &str| {
        folder.file(&part.replace('/', "-"), &run(&["run", "scenarios/smoke", "--seeds", "7", "--shard", part, "--format", "json"]).1)
    };
    let (one, two) = (shard("1/2"), shard("2/2"));
    let merged = run(&["merge", &one, &two, "--format", "json"]).1;
    let key = |text: &str| {
        let report: serde_json::Value = serde_json::from_str(text).unwrap();
        let of =
            |scenario: &serde_json::Value| (scenario["digest"].to_string(), scenario["seeds"].to_string(), scenario["events"].to_string());
        report["scenarios"].as_array().unwrap().iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(key(&whole), key(&merged));
}

#[test]
fn a_setting_changes_the_scenario() {
    let (_, few, _) = run(&["run", "scenarios/smoke/counter-calm.toml", "--seeds", "5", "--set", "workload.clients=1", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&few).unwrap();
    assert_eq!(report["scenarios"][0]["api"]["conflicts"], 0, "a single client has nobody to conflict with");
}

#[test]
fn every_crash_point_of_a_small_scenario_is_tried() {
    let folder = Folder::new("crash-points");
    let (file, out_dir) = (folder.file("small.toml", SMALL), folder.0.display().to_string());
    let (code, report) = json(&["run", &file, "--every-crash-point", "--format", "json", "--out", &out_dir]);
    let (scenario, points) = (&report["scenarios"][0], &report["scenarios"][0]["crash_points"]);
    assert_eq!((code, scenario["violated"].as_u64()), (0, Some(0)), "{report}");
    let writes: u64 = points["processes"].as_array().unwrap().iter().map(|process| process["writes"].as_u64().unwrap()).sum();
    assert!(writes >= 6, "two clients make three increments each: {report}");
    assert_eq!((points["points"].as_u64(), points["tried"].as_u64()), (Some(2 * writes), Some(2 * writes)));
    assert!(points["reached"].as_u64() > Some(writes), "{report}");

    // A client that decides once loses increments at any crash point; the plan of such a run can be replayed.
    let other = folder.0.join("deviating").display().to_string();
    let deviating = ["--mutation", "counter-decides-once", "--seeds", "10", "--no-shrink", "--out", &other];
    let args = [&["run", &file, "--every-crash-point"][..], &deviating[..]].concat();
    let (code, out, _) = run(&args);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("crash points: ") && out.contains(" the commit of its write "), "{out}");
    let plan = out.split("plan ").nth(1).unwrap().split_whitespace().next().unwrap();
    assert!(plan.contains("-client-"), "{out}");
    let (code, replayed, _) = run(&["replay", plan]);
    assert!(code == 1 && replayed.contains("as recorded"), "{replayed}");
}

#[test]
fn every_placement_of_a_small_scenario_is_tried() {
    let folder = Folder::new("placements");
    let (file, out_dir) = (folder.file("small.toml", SMALL), folder.0.display().to_string());
    let exhaustive =
        |more: &[&str]| [&["run", &file, "--exhaustive"][..], more].concat().iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let placed = |more: &[&str]| {
        let args = exhaustive(more);
        let args: Vec<&str> = args.iter().map(String::as_str).chain(["--format", "json", "--out", &out_dir, "--force"]).collect();
        json(&args)
    };
    let (code, report) = placed(&["1"]);
    let (scenario, covered) = (&report["scenarios"][0], &report["scenarios"][0]["placements"]);
    assert_eq!((code, scenario["violated"].as_u64(), covered["complete"].as_bool()), (0, Some(0), Some(true)), "{report}");
    let [none, one] = covered["levels"].as_array().unwrap().as_slice() else { panic!("{report}") };
    assert_eq!((none["tried"].as_u64(), &one["tried"]), (Some(1), &one["placements"]));
    assert!(one["tried"].as_u64() > Some(50) && one["equivalent"].as_u64() > Some(0), "{report}");
    assert_eq!(scenario["seeds"].as_u64(), one["tried"].as_u64().map(|tried| tried + 1));

    // Two halves add up to the whole.
    let halves = ["1/2", "2/2"].map(|shard| {
        let (code, half) = placed(&["1", "--shard", shard]);
        assert_eq!(code, 0, "{half}");
        folder.file(&format!("{}.json", &shard[..1]), &half.to_string())
    });
    let (code, whole) = json(&["merge", &halves[0], &halves[1], "--format", "json"]);
    let whole = &whole["scenarios"][0];
    assert_eq!((code, &whole["seeds"], &whole["simulated_s"]), (0, &scenario["seeds"], &scenario["simulated_s"]));
    assert_eq!((&whole["placements"]["complete"], &whole["placements"]["effects"]), (&true.into(), &covered["effects"]));

    // Placements for which there was no time are never reported as tried.
    let args = exhaustive(&["2", "--budget", "1ms", "--out", &out_dir, "--force"]);
    let (code, out, _) = run(&args.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(code, 6, "{out}");
    assert!(out.contains("tried before time was up, NOT all") && out.contains("Incomplete: 1 scenario") && !out.contains("hold"), "{out}");
    let (code, _, err) = run(&["run", &file, "--exhaustive", "4"]);
    assert!(code == 2 && err.contains("1..=3"), "{err}");
}

#[test]
fn a_mutation_is_found_by_placing_disturbances_and_its_plan_replays() {
    let folder = Folder::new("placements-found");
    let (file, out_dir) = (folder.file("small.toml", SMALL), folder.0.display().to_string());
    // Without disturbances, these clients take turns: seed 3 loses nothing.
    let args = ["run", &file, "--mutation", "counter-decides-once", "--seed", "3", "--out", &out_dir, "--force", "--no-shrink"];
    assert_eq!(run(&args).0, 0, "the seed must hold without disturbances");
    let (code, out, _) = run(&[&args[..], &["--exhaustive", "1"]].concat());
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("tried, ") && out.contains(" at request "), "{out}");
    let plan = out.split("plan ").nth(1).unwrap().split_whitespace().next().unwrap();
    assert!(plan.contains("_client-0-1-"), "{out}");
    let (code, replayed, _) = run(&["replay", plan, "--trace"]);
    assert!(code == 1 && replayed.contains("as recorded") && replayed.contains("request-fault"), "{replayed}");
}
