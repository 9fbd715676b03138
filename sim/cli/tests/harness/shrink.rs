//! Shrinking of the counter's failures.

use sim_harness::check::ClaimName;
use sim_harness::plan::Plan;
use sim_harness::world::Stage;
use std::cell::Cell;
use std::path::Path;

use ipam_reports::shrink::{CutOff, Size};
use sim_byom::Plans;
use sim_config::Source;
use sim_config::time::SimTime;

use sim_harness::engine::load::stage;
use sim_harness::engine::run::run_plan;
use sim_harness::engine::shrink::*;
use sim_harness::scenario::Scenario;
use sim_harness::system::RunOptions;
use sim_harness::world::Outcome;

struct Nobody;
impl Watch for Nobody {}

const LIMITS: ShrinkOptions = ShrinkOptions { runs: 2_000, events: u64::MAX, until: None };

fn scenario(file: &str, change: impl FnOnce(&mut Scenario)) -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(file);
    let mut scenario = Scenario::read(&path).unwrap_or_else(|problems| panic!("{problems}"));
    change(&mut scenario);
    scenario
}

fn deviating(scenario: &mut Scenario) {
    scenario.deviations = vec![sim_harness::deviation::DeviationName::new("counter-decides-once").unwrap()];
}

fn nothing() -> Stage {
    stage(&[]).unwrap()
}

fn claim(name: &str) -> ClaimName {
    ClaimName::new(name).unwrap()
}

fn outcome(plan: &Plan) -> Outcome {
    run_plan(plan, &nothing(), RunOptions::default()).unwrap()
}

/// The plans of the first `count` seeds that violate `claim`.
fn failing(scenario: &Scenario, claim: &ClaimName, count: usize) -> Vec<Plan> {
    let violated = |plan: &Plan| trial::first_violation(&outcome(plan), claim).is_some();
    let plans: Vec<Plan> = (0..200).map(|seed| scenario.draw(seed)).filter(violated).take(count).collect();
    assert_eq!(plans.len(), count, "{claim} is violated too seldom");
    plans
}

fn shrunk(plan: &Plan, claim: &ClaimName) -> Found {
    shrink(plan, &nothing(), claim, LIMITS, &Nobody).unwrap().expect("the plan fails")
}

#[test]
fn failures_of_the_negative_scenarios_become_small_and_are_what_they_were() {
    for file in ["negative/counter-decides-once.toml", "negative/counter-blind-writer.toml"] {
        let scenario = scenario(file, |_| {});
        let claim = scenario.expect.clone().unwrap();
        for plan in failing(&scenario, &claim, 5) {
            let Found { plan: small, violation, shrunk, needs, .. } = shrunk(&plan, &claim);
            let (Size { ops, faults, .. }, needs) = (shrunk.size, needs.unwrap());
            assert!(ops <= 10 && faults <= 2, "{file}, seed {}: {shrunk}", plan.seed);
            assert!(shrunk.runs <= 500 && shrunk.cut_off.is_none(), "{file}, seed {}: {shrunk}", plan.seed);
            assert!(small.problems(Source::new("", "")).is_empty());
            assert!(needs.faults.iter().all(|fault| fault.needed) && needs.deviations.iter().all(|deviation| deviation.needed));
            // Reading its file gives the same run.
            let read: Plan = sim_config::toml::from_str("small.toml", &small.to_toml()).unwrap();
            let outcome = outcome(&read);
            let recorded = read.recorded.as_ref().unwrap();
            assert_eq!((recorded.digest, &recorded.plan), (outcome.digest, &read.fingerprint()));
            assert_eq!(trial::first_violation(&outcome, &claim), Some(&violation));
        }
    }
}

#[test]
fn the_same_plan_shrinks_to_the_same_plan_in_as_many_runs() {
    let scenario = scenario("smoke/counter-faults.toml", deviating);
    let claim = claim("counter-never-goes-back");
    for plan in failing(&scenario, &claim, 3) {
        let [one, other] = [shrunk(&plan, &claim), shrunk(&plan, &claim)];
        assert_eq!(one.plan.to_toml(), other.plan.to_toml());
        assert_eq!((one.shrunk, one.needs), (other.shrunk, other.needs));
    }
}

