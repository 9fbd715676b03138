//! What can be taken away from a plan, the largest pieces first.

use std::collections::BTreeMap;
use std::time::Duration;

use ipam_reports::finding::Kind;
use kube_sim::cluster::Knobs;
use kube_sim::fault::{Fault, Inventory, ObjectChange, Trigger};
use sim_config::Source;
use sim_config::time::{SimTime, Span, micros};

use super::ddmin::{ddmin, lower};
use super::trial::{Trial, seconds};
use crate::check::Checks;
use crate::operation::Op;
use crate::plan::{ClusterPlan, Plan, host_name, server_name};
use crate::served;
use crate::upgrade::Upgrade;
use crate::workload::Smaller;
use crate::workload::problems_of_ops;

/// How often everything is tried again because something had helped. Two rounds are usual.
const ROUNDS_MAX: usize = 6;
/// The shortest time that a fault lasts when it is narrowed.
const LASTS_MIN: Duration = Duration::from_millis(1);
/// How far apart the operations of one actor are when all actors are made to begin together.
const SPACINGS: [Duration; 2] = [Duration::ZERO, Duration::from_secs(1)];
/// A source for problems that nobody reads.
const NOWHERE: Source<'_> = Source::new("", "");

/// Makes the plan of `trial` smaller until nothing helps.
pub(super) fn reduce(trial: &mut Trial<'_>) {
    focus(trial);
    for _ in 0..ROUNDS_MAX {
        let before = trial.best().clone();
        faults(trial);
        busy_actors(trial);
        // Fewer actors and other settings make other draws. Among many operations some still meet by chance, among few they may not.
        deviations(trial);
        actors(trial);
        calm(trial);
        operations(trial);
        actors(trial);
        values(trial);
        times(trial);
        if *trial.best() == before {
            break;
        }
    }
}

/// Only the claim in question is judged, and the run ends with its bound. Other `always` claims cost nothing and may tell more.
fn focus(trial: &mut Trial<'_>) {
    let mut plan = trial.best().clone();
    let claim = trial.claim;
    let eventually = plan.check.eventually.iter().filter(|eventually| eventually.claim == *claim).cloned().collect();
    plan.check = Checks { eventually, sometimes: Vec::new(), ..plan.check.clone() };
    heal(&mut plan, trial.best().heal_at);
    trial.accept(plan);
}

/// Lets the faults heal at `at`. A claim with a bound is judged that much later, and then the run is over.
fn heal(plan: &mut Plan, at: SimTime) {
    plan.heal_at = at;
    if let Some(within) = plan.check.eventually.iter().map(|eventually| eventually.within).max() {
        plan.end_at = at + within.0;
    }
}

/// All faults, most faults, single faults. A fault is often needed only to make two actors meet, who would meet without it if they began
/// together: that is tried, too.
fn faults(trial: &mut Trial<'_>) {
    let plan = trial.best().clone();
    ddmin(&plan.fault, |faults| trial.accept(Plan { fault: faults.to_vec(), ..plan.clone() }));
    loop {
        let plan = trial.best().clone();
        let without = |gone: usize| {
            let left = plan.fault.iter().enumerate().filter(|(index, _)| *index != gone).map(|(_, fault)| fault.clone());
            Plan { fault: left.collect(), ..plan.clone() }
        };
        let mut together = (0..plan.fault.len()).flat_map(|gone| SPACINGS.map(|spacing| at_once(&without(gone), spacing)));
        if !together.any(|candidate| trial.accept(candidate)) {
            break;
        }
    }
    for spacing in SPACINGS {
        let candidate = at_once(trial.best(), spacing);
        let last = |plan: &Plan| plan.op.iter().map(|op| op.common.at).max();
        if last(&candidate) < last(trial.best()) && trial.accept(candidate) {
            break;
        }
    }
}

/// Every actor begins at the beginning, and goes on `spacing` after each operation.
fn at_once(plan: &Plan, spacing: Duration) -> Plan {
    let mut plan = plan.clone();
    let mut next: BTreeMap<String, SimTime> = BTreeMap::new();
    plan.op.sort_by_key(|op| op.common.at);
    for op in &mut plan.op {
        let next = next.entry(op.common.actor.clone()).or_default();
        op.common.at = *next;
        *next += spacing;
    }
    plan.op.sort_by_key(|op| op.common.at);
    plan
}

