//! The form of an auto pool: name, labels, annotation, owner, affinity (A §8.2, §1.1).

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use kube::Resource;

use super::want::Want;
use crate::SpiderSubnet;
use crate::auto_pool::application_label_gv;
use crate::owner_label::{application_name_of, application_version_of, label_for, subnet_of};
use crate::ranges::{IpSet, cidr_label};
use crate::{IPPoolSpec, Policy, SpiderIPPool, names};

/// The annotation of a pool that holds the subnet's version at which part of its pre-allocation was given back.
const GIVEN_BACK: &str = "ipam.spidernet.io/given-back-at";

/// The labels that identify the pools of a workload, whichever incarnation it is; upstream writes names unchanged, whatever their length.
fn identity(want: &Want<'_>, policy: &Policy) -> [(&'static str, String); 7] {
    let name = &want.application.name;
    let value = |name: &str| label_for(name, policy).into_owned();
    [
        (names::LABEL_OWNER_SUBNET, value(&want.demand.subnet)),
        (names::LABEL_OWNER_APPLICATION_GV, value(&application_label_gv(&name.api_version))),
        // Kinds and namespaces are no longer than labels.
        (names::LABEL_OWNER_APPLICATION_KIND, name.kind.clone()),
        (names::LABEL_OWNER_APPLICATION_NAMESPACE, name.namespace.clone()),
        (names::LABEL_OWNER_APPLICATION_NAME, value(&name.name)),
        (names::LABEL_INTERFACE, want.demand.nic.clone()),
        (names::LABEL_IP_VERSION, want.demand.family.to_string()),
    ]
}

/// A label of a pool.
pub(super) fn label<'a>(pool: &'a SpiderIPPool, key: &str) -> Option<&'a str> {
    pool.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

/// Whether this workload, or another of the same name, asked for a pool.
pub(super) fn is_for(pool: &SpiderIPPool, want: &Want<'_>) -> bool {
    let (name, demand) = (&want.application.name, want.demand);
    application_name_of(pool) == Some(&name.name)
        && label(pool, names::LABEL_OWNER_APPLICATION_NAMESPACE) == Some(&name.namespace)
        && label(pool, names::LABEL_OWNER_APPLICATION_KIND) == Some(&name.kind)
        && subnet_of(pool) == Some(&demand.subnet)
        && label(pool, names::LABEL_INTERFACE) == Some(&demand.nic)
        && label(pool, names::LABEL_IP_VERSION).is_some_and(|label| label == demand.family.to_string())
        && application_version_of(pool).as_deref() == Some(&name.api_version)
}

/// The pool that serves a workload among `pools`, which are sorted by name: its own, or the first that a workload of the same name has
/// left.
///
/// A pool that is deleted with another incarnation of the workload serves nobody else. A leftover pool is not taken while the subnet has a
/// pre-allocation for a pool of the workload's own: another agent is making that one. Upstream takes the first of all.
pub(super) fn pool_of<'a>(
    want: &Want<'_>,
    subnet: &SpiderSubnet,
    pools: impl IntoIterator<Item = &'a Arc<SpiderIPPool>>,
    policy: &Policy,
) -> Option<&'a Arc<SpiderIPPool>> {
    let is_own = |pool: &SpiderIPPool| label(pool, names::LABEL_OWNER_APPLICATION_UID) == Some(&want.application.uid);
    let is_left = |pool: &SpiderIPPool| label(pool, names::LABEL_IPPOOL_RECLAIM) != Some("true");
    let usable = pools.into_iter().filter(|pool| is_for(pool, want) && (is_own(pool) || is_left(pool)));
    // Among equals this is the first.
    let pool = usable.min_by_key(|pool| !policy.namesake_pool_first && !is_own(pool))?;
    (policy.namesake_pool_first || is_own(pool) || !is_being_made(&want.pool_name(policy), subnet)).then_some(pool)
}

/// Whether a subnet has a pre-allocation for a pool of this name.
pub(super) fn is_being_made(name: &str, subnet: &SpiderSubnet) -> bool {
    let entries = subnet.status.as_ref().and_then(|status| status.controlled_ippools.parse().ok());
    entries.is_some_and(|entries| entries.iter().any(|(of, _)| of == name))
}

