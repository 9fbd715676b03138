//! The coverage points of Spiderpool: rows of the tables of reclaim, tiers, reasons to reject a pool, rules that rank pools, and ends of
//! calls.

use std::sync::Arc;

use ipam_spiderpool::SpiderIPPool;
use ipam_spiderpool::ipam::{self, Cause, DelOutcome, How, IpamError, PoolError};
use ipam_spiderpool::names::{ANNOTATION_SUBNET, ANNOTATION_SUBNETS};
use ipam_spiderpool::reclaim::{self, Meaning, Row};
use ipam_spiderpool::select::{self, RULES, Rank, Reason, SelectError, Selection, Tier};
use kube_sim::cluster::Cluster;
use kube_sim::coverage_names as names;
use kube_sim::trace::coverage::CoveragePoint;

const TIER: &str = "spiderpool/tier";
/// The annotation that names pools, or a subnet, where a tier knows two.
const ANNOTATION: &str = "spiderpool/annotation";
const ANNOTATIONS: &[&str] = &["subnets", "subnet", "subnet-while-off", "namespace", "namespace-outdated"];
const FILTER: &str = "spiderpool/filter";
/// A rule of a pool that is not evaluated because the pool names nodes, or namespaces (A §3).
const OUTWEIGHED: &str = "spiderpool/outweighed";
const OUTWEIGHED_RULES: &[&str] = &["node-affinity", "namespace-affinity"];
/// The reason why one pool that could serve ranks before another: the rule that only the first one has, or, for equal pools, the order in
/// which they were named (A §4).
const ORDER: &str = "spiderpool/order";
const ORDERS: &[&str] = &[
    "pod-affinity",
    "node-name",
    "node-affinity",
    "namespace-name",
    "namespace-affinity",
    "multus-name",
    "node-name-before-affinity",
    "namespace-name-before-affinity",
    "as-named",
    "example-1",
    "example-2",
    "example-3",
];
const ALLOCATED: &str = "spiderpool/allocated";
const RELEASED: &str = "spiderpool/released";
const REFUSED: &str = "spiderpool/refused";
const POOL: &str = "spiderpool/pool";
const RECLAIM: &str = "spiderpool/reclaim";
/// The end of a request whose container runtime passes no UID (K §5.1).
const WITHOUT_UID: &str = "spiderpool/without-uid";
const WITHOUT_UID_ENDS: &[&str] = &["answered", "alive", "still-valid", "shared", "released-nic", "released", "left-to-reclaim"];

names! {
    how, HOWS: How {
        How::Fresh => "fresh",
        How::Existing => "existing",
        How::Reowned => "reowned",
    }
}

names! {
    cause, CAUSES: Cause {
        Cause::Del => "del",
        Cause::PoolChange => "pool-change",
        Cause::Conflict => "ip-conflict",
        Cause::RollBack => "roll-back",
        Cause::Marked => "marked-endpoint",
        Cause::Superseded => "superseded",
    }
}

names! {
    /// The reason for which an ADD is refused, unless selection or a pool gives a more specific one.
    refused, REFUSALS: IpamError {
        IpamError::MissingPod(_) => "missing-pod",
        IpamError::Elsewhere(_) => "pod-elsewhere",
        IpamError::Replaced { .. } => "replaced-pod",
        IpamError::Select(_) => "no-selection",
        IpamError::NotAllocated(_) => "not-allocated",
        IpamError::Pool { .. } => "pool",
        IpamError::Endpoint { .. } => "endpoint",
        IpamError::MissingEndpoint(_) => "missing-endpoint",
        IpamError::EndpointOfAnother { .. } => "endpoint-of-another-pod",
        IpamError::StaleEndpoint(_) => "stale-endpoint",
        IpamError::TerminatingEndpoint(_) => "terminating-endpoint",
        IpamError::Reading { .. } => "reading",
        IpamError::ForbiddenStateless => "forbidden-stateless",
        IpamError::ForbiddenStateful => "forbidden-stateful",
        IpamError::InAnotherSandbox(_) => "in-another-sandbox",
        IpamError::QueueFull => "queue-full",
        IpamError::OutOfTime => "out-of-time",
    }
}

