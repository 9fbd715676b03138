//! The form in which objects are stored: upstream omits empty lists and maps.

use std::collections::BTreeMap;

use ipam_spiderpool::{SpiderIPPool, SpiderReservedIP, SpiderSubnet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

/// The pool as it is stored.
pub(super) fn stored_pool(pool: &SpiderIPPool) -> SpiderIPPool {
    let mut pool = pool.clone();
    prune_metadata(&mut pool.metadata);
    let spec = &mut pool.spec;
    [&mut spec.ips, &mut spec.exclude_ips, &mut spec.namespace_name, &mut spec.node_name, &mut spec.multus_name]
        .into_iter()
        .for_each(prune);
    prune(&mut spec.routes);
    [&mut spec.pod_affinity, &mut spec.namespace_affinity, &mut spec.node_affinity].into_iter().for_each(prune_selector);
    pool
}

/// The subnet as it is stored.
pub(super) fn stored_subnet(subnet: &SpiderSubnet) -> SpiderSubnet {
    let mut subnet = subnet.clone();
    prune_metadata(&mut subnet.metadata);
    [&mut subnet.spec.ips, &mut subnet.spec.exclude_ips].into_iter().for_each(prune);
    prune(&mut subnet.spec.routes);
    subnet
}

/// Reserved addresses as they are stored.
pub(super) fn stored_reserved_ip(reserved: &SpiderReservedIP) -> SpiderReservedIP {
    let mut reserved = reserved.clone();
    prune_metadata(&mut reserved.metadata);
    prune(&mut reserved.spec.ips);
    reserved
}

fn prune_metadata(metadata: &mut ObjectMeta) {
    [&mut metadata.labels, &mut metadata.annotations].into_iter().for_each(prune_map);
    prune(&mut metadata.finalizers);
    prune(&mut metadata.owner_references);
}

fn prune_selector(selector: &mut Option<LabelSelector>) {
    let Some(selector) = selector else { return };
    prune_map(&mut selector.match_labels);
    selector.match_expressions.iter_mut().flatten().for_each(|expression| prune(&mut expression.values));
    prune(&mut selector.match_expressions);
}

fn prune<T>(list: &mut Option<Vec<T>>) {
    *list = list.take().filter(|list| !list.is_empty());
}

fn prune_map(map: &mut Option<BTreeMap<String, String>>) {
    *map = map.take().filter(|map| !map.is_empty());
}
