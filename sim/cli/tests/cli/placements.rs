//! `run --exhaustive`: continuation after a cut, and the findings of each kind of disturbance.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{Folder, SMALL, json, run};

/// A search that is cut off several times, and continued each time, gives the same result as one without a cut.
#[test]
fn a_search_that_is_cut_off_goes_on_and_comes_to_the_same() {
    let folder = Folder::new("placements-resumed");
    let file = folder.file("small.toml", SMALL);
    let search = |out: &str, more: &[&str]| {
        let out = folder.0.join(out).display().to_string();
        let args = ["run", &file, "--exhaustive", "1", "--seed", "3", "--jobs", "2", "--format", "json", "--out", &out];
        json(&[&args[..], more].concat())
    };
    // Some placements fail: their findings must survive the cut, too.
    let mutation = ["--mutation", "counter-decides-once", "--no-shrink"];
    let (code, mut whole) = search("whole", &mutation);
    assert_eq!(code, 1, "{whole}");
    let (mut code, mut report) = search("cut", &[&mutation[..], &["--budget", "1ms"]].concat());
    assert_eq!(report["scenarios"][0]["placements"]["complete"], false, "{report}");
    let journal = folder.0.join("cut/placements-small.jsonl");
    let mut rounds = 0;
    while report["scenarios"][0]["placements"]["complete"] != true {
        assert!(journal.exists() && rounds < 1_000, "it does not get on: {report}");
        rounds += 1;
        (code, report) = search("cut", &[&mutation[..], &["--budget", "400ms", "--resume"]].concat());
    }
    assert_eq!(code, 1);
    assert!(!journal.exists(), "what is complete leaves no journal");
    for report in [&mut whole, &mut report] {
        report["scenarios"][0]["wall_s"] = Value::Null;
    }
    let same = |report: &Value| report.to_string().replace("/cut/", "/whole/");
    assert_eq!(same(&report), same(&whole));

    // A search that was begun for other runs is not continued.
    search("cut", &[&mutation[..], &["--budget", "1ms"]].concat());
    let out = folder.0.join("cut").display().to_string();
    let (code, _, err) = run(&["run", &file, "--exhaustive", "2", "--seed", "3", "--out", &out, "--force", "--resume"]);
    assert!(code == 2 && err.contains("placements-small.jsonl is of other runs than these"), "{err}");
    let (code, _, err) = run(&["run", &file, "--exhaustive", "2", "--resume"]);
    assert!(code == 2 && err.contains("--out"), "{err}");
}

/// The number of placements of one disturbance that violate a claim, by its effect.
fn violated(folder: &Folder, scenario: &str, mutation: &str, part: &[&str]) -> BTreeMap<String, u64> {
    let file = folder.file(&format!("{mutation}.toml"), scenario);
    let out = folder.0.join(mutation).display().to_string();
    let search = |more: &[&str]| {
        let args = ["run", &file, "--exhaustive", "1", "--seeds", "1", "--format", "json", "--no-shrink", "--out", &out];
        json(&[&args[..], part, more].concat())
    };
    // If only a part is run, because the whole is too large, the mutated runs suffice.
    if part.is_empty() {
        let (code, report) = search(&[]);
        assert_eq!(code, 0, "without the mutation all must hold: {report}");
    }
    let (code, report) = search(&["--mutation", mutation, "--force"]);
    assert_eq!(code, 1, "{report}");
    let covered = &report["scenarios"][0]["placements"];
    // The run without a disturbance is in one of the parts.
    let undisturbed = covered["levels"].as_array().unwrap().iter().find(|level| level["disturbances"] == 0);
    assert!(undisturbed.is_none_or(|level| level["violated"] == 0), "undisturbed it must hold: {report}");
    let effects = covered["effects"].as_array().unwrap().iter();
    let counts = effects.map(|effect| (effect["effect"].as_str().unwrap().to_owned(), effect["violated"].as_u64().unwrap()));
    counts.filter(|(_, violated)| *violated > 0).collect()
}

/// A pod is replaced by one with the same name, and the agent decides by its cache.
const REPLACED: &str = r#"
name = "replaced"
why = "a test"
seeds = 1
[phases]
safety = "30s"
liveness = "1m"
[workload]
kind = "spiderpool"
nodes = 1
apps = 0
kinds = "pod"
families = "ipv4"
pools = 1
addresses = 8
throttled = false
[[op]]
at = "0s"
actor = "operator"
kind = "apply-app"
app = "web"
type = "pod"
grace = 2
[[op]]
at = "8s"
actor = "operator"
kind = "delete-app"
app = "web"
[[op]]
at = "8s"
actor = "operator"
kind = "apply-app"
app = "web"
type = "pod"
[check]
always = ["answer-endpoint-and-record-agree"]
"#;

#[test]
fn only_a_change_that_comes_late_shows_that_an_agent_trusts_its_cache() {
    let folder = Folder::new("placements-changes");
    let violated = violated(&folder, REPLACED, "uid-from-cached-pod", &[]);
    assert_eq!(violated.keys().collect::<Vec<_>>(), ["change-late"], "{violated:?}");
}

/// Pods terminate on a node that is down, and one of two replicas traces them until their grace is over.
const TRACED: &str = r#"
name = "traced"
why = "a test"
seeds = 1
[phases]
safety = "90s"
liveness = "10s"
[workload]
kind = "spiderpool"
nodes = 1
apps = 0
kinds = "deployment"
families = "ipv4"
pools = 1
addresses = 8
throttled = false
reclaim = true
controllers = 2
kubelet = { deaf = 1 }
[[op]]
at = "0s"
actor = "operator"
kind = "apply-app"
app = "web"
type = "deployment"
replicas = 1
grace = 30
[[op]]
at = "20s"
actor = "operator"
kind = "delete-app"
app = "web"
[[fault]]
kind = "crash"
at = "25s"
process = "kubelet-0"
down = "1h"
[check]
always = ["ex-leaders-stop"]
"#;

#[test]
fn only_who_stands_still_is_cut_off_or_loses_its_lease_at_a_request_shows_that_it_goes_on_without_it() {
    let folder = Folder::new("placements-leaders");
    // A part of the placements suffices: many requests of the leader have the effect.
    let violated = violated(&folder, TRACED, "ex-leader-goes-on", &["--shard", "3/9"]);
    let kinds = ["cut-after", "cut-before", "lease-taken", "pause-after", "pause-before"];
    assert!(violated.keys().all(|effect| kinds.contains(&effect.as_str())), "{violated:?}");
    for kind in ["cut", "lease-taken", "pause"] {
        assert!(violated.keys().any(|effect| effect.starts_with(kind)), "{kind} finds nothing: {violated:?}");
    }
}
