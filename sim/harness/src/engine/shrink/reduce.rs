//! The reductions of a plan, the largest first.

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

/// The largest number of rounds; a round follows one that made the plan smaller. Two rounds are usual.
const ROUNDS_MAX: usize = 6;
/// The shortest duration to which a fault is narrowed.
const LASTS_MIN: Duration = Duration::from_millis(1);
/// The intervals between operations of one actor when all actors are made to begin together.
const SPACINGS: [Duration; 2] = [Duration::ZERO, Duration::from_secs(1)];
/// A source for problems that are not reported.
const NOWHERE: Source<'_> = Source::new("", "");

/// Reduces the plan of `trial` until nothing helps.
pub(super) fn reduce(trial: &mut Trial<'_>) {
    focus(trial);
    for _ in 0..ROUNDS_MAX {
        let before = trial.best().clone();
        faults(trial);
        busy_actors(trial);
        // Fewer actors and other settings change the draws. Of many operations some still coincide by chance, of few perhaps none.
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

/// Judges only the claim in question, and ends the run with its bound. Other `always` claims cost nothing and may be informative.
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

/// Leaves out all faults, most faults, single faults. A fault is often needed only to make two actors meet that would meet without it if
/// they began together: that is tried, too.
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

/// Lets every actor start at the beginning, with `spacing` between its operations.
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

/// Leaves out all operations of an actor, for each actor.
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

/// Leaves out most operations, single operations.
fn operations(trial: &mut Trial<'_>) {
    let plan = trial.best().clone();
    ddmin(&plan.op, |ops| trial.accept(Plan { op: ops.to_vec(), ..plan.clone() }));
}

/// Leaves out deviations of the system under test.
fn deviations(trial: &mut Trial<'_>) {
    let plan = trial.best().clone();
    ddmin(&plan.deviations, |deviations| trial.accept(Plan { deviations: deviations.to_vec(), ..plan.clone() }));
    upgrade(trial);
}

/// Leaves out the upgrade, most of its processes, and deviations of the older version. The time at which all is settled stays: if it were
/// earlier, effects of the older version would be blamed on the present one.
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

/// Leaves out API servers, and actors that the workload can do without.
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

/// Leaves out everything that names actors that are gone.
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

/// Resets the cluster to the usual: version knobs and delays at their defaults, servers without capacity limits.
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

/// Gives each fault fewer processes, simpler parameters, and a shorter duration.
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
        // The same from the front: the fault begins later and ends when it did.
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

/// Lets faults heal earlier, and shortens idle times.
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
        // A gap that closed has no number any more: the next gap takes it.
        number += usize::from(left > 0);
    }
}

/// The gap with this `number`, from 0, between two starts of operations or faults, in microseconds.
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

/// The plan with everything from `from` on `by` microseconds earlier.
fn moved_up(plan: &Plan, from: SimTime, by: u64) -> Plan {
    let mut plan = plan.clone();
    let earlier = |at: SimTime| if at >= from { SimTime::from_micros(at.as_micros() - by) } else { at };
    plan.op.iter_mut().for_each(|op| op.common.at = earlier(op.common.at));
    plan.fault.iter_mut().for_each(|fault| fault.common.at = earlier(fault.common.at));
    let heals = earlier(plan.heal_at);
    heal(&mut plan, heals);
    plan
}

/// Ends the run right after the violation, unless the claim is judged at its end.
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