/// All that an actor does, for each actor.
fn busy_actors(trial: &mut Trial<'_>) {
    let plan = trial.best().clone();
    let mut actors: Vec<&str> = plan.op.iter().map(|op| op.common.actor.as_str()).collect();
    actors.sort_unstable();
    actors.dedup();
    if actors.len() > 1 {
        let of = |actors: &[&str]| -> Vec<Op> { plan.op.iter().filter(|op| actors.contains(&op.common.actor.as_str())).cloned().collect() };
        ddmin(&actors, |actors| trial.accept(Plan { op: of(actors), ..plan.clone() }));
    }
}

/// Most operations, single operations.
fn operations(trial: &mut Trial<'_>) {
    let plan = trial.best().clone();
    ddmin(&plan.op, |ops| trial.accept(Plan { op: ops.to_vec(), ..plan.clone() }));
}

/// What the system under test need not do differently.
fn deviations(trial: &mut Trial<'_>) {
    let plan = trial.best().clone();
    ddmin(&plan.deviations, |deviations| trial.accept(Plan { deviations: deviations.to_vec(), ..plan.clone() }));
    upgrade(trial);
}

/// The upgrade, most processes of it, and what the older version need not do differently. When all is settled stays: earlier, what the
/// older version left would be taken for what the present one does.
fn upgrade(trial: &mut Trial<'_>) {
    let plan = trial.best().clone();
    let Some(upgrade) = &plan.upgrade else { return };
    if trial.accept(Plan { upgrade: None, ..plan.clone() }) {
        return;
    }
    let with = |upgrade: Upgrade| Plan { upgrade: Some(upgrade), ..plan.clone() };
    let replaced: Vec<_> = upgrade.replaced.iter().collect();
    ddmin(&replaced, |few| {
        let replaced: BTreeMap<_, _> = few.iter().map(|(name, at)| ((*name).clone(), **at)).collect();
        let mut rolled_back = upgrade.rolled_back.clone();
        rolled_back.retain(|process, _| replaced.contains_key(process));
        trial.accept(with(Upgrade { replaced, rolled_back, ..upgrade.clone() }))
    });
    let plan = trial.best().clone();
    let Some(upgrade) = &plan.upgrade else { return };
    ddmin(&upgrade.deviations, |few| {
        trial.accept(Plan { upgrade: Some(Upgrade { deviations: few.to_vec(), ..upgrade.clone() }), ..plan.clone() })
    });
}

/// Fewer API servers, and whatever the workload can give up.
fn actors(trial: &mut Trial<'_>) {
    for servers in 1..trial.best().cluster.api_servers {
        let plan = trial.best();
        let mut smaller = plan.clone();
        smaller.cluster.api_servers = servers;
        let gone = |name: &str| {
            let moved = (servers..plan.cluster.api_servers).find_map(|number| {
                [(server_name(number), server_name(0)), (host_name(number), host_name(0))].into_iter().find(|(from, _)| from == name)
            });
            moved.map_or_else(|| name.to_owned(), |(_, to)| to)
        };
        smaller.fault.iter_mut().for_each(|fault| fault.kind.rename(&gone));
        if trial.accept(tidy(smaller)) {
            break;
        }
    }
    loop {
        let plan = trial.best().clone();
        let simpler = plan.workload.work().smaller(&plan.op);
        if !simpler.into_iter().any(|smaller| trial.accept(with_workload(&plan, smaller))) {
            break;
        }
    }
}

fn with_workload(plan: &Plan, smaller: Smaller) -> Plan {
    let Smaller { workload, ops, renamed } = smaller;
    let mut plan = Plan { workload, op: ops, ..plan.clone() };
    let rename = |name: &str| renamed.get(name).cloned().unwrap_or_else(|| name.to_owned());
    plan.fault.iter_mut().for_each(|fault| fault.kind.rename(&rename));
    if let Some(upgrade) = &mut plan.upgrade {
        for times in [&mut upgrade.replaced, &mut upgrade.rolled_back] {
            *times = std::mem::take(times).into_iter().map(|(name, at)| (rename(&name), at)).collect();
        }
    }
    tidy(plan)
}

