//! `report conflicts --advise`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Folder, cut, done, refused};

/// The policies that were tried, best first.
fn ranked(folder: &Folder) -> Vec<Value> {
    let report: Value = serde_json::from_str(&folder.text("report.json")).unwrap();
    report["advice"]["ranked"].as_array().unwrap().clone()
}

fn gain(ranked: &[Value], policy: &str, figure: &str) -> Value {
    let one = ranked.iter().find(|one| one["policy"] == policy).unwrap_or_else(|| panic!("no policy {policy}"));
    let figures = one["figures"].as_array().unwrap();
    figures.iter().find(|gain| gain["figure"] == figure).unwrap_or_else(|| panic!("no figure {figure}")).clone()
}

/// The seeds of each policy.
fn seeds(folder: &Folder) -> BTreeMap<String, Vec<u64>> {
    let mut seeds: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (policy, seed, _) in ipam_reports::conflicts::advice::read_bursts(&folder.text("bursts.csv")).unwrap() {
        seeds.entry(policy).or_default().push(seed);
    }
    seeds
}

#[test]
fn writers_in_lock_step_are_pulled_apart_by_jitter_as_the_independent_model_says() {
    let folder = Folder::missing("advise-lock-step");
    let said = done("conflicts", "--vary instances=8 --advise --seeds 200 --precision 50%", &folder.0);
    let all = ranked(&folder);
    // B §8.3: 31.8 % give up with `DefaultBackoff`, none with 12 attempts and full jitter; a single writer has no conflicts.
    let share = |policy: &str| gain(&all, policy, "calls that give up")["with"]["value"].as_f64().unwrap();
    assert!((100.0 * share("today: default-backoff") - 31.8).abs() < 4.0, "{said}");
    for policy in ["12 attempts, full jitter up to 500ms", "one allocator for all", "a Lease for the pool"] {
        assert!(share(policy) < 0.01, "{policy}: {said}");
        let gain = gain(&all, policy, "calls that give up");
        assert!(gain["significant"] == true && gain["difference"]["high"].as_f64().unwrap() < -0.2, "{gain}");
    }
    assert!(share("full jitter") < share("today: default-backoff"), "{said}");
    // Two writers at each of four pools: half a conflict per call, as the model predicts for two.
    let conflicts = |policy: &str| gain(&all, policy, "conflicts per call")["with"]["value"].as_f64().unwrap();
    assert!((conflicts("4 pools") - 0.5).abs() < 0.02, "{said}");
    assert!((conflicts("12 attempts, full jitter up to 500ms") - 1.75).abs() < 0.1, "{said}");
    assert_eq!(conflicts("one allocator for all"), 0.0, "{said}");
    let place = |policy: &str| all.iter().position(|one| one["policy"] == policy).unwrap();
    assert!(place("12 attempts, full jitter up to 500ms") < place("today: default-backoff"), "{said}");
    assert!(said.starts_with("With ") && said.contains("0.0 % of the calls give up instead of 3"), "{said}");
    assert!(folder.0.join("advice.svg").exists() && folder.text("index.html").contains("best first"));
    assert_eq!(folder.text("advice.csv").lines().count(), 1 + all.len() * 5);
}

#[test]
fn all_policies_have_the_same_bursts() {
    let folder = Folder::missing("advise-pairs");
    done("conflicts", "--vary instances=4 --vary spread=20ms --advise --seeds 30 --precision 50%", &folder.0);
    let seeds = seeds(&folder);
    let today = &seeds["today: default-backoff"];
    assert_eq!(today.len(), 30);
    assert!(seeds.values().all(|other| other == today), "{seeds:?}");
    // A single writer never retries: on the same seeds, and only on these, its times are the same to the last digit, whatever the policy.
    let alone = Folder::missing("advise-alone");
    let said = done("conflicts", "--vary instances=1 --advise --seeds 30", &alone.0);
    let all = ranked(&alone);
    for policy in ["jitter 100 %", "full jitter", "12 attempts up to 250ms", "base 50ms"] {
        for figure in ["time to allocate, p50", "time to allocate, p99"] {
            let gain = gain(&all, policy, figure);
            assert!(gain["today"]["value"].as_f64().unwrap() > 0.01, "{gain}");
            assert_eq!((gain["difference"]["value"].as_f64(), &gain["significant"]), (Some(0.0), &Value::Bool(false)), "{policy}: {gain}");
        }
    }
    assert!(said.starts_with("Nothing that was tried is better than today: default-backoff for certain"), "{said}");
}

#[test]
fn records_that_upstream_loses_are_kept_by_whoever_decides_again() {
    let folder = Folder::missing("advise-once");
    let asked = "--vary instances=4 --vary update=decides-once --advise --seeds 60 --precision 50%";
    let said = done("conflicts", asked, &folder.0);
    let all = ranked(&folder);
    let lost = |policy: &str| gain(&all, policy, "lost records per burst")["with"]["value"].as_f64().unwrap();
    assert_eq!((lost("today: default-backoff"), lost("decides again")), (3.0, 0.0), "{said}");
    let place = |policy: &str| all.iter().position(|one| one["policy"] == policy).unwrap();
    assert!(place("decides again") < place("full jitter") && place("decides again") < place("today: default-backoff"), "{said}");
    // Whether interrupted or not, the same question gets the same answer.
    let files = |folder: &Folder| ["advice.csv", "bursts.csv", "report.json", "index.html"].map(|name| folder.text(name));
    let whole = files(&folder);
    cut(&folder, "tried.csv", 3);
    cut(&folder, "bursts.csv", 150);
    done("conflicts", &format!("{asked} --jobs 1"), &folder.0);
    assert!(whole == files(&folder), "what was finished is kept, and the rest is what it would have been");
}

#[test]
fn agents_of_spiderpool_are_advised_too() {
    let folder = Folder::missing("advise-agents");
    let said = done("conflicts", "--system spiderpool --vary nodes=8 --vary start=together --advise --seeds 40 --precision 50%", &folder.0);
    let all = ranked(&folder);
    let conflicts = |policy: &str| gain(&all, policy, "conflicts per call")["with"]["value"].as_f64().unwrap();
    // Two agents at each of four pools have half a conflict per call.
    assert!((conflicts("4 pools") - 0.5).abs() < 0.05, "{said}");
    assert!(conflicts("today: hardened") > 2.0, "{said}");
    let gives_up = gain(&all, "12 attempts, full jitter up to 500ms", "calls that give up");
    assert!(gives_up["significant"] == true && gives_up["with"]["value"].as_f64().unwrap() < 0.01, "{gives_up}");
}

#[test]
fn what_is_no_one_point_gets_one_sentence() {
    let folder = Folder::missing("advise-wrong");
    for (asked, expected) in [
        ("--advise", "`--advise` needs to know how many adaptors share the pool; add e.g. `--vary instances=8`"),
        ("--advise --vary instances=2..8", "`instances` has 3 values; give it one"),
        ("--advise --vary instances=8 --against old", "cannot be used with '--against <OLD>'"),
        ("--advise --from points.csv", "cannot be used with '--from <FILE>'"),
    ] {
        refused("conflicts", asked, &folder.0, expected);
    }
    assert!(!folder.0.exists(), "nothing was done");
}
