//! Schedules of several faults.

use kube_sim::fault::FaultTargets;
use kube_sim::fault::{Fault, FaultKind};
use sim_config::draw::Concern;
use sim_config::draw::Draw;
use sim_config::kinds::Kinds;
use sim_config::kinds::With;
use sim_config::time::{SimTime, Span};
use sim_counter::Operation;
use sim_harness::operation::Turn;
use sim_harness::swarm::Setting;
use sim_harness::swarm::pattern::*;

fn drawn(pattern: Pattern, seed: u64, names: &[&str]) -> Vec<Fault> {
    let targets = FaultTargets { processes: vec!["client-0".into()], resources: vec!["configmaps".into()], ..FaultTargets::default() };
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let ops = [With { common: Turn { at: SimTime::from_secs(20), actor: "client-0".into() }, kind: Operation::Increment.into() }];
    let setting = Setting { seed, safety: Span::secs(100), targets: &targets, ops: &ops, names: &names };
    pattern.draw(&setting, Span::secs(1), Span::secs(10), &mut Draw::new(seed, Concern::Faults, 0))
}

const NAMES: [&str; 3] = ["apiserver-0", "apiserver-1", "client-0"];

#[test]
fn a_stale_state_moves_a_process_from_the_present_to_the_past() {
    let mut crashes = 0;
    for seed in 0..20 {
        let faults = drawn(Pattern::StaleState, seed, &NAMES);
        let frozen = faults.iter().find_map(|fault| match &fault.kind {
            FaultKind::ApiServerFreeze(freeze) => Some((fault.common.at, fault.common.lasts.unwrap(), freeze.server.clone())),
            _ => None,
        });
        let (begin, lasts, behind) = frozen.unwrap();
        let moves: Vec<_> = faults
            .iter()
            .filter_map(|fault| match &fault.kind {
                FaultKind::Reconnect(reconnect) => Some((fault.common.at, reconnect.server.clone())),
                _ => None,
            })
            .collect();
        assert_eq!((moves[0].0, moves.len()), (begin, 2));
        assert_ne!(moves[0].1, behind);
        assert_eq!(moves[1].1, behind);
        let crashed = faults.iter().any(|fault| fault.kind.kind() == "crash");
        assert!(crashed || moves[1].0 < begin + lasts.0, "it travels while the caches stand still");
        crashes += u32::from(crashed);
        // Other events happen meanwhile.
        assert!((begin..=begin + lasts.0).contains(&SimTime::from_secs(20)));
    }
    assert!((1..20).contains(&crashes));
    assert_eq!(drawn(Pattern::StaleState, 0, &NAMES[1..]), [], "one API server has no other that is behind");
}

#[test]
fn what_is_not_observed_happens_while_all_caches_stand_still() {
    let lost = (0..20).filter(|&seed| {
        let faults = drawn(Pattern::UnobservedState, seed, &NAMES);
        let window = &faults[0].common;
        assert!((window.at..=window.at + window.lasts.unwrap().0).contains(&SimTime::from_secs(20)));
        faults.get(1).is_some_and(|second| second.common.at == window.at + window.lasts.unwrap().0)
    });
    assert!((1..20).contains(&lost.count()));
}

#[test]
fn an_intermediate_state_is_hit_at_writes_in_a_row() {
    for seed in 0..20 {
        let nth: Vec<u32> = drawn(Pattern::IntermediateState, seed, &NAMES)
            .iter()
            .map(|fault| match &fault.kind {
                FaultKind::CrashAtWrite(crash) => crash.nth,
                kind => panic!("{kind:?}"),
            })
            .collect();
        assert!(nth.windows(2).all(|pair| pair[1] == pair[0] + 1) && (1..=3).contains(&nth.len()), "{nth:?}");
    }
}
