//! Simpler variants of a cluster with Spiderpool, to shrink a failing plan.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ipam_spiderpool::{IPPoolSpec, names};
use sim_config::time::{SimTime, Span};
use sim_harness::operation::Op;
use sim_harness::workload::Smaller;

use super::closed_loop::ClosedLoop;
use super::manifests::Manifest;
use super::ops::{AppKind, ApplyApp, Cascade, DrainNode, EditPool, EditStatefulSet, PoolPlan, RollOutApp, UncordonNode};
use super::plan::{SpiderPlan, agent_name, kubelet_name};
use super::subnets::ops::{EditSubnet, SubnetPlan};
use crate::Operation;

/// See [`Work::smaller`](sim_harness::workload::Work::smaller): fewer nodes, replicas and pools, and simpler operations.
pub(super) fn smaller(plan: &SpiderPlan, ops: &[Op]) -> Vec<Smaller> {
    let mut all = Vec::new();
    // The user's own nodes stay.
    if plan.node_names.is_empty() {
        all.extend((1..plan.nodes).map(|nodes| on_fewer_nodes(plan, ops, nodes)));
    }
    let mut same_ops = |smaller: SpiderPlan| {
        if smaller != *plan {
            all.push(Smaller::same_ops(smaller, ops));
        }
    };
    // Webhooks need a replica that serves them.
    for controllers in u32::from(plan.has_webhooks())..plan.controllers.min(2) {
        same_ops(SpiderPlan { controllers, ..plan.clone() });
    }
    for number in 0..plan.pools.len() {
        if !is_named(plan, ops, &plan.pools[number].name) && !plan.pools[number].spec.default {
            let mut smaller = plan.clone();
            smaller.pools.remove(number);
            same_ops(smaller);
        }
    }
    for number in 0..plan.pools.len() {
        let mut smaller = plan.clone();
        serve_everyone(&mut smaller.pools[number].spec);
        same_ops(smaller);
    }
    for number in 0..plan.reserved.len() {
        let mut smaller = plan.clone();
        smaller.reserved.remove(number);
        same_ops(smaller);
    }
    for number in 0..plan.subnets.len() {
        if !is_named(plan, ops, &plan.subnets[number].name) {
            let mut smaller = plan.clone();
            smaller.subnets.remove(number);
            same_ops(smaller);
        }
    }
    let kinds = ops.iter().filter_map(|op| if let Operation::ApplyApp(apply) = op.kind.own() { Some(apply.kind) } else { None });
    let kinds: BTreeSet<AppKind> = kinds.chain(plan.brought.iter().map(|app| app.kind)).collect();
    if plan.brought.is_empty() {
        same_ops(SpiderPlan { kinds, ..plan.clone() });
    }
    same_ops(SpiderPlan { masters: Vec::new(), ..plan.clone() });
    same_ops(SpiderPlan { runtimes_without_uid: BTreeSet::new(), ..plan.clone() });
    for node in &plan.runtimes_without_uid {
        let mut smaller = plan.clone();
        smaller.runtimes_without_uid.remove(node);
        same_ops(smaller);
    }
    same_ops(SpiderPlan { throttled: false, ..plan.clone() });
    same_ops(SpiderPlan { probe: Span::default(), ..plan.clone() });
    same_ops(SpiderPlan { admission: false, ..plan.clone() });
    if let Some(rounds) = plan.closed_loop {
        let with = |closed_loop| SpiderPlan { closed_loop: Some(closed_loop), ..plan.clone() };
        same_ops(with(ClosedLoop { times: rounds.times.div_ceil(2), ..rounds }));
        same_ops(with(ClosedLoop { times: rounds.times.saturating_sub(1).max(1), ..rounds }));
        same_ops(with(ClosedLoop { hold: None, ..rounds }));
    }
    all.extend(simpler_ops(plan, ops));
    all
}