/// Leaves out what is about actors that are gone.
fn tidy(mut plan: Plan) -> Plan {
    let names: Vec<String> = plan.process_names().into_iter().chain((0..plan.cluster.api_servers).map(host_name)).collect();
    let work = plan.workload.work();
    let names: Vec<String> = names.into_iter().chain(work.host_names()).collect();
    let op = plan.op.iter().filter(|op| problems_of_ops(NOWHERE, std::slice::from_ref(op), work).is_empty()).cloned().collect();
    let types = served::registry();
    let inventory = Inventory { names: &names, types: &types };
    plan.fault.retain(|fault| fault.kind.problems(NOWHERE, &inventory).is_empty());
    if let Some(upgrade) = &mut plan.upgrade {
        upgrade.replaced.retain(|process, _| names.contains(process));
        upgrade.rolled_back.retain(|process, _| names.contains(process));
    }
    Plan { op, ..plan }
}

/// The cluster as it usually is: version knobs and delays at their defaults, servers that do everything at once.
fn calm(trial: &mut Trial<'_>) {
    let usual = ClusterPlan {
        api_servers: 1,
        manifests: Vec::new(),
        knobs: Knobs::default(),
        links: Default::default(),
        delays: Default::default(),
        capacity: None,
    };
    let steps: [fn(&mut ClusterPlan, &ClusterPlan); 17] = [
        |cluster, usual| {
            (cluster.knobs, cluster.links, cluster.delays) = (usual.knobs, usual.links, usual.delays);
            cluster.capacity = usual.capacity;
        },
        |cluster, usual| cluster.capacity = usual.capacity,
        |cluster, usual| cluster.knobs = usual.knobs,
        |cluster, usual| cluster.links = usual.links,
        |cluster, usual| cluster.delays = usual.delays,
        |cluster, usual| cluster.knobs.missing_put_with_uid_conflicts = usual.knobs.missing_put_with_uid_conflicts,
        |cluster, usual| cluster.knobs.consistent_list_from_cache = usual.knobs.consistent_list_from_cache,
        |cluster, usual| cluster.knobs.list_from_cache_snapshot = usual.knobs.list_from_cache_snapshot,
        |cluster, usual| cluster.knobs.generate_name_retries = usual.knobs.generate_name_retries,
        |cluster, usual| cluster.knobs.watch_list = usual.knobs.watch_list,
        |cluster, usual| cluster.knobs.watch_list_clients = usual.knobs.watch_list_clients,
        |cluster, usual| cluster.knobs.http1_clients = usual.knobs.http1_clients,
        |cluster, usual| cluster.knobs.kube_rs_clients = usual.knobs.kube_rs_clients,
        |cluster, usual| cluster.knobs.sticky_clients = usual.knobs.sticky_clients,
        |cluster, usual| cluster.knobs.history_events = usual.knobs.history_events,
        |cluster, usual| cluster.knobs.watch_buffer = usual.knobs.watch_buffer,
        |cluster, usual| cluster.knobs.burned_revisions = usual.knobs.burned_revisions,
    ];
    for step in steps {
        let mut plan = trial.best().clone();
        step(&mut plan.cluster, &usual);
        trial.accept(plan);
    }
}

