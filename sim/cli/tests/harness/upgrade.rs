//! Upgrades: processes that start in an older version, and the violations that this excuses.

use std::path::Path;

use sim_config::Source;
use sim_harness::check::ClaimName;
use sim_harness::engine::load::stage;
use sim_harness::engine::run::run_plan;
use sim_harness::engine::shrink::*;
use sim_harness::plan::Plan;
use sim_harness::scenario::Scenario;
use sim_harness::system::RunOptions;

struct Nobody;
impl Watch for Nobody {}

/// Clients that increment without a pause for 20 s; they have two versions until the last one is replaced after at most 8 s.
fn upgrade(more: &str) -> String {
    format!(
        r#"name = "upgrade"
why = "A test."
excuses = ["older-version"]
phases = {{ safety = "10s", liveness = "30s" }}
workload = {{ kind = "counter", clients = 3, increments = "200..300", think = "1ms..100ms" }}
check = {{ always = ["no-increment-is-lost"] }}
{more}
"#
    )
}

fn read(text: &str) -> Result<Scenario, String> {
    Scenario::parse(Path::new("upgrade.toml"), Source::new("upgrade.toml", text)).map_err(|problems| problems.to_string())
}

const OLDER: &str =
    r#"upgrade = { processes = "client-*", deviations = ["counter-decides-once"], at = "2s..4s", every = "2s", settles = "3s" }"#;

/// The violations in some seeds: their times and their excuses.
fn violations(scenario: &Scenario) -> Vec<(f64, Option<String>)> {
    let of_seed = |seed| run_plan(&scenario.draw(seed), &stage(&[]).unwrap(), RunOptions::default()).unwrap().violations;
    (0..10).flat_map(of_seed).map(|violation| (violation.at.as_f64(), violation.excuse)).collect()
}

