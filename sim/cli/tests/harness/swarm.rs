//! The faults that a swarm draws.

use kube_sim::fault::{Drawn, FaultDraft, FaultKind, FaultTargets, Inventory, Targeting, Trigger};
use sim_config::Source;
use sim_config::draw::{Concern, Draw};
use sim_config::kinds::Kinds;
use sim_config::time::Span;
use std::collections::BTreeSet;
use std::path::Path;

use kube_sim::kinds::Registry;
use sim_harness::plan::Plan;
use sim_harness::scenario::Scenario;
use sim_harness::swarm::*;

fn scenario(swarm: Swarm) -> Scenario {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/smoke/byom-calm.toml");
    Scenario { swarm: Some(swarm), ..Scenario::read(&file).unwrap() }
}

fn plans(swarm: &Swarm, seeds: u64) -> Vec<Plan> {
    let scenario = scenario(swarm.clone());
    (0..seeds).map(|seed| scenario.draw(seed)).collect()
}

fn kinds(plan: &Plan) -> BTreeSet<&'static str> {
    plan.fault.iter().map(|fault| fault.kind.kind()).collect()
}

#[test]
fn every_kind_is_drawn_and_every_drawn_plan_is_sound() {
    let mut seen = BTreeSet::new();
    for plan in plans(&Swarm::default(), 300) {
        let problems = plan.problems(Source::new("plan", ""));
        assert!(problems.is_empty(), "seed {}: {problems}", plan.seed);
        seen.extend(kinds(&plan));
    }
    // The workload names neither kubelets with plugins nor addresses, nodes, leases or webhooks.
    let fitting = |targets: FaultTargets| {
        let fits = |kind: &&str| {
            let mut draw = Draw::new(1, Concern::Faults, 0);
            FaultDraft::targeting(kind, &Targeting::draw(&targets, &mut draw)).is_some()
        };
        FaultKind::KINDS.iter().copied().filter(fits).collect::<BTreeSet<&str>>()
    };
    let some = |name: &str| vec![name.to_owned()];
    let without =
        FaultTargets { processes: some("p"), hosts: some("h"), resources: some("pods"), objects: some("o"), ..FaultTargets::default() };
    let by_default = |kind: &&str| matches!(FaultKind::drawn(kind), Some(Drawn::ByDefault(())));
    assert_eq!(seen, fitting(without.clone()).into_iter().filter(by_default).collect());
    let with = FaultTargets {
        processes: vec!["p".to_owned(), "q".to_owned()],
        kubelets: some("kubelet-0"),
        addresses: some("10.0.0.1"),
        nodes: some("node-0"),
        leases: some("leases/default/l"),
        webhooks: some("p"),
        ..without
    };
    let drawn = FaultKind::KINDS.iter().copied().filter(|kind| !matches!(FaultKind::drawn(kind), Some(Drawn::IfTuned(_)))).collect();
    assert_eq!(fitting(with), drawn, "those that name them get faults about them");
}

#[test]
fn priorities_are_drawn_only_by_swarms_that_name_them_and_change_nothing_else_there() {
    let named = |names: &[&str]| names.iter().map(|name| SwarmName::new(name).unwrap()).collect::<Vec<_>>();
    let hostile = Swarm { profiles: ProfileWeights { calm: 0, mixed: 0, hostile: 1 }, ..Swarm::default() };
    let usual = plans(&hostile, 20);
    assert!(usual.iter().all(|plan| !kinds(plan).contains("priorities")));
    let also = plans(&Swarm { also: named(&["priorities"]), ..hostile.clone() }, 20);
    assert!(also.iter().filter(|plan| kinds(plan).contains("priorities")).count() >= 5);
    for (with, without) in also.into_iter().zip(usual) {
        let others: Vec<_> = with.fault.into_iter().filter(|fault| fault.kind.kind() != "priorities").collect();
        assert_eq!(others, without.fault);
    }
    let only = plans(&Swarm { only: named(&["priorities"]), ..hostile.clone() }, 20);
    assert!(only.iter().any(|plan| !plan.fault.is_empty()));
    assert!(only.iter().all(|plan| kinds(plan).iter().all(|kind| *kind == "priorities")));
}

#[test]
fn what_swarms_do_not_draw_of_themselves_they_draw_with_stated_parameters() {
    let hostile = Swarm { profiles: ProfileWeights { calm: 0, mixed: 0, hostile: 1 }, ..Swarm::default() };
    let tuned = Swarm { tune: vec![FaultDraft::of("change-late").unwrap()], ..hostile.clone() };
    assert!(plans(&hostile, 20).iter().all(|plan| !kinds(plan).contains("change-late")));
    assert!(plans(&tuned, 20).iter().any(|plan| kinds(plan).contains("change-late")));
    let types = Registry::new(kube_sim::kinds::builtin());
    let names = ["client-0".to_owned()];
    let problems = |swarm: &Swarm| swarm.problems(Source::new("", ""), &Inventory { names: &names, types: &types }).to_string();
    let named = vec![SwarmName::new("change-late").unwrap()];
    for swarm in [Swarm { only: named.clone(), ..hostile.clone() }, Swarm { also: named.clone(), ..hostile }] {
        assert!(problems(&swarm).contains("no swarm draws `change-late` of itself: which change is late"), "{}", problems(&swarm));
    }
    assert_eq!(problems(&Swarm { only: named, ..tuned }), "");
}