/// Each fault is about fewer processes, has simpler parameters, and lasts less long.
fn values(trial: &mut Trial<'_>) {
    for index in 0..trial.best().fault.len() {
        loop {
            let plan = trial.best().clone();
            let names: Vec<String> = plan.process_names();
            let simpler = plan.fault[index].kind.simpler(&names);
            if !simpler.into_iter().any(|kind| trial.accept(with_fault(&plan, index, |fault| fault.kind = kind))) {
                break;
            }
        }
        loop {
            let plan = trial.best().clone();
            let simpler = ObjectChange::simpler(&plan.fault[index].common.when);
            if !simpler.into_iter().any(|when| trial.accept(with_fault(&plan, index, |fault| fault.common.when = when))) {
                break;
            }
        }
        let plan = trial.best().clone();
        let Fault { common, kind } = &plan.fault[index];
        let until_heal = plan.heal_at.since(common.at);
        if kind.is_instant() || until_heal <= LASTS_MIN {
            continue;
        }
        let lasts = common.lasts.map_or(until_heal, |lasts| lasts.0.min(until_heal));
        let span = |lasts: u64| Some(Span::micros(lasts));
        let floor = micros(LASTS_MIN);
        let shorter = lower(micros(lasts), floor, |lasts| trial.accept(with_fault(&plan, index, |fault| fault.common.lasts = span(lasts))));
        // The same from the front: it begins later and ends when it did.
        let plan = trial.best().clone();
        let end = plan.fault[index].common.at + Duration::from_micros(shorter);
        if plan.fault[index].common.lasts.is_some() && plan.fault[index].common.when.is_empty() {
            lower(shorter, floor, |lasts| {
                let at = SimTime::from_micros(end.as_micros() - lasts);
                trial.accept(with_fault(&plan, index, |fault| (fault.common.at, fault.common.lasts) = (at, span(lasts))))
            });
        }
    }
}

fn with_fault(plan: &Plan, index: usize, change: impl FnOnce(&mut Fault)) -> Plan {
    let mut plan = plan.clone();
    change(&mut plan.fault[index]);
    plan
}

/// Faults heal earlier, and nothing is waited for without need.
fn times(trial: &mut Trial<'_>) {
    let plan = trial.best().clone();
    let last_op = plan.op.iter().map(|op| op.common.at).max().unwrap_or_default();
    let floor = if trial.kind() == Kind::Eventually { last_op } else { SimTime::ZERO };
    lower(plan.heal_at.as_micros(), floor.as_micros().min(plan.heal_at.as_micros()), |at| {
        let mut plan = plan.clone();
        heal(&mut plan, SimTime::from_micros(at));
        trial.accept(plan)
    });
    let mut number = 0;
    while let Some((from, to)) = gap(trial.best(), number) {
        let plan = trial.best().clone();
        let left = lower(to - from, 0, |gap| trial.accept(moved_up(&plan, SimTime::from_micros(to), to - from - gap)));
        // What closed is no gap any more: the next one has its number.
        number += usize::from(left > 0);
    }
}

/// The `number`-th stretch of time, from 0, in which the plan does nothing new, in microseconds.
fn gap(plan: &Plan, number: usize) -> Option<(u64, u64)> {
    let ops = plan.op.iter().map(|op| op.common.at);
    let faults = plan
        .fault
        .iter()
        .filter(|fault| fault.kind.begins() == Trigger::Window && fault.common.when.is_empty())
        .map(|fault| fault.common.at);
    let mut times: Vec<u64> = ops.chain(faults).chain([SimTime::ZERO]).map(SimTime::as_micros).collect();
    times.sort_unstable();
    times.dedup();
    times.windows(2).nth(number).map(|pair| (pair[0], pair[1]))
}

/// What happens from `from` on happens `by` microseconds earlier.
fn moved_up(plan: &Plan, from: SimTime, by: u64) -> Plan {
    let mut plan = plan.clone();
    let earlier = |at: SimTime| if at >= from { SimTime::from_micros(at.as_micros() - by) } else { at };
    plan.op.iter_mut().for_each(|op| op.common.at = earlier(op.common.at));
    plan.fault.iter_mut().for_each(|fault| fault.common.at = earlier(fault.common.at));
    let heals = earlier(plan.heal_at);
    heal(&mut plan, heals);
    plan
}

/// Ends the run right after the violation, where the end itself is not the point.
pub(super) fn clip(trial: &mut Trial<'_>) {
    const GRAIN: u64 = 1_000;
    if trial.kind() == Kind::Eventually {
        return;
    }
    let mut plan = trial.best().clone();
    let after = SimTime::from_micros((trial.at().as_micros() / GRAIN + 2) * GRAIN);
    if after < plan.end_at {
        plan.end_at = after;
        plan.heal_at = plan.heal_at.min(after);
        debug_assert!(seconds(after) > seconds(trial.at()));
        trial.accept(plan);
    }
}