/// Whether the labels and the annotation that may change are as they should be.
///
/// Upstream does not check the annotation.
pub(super) fn is_up_to_date(pool: &SpiderIPPool, want: &Want<'_>, policy: &Policy) -> bool {
    let annotation = pool.metadata.annotations.as_ref().and_then(|annotations| annotations.get(names::ANNOTATION_IPPOOL_IP_NUMBER));
    label(pool, names::LABEL_OWNER_APPLICATION_UID) == Some(&want.application.uid)
        && label(pool, names::LABEL_IPPOOL_RECLAIM) == Some(reclaim(want))
        && (policy.auto_pool_annotations_replaced || annotation == Some(&want.demand.number))
}

fn reclaim(want: &Want<'_>) -> &'static str {
    if want.demand.reclaim { "true" } else { "false" }
}

/// A pool that does not exist yet. It has the label by which the pools of a CIDR are listed. The webhook would set the same (A §9.1), but
/// where no webhook is called, other pools would take the addresses of a pool without the label.
pub(super) fn new(name: &str, subnet: &SpiderSubnet, want: &Want<'_>, ips: &IpSet, policy: &Policy) -> Box<SpiderIPPool> {
    let application = &want.application.name;
    let mut labels: BTreeMap<String, String> = identity(want, policy).into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    labels.insert(names::LABEL_OWNER_APPLICATION_UID.to_owned(), want.application.uid.clone());
    labels.insert(names::LABEL_IPPOOL_RECLAIM.to_owned(), reclaim(want).to_owned());
    let cidr = cidr_label(&subnet.spec.subnet, want.demand.family.number(), policy);
    labels.extend(cidr.ok().map(|cidr| (names::LABEL_IPPOOL_CIDR.to_owned(), cidr)));
    let (group, version) = application.group_version();
    let values = [group, version, &application.kind, &application.namespace, &application.name];
    let affinity = names::AFFINITY_APP.iter().zip(values).map(|(key, value)| ((*key).to_owned(), value.to_owned())).collect();
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(labels),
        annotations: Some([(names::ANNOTATION_IPPOOL_IP_NUMBER.to_owned(), want.demand.number.clone())].into()),
        finalizers: Some(vec![names::FINALIZER.to_owned()]),
        owner_references: Some(vec![owner(subnet)]),
        ..ObjectMeta::default()
    };
    let spec = IPPoolSpec {
        ip_version: Some(want.demand.family.number()),
        subnet: subnet.spec.subnet.clone(),
        ips: Some(ips.texts()).filter(|ips| !ips.is_empty()),
        gateway: subnet.spec.gateway.clone(),
        routes: subnet.spec.routes.clone(),
        pod_affinity: Some(LabelSelector { match_labels: Some(affinity), match_expressions: None }),
        ..IPPoolSpec::default()
    };
    Box::new(SpiderIPPool { metadata, spec, status: None })
}

/// The reference to the subnet that controls a pool.
pub(crate) fn owner(subnet: &SpiderSubnet) -> OwnerReference {
    OwnerReference {
        api_version: format!("{}/{}", names::GROUP, names::VERSION),
        kind: SpiderSubnet::kind(&()).into_owned(),
        name: subnet.metadata.name.clone().unwrap_or_default(),
        uid: subnet.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// The same pool with other addresses and the current metadata for the workload.
pub(super) fn changed(pool: &SpiderIPPool, want: &Want<'_>, ips: &IpSet, policy: &Policy) -> Box<SpiderIPPool> {
    let mut pool = Box::new(pool.clone());
    let labels = pool.metadata.labels.get_or_insert_default();
    labels.insert(names::LABEL_OWNER_APPLICATION_UID.to_owned(), want.application.uid.clone());
    labels.insert(names::LABEL_IPPOOL_RECLAIM.to_owned(), reclaim(want).to_owned());
    let annotations = pool.metadata.annotations.get_or_insert_default();
    if policy.auto_pool_annotations_replaced {
        annotations.clear();
    }
    annotations.insert(names::ANNOTATION_IPPOOL_IP_NUMBER.to_owned(), want.demand.number.clone());
    pool.spec.ips = Some(ips.texts()).filter(|ips| !ips.is_empty());
    pool
}

/// The pool with a mark that no version of it had before. It is written before the unused part of the pool's pre-allocation is given back:
/// a writer that is about to put those addresses into the pool has read an older version, and is refused from then on.
pub(super) fn fenced(pool: &SpiderIPPool, subnet: &SpiderSubnet) -> Box<SpiderIPPool> {
    let mut pool = Box::new(pool.clone());
    let version = subnet.metadata.resource_version.clone().unwrap_or_default();
    pool.metadata.annotations.get_or_insert_default().insert(GIVEN_BACK.to_owned(), version);
    pool
}
