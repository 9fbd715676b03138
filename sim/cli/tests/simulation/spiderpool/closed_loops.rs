//! Pods of a node that ask one after the other: the times of calls, and their requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use ipam_reports::pool::PoolCounts;
use kube_machinery::api::Verb;
use kube_sim::cluster::Logged;
use kube_sim::trace::record::What;
use sim_config::time::SimTime;
use sim_harness::deviation::Profile;
use sim_harness::engine::load::DeviationChange;
use sim_harness::scenario::Scenario;
use sim_harness::system::RunOptions;
use sim_harness::world::{Outcome, Stage, run};
use sim_spiderpool::workload::IpamNote;

/// A run of nodes whose pods ask one after the other for addresses of one pool, with these lines of a workload, and upstream's agents.
fn looped(workload: &str) -> Outcome {
    let text = format!(
        "name = 'loops'\nwhy = 'a test'\nphases = {{ safety = '1s', liveness = '100s' }}\n[workload]\nkind = 'spiderpool'\n\
         families = 'ipv4'\npools = 1\ndefault_pools = 1\naddresses = 100\nwishes = 'cluster-default'\n{workload}\n\
         [check]\nalways = ['no-address-has-two-live-sandboxes', 'answered-addresses-are-recorded', \
         'records-leave-only-for-their-own-uid']\n"
    );
    let mut scenario: Scenario = sim_config::toml::from_str("loops.toml", &text).unwrap_or_else(|problems| panic!("{problems}"));
    DeviationChange { profile: Some(Profile::Upstream), ..DeviationChange::default() }.apply(&mut scenario.deviations);
    let options = RunOptions { recording: true, planner: true, requests: true, ..RunOptions::default() };
    let outcome = run(&scenario.draw(1), &Stage::new(Vec::new()), options);
    assert_eq!((outcome.broken.as_ref(), outcome.violations.len()), (None, 0), "{:?}", outcome.violations);
    outcome
}

fn counts(outcome: &Outcome) -> PoolCounts {
    outcome.figures.pool.as_ref().unwrap().counts
}

/// One call of an agent.
#[derive(Debug)]
struct Call {
    add: bool,
    began: SimTime,
    ended: SimTime,
}

/// The calls of each agent, in the order in which they began.
fn calls(outcome: &Outcome) -> BTreeMap<u32, Vec<Call>> {
    let mut calls: BTreeMap<u32, Vec<Call>> = BTreeMap::new();
    for record in &outcome.recording.as_ref().unwrap().0 {
        let What::Note { process, note, .. } = &record.what else { continue };
        let of = calls.entry(process.0).or_default();
        match note.downcast_ref() {
            Some(IpamNote::AddBegun { .. }) => of.push(Call { add: true, began: record.at, ended: SimTime::NEVER }),
            Some(IpamNote::DelBegun { .. }) => of.push(Call { add: false, began: record.at, ended: SimTime::NEVER }),
            Some(IpamNote::AddEnded { .. } | IpamNote::DelEnded { .. }) => of.last_mut().unwrap().ended = record.at,
            _ => {}
        }
    }
    calls.retain(|_, calls| !calls.is_empty());
    calls
}

#[test]
fn the_calls_of_a_node_come_one_after_the_other_and_those_of_nodes_side_by_side() {
    let outcome = looped("nodes = 4\nclosed_loop = { times = 6, hold = '30s' }\nkubelet = { network_ready = '5s' }");
    let calls = calls(&outcome);
    assert_eq!(calls.len(), 4);
    let hold = SimTime::from_secs(35);
    for of in calls.values() {
        assert_eq!(of.iter().map(|call| call.add).collect::<Vec<_>>(), [[true; 6], [false; 6]].concat());
        assert_eq!((of[0].began, of[6].began), (SimTime::from_secs(5), hold), "all nodes begin together");
        for pair in of.windows(2) {
            // The socket takes no time: there is no pause between two calls.
            let next = if pair[0].add && !pair[1].add { hold } else { pair[0].ended };
            assert_eq!(pair[1].began, next, "{pair:?}");
        }
    }
    let counts = counts(&outcome);
    assert_eq!((counts.calls, counts.repeated, counts.releases), (24, 0, 24), "what fails is not asked again");
    assert!(counts.conflicts > 0 && counts.other_conflicts > 0, "{counts:?}");
}