/// Moves the pods of the last nodes to the first one.
fn on_fewer_nodes(plan: &SpiderPlan, ops: &[Op], nodes: u32) -> Smaller {
    let moved = ops.iter().cloned().map(|mut op| {
        op.kind = op.kind.changed(|op| match op {
            Operation::ApplyApp(ApplyApp { node: Some(node), .. }) if *node >= nodes => *node = 0,
            Operation::DrainNode(DrainNode { node, .. }) | Operation::UncordonNode(UncordonNode { node })
                if (nodes..plan.nodes).any(|gone| plan.node_name(gone) == *node) =>
            {
                *node = plan.node_name(0);
            }
            Operation::EditPool(EditPool { nodes: Some(names), .. }) => {
                for name in names.iter_mut().filter(|name| (nodes..plan.nodes).any(|gone| plan.node_name(gone) == **name)) {
                    *name = plan.node_name(0);
                }
            }
            _ => {}
        });
        op
    });
    let names = |node| [agent_name(node), kubelet_name(node), plan.node_name(node)];
    let renamed: BTreeMap<String, String> = (nodes..plan.nodes).flat_map(|node| names(node).into_iter().zip(names(0))).collect();
    let mut smaller = SpiderPlan { nodes, ..plan.clone() };
    smaller.runtimes_without_uid.retain(|node| *node < nodes);
    Smaller { workload: smaller.into(), ops: moved.collect(), renamed }
}

/// Removes the restrictions of a pool to some pods.
fn serve_everyone(spec: &mut IPPoolSpec) {
    let all = IPPoolSpec {
        node_name: None,
        node_affinity: None,
        namespace_name: None,
        namespace_affinity: None,
        pod_affinity: None,
        multus_name: None,
        exclude_ips: None,
        ..std::mem::take(spec)
    };
    *spec = all;
}

/// Whether anything but the cluster's defaults names a pool, or a subnet.
fn is_named(plan: &SpiderPlan, ops: &[Op], pool: &str) -> bool {
    let in_texts = |texts: &BTreeMap<String, String>| texts.values().any(|text| text.contains(pool) || text.contains('*'));
    let configured = plan.cni_ipv4.iter().chain(&plan.cni_ipv6).any(|name| name == pool) || plan.namespaces.values().any(in_texts);
    configured
        || ops.iter().any(|op| match op.kind.own() {
            Operation::ApplyApp(op) => in_texts(&op.annotations),
            Operation::RollOutApp(op) => in_texts(&op.annotations),
            Operation::EditPool(op) => op.pool == pool,
            Operation::EditRecord(op) => op.pool == pool,
            Operation::GarbleRecords(op) => op.pool == pool,
            Operation::DeletePool(op) => op.pool == pool,
            Operation::CreatePool(op) => op.pool.name == pool,
            Operation::EditSubnet(op) => op.subnet == pool,
            Operation::DeleteSubnet(op) => op.subnet == pool,
            Operation::CreateSubnet(op) => op.subnet.name == pool,
            Operation::ApplyManifest(op) => op.manifest.name() == pool,
            _ => false,
        })
}

/// The annotations without one. Without further networks a pod has one NIC, so annotations that name pools for other NICs go, too:
/// otherwise addresses would be recorded for NICs that do not exist.
fn without(annotations: &BTreeMap<String, String>, key: &str) -> BTreeMap<String, String> {
    let of_nics = [names::ANNOTATION_IPPOOLS, names::ANNOTATION_SUBNETS];
    let goes = |name: &str| name == key || (key == names::ANNOTATION_MULTUS_NETWORKS && of_nics.contains(&name));
    annotations.iter().filter(|(name, _)| !goes(name)).map(|(name, text)| (name.clone(), text.clone())).collect()
}