names! {
    not_selected, SELECT_ERRORS: SelectError {
        SelectError::DeadPod => "dead-pod",
        SelectError::MissingOwner { .. } => "missing-owner",
        SelectError::MalformedRoutes { .. } => "malformed-routes",
        SelectError::InvalidRoute { .. } => "invalid-route",
        SelectError::MalformedAnnotation { .. } => "malformed-annotation",
        SelectError::EmptyIPPools => "empty-ippools",
        SelectError::MixedInterfaces => "mixed-interfaces",
        SelectError::DuplicateInterface { .. } => "duplicate-interface",
        SelectError::InterfaceNotListed { .. } => "interface-not-listed",
        SelectError::BadWildcard { .. } => "bad-wildcard",
        SelectError::MissingNamespace { .. } => "missing-namespace",
        SelectError::NoPool => "no-pool",
        SelectError::NoCandidate { .. } => "no-candidate",
        SelectError::DuplicatePool { .. } => "duplicate-pool",
        SelectError::MissingPool { .. } => "missing-pool",
        SelectError::AllFiltered { .. } => "all-filtered",
        SelectError::SubnetAutoPoolDisabled => "subnet-auto-pool-disabled",
        SelectError::SubnetInvalid { .. } => "subnet-invalid",
        SelectError::SubnetBadIpNumber { .. } => "subnet-bad-ip-number",
        SelectError::SubnetBadReclaim { .. } => "subnet-bad-reclaim",
        SelectError::SubnetOrphanPod => "subnet-orphan-pod",
        SelectError::SubnetNeedsFixedNumber { .. } => "subnet-needs-fixed-number",
        SelectError::SubnetNoAutoPool { .. } => "subnet-no-auto-pool",
        SelectError::SubnetManyAutoPools { .. } => "subnet-many-auto-pools",
        SelectError::SubnetReconcileFailed { .. } => "subnet-reconcile-failed",
    }
}

names! {
    /// The reason for which a pool gives or takes nothing.
    refused_by_pool, POOL_ERRORS: PoolError {
        PoolError::NotFound => "not-found",
        PoolError::Unavailable(_) => "unavailable",
        PoolError::BadRecords(_) => "bad-records",
        PoolError::DataBroken { .. } => "data-broken",
        PoolError::RetriesExhausted { .. } => "retries-exhausted",
        PoolError::NotCompared => "not-compared",
        PoolError::OwnRecordsMadeWay => "own-records-made-way",
        PoolError::Overlaps { .. } => "overlaps",
        PoolError::OutOfTime => "out-of-time",
        PoolError::EndpointUnknown => "endpoint-unknown",
        PoolError::Replaced(_) => "replaced-pod",
        PoolError::Unsettled(_) => "unsettled",
        PoolError::Api(_) => "api",
    }
}

/// All points that a run can reach.
pub(crate) fn points() -> Vec<CoveragePoint> {
    let tiers = Tier::ALL.iter().map(|tier| (TIER, tier.name()));
    let reasons = Reason::ALL.iter().map(|reason| (FILTER, reason.code()));
    let rows = Row::ALL.iter().map(|row| (RECLAIM, row.code()));
    let of = |group, names: &'static [&str]| names.iter().map(move |name| (group, *name));
    let named = of(ALLOCATED, HOWS).chain(of(RELEASED, CAUSES)).chain(of(REFUSED, REFUSALS)).chain(of(REFUSED, SELECT_ERRORS));
    let named = named.chain(of(ANNOTATION, ANNOTATIONS)).chain(of(OUTWEIGHED, OUTWEIGHED_RULES)).chain(of(ORDER, ORDERS));
    let named = named.chain(of(WITHOUT_UID, WITHOUT_UID_ENDS)).chain(of(POOL, POOL_ERRORS)).chain(tiers).chain(reasons).chain(rows);
    let mut points: Vec<CoveragePoint> = named.map(|(group, name)| CoveragePoint { group, name }).collect();
    points.sort_unstable();
    points
}

