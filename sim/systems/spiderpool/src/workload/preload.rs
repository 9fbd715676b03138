//! The objects of a generated cluster that exist at the beginning, as its control plane and webhooks would have left them.

use std::sync::Arc;

use ipam_spiderpool::names::{FINALIZER, LABEL_IPPOOL_CIDR};
use ipam_spiderpool::ranges::cidr_label;
use ipam_spiderpool::select::Settings;
use ipam_spiderpool::{IPPoolSpec, Policy, ReservedIPSpec, SpiderIPPool, SpiderReservedIP, SpiderSubnet};
use k8s_openapi::api::core::v1::{Namespace, Node, NodeCondition, NodeStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_machinery::ObjectKey;
use kube_sim::cluster::Cluster;

use super::ops::{PoolPlan, Reserve};
use super::plan::SpiderPlan;
use super::rounds;
use super::subnets::admission::{defaulted, subnet_object};

/// A pool as the defaulting webhook leaves it (A §9.1).
pub(super) fn pool_object(pool: &PoolPlan) -> SpiderIPPool {
    let version = pool.spec.ip_version.unwrap_or(4);
    let label = cidr_label(&pool.spec.subnet, version, &Policy::hardened()).ok();
    let metadata = ObjectMeta {
        name: Some(pool.name.clone()),
        finalizers: Some(vec![FINALIZER.to_owned()]),
        labels: label.map(|label| [(LABEL_IPPOOL_CIDR.to_owned(), label)].into()),
        ..ObjectMeta::default()
    };
    SpiderIPPool { metadata, spec: pool.spec.clone(), status: None }
}

/// A pool in the form that operators write, without the fields that webhooks fill in.
pub(super) fn written_pool(pool: &PoolPlan) -> SpiderIPPool {
    let mut object = SpiderIPPool { spec: pool.spec.clone(), ..SpiderIPPool::default() };
    object.metadata.name = Some(pool.name.clone());
    object.spec.ip_version = None;
    object
}

/// A Node that is ready.
fn node_object(name: &str) -> Node {
    let ready = NodeCondition { type_: "Ready".to_owned(), status: "True".to_owned(), ..NodeCondition::default() };
    Node {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some([("kubernetes.io/hostname".to_owned(), name.to_owned())].into()),
            ..ObjectMeta::default()
        },
        status: Some(NodeStatus { conditions: Some(vec![ready]), ..NodeStatus::default() }),
        ..Node::default()
    }
}

/// Stores the objects that the plan names and the user's manifests do not contain.
pub(super) fn preload(plan: &SpiderPlan, cluster: &Arc<Cluster>) {
    for number in 0..plan.nodes {
        cluster.preload_unless_held(node_object(&plan.node_name(number)));
    }
    if let Some(lifecycle) = plan.node_lifecycle {
        lifecycle.preload(cluster);
    }
    for (name, annotations) in &plan.namespaces {
        // A namespace that every cluster has is replaced only if it has annotations.
        if annotations.is_empty() && cluster.holds::<Namespace>(&ObjectKey::cluster(name)) {
            continue;
        }
        let annotations = Some(annotations.clone()).filter(|annotations| !annotations.is_empty());
        let metadata = ObjectMeta { name: Some(name.clone()), annotations, ..ObjectMeta::default() };
        cluster.preload_typed(Namespace { metadata, ..Namespace::default() });
    }
    let select = plan.agent_settings(&Policy::hardened()).map(|settings| settings.select).unwrap_or_default();
    for subnet in &plan.subnets {
        if !cluster.holds::<SpiderSubnet>(&ObjectKey::cluster(&subnet.name)) {
            cluster.preload_typed(defaulted(subnet_object(subnet), cluster, &select));
        }
    }
    for pool in &plan.pools {
        if !cluster.holds::<SpiderIPPool>(&ObjectKey::cluster(&pool.name)) {
            let pool = pool_object(pool);
            cluster.preload_typed(if plan.serves_subnets() { defaulted(pool, cluster, &select) } else { pool });
        }
    }
    if let Some(rounds) = plan.closed_loop {
        rounds::preload(plan, rounds, cluster);
    }
    for reserve in &plan.reserved {
        cluster.preload_typed(reserved_object(reserve));
    }
    if plan.pools.is_empty() {
        default_brought(cluster);
    }
}

/// Fills in the defaults of hand-written objects that no webhook has seen (A §9.1). Objects printed by a cluster have an IP version and
/// stay unchanged.
fn default_brought(cluster: &Arc<Cluster>) {
    for (_, object) in cluster.dump() {
        let any = object.as_any();
        if let Some(pool) = any.downcast_ref::<SpiderIPPool>().filter(|pool| pool.spec.ip_version.is_none()) {
            let version = if pool.spec.subnet.contains(':') { 6 } else { 4 };
            let spec = IPPoolSpec { ip_version: Some(version), ..pool.spec.clone() };
            let plan = PoolPlan { name: pool.metadata.name.clone().unwrap_or_default(), spec };
            let SpiderIPPool { metadata, spec, .. } = pool_object(&plan);
            let mut defaulted = SpiderIPPool { spec, ..pool.clone() };
            defaulted.metadata.finalizers = metadata.finalizers;
            defaulted.metadata.labels.get_or_insert_default().extend(metadata.labels.into_iter().flatten());
            cluster.preload_typed(defaulted);
        } else if let Some(subnet) = any.downcast_ref::<SpiderSubnet>().filter(|subnet| subnet.spec.ip_version.is_none()) {
            cluster.preload_typed(defaulted(subnet.clone(), cluster, &Settings::default()));
        } else if let Some(reserved) = any.downcast_ref::<SpiderReservedIP>().filter(|reserved| reserved.spec.ip_version.is_none()) {
            let ips = reserved.spec.ips.clone().unwrap_or_default();
            let reserve = Reserve { name: String::new(), ips };
            cluster.preload_typed(SpiderReservedIP { spec: reserved_object(&reserve).spec, ..reserved.clone() });
        }
    }
}

/// A SpiderReservedIP in the form that operators write.
pub(super) fn reserved_object(reserve: &Reserve) -> SpiderReservedIP {
    let version = reserve.ips.first().map(|range| if range.contains(':') { 6 } else { 4 });
    SpiderReservedIP {
        metadata: ObjectMeta { name: Some(reserve.name.clone()), ..ObjectMeta::default() },
        spec: ReservedIPSpec { ip_version: version, ips: Some(reserve.ips.clone()) },
    }
}