/// Variants with one simplified operation.
fn simpler_ops(plan: &SpiderPlan, ops: &[Op]) -> Vec<Smaller> {
    let mut all = Vec::new();
    let mut with = |index: usize, kind: Operation| {
        if kind != *ops[index].kind.own() {
            let mut ops = ops.to_vec();
            ops[index].kind = kind.into();
            all.push(Smaller { workload: plan.clone().into(), ops, renamed: BTreeMap::new() });
        }
    };
    for (index, op) in ops.iter().enumerate() {
        match op.kind.own() {
            Operation::ApplyApp(apply) => {
                for replicas in [1, apply.replicas / 2].into_iter().filter(|&replicas| replicas > 0 && replicas < apply.replicas) {
                    with(index, Operation::ApplyApp(ApplyApp { replicas, ..apply.clone() }));
                }
                with(index, Operation::ApplyApp(ApplyApp { start: 0, ..apply.clone() }));
                with(index, Operation::ApplyApp(ApplyApp { min_available: None, max_unavailable: None, ..apply.clone() }));
                with(index, Operation::ApplyApp(ApplyApp { partition: 0, on_delete: false, ..apply.clone() }));
                for key in apply.annotations.keys() {
                    with(index, Operation::ApplyApp(ApplyApp { annotations: without(&apply.annotations, key), ..apply.clone() }));
                }
            }
            Operation::RollOutApp(op) => {
                for key in op.annotations.keys() {
                    with(index, Operation::RollOutApp(RollOutApp { annotations: without(&op.annotations, key), ..op.clone() }));
                }
            }
            Operation::EditStatefulSet(op) => {
                let parts = [op.start.is_some(), op.partition.is_some(), op.on_delete.is_some()];
                if parts.into_iter().filter(|part| *part).count() > 1 {
                    with(index, Operation::EditStatefulSet(EditStatefulSet { start: None, ..op.clone() }));
                    with(index, Operation::EditStatefulSet(EditStatefulSet { partition: None, ..op.clone() }));
                    with(index, Operation::EditStatefulSet(EditStatefulSet { on_delete: None, ..op.clone() }));
                }
            }
            Operation::DeletePodOf(delete) if delete.force => {
                with(index, Operation::DeletePodOf(super::ops::DeletePodOf { force: false, ..delete.clone() }));
            }
            Operation::DeleteApp(delete) => {
                if delete.force {
                    with(index, Operation::DeleteApp(super::ops::DeleteApp { force: false, ..delete.clone() }));
                }
                if delete.cascade != Cascade::default() {
                    with(index, Operation::DeleteApp(super::ops::DeleteApp { cascade: Cascade::default(), ..delete.clone() }));
                }
            }
            _ => {}
        }
    }
    all
}

/// The subnets that exist at the beginning, and those that operators create.
fn subnets_of<'a>(plan: &'a SpiderPlan, ops: &'a [Op]) -> impl Iterator<Item = &'a SubnetPlan> {
    let created = ops.iter().filter_map(|op| if let Operation::CreateSubnet(op) = op.kind.own() { Some(&*op.subnet) } else { None });
    plan.subnets.iter().chain(created)
}

/// The pools that exist at the beginning, and those that operators create.
fn pools_of<'a>(plan: &'a SpiderPlan, ops: &'a [Op]) -> impl Iterator<Item = &'a PoolPlan> {
    let created = ops.iter().filter_map(|op| if let Operation::CreatePool(op) = op.kind.own() { Some(&*op.pool) } else { None });
    plan.pools.iter().chain(created)
}

/// The minimum life of an application: a delete that overtakes its create finds nothing.
const LIFE_MIN: Duration = Duration::from_secs(1);

