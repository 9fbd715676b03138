//! Runs that would never end, or not within an acceptable time.

use std::fs;

use super::{ipam_sim, scenario, scratch};

const NO_PAUSE: &str = "workload.settings.SPIDERPOOL_GC_DEFAULT_INTERVAL_DURATION=\"0\"";

#[test]
fn a_pause_of_0_spends_the_events_of_a_run_and_the_failure_says_who_spins() {
    let (file, out) = (scenario("smoke/reclaim-calm.toml"), scratch("spins"));
    let folder = out.display().to_string();
    let args = ["run", &file, "--seeds", "1", "--set", NO_PAUSE, "--set", "max_events=20000", "--no-shrink", "--out", &folder];
    let (code, told, err) = ipam_sim(&args);
    assert_eq!(code, 3, "{told}{err}");
    assert!(told.contains("FAIL  runs-end-within-their-events    seed 0"), "{told}");
    assert!(told.contains("the run had its 20,000 events at ") && told.contains(" of 480.000 s"), "{told}");
    assert!(
        told.contains("spiderpool-controller-") && told.contains(" of the next 2,000 events, in ") && told.contains("has scanned"),
        "{told}"
    );
    // The plan contains the budget, and ends in the same way.
    let plan = out.join("reclaim-calm-0.toml").display().to_string();
    assert!(told.contains(&format!("replay  ipam-sim replay {plan} --trace")), "{told}");
    let (code, replayed, _) = ipam_sim(&["replay", &plan]);
    assert!(code == 3 && replayed.contains("   as recorded\n") && replayed.contains("runs-end-within-their-events"), "{replayed}");
}

#[test]
fn the_budget_changes_nothing_of_a_run_that_keeps_it() {
    let file = scenario("smoke/reclaim-calm.toml");
    let digest = |more: &[&str]| {
        let (_, out, _) = ipam_sim(&[&["run", &file, "--seeds", "2", "--no-plans", "--format", "json"], more].concat());
        serde_json::from_str::<serde_json::Value>(&out).unwrap()["scenarios"][0]["digest"].clone()
    };
    assert_eq!(digest(&[]), digest(&["--set", "max_events=1000000000"]));
    assert_eq!(digest(&[]), digest(&["--set", "max_events=20000"]), "a seed of it has some thousands");
    // A run with a few more events than its budget ends as usual, and that is reported.
    assert_eq!(digest(&[]), digest(&["--set", "max_events=1800"]));
    assert_eq!(ipam_sim(&["run", &file, "--seeds", "2", "--no-plans", "--set", "max_events=1800"]).0, 3);
}

#[test]
fn a_pause_of_0_is_warned_of_and_a_budget_of_0_is_refused() {
    let folder = scratch("checked");
    let text = fs::read_to_string(scenario("negative/reclaim.toml")).unwrap();
    let interval = "SPIDERPOOL_GC_DEFAULT_INTERVAL_DURATION = \"30\"";
    assert!(text.contains(interval));
    let file = folder.join("restless.toml");
    fs::write(&file, text.replace(interval, "SPIDERPOOL_GC_DEFAULT_INTERVAL_DURATION = \"0\"")).unwrap();
    let (code, out, err) = ipam_sim(&["check", &file.display().to_string()]);
    assert_eq!(code, 0, "{out}{err}");
    let line = text.lines().position(|line| line == interval).unwrap() + 1;
    let told = format!("restless.toml:{line}:43: warning: with `SPIDERPOOL_GC_DEFAULT_INTERVAL_DURATION` 0 a loop never rests");
    assert!(out.contains(&told), "{out}");
    let (code, _, err) = ipam_sim(&["run", &scenario("smoke/reclaim-calm.toml"), "--set", "max_events=0"]);
    assert!(code == 2 && err.contains("`max_events` is 0; at least 1"), "{err}");
}