#[test]
fn a_shrunk_plan_does_not_shrink_any_further() {
    let scenario = scenario("smoke/counter-faults.toml", deviating);
    let claim = claim("no-increment-is-lost");
    let small = shrunk(&failing(&scenario, &claim, 1)[0], &claim);
    let again = shrunk(&small.plan, &claim);
    assert_eq!((again.shrunk.size.ops, again.shrunk.size.faults), (small.shrunk.size.ops, small.shrunk.size.faults));
}

#[test]
fn what_never_comes_true_keeps_its_bound_and_all_operations_before_the_faults_heal() {
    // A process that stays down for longer than the bound.
    let text = r#"
        name = "stuck"
        why = "a test"
        [phases]
        safety = "20s"
        liveness = "30s"
        [workload]
        kind = "counter"
        clients = 3
        increments = 4
        think = "100ms..2s"
        [[fault]]
        kind = "loss"
        chance = 0.1
        [[fault]]
        kind = "crash"
        at = "5s"
        process = "client-1"
        [[fault]]
        kind = "forbidden"
        at = "1s"
        for = "19s"
        client = "client-*"
        [check]
        always = ["no-increment-is-lost"]
        eventually = [{ claim = "every-increment-ends", within = "100ms" }]
    "#;
    let scenario =
        Scenario::parse(Path::new("stuck.toml"), Source::new("stuck.toml", text)).unwrap_or_else(|problems| panic!("{problems}"));
    let claim = claim("every-increment-ends");
    let plan = failing(&scenario, &claim, 1).remove(0);
    let found = shrunk(&plan, &claim);
    assert_eq!(found.plan.check.eventually, plan.check.eventually);
    assert_eq!(found.plan.end_at, found.plan.heal_at + plan.check.eventually[0].within.0);
    assert!(found.plan.op.iter().all(|op| op.common.at <= found.plan.heal_at), "{}", found.plan.to_toml());
    assert_eq!((found.plan.op.len(), found.plan.fault.len()), (1, 1), "{}", found.plan.to_toml());
    let needs = found.needs.unwrap();
    assert!(needs.holds_without_faults && needs.faults[0].needed, "{needs}");
    assert!(found.plan.heal_at < SimTime::from_secs(5));
}

#[test]
fn whoever_is_to_bring_about_what_never_comes_true_stays() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ci/regressions/spiderpool-count-waits-for-a-dead-connection.toml");
    let text = std::fs::read_to_string(path).unwrap().replace("deviations = []", "deviations = [\"waits-without-end\"]");
    let plan: Plan = sim_config::toml::from_str("plan.toml", &text).unwrap();
    let Found { plan: small, shrunk, .. } = shrunk(&plan, &claim("total-counts-come-right"));
    assert!(small.workload.work().has_controllers(), "without a controller nobody counts: {shrunk}");
}

#[test]
fn a_plan_that_holds_does_not_shrink() {
    let plan = scenario("smoke/counter-calm.toml", |_| {}).draw(1);
    assert!(shrink(&plan, &nothing(), &claim("no-increment-is-lost"), LIMITS, &Nobody).unwrap().is_none());
}

#[test]
fn a_limit_keeps_the_smallest_plan_so_far() {
    let scenario = scenario("smoke/counter-faults.toml", deviating);
    let claim = claim("no-increment-is-lost");
    let plan = failing(&scenario, &claim, 1).remove(0);
    for (options, cut_off) in [
        (ShrinkOptions { runs: 1, ..LIMITS }, CutOff::Runs),
        (ShrinkOptions { runs: 4, ..LIMITS }, CutOff::Runs),
        (ShrinkOptions { events: 1, ..LIMITS }, CutOff::Events),
        (ShrinkOptions { until: Some(std::time::Instant::now()), ..LIMITS }, CutOff::Time),
    ] {
        let found = shrink(&plan, &nothing(), &claim, options, &Nobody).unwrap().unwrap();
        assert_eq!(found.shrunk.cut_off, Some(cut_off));
        assert!(found.shrunk.size.ops <= plan.op.len() as u64);
        assert!(trial::first_violation(&outcome(&found.plan), &claim).is_some());
    }
}