/// Whether operations make sense: an application is created once until it is deleted, and not deleted at once, and no operation is about
/// one that never existed. In the end every pool serves again and no node stays cordoned, so that the last pods can start.
pub(super) fn sensible(plan: &SpiderPlan, ops: &[Op]) -> bool {
    let mut in_order: Vec<&Op> = ops.iter().collect();
    in_order.sort_by_key(|op| op.common.at);
    let brought = plan.brought.iter().map(|app| ((app.namespace.as_str(), app.app.as_str()), SimTime::ZERO));
    let mut there: BTreeMap<(&str, &str), SimTime> = brought.collect();
    let mut pools: BTreeMap<&str, bool> = BTreeMap::new();
    let mut subnets: BTreeMap<&str, bool> = BTreeMap::new();
    let mut reserved: BTreeSet<&str> = BTreeSet::new();
    let mut cordoned: BTreeSet<&str> = BTreeSet::new();
    let apps = in_order.iter().all(|op| match op.kind.own() {
        Operation::ApplyApp(apply) => there.insert((&apply.namespace, &apply.app), op.common.at).is_none(),
        Operation::DeleteApp(delete) => {
            there.remove(&(delete.namespace.as_str(), delete.app.as_str())).is_some_and(|since| op.common.at >= since + LIFE_MIN)
        }
        Operation::ScaleApp(op) => there.contains_key(&(op.namespace.as_str(), op.app.as_str())),
        Operation::RollOutApp(op) => there.contains_key(&(op.namespace.as_str(), op.app.as_str())),
        Operation::EditStatefulSet(op) => there.contains_key(&(op.namespace.as_str(), op.app.as_str())),
        Operation::DeletePool(op) => {
            pools.insert(&op.pool, false);
            true
        }
        Operation::CreatePool(op) => {
            pools.insert(&op.pool.name, true);
            true
        }
        Operation::EditPool(EditPool { pool, disable: Some(disable), .. }) => {
            pools.insert(pool, !disable);
            true
        }
        Operation::EditPool(EditPool { pool, ips: Some(ips), .. }) => {
            let written = pools_of(plan, ops).any(|written| written.name == *pool && written.spec.ips.as_ref() == Some(ips));
            pools.insert(pool, written);
            true
        }
        Operation::EditPool(EditPool { pool, exclude: Some(exclude), .. }) => {
            pools.insert(pool, exclude.is_empty());
            true
        }
        Operation::EditPool(EditPool { pool, nodes: Some(nodes), .. }) => {
            pools.insert(pool, nodes.is_empty());
            true
        }
        Operation::DeleteSubnet(op) => {
            subnets.insert(&op.subnet, false);
            true
        }
        Operation::CreateSubnet(op) => {
            subnets.insert(&op.subnet.name, true);
            true
        }
        Operation::EditSubnet(EditSubnet { subnet, ips, exclude, .. }) => {
            let whole =
                |written: &&SubnetPlan| written.name == *subnet && ips.as_ref().is_none_or(|ips| Some(ips) == written.spec.ips.as_ref());
            let serves = exclude.iter().all(Vec::is_empty) && (ips.is_none() || subnets_of(plan, ops).any(|written| whole(&written)));
            subnets.insert(subnet, serves);
            true
        }
        Operation::ApplyManifest(op) => {
            match &*op.manifest {
                Manifest::SpiderIPPool(pool) if plan.pools.iter().any(|there| there.name == pool.name) => {
                    pools.insert(&pool.name, plan.pools.contains(pool));
                }
                Manifest::SpiderSubnet(subnet) if plan.subnets.iter().any(|there| there.name == subnet.name) => {
                    subnets.insert(&subnet.name, plan.subnets.contains(subnet));
                }
                _ => {}
            }
            true
        }
        Operation::DrainNode(op) => {
            cordoned.insert(&op.node);
            true
        }
        Operation::UncordonNode(op) => {
            cordoned.remove(op.node.as_str());
            true
        }
        Operation::Reserve(op) => reserved.insert(&op.name),
        Operation::Unreserve(op) => reserved.remove(op.name.as_str()),
        _ => true,
    });
    let serve = pools.values().chain(subnets.values()).all(|serves| *serves);
    apps && cron_jobs_end(ops) && serve && reserved.is_empty() && cordoned.is_empty()
}