#[test]
fn a_call_makes_the_requests_that_upstreams_program_makes_and_nobody_else_makes_any_meanwhile() {
    let outcome = looped("nodes = 3\nclosed_loop = { times = 4, hold = '30s' }\nkubelet = { network_ready = '5s' }");
    let counts = counts(&outcome);
    assert_eq!((counts.allocated, counts.exhausted, counts.other_exhausted), (12, 0, 0));
    let between = |from: u64, to: u64| {
        let mut sent: BTreeMap<(&str, Verb), u64> = BTreeMap::new();
        for (process, logged) in &outcome.requests {
            let Logged::Request(request) = logged else { continue };
            // A watch opens again whenever one has ended.
            if request.verb != Verb::Watch && request.at >= SimTime::from_secs(from) && request.at < SimTime::from_secs(to) {
                let who = if process.starts_with("agent-") { "agent" } else { &**process };
                *sent.entry((who, request.verb)).or_default() += 1;
            }
        }
        sent
    };
    // ADD: the pool is read and written, again after each conflict, and the endpoint is created; the first ADD of each agent also lists
    // pods and endpoints.
    let adds = [(Verb::Get, 12 + counts.conflicts), (Verb::Create, 12), (Verb::Update, 12 + counts.conflicts), (Verb::List, 6)];
    assert_eq!(between(5, 19), adds.map(|(verb, count)| (("agent", verb), count)).into());
    // DEL: pod, endpoint and pool are read, the pool is written, the endpoint's finalizer is patched away.
    let dels = [(Verb::Get, 36 + counts.other_conflicts), (Verb::Update, 12 + counts.other_conflicts), (Verb::Patch, 12)];
    assert_eq!(between(35, 60), dels.map(|(verb, count)| (("agent", verb), count)).into());
}

#[test]
fn without_a_hold_addresses_are_kept() {
    let outcome = looped("nodes = 2\nclosed_loop = { times = 3 }");
    let counts = counts(&outcome);
    assert_eq!((counts.calls, counts.allocated, counts.releases, counts.lost_at_end), (6, 6, 0, 0));
    let pods: Vec<Arc<str>> = outcome.writes.iter().filter(|(_, count)| *count > 0).map(|(process, _)| process.clone()).collect();
    assert!(pods.iter().all(|process| !process.starts_with("kubelet-")), "nobody deletes a pod: {pods:?}");
}

#[test]
fn one_pod_of_a_node_at_a_time_meets_fewer_conflicts_than_all_together() {
    let alone = counts(&looped("nodes = 1\nclosed_loop = { times = 20 }"));
    assert_eq!((alone.calls, alone.conflicts), (20, 0), "nobody else is there");
    let several = counts(&looped("nodes = 6\nclosed_loop = { times = 5 }"));
    let wide = counts(&looped("nodes = 30\nclosed_loop = { times = 1 }"));
    assert_eq!((several.calls, wide.calls), (30, 30));
    assert!(several.conflicts < wide.conflicts && several.exhausted < wide.exhausted, "{several:?} {wide:?}");
}

#[test]
fn a_loop_goes_on_after_a_crash_with_the_next_pod() {
    let whole = looped("nodes = 1\nclosed_loop = { times = 8, hold = '20s' }\nkubelet = { network_ready = '5s' }");
    assert_eq!(counts(&whole).calls, 8);
    let crash = "[[fault]]\nkind = 'crash'\nat = '5005ms'\nprocess = 'kubelet-0'\ndown = '2s'\n";
    let outcome = looped(&format!("nodes = 1\nclosed_loop = {{ times = 8, hold = '20s' }}\nkubelet = {{ network_ready = '5s' }}\n{crash}"));
    let counts = counts(&outcome);
    assert_eq!((counts.calls, counts.repeated, counts.releases), (8, 0, 8), "the call under way is over: {counts:?}");
}
