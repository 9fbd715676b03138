//! Plans and dumps that are run again.

use crate::{Folder, run};

#[test]
fn a_dump_is_a_manifest_that_can_be_run_again() {
    let folder = Folder::new("dump");
    let dump = folder.0.join("cluster.yaml").display().to_string();
    let (code, ..) = run(&["replay", "scenarios/smoke/counter-calm.toml", "--seed", "3", "--dump", &dump]);
    assert_eq!(code, 0);
    let yaml = std::fs::read_to_string(&dump).unwrap();
    assert!(yaml.contains("kind: ConfigMap") && yaml.contains("name: counter"), "{yaml}");
    let (code, out, _) = run(&["check", &dump]);
    assert_eq!(code, 0, "{out}");
    let (code, out, err) = run(&["run", "scenarios/smoke/counter-calm.toml", "--seeds", "3", "--manifests", &dump]);
    assert_eq!(code, 0, "{out}{err}");
}

#[test]
fn two_plans_part_where_a_fault_differs() {
    let folder = Folder::new("against");
    let out_dir = folder.0.display().to_string();
    run(&["run", "scenarios/negative/counter-blind-writer.toml", "--seed", "0", "--out", &out_dir]);
    let plan = folder.0.join("counter-blind-writer-0.toml").display().to_string();
    let original = std::fs::read_to_string(&plan).unwrap();
    let calm = folder.file("calm.toml", original.split("[[fault]]").next().unwrap());
    let (_, out, _) = run(&["replay", &plan, "--against", &calm, "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let parting = &report["against"]["parting"];
    assert!(parting["this"].as_str().unwrap().contains("conflicting-writer"), "{parting}");
    assert_eq!(parting["because"], "fault 0 differs");
}

#[test]
fn an_edited_plan_says_where_it_left_the_recorded_run() {
    let folder = Folder::new("edited");
    let out_dir = folder.0.display().to_string();
    run(&["run", "scenarios/negative/counter-blind-writer.toml", "--seed", "0", "--out", &out_dir]);
    let plan = folder.0.join("counter-blind-writer-0.toml");
    let edited = std::fs::read_to_string(&plan).unwrap().replace("with_version = false", "with_version = true");
    let (code, out, _) = run(&["replay", &folder.file("edited.toml", &edited), "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, 0, "an edited plan is judged by its claims: {out}");
    assert!(report["parting"]["event"].as_u64().is_some(), "{out}");
    assert!(report["remarks"][0].as_str().unwrap().contains("edited"), "{out}");
    // The same file with a digest that its run cannot give.
    let original = std::fs::read_to_string(&plan).unwrap();
    let digest = original.split("digest = \"").nth(1).unwrap().split('"').next().unwrap();
    let false_promise = folder.file("false.toml", &original.replacen(digest, &digest.chars().rev().collect::<String>(), 1));
    assert_eq!(run(&["replay", &false_promise]).0, 5, "the same build gave another digest");
}

#[test]
fn a_replay_follows_one_thing_and_draws_a_page() {
    let folder = Folder::new("story");
    let page = folder.0.join("story.html").display().to_string();
    let scenario = "scenarios/negative/counter-decides-once.toml";
    let followed = |extra: &[&str]| run(&[&["replay", scenario, "--seed", "0"], extra].concat());
    let (code, out, err) = followed(&["--follow", "object:configmap/default/counter", "--html", &page]);
    assert_eq!(code, 1, "{out}{err}");
    assert!(out.contains("last read revision") && out.contains("FAIL  no-increment-is-lost"), "{out}");
    assert!(!out.contains("client-0        starts"), "what touched nothing is left out: {out}");
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.starts_with("<!doctype html>") && html.trim_end().ends_with("</html>"));
    for expected in ["client-0", "apiserver-1", "no-increment-is-lost", "counter-never-goes-back", "configmap/default/counter"] {
        assert!(html.contains(expected), "{expected}");
    }
    // Up to a point in time, both contain only earlier events.
    let (_, early, _) = followed(&["--follow", "object:configmap/default/counter", "--html", &page, "--until", "20ms"]);
    assert!(early.contains("commits") && early.lines().count() < out.lines().count(), "{early}");
    assert!(std::fs::read_to_string(&page).unwrap().len() < html.len());
    let (code, out, _) = followed(&["--follow", "10.0.0.1"]);
    assert!(code == 1 && out.contains("note  nothing in this run touched 10.0.0.1\n"), "{out}");
    let (code, _, err) = followed(&["--html", "no-such-folder/story.html"]);
    assert!(code == 1 && err.contains("cannot write no-such-folder/story.html"), "it is violated all the same: {err}");
}