/// Whether every CronJob is deleted in the end; otherwise there would always be pods to wait for.
fn cron_jobs_end(ops: &[Op]) -> bool {
    let ends = |apply: &ApplyApp, at: SimTime| {
        let is_it = |op: &Op| match op.kind.own() {
            Operation::DeleteApp(delete) => op.common.at > at && (&delete.namespace, &delete.app) == (&apply.namespace, &apply.app),
            _ => false,
        };
        ops.iter().any(is_it)
    };
    ops.iter().all(|op| match op.kind.own() {
        Operation::ApplyApp(apply) if apply.kind == AppKind::CronJob => ends(apply, op.common.at),
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use super::super::draft::SpiderDraft;
    use super::super::ops::{Cascade, DeleteApp, DeletePool};
    use super::super::plan::OPERATOR;
    use super::*;
    use crate::Plans;
    use sim_config::With;
    use sim_config::draw::{Concern, Draw};
    use sim_harness::operation::Turn;
    use sim_harness::workload::{Draft, Work};

    fn op(at: u64, kind: Operation) -> Op {
        With { common: Turn { at: SimTime::from_secs(at), actor: OPERATOR.to_owned() }, kind: kind.into() }
    }

    fn apply(at: u64, app: &str) -> Op {
        op(at, Operation::ApplyApp(ApplyApp { app: app.to_owned(), namespace: "default".to_owned(), replicas: 4, ..ApplyApp::default() }))
    }

    fn delete(at: u64, app: &str) -> Op {
        op(
            at,
            Operation::DeleteApp(DeleteApp {
                app: app.to_owned(),
                namespace: "default".to_owned(),
                force: true,
                cascade: Cascade::default(),
            }),
        )
    }

    fn drawn(seed: u64) -> (SpiderPlan, Vec<Op>) {
        SpiderDraft::default().draw(&mut Draw::new(seed, Concern::Workload, 0))
    }

    #[test]
    fn pods_that_lose_their_networks_name_no_pools_for_them() {
        let all = [names::ANNOTATION_MULTUS_NETWORKS, names::ANNOTATION_IPPOOLS, names::ANNOTATION_IPPOOL];
        let all: BTreeMap<String, String> = all.map(|name| (name.to_owned(), String::new())).into();
        let left = |key| without(&all, key).into_keys().collect::<Vec<_>>();
        assert_eq!(left(names::ANNOTATION_MULTUS_NETWORKS), [names::ANNOTATION_IPPOOL]);
        assert_eq!(left(names::ANNOTATION_IPPOOLS), [names::ANNOTATION_IPPOOL, names::ANNOTATION_MULTUS_NETWORKS]);
    }

    fn drawn_with_subnets(seed: u64) -> (SpiderPlan, Vec<Op>) {
        use super::super::{PoolWish, SubnetChange};
        use sim_config::Choice;
        let draft = SpiderDraft {
            subnets: Choice::Between(1, 2),
            wishes: Choice::OneOf(vec![PoolWish::Subnet, PoolWish::ClusterDefault]),
            subnet_pools: Choice::Between(0, 2),
            nics: Choice::Between(1, 2),
            subnet_changes: Choice::Between(1, 3),
            subnet_change: Choice::OneOf(vec![SubnetChange::Exclude, SubnetChange::Shrink, SubnetChange::Recreate]),
            ..SpiderDraft::default()
        };
        draft.draw(&mut Draw::new(seed, Concern::Workload, 0))
    }

    fn drawn_with_rules(seed: u64) -> (SpiderPlan, Vec<Op>) {
        use super::super::{PoolRule, PoolWish, WishMistake};
        use sim_config::{Choice, Probability};
        let draft = SpiderDraft {
            pools: Choice::Is(3),
            rules: Choice::OneOf(vec![PoolRule::NodeName, PoolRule::PodAffinity, PoolRule::Excluded, PoolRule::Reserved]),
            namespaces: Choice::Between(2, 3),
            wishes: Choice::OneOf(vec![PoolWish::Namespace, PoolWish::CniConfig, PoolWish::ClusterDefault]),
            mistaken: Probability::new(0.5).unwrap(),
            mistake: Choice::OneOf(vec![WishMistake::CutOff, WishMistake::PoolTwice]),
            ..SpiderDraft::default()
        };
        draft.draw(&mut Draw::new(seed, Concern::Workload, 0))
    }

    fn drawn_in_a_loop(seed: u64) -> (SpiderPlan, Vec<Op>) {
        let closed_loop = Some(ClosedLoop { times: 5, hold: Some(Span::secs(1)) });
        SpiderDraft { closed_loop, ..SpiderDraft::default() }.draw(&mut Draw::new(seed, Concern::Workload, 0))
    }

    #[test]
    fn every_variant_is_valid_and_none_leads_back() {
        let all = [drawn, drawn_with_subnets, drawn_with_rules, drawn_in_a_loop];
        for (mut plan, mut ops) in all.into_iter().flat_map(|draw| (0..3).map(draw)) {
            let mut steps = 0;
            while let Some(next) = plan.smaller(&ops).pop() {
                let Some(Plans::Spiderpool(pods)) = next.workload.get().cloned() else { panic!("another workload") };
                assert!((&*pods, &next.ops) != (&plan, &ops));
                (plan, ops) = (*pods, next.ops);
                assert!(plan.value_problems(sim_config::Source::new("", "")).is_empty());
                assert!(ops.iter().all(|op| plan.takes(&op.kind).is_ok()));
                steps += 1;
                assert!(steps < 200, "no end: {plan:?}");
            }
            assert_eq!((plan.nodes, plan.throttled), (1, false));
            let rules = plan.pools.iter().any(|pool| pool.spec.node_name.is_some() || pool.spec.pod_affinity.is_some());
            let excluded = plan.pools.iter().any(|pool| pool.spec.exclude_ips.is_some());
            assert_eq!((rules, excluded, plan.reserved.len()), (false, false, 0));
            assert!(plan.closed_loop.is_none_or(|rounds| rounds == ClosedLoop { times: 1, hold: None }), "{:?}", plan.closed_loop);
        }
    }

    #[test]
    fn what_is_drawn_makes_sense() {
        for seed in 0..50 {
            for (plan, ops) in [drawn(seed), drawn_with_subnets(seed), drawn_with_rules(seed)] {
                assert!(sensible(&plan, &ops), "{seed}");
            }
        }
    }

    #[test]
    fn a_subnet_is_whole_again_in_the_end() {
        let (plan, ops) = (0..).map(drawn_with_subnets).find(|(_, ops)| changes(ops).count() == 2).unwrap();
        let all: Vec<Op> = ops.iter().filter(|op| !changes(std::slice::from_ref(op)).any(|_| true)).cloned().collect();
        let changes: Vec<Op> = changes(&ops).cloned().collect();
        assert!(sensible(&plan, &all));
        assert!(!sensible(&plan, &[&all[..], &changes[..1]].concat()));
        assert!(sensible(&plan, &[&all[..], &changes[..]].concat()));
    }

    fn changes(ops: &[Op]) -> impl Iterator<Item = &Op> {
        ops.iter().filter(|op| matches!(op.kind.own(), Operation::CreateSubnet(_) | Operation::EditSubnet(_) | Operation::DeleteSubnet(_)))
    }

    #[test]
    fn a_cron_job_ends() {
        let (plan, _) = drawn(0);
        let mut cron_job = apply(1, "a");
        cron_job.kind = cron_job.kind.changed(|op| {
            if let Operation::ApplyApp(apply) = op {
                apply.kind = AppKind::CronJob;
            }
        });
        assert!(sensible(&plan, &[cron_job.clone(), delete(9, "a")]));
        assert!(!sensible(&plan, &[cron_job]));
    }

    #[test]
    fn nothing_is_done_to_what_is_not_there_and_a_pool_comes_back() {
        let (plan, _) = drawn(0);
        let gone = op(5, Operation::DeletePool(DeletePool { pool: "v4-0".to_owned(), force: false }));
        assert!(sensible(&plan, &[apply(1, "a"), delete(9, "a"), apply(10, "a")]));
        assert!(!sensible(&plan, &[apply(1, "a"), apply(10, "a")]));
        assert!(!sensible(&plan, &[delete(9, "a")]));
        assert!(!sensible(&plan, &[apply(1, "a"), gone]));
    }
}