/// Reaches the coverage points of a step of an agent.
pub(crate) fn of_agent(cluster: &Cluster, step: &ipam::Step<'_>) {
    let reach = |group, name| cluster.reach(CoveragePoint { group, name });
    match step {
        ipam::Step::Selected { asked, selection, .. } => {
            if let Some(name) = annotation_of(asked, selection) {
                reach(ANNOTATION, name);
            }
            if selection.tier != Tier::None {
                reach(TIER, selection.tier.name());
            }
            let families = selection.nics.iter().flat_map(|nic| &nic.families);
            families.clone().for_each(|family| of_order(&family.order, reach));
            families.flat_map(|family| &family.candidates).filter_map(|candidate| candidate.rejected).for_each(|reason| {
                reach(FILTER, reason.code());
            });
        }
        ipam::Step::PoolTried { result: Err(error), .. } | ipam::Step::Reowned { result: Err(error), .. } => {
            reach(POOL, refused_by_pool(error));
        }
        ipam::Step::AddEnded { request, result: Ok(answer), .. } => {
            reach(ALLOCATED, how(&answer.how));
            if request.pod_uid.is_empty() {
                reach(WITHOUT_UID, "answered");
            }
        }
        ipam::Step::DelEnded { request, result: Ok(outcome), .. } if request.pod_uid.is_empty() => {
            del_without_uid(*outcome).into_iter().for_each(|name| reach(WITHOUT_UID, name));
        }
        ipam::Step::AddEnded { result: Err(error), .. }
        | ipam::Step::DelEnded { result: Err(error), .. }
        | ipam::Step::BatchEnded { result: Err(error), .. } => {
            reach(REFUSED, refused(error));
            match error {
                IpamError::Select(error) => reach(REFUSED, not_selected(error)),
                IpamError::Pool { error, .. } => reach(POOL, refused_by_pool(error)),
                _ => {}
            }
        }
        ipam::Step::ReleaseBegun { cause: why, .. } => reach(RELEASED, cause(why)),
        _ => {}
    }
}

/// The end of a DEL that names no UID; `None` = such a DEL cannot end like this, because its pod's endpoint names its sandbox or nothing is
/// done.
fn del_without_uid(outcome: DelOutcome) -> Option<&'static str> {
    Some(match outcome {
        DelOutcome::Alive => "alive",
        DelOutcome::NoUid => "left-to-reclaim",
        DelOutcome::StillValid => "still-valid",
        DelOutcome::Shared => "shared",
        DelOutcome::ReleasedNic => "released-nic",
        DelOutcome::Released => "released",
        DelOutcome::NoEndpoint | DelOutcome::NotOurs => return None,
    })
}

/// The annotation that a selection uses, or ignores because the feature is off; `None` = its tier has only one.
fn annotation_of(asked: &select::Request<'_>, selection: &Selection) -> Option<&'static str> {
    let has = |name| asked.pod.metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(name));
    match selection.tier {
        Tier::Subnet if has(ANNOTATION_SUBNETS) => Some("subnets"),
        Tier::Subnet => Some("subnet"),
        _ if !asked.settings.enable_spider_subnet && (has(ANNOTATION_SUBNETS) || has(ANNOTATION_SUBNET)) => Some("subnet-while-off"),
        Tier::Namespace if selection.outdated.is_empty() => Some("namespace"),
        Tier::Namespace => Some("namespace-outdated"),
        _ => None,
    }
}

/// For each of [`RULES`], whether a pool has it.
fn rules(pool: &SpiderIPPool) -> [bool; RULES.len()] {
    let rank = Rank::of(&pool.spec);
    RULES.map(|rule| rank.rules().any(|has| has == rule))
}

/// Reaches the coverage points of the order of pools that can serve; pools of one rank are together.
fn of_order(order: &[Vec<Arc<SpiderIPPool>>], reach: impl Fn(&'static str, &'static str)) {
    if order.iter().any(|equals| equals.len() > 1) {
        reach(ORDER, "as-named");
    }
    let ranks: Vec<_> = order.iter().filter_map(|equals| equals.first()).map(|pool| rules(pool)).collect();
    for (at, better) in ranks.iter().enumerate() {
        let [_, node_name, node_affinity, namespace_name, namespace_affinity, _] = *better;
        if node_name && node_affinity {
            reach(OUTWEIGHED, "node-affinity");
        }
        if namespace_name && namespace_affinity {
            reach(OUTWEIGHED, "namespace-affinity");
        }
        for worse in &ranks[at + 1..] {
            let decides = better.iter().zip(worse).position(|(better, worse)| better != worse);
            decides.into_iter().for_each(|rule| reach(ORDER, ORDERS[rule]));
            match decides.map(|rule| RULES[rule]) {
                Some("nodeName") if worse[2] => reach(ORDER, "node-name-before-affinity"),
                Some("namespaceName") if worse[4] => reach(ORDER, "namespace-name-before-affinity"),
                _ => {}
            }
            example_of(*better, *worse).into_iter().for_each(|example| reach(ORDER, example));
        }
    }
}