#[test]
fn what_an_older_version_breaks_is_excused_until_nothing_is_left_of_it() {
    let found = violations(&read(&upgrade(OLDER)).unwrap());
    assert!(found.len() > 10, "{found:?}");
    assert!(found.iter().all(|(at, excuse)| excuse.as_deref() == Some("older-version") && *at < 11.1), "{found:?}");
    let admitted = upgrade(OLDER).replace(r#"["older-version"]"#, "[]");
    assert!(violations(&read(&admitted).unwrap()).iter().all(|(_, excuse)| excuse.is_none()));
}

#[test]
fn what_the_present_version_breaks_is_found_once_it_is_settled() {
    let mut scenario = read(&upgrade(OLDER)).unwrap();
    scenario.deviations = scenario.upgrade.as_ref().unwrap().deviations.clone();
    let found = violations(&scenario);
    let (early, late): (Vec<_>, Vec<_>) = found.iter().partition(|(at, _)| *at < 9.0);
    assert!(early.iter().all(|(_, excuse)| excuse.is_some()) && late.iter().any(|(_, excuse)| excuse.is_none()), "{found:?}");
    // Many excused violations do not hide it.
    assert!(early.len() >= 20, "{found:?}");
}

/// The same scenario with processes that start in the present version, and are rolled back to the older one between 2 and 7 s.
fn rolled_back() -> String {
    OLDER.replace(r#"at = "2s..4s""#, r#"rolled_back = "2s..3s", at = "7s..8s""#)
}

#[test]
fn what_a_roll_back_breaks_is_excused_while_the_older_version_runs_and_until_nothing_is_left_of_it() {
    let mut scenario = read(&upgrade(&rolled_back())).unwrap();
    let found = violations(&scenario);
    assert!(found.len() > 10, "{found:?}");
    let is_excused = |(at, excuse): &(f64, Option<String>)| excuse.as_deref() == Some("older-version") && (2.0..15.1).contains(at);
    assert!(found.iter().all(is_excused), "{found:?}");
    // The present version is judged before and after the older version runs.
    scenario.deviations = scenario.upgrade.as_ref().unwrap().deviations.clone();
    let judged: Vec<f64> = violations(&scenario).into_iter().filter(|(_, excuse)| excuse.is_none()).map(|(at, _)| at).collect();
    assert!(judged.iter().any(|at| *at < 3.0) && judged.iter().all(|at| *at < 3.0 || *at >= 14.0), "{judged:?}");
}

#[test]
fn each_process_is_rolled_back_before_it_is_replaced_or_stays_as_it_is() {
    let scenario = read(&upgrade(&rolled_back().replace(r#"every = "2s""#, r#"every = "4s""#))).unwrap();
    let upgrades: Vec<_> = (0..40).map(|seed| scenario.draw(seed).upgrade.unwrap()).collect();
    for upgrade in &upgrades {
        assert!(upgrade.rolled_back.keys().eq(upgrade.replaced.keys()));
        assert!(upgrade.rolled_back.iter().all(|(name, at)| *at < upgrade.replaced[name]), "{upgrade:?}");
    }
    assert!(upgrades.iter().any(|upgrade| upgrade.replaced.len() == 3) && upgrades.iter().any(|upgrade| upgrade.replaced.len() < 3));
}

#[test]
fn each_process_is_replaced_once_and_in_any_order() {
    let scenario = read(&upgrade(OLDER)).unwrap();
    let mut firsts = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let upgrade = scenario.draw(seed).upgrade.unwrap();
        let mut times: Vec<_> = upgrade.replaced.iter().map(|(name, at)| (*at, name.clone())).collect();
        times.sort();
        assert_eq!(times.len(), 3);
        assert!(times.windows(2).all(|two| two[1].0.since(two[0].0) == std::time::Duration::from_secs(2)), "{times:?}");
        assert_eq!(upgrade.settled.since(times[2].0), std::time::Duration::from_secs(3));
        firsts.insert(times[0].1.clone());
    }
    assert_eq!(firsts.len(), 3);
}

#[test]
fn a_share_of_the_deviations_is_drawn_for_each_run() {
    let some = OLDER.replace("at =", "share = 0.5, at =");
    let scenario = read(&upgrade(&some)).unwrap();
    let with = (0..100).filter(|seed| !scenario.draw(*seed).upgrade.unwrap().deviations.is_empty()).count();
    assert!((30..70).contains(&with), "{with}");
}

#[test]
fn an_upgrade_that_shows_nothing_is_refused() {
    for (upgraded, expected) in [
        (OLDER.replace("client-*", "agent-*"), "no process matches `upgrade.processes`, which is `agent-*`"),
        (OLDER.replace(r#"deviations = ["counter-decides-once"], "#, ""), "the older version of `[upgrade]` is the present one"),
        (OLDER.replace("at =", r#"without = ["counter-decides-once"], at ="#), "the older version of `[upgrade]` is the present one"),
        (
            OLDER.replace(r#"settles = "3s""#, r#"settles = "60s""#),
            "the upgrade may be settled after 68s only, and the run may end after 40s",
        ),
        (OLDER.replace("decides-once", "decides-twice"), "counter-decides-twice"),
        (rolled_back().replace("2s..3s", "2s..7s"), "the first process may be rolled back at 7s only, and be replaced at 7s"),
    ] {
        let error = read(&upgrade(&upgraded)).expect_err(&upgraded);
        assert!(error.contains(expected) && error.contains("upgrade.toml:7:"), "{error}");
    }
    let plan = read(&upgrade(OLDER)).unwrap().draw(0);
    for (from, to, expected) in [
        ("client-1 = ", "client-9 = ", "`upgrade.replaced` names the process `client-9`, which there is not"),
        ("settled = \"", "settled = \"1", "and the run ends at 40.000 s"),
    ] {
        let text = plan.to_toml().replace(from, to);
        let edited: Plan = sim_config::toml::from_str("plan.toml", &text).unwrap();
        let problems = edited.problems(Source::new("plan.toml", &text)).to_string();
        assert!(problems.contains(expected), "{problems}");
    }
}

#[test]
fn shrinking_takes_an_upgrade_away_that_a_failure_does_not_need() {
    let claim = ClaimName::new("no-increment-is-lost").unwrap();
    let shrunk = |scenario: &Scenario| {
        let plan = (0..20).map(|seed| scenario.draw(seed)).find(|plan| {
            let outcome = run_plan(plan, &stage(&[]).unwrap(), RunOptions::default()).unwrap();
            outcome.violations.iter().any(|violation| violation.excuse.is_none())
        });
        let options = ShrinkOptions { runs: 500, events: u64::MAX, until: None };
        shrink(&plan.expect("one fails"), &stage(&[]).unwrap(), &claim, options, &Nobody).unwrap().expect("the plan fails").plan
    };
    let mut present = read(&upgrade(OLDER)).unwrap();
    present.deviations = present.upgrade.as_ref().unwrap().deviations.clone();
    assert_eq!(shrunk(&present).upgrade, None);
    let older = read(&upgrade(OLDER).replace(r#"["older-version"]"#, "[]")).unwrap();
    let upgrade = shrunk(&older).upgrade.expect("it is the older version that fails");
    assert!((1..=2).contains(&upgrade.replaced.len()), "{upgrade:?}");
}