#[test]
fn who_has_enough_waits_for_one_run_at_the_most() {
    /// Stops after some runs.
    struct Enough {
        after: u64,
        ran: Cell<u64>,
    }
    impl Watch for Enough {
        fn stop(&self) -> bool {
            self.ran.get() >= self.after
        }

        fn ran(&self, _: bool) {
            self.ran.set(self.ran.get() + 1);
        }
    }
    let scenario = scenario("smoke/counter-faults.toml", deviating);
    let claim = claim("no-increment-is-lost");
    let plan = failing(&scenario, &claim, 1).remove(0);
    let whole = shrunk(&plan, &claim).shrunk.runs;
    for after in [1, 2, whole - 1] {
        let watch = Enough { after, ran: Cell::new(0) };
        let found = shrink(&plan, &nothing(), &claim, LIMITS, &watch).unwrap().unwrap();
        assert_eq!((watch.ran.get(), found.shrunk.cut_off), (after, Some(CutOff::Interrupted)));
        assert_eq!(found.needs, None, "it was found out of {after} runs of {whole}");
        assert!(trial::first_violation(&outcome(&found.plan), &claim).is_some());
        let watch = Enough { after: 1, ran: Cell::new(0) };
        assert_eq!((needs_of(&plan, &nothing(), &claim, &watch), watch.ran.get()), (None, 1));
    }
}

#[test]
fn two_faults_of_which_each_is_enough_are_named_together() {
    let mut plan = failing(&scenario("negative/counter-blind-writer.toml", |_| {}), &claim("counter-never-goes-back"), 1).remove(0);
    let again = plan.fault[0].clone();
    plan.fault.push(again);
    let needs = needs_of(&plan, &nothing(), &claim("counter-never-goes-back"), &Nobody).unwrap();
    assert!(needs.holds_without_faults && needs.faults.iter().all(|fault| !fault.needed));
    assert_eq!(needs.together.len(), 1, "{needs}");
}

#[test]
fn a_crash_in_a_pool_of_pods_shrinks_to_one_node_and_nobody_who_does_not_matter() {
    // Like the threads of the program that run plans.
    let thread = std::thread::Builder::new().stack_size(sim_harness::engine::STACK_BYTES).spawn(shrink_a_crash_in_a_pool).unwrap();
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

fn shrink_a_crash_in_a_pool() {
    let text = r#"
        name = "null-map"
        why = "a test"
        deviations = ["byom-null-map", "byom-select-first", "byom-four-attempts"]
        [phases]
        safety = "2m"
        liveness = "5m"
        [workload]
        kind = "byom"
        nodes = 4
        controllers = 2
        addresses = 8
        pods = 6
        edits = 1
        edit = "null-map"
        events = "10s..40s"
        [[fault]]
        kind = "pause"
        process = "one:adaptor-*"
        [[fault]]
        kind = "partition"
        from = "one:adaptor-*"
        to = "apiserver-*"
        for = "1s..5s"
        [check]
        always = ["no-process-panics"]
    "#;
    let source = Source::new("null-map.toml", text);
    let scenario = Scenario::parse(Path::new("null-map.toml"), source).unwrap_or_else(|problems| panic!("{problems}"));
    let claim = claim("no-process-panics");
    for plan in failing(&scenario, &claim, 2) {
        let Found { plan: small, needs, shrunk, .. } = shrunk(&plan, &claim);
        assert!(small.workload.work().sensible(&small.op), "{}", small.to_toml());
        let Some(Plans::Pods(pods)) = small.workload.get() else { panic!("another workload") };
        assert_eq!((pods.nodes, pods.controllers, small.cluster.api_servers), (1, 1, 1), "{shrunk}");
        assert!(shrunk.size.ops <= 3 && shrunk.size.faults == 0, "{shrunk}");
        assert_eq!(needs.unwrap().to_string(), "no fault, but the mutation byom-null-map; passes without it");
    }
}
