//! Partitions by their shape: the processes that can still reach each other.

use std::collections::BTreeSet;
use std::time::Duration;

use kube_sim::fault::{Fault, FaultKind, FaultTargets, Partition};
use sim_config::draw::{Concern, Draw};
use sim_config::time::{SimTime, Span};
use sim_harness::swarm::Setting;
use sim_harness::swarm::partition::Shape;
use sim_harness::swarm::pattern::Pattern;

const SAFETY: Duration = Duration::from_secs(100);

fn clients(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("client-{number}")).collect()
}

fn servers(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("apiserver-{number}")).collect()
}

fn drawn(shape: Shape, seed: u64, clients: &[String], servers: &[String]) -> Vec<Fault> {
    let targets = FaultTargets { processes: clients.to_vec(), ..FaultTargets::default() };
    let names = [clients, servers].concat();
    let setting = Setting { seed, safety: Span(SAFETY), targets: &targets, ops: &[], names: &names };
    let (shortest, longest) = (Span::secs(1), Span::secs(60));
    Pattern::Partition(shape).draw(&setting, shortest, longest, &mut Draw::new(seed, Concern::Faults, 0))
}

fn partition(fault: &Fault) -> &Partition {
    match &fault.kind {
        FaultKind::Partition(partition) => partition,
        kind => panic!("{kind:?}"),
    }
}

/// Whether a message from `one` to `other` gets through while all of `faults` hold.
fn reaches(faults: &[Fault], one: &str, other: &str) -> bool {
    !faults
        .iter()
        .map(partition)
        .any(|Partition { from, to }| from.matches(one) && to.matches(other) || from.matches(other) && to.matches(one))
}

/// The servers that each client reaches.
fn reached(faults: &[Fault], clients: &[String], servers: &[String]) -> Vec<BTreeSet<String>> {
    let of = |client: &String| servers.iter().filter(|server| reaches(faults, client, server)).cloned().collect();
    clients.iter().map(of).collect()
}

#[test]
fn halves_are_two_groups_that_are_whole_in_themselves() {
    let (clients, servers) = (clients(3), servers(2));
    let all = [clients.clone(), servers.clone()].concat();
    let mut groups = BTreeSet::new();
    for seed in 0..60 {
        let faults = drawn(Shape::Halves, seed, &clients, &servers);
        let group: BTreeSet<&String> = all.iter().filter(|name| **name == all[0] || reaches(&faults, &all[0], name)).collect();
        for one in &all {
            for other in all.iter().filter(|other| *other != one) {
                assert_eq!(reaches(&faults, one, other), group.contains(one) == group.contains(other), "seed {seed}: {one} {other}");
            }
        }
        assert!(group.len() == 2 || group.len() == 3);
        groups.insert(format!("{group:?}"));
    }
    assert!(groups.len() > 5, "{groups:?}");
}

#[test]
fn in_a_ring_everybody_reaches_two_servers_and_every_server_is_reached() {
    let clients = clients(5);
    for count in 3..6 {
        let servers = servers(count);
        for seed in 0..20 {
            let reached = reached(&drawn(Shape::Ring, seed, &clients, &servers), &clients, &servers);
            assert!(reached.iter().all(|servers| servers.len() == 2), "seed {seed}: {reached:?}");
            assert_eq!(reached.iter().flatten().collect::<BTreeSet<_>>().len(), count);
        }
    }
    assert_eq!(drawn(Shape::Ring, 0, &clients, &servers(2)), [], "two servers are no ring");
}

#[test]
fn a_bridge_is_reached_by_both_parts_which_share_nothing_else() {
    let (clients, servers) = (clients(4), servers(3));
    for seed in 0..20 {
        let reached = reached(&drawn(Shape::Bridge, seed, &clients, &servers), &clients, &servers);
        let parts: BTreeSet<_> = reached.iter().cloned().collect();
        let parts: Vec<_> = parts.into_iter().collect();
        assert_eq!(parts.len(), 2, "seed {seed}: {reached:?}");
        assert_eq!(parts[0].intersection(&parts[1]).count(), 1);
        assert!(parts.iter().all(|servers| servers.len() == 2));
    }
    assert_eq!(drawn(Shape::Bridge, 0, &clients, &servers[..2]), [], "two servers have no third one that is a bridge");
}

#[test]
fn one_process_alone_reaches_nobody_and_the_others_reach_each_other() {
    let (clients, servers) = (clients(3), servers(2));
    for seed in 0..20 {
        let faults = drawn(Shape::Node, seed, &clients, &servers);
        let alone: Vec<usize> = reached(&faults, &clients, &servers).iter().map(BTreeSet::len).collect();
        assert_eq!(alone.iter().filter(|count| **count == 0).count(), 1, "seed {seed}");
        assert_eq!(alone.iter().filter(|count| **count == 2).count(), 2, "seed {seed}");
    }
    assert_eq!(drawn(Shape::Node, 0, &[], &servers), []);
}

#[test]
fn swizzled_processes_are_cut_off_together_for_a_while_and_come_back_in_another_order() {
    let (clients, servers) = (clients(4), servers(2));
    let mut reordered = 0;
    for seed in 0..40 {
        let faults = drawn(Shape::Swizzle, seed, &clients, &servers);
        assert!((2..=4).contains(&faults.len()));
        let end = |fault: &Fault| fault.common.at + fault.common.lasts.unwrap().0;
        let (last_cut, first_back) = (faults.iter().map(|fault| fault.common.at).max(), faults.iter().map(end).min());
        assert!(last_cut <= first_back, "seed {seed}");
        assert!(faults.iter().all(|fault| end(fault) <= SimTime::ZERO + SAFETY));
        let cut: Vec<String> = faults.iter().map(|fault| partition(fault).from.to_string()).collect();
        assert_eq!(cut.iter().collect::<BTreeSet<_>>().len(), faults.len());
        reordered += usize::from(!faults.is_sorted_by_key(end));
    }
    assert!(reordered > 10, "{reordered} of 40");
}