/// The example of the documents that a pair of pools matches, by their rules: affinity for pods, for nodes, for namespaces, and networks.
fn example_of(better: [bool; RULES.len()], worse: [bool; RULES.len()]) -> Option<&'static str> {
    let kinds = |[pod, node, node_affinity, namespace, namespace_affinity, multus]: [bool; RULES.len()]| {
        [pod, node || node_affinity, namespace || namespace_affinity, multus]
    };
    match (kinds(better), kinds(worse)) {
        ([true, true, false, false], [true, false, false, false]) => Some("example-1"),
        ([true, false, false, false], [false, true, true, false]) => Some("example-2"),
        ([true, true, false, false], [true, false, true, true]) => Some("example-3"),
        _ => None,
    }
}

/// Reaches the coverage points of a step of a controller replica, also of a step that changes nothing.
pub(crate) fn of_controller(cluster: &Cluster, step: &reclaim::Step<'_>) {
    let reach = |row: Row| cluster.reach(CoveragePoint { group: RECLAIM, name: row.code() });
    match step {
        reclaim::Step::EventJudged { meaning, .. } => match meaning {
            Meaning::Ignore(row) | Meaning::Enter(_, row) | Meaning::Lost(row) | Meaning::Crash(row) => reach(*row),
            Meaning::Ask(_) => {}
        },
        reclaim::Step::EntryFired { row, .. } | reclaim::Step::EntryHeld { row, .. } | reclaim::Step::Executed { row, .. } => reach(*row),
        reclaim::Step::RecordJudged { verdict, .. } => {
            reach(verdict.row);
            verdict.endpoint_row.into_iter().for_each(reach);
        }
        reclaim::Step::ReleaseBegun { row, .. } => reach(*row),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    use ipam_spiderpool::IPPoolSpec;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

    use super::*;

    #[test]
    fn points_have_distinct_names() {
        let points = points();
        let names: BTreeSet<String> = points.iter().map(CoveragePoint::to_string).collect();
        assert_eq!(names.len(), points.len());
        assert!(
            ["spiderpool/reclaim/S-8", "spiderpool/tier/namespace", "spiderpool/refused/no-pool"].iter().all(|name| names.contains(*name))
        );
    }

    #[test]
    fn what_decides_between_pools_is_told_by_their_rules() {
        let named = || Some(vec!["x".to_owned()]);
        let pod = IPPoolSpec { pod_affinity: Some(LabelSelector::default()), ..IPPoolSpec::default() };
        let pod_and_node = IPPoolSpec { node_name: named(), ..pod.clone() };
        let of_two_kinds = IPPoolSpec { node_affinity: Some(LabelSelector::default()), namespace_name: named(), ..IPPoolSpec::default() };
        let both_for_nodes = IPPoolSpec { node_affinity: Some(LabelSelector::default()), ..pod_and_node.clone() };
        let reached = |specs: &[&IPPoolSpec]| {
            let pools = specs.iter().map(|spec| Arc::new(SpiderIPPool::new("p", IPPoolSpec::clone(spec))));
            let reached = RefCell::new(BTreeSet::new());
            of_order(&select::by_rank(pools), |group, name| {
                reached.borrow_mut().insert((group, name));
            });
            reached.into_inner().into_iter().map(|(_, name)| name).collect::<Vec<_>>()
        };
        assert_eq!(reached(&[&pod, &pod_and_node]), ["example-1", "node-name"]);
        assert_eq!(reached(&[&of_two_kinds, &pod]), ["example-2", "pod-affinity"]);
        let third = IPPoolSpec { namespace_name: named(), multus_name: named(), ..pod.clone() };
        assert_eq!(reached(&[&third, &pod_and_node]), ["example-3", "node-name"]);
        assert_eq!(reached(&[&pod, &pod]), ["as-named"]);
        assert_eq!(reached(&[&both_for_nodes]), ["node-affinity"]);
    }
}
