//! Lists without an element: the Go types behind the webhooks drop them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::{IPPoolSpec, ReservedIPSpec, SubnetSpec};

fn list<T>(list: &mut Option<Vec<T>>) {
    list.take_if(|list| list.is_empty());
}

fn selector(selector: &mut Option<LabelSelector>) {
    if let Some(selector) = selector {
        list(&mut selector.match_expressions);
        selector.match_labels.take_if(|labels| labels.is_empty());
    }
}

pub(super) fn drop_from_pool(spec: &mut IPPoolSpec) {
    list(&mut spec.ips);
    list(&mut spec.exclude_ips);
    list(&mut spec.routes);
    for names in [&mut spec.namespace_name, &mut spec.node_name, &mut spec.multus_name] {
        list(names);
    }
    for affinity in [&mut spec.pod_affinity, &mut spec.namespace_affinity, &mut spec.node_affinity] {
        selector(affinity);
    }
}

pub(super) fn drop_from_subnet(spec: &mut SubnetSpec) {
    list(&mut spec.ips);
    list(&mut spec.exclude_ips);
    list(&mut spec.routes);
}

pub(super) fn drop_from_reserved_ip(spec: &mut ReservedIPSpec) {
    list(&mut spec.ips);
}