#[test]
fn some_runs_are_calm_and_some_are_hostile() {
    let count = |plan: &Plan| kinds(plan).len();
    let plans = plans(&Swarm::default(), 200);
    let calm = plans.iter().filter(|plan| plan.fault.is_empty()).count();
    let hostile = plans.iter().filter(|plan| count(plan) >= 12).count();
    assert!((5..60).contains(&calm), "{calm} runs are calm");
    assert!((20..100).contains(&hostile), "{hostile} runs are hostile");
    let calm_only = Swarm { profiles: ProfileWeights { calm: 1, mixed: 0, hostile: 0 }, ..Swarm::default() };
    assert!(self::plans(&calm_only, 20).iter().all(|plan| plan.fault.is_empty()));
}

#[test]
fn a_kind_that_is_left_out_changes_nothing_about_the_others() {
    let without = Swarm { without: vec![SwarmName::new("pause").unwrap()], ..Swarm::default() };
    let mut left_out = 0;
    for (whole, less) in plans(&Swarm::default(), 60).iter().zip(plans(&without, 60)) {
        let mut rest = whole.fault.clone();
        rest.retain(|fault| fault.kind.kind() != "pause");
        left_out += whole.fault.len() - rest.len();
        assert_eq!(rest, less.fault, "seed {}", whole.seed);
    }
    assert!(left_out > 0);
}

#[test]
fn faults_of_a_kind_neither_flap_nor_overlap() {
    let swarm = Swarm { without: PATTERNS.iter().filter_map(|pattern| SwarmName::new(pattern.name())).collect(), ..Swarm::default() };
    let mut pairs = 0;
    for plan in plans(&swarm, 200) {
        for kind in kinds(&plan) {
            let of_kind: Vec<_> = plan.fault.iter().filter(|fault| fault.kind.kind() == kind).collect();
            for pair in of_kind.windows(2) {
                let lasts = pair[0].common.lasts.unwrap_or(Span::secs(0));
                assert!(pair[1].common.at >= pair[0].common.at + lasts.0 + swarm.gap.0, "{kind} of seed {}", plan.seed);
                pairs += 1;
            }
            for lasts in of_kind.iter().filter_map(|fault| fault.common.lasts) {
                assert!((swarm.shortest..=swarm.longest).contains(&lasts), "{kind} of seed {}", plan.seed);
            }
        }
    }
    assert!(pairs > 50);
}

#[test]
fn only_what_is_named_is_drawn_and_a_swarm_of_nothing_is_a_problem() {
    let only = |names: &[&str]| names.iter().filter_map(|name| SwarmName::new(name)).collect::<Vec<_>>();
    let swarm = Swarm { only: only(&["crash", "hold"]), profiles: ProfileWeights { calm: 0, mixed: 0, hostile: 1 }, ..Swarm::default() };
    let seen: BTreeSet<_> = plans(&swarm, 40).iter().flat_map(kinds).collect();
    assert_eq!(seen, ["crash", "hold"].into());
    let types = Registry::new(kube_sim::kinds::builtin());
    let problems = |swarm: &Swarm| swarm.problems(Source::new("", ""), &Inventory { names: &[], types: &types }).to_string();
    assert_eq!(problems(&swarm), "");
    assert!(problems(&Swarm { without: only(&["crash", "hold"]), ..swarm.clone() }).contains("no kind of fault left"));
    assert!(problems(&Swarm { shortest: Span::secs(90), ..swarm.clone() }).contains("is longer than"));
    let nothing = ProfileWeights { calm: 0, mixed: 0, hostile: 0 };
    assert!(problems(&Swarm { profiles: nothing, ..swarm }).contains("has no weight"));
}

#[test]
fn some_faults_begin_with_changes_of_what_the_workload_uses() {
    let plans = plans(&Swarm::default(), 200);
    let faults = plans.iter().flat_map(|plan| &plan.fault).filter(|fault| fault.kind.begins() == Trigger::Window);
    let (at_changes, others): (Vec<_>, Vec<_>) = faults.partition(|fault| !fault.common.when.is_empty());
    let share = at_changes.len() as f64 / (at_changes.len() + others.len()) as f64;
    assert!((0.1..0.3).contains(&share), "{share}");
    let objects: BTreeSet<&str> = at_changes.iter().flat_map(|fault| &fault.common.when).map(|change| change.object.as_str()).collect();
    assert!(objects.contains("configmaps/*"), "{objects:?}");
    let at_requests = plans.iter().flat_map(|plan| &plan.fault).filter(|fault| fault.kind.begins().is_request());
    assert!(at_requests.clone().count() > 10 && at_requests.into_iter().all(|fault| fault.common.when.is_empty()));
}
