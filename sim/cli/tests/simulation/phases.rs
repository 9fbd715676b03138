//! The three phases of a run: faults, a heal after which some damage may be permanent, and what must come true afterwards.

use std::path::Path;

use kube_sim::fault::is_for_good;
use sim_config::Choice;
use sim_config::time::Span;
use sim_harness::scenario::{Heal, Scenario};
use sim_harness::system::RunOptions;
use sim_harness::world::{Stage, run};

fn scenario(file: &str) -> Scenario {
    Scenario::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(file))
        .unwrap_or_else(|problems| panic!("{problems}"))
}

fn with_core(file: &str) -> Scenario {
    let mut scenario = scenario(file);
    scenario.phases.heal = Choice::Is(Heal::Core);
    scenario
}

#[test]
fn a_core_always_heals_and_the_rest_often_does_not() {
    let scenario = with_core("smoke/byom-calm.toml");
    let mut broken = 0;
    for seed in 0..100 {
        let plan = scenario.draw(seed);
        let lost = plan.lost_for_good();
        let survives = |prefix: &str| plan.names().iter().any(|name| name.starts_with(prefix) && !lost.contains(name));
        assert!(survives("apiserver-") && survives("node-"), "seed {seed}: {lost:?}");
        assert!(plan.fault.iter().all(|fault| is_for_good(fault) && fault.common.at < plan.heal_at));
        broken += u32::from(!lost.is_empty());
        // The result is an ordinary plan.
        let text = plan.to_toml();
        assert_eq!(sim_config::toml::from_str::<sim_harness::plan::Plan>("plan", &text).unwrap_or_else(|error| panic!("{error}")), plan);
    }
    assert!((50..=100).contains(&broken), "{broken}");
}

#[test]
fn what_stays_broken_changes_nothing_about_the_other_faults() {
    let swarm = |heal| {
        let mut scenario = scenario("chaos/counter-swarm.toml");
        scenario.phases.heal = Choice::Is(heal);
        scenario
    };
    for seed in 0..40 {
        let (all, mut core) = (swarm(Heal::All).draw(seed), swarm(Heal::Core).draw(seed));
        core.fault.retain(|fault| !is_for_good(fault));
        assert_eq!(core, all, "seed {seed}");
    }
}

#[test]
fn the_core_does_what_it_must_without_the_rest() {
    for (file, seeds) in [("chaos/counter-swarm.toml", 60), ("chaos/byom-swarm.toml", 15)] {
        let scenario = with_core(file);
        for seed in 0..seeds {
            let plan = scenario.draw(seed);
            let outcome = run(&plan, &Stage::new(Vec::new()), RunOptions::default());
            assert_eq!(outcome.violations, [], "{file}, seed {seed}, lost {:?}", plan.lost_for_good());
        }
    }
}

#[test]
fn what_does_not_come_true_tells_who_is_gone_and_what_the_others_met_last() {
    let mut plan = with_core("chaos/counter-swarm.toml").draw(1);
    // No client reaches any API server, permanently; the claim is about one client only.
    let text = r#"
        kind = "too-many-requests"
        chance = 1.0
        retry_after = 1
        server = "apiserver-*"
        client = "*"
        at = "0s"
        for = "forever"
    "#;
    plan.fault = vec![sim_config::toml::from_str("fault", text).unwrap_or_else(|error| panic!("{error}"))];
    let outcome = run(&plan, &Stage::new(Vec::new()), RunOptions::default());
    let late = outcome.violations.iter().find(|violation| violation.claim == "every-increment-ends").unwrap();
    assert!(late.detail[0].contains("have not come to an end"), "{:?}", late.detail);
    assert!(late.detail.iter().any(|line| line.contains("the last error of client-") && line.contains("429")), "{:?}", late.detail);
}

#[test]
fn a_fault_that_lasts_forever_is_not_healed() {
    let mut plan = scenario("smoke/counter-calm.toml").draw(1);
    let crash = |down: &str| format!("kind = \"crash\"\nprocess = \"client-0\"\ndown = \"{down}\"\nat = \"0s\"\n");
    let mut ends = |down: &str| {
        plan.fault = vec![sim_config::toml::from_str("fault", &crash(down)).unwrap_or_else(|error| panic!("{error}"))];
        let lost = plan.lost_for_good();
        let outcome = run(&plan, &Stage::new(Vec::new()), RunOptions { recording: true, ..RunOptions::default() });
        let (records, narrator) = outcome.recording.unwrap();
        let starts = records.iter().filter(|record| {
            let line = narrator.line(0, record);
            line.place == "client-0" && line.what == "starts"
        });
        (lost.contains("client-0"), starts.count())
    };
    assert_eq!(Span::FOREVER.to_string(), "forever");
    assert_eq!(ends("2s"), (false, 2));
    assert_eq!(ends("forever"), (true, 1));
}
