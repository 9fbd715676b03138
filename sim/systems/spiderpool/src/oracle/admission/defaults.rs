//! The defaults that the mutating webhooks fill in (A §9.1 to §9.3). The first step that fails ends the mutation; validation then sees the
//! result so far.

use std::sync::Arc;

use ipam_spiderpool::admission::AdmissionSettings;
use ipam_spiderpool::names::{FINALIZER, GROUP, LABEL_IPPOOL_CIDR, LABEL_OWNER_SUBNET, LABEL_SUBNET_CIDR, VERSION};
use ipam_spiderpool::owner_label::owner_label;
use ipam_spiderpool::ranges::{Cidr, check_range, cidr_label, merge_ranges};
use ipam_spiderpool::{Policy, SpiderIPPool, SpiderReservedIP, SpiderSubnet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube_machinery::controller_of;

use super::stored::{stored_pool, stored_reserved_ip, stored_subnet};

/// The pool as the mutating webhook leaves it. `subnets`: those in its cache, sorted by name.
pub fn pool_defaults(object: &SpiderIPPool, subnets: &[Arc<SpiderSubnet>], settings: &AdmissionSettings) -> SpiderIPPool {
    let mut pool = object.clone();
    if pool.metadata.deletion_timestamp.is_none() {
        fill_pool(&mut pool, subnets, settings);
    }
    stored_pool(&pool)
}

/// The subnet as the mutating webhook leaves it.
pub fn subnet_defaults(object: &SpiderSubnet) -> SpiderSubnet {
    let mut subnet = object.clone();
    if subnet.metadata.deletion_timestamp.is_none() {
        fill_subnet(&mut subnet);
    }
    stored_subnet(&subnet)
}

/// The reserved addresses as the mutating webhook leaves them.
pub fn reserved_ip_defaults(object: &SpiderReservedIP) -> SpiderReservedIP {
    let mut reserved = object.clone();
    if reserved.metadata.deletion_timestamp.is_none() {
        fill_reserved_ip(&mut reserved);
    }
    stored_reserved_ip(&reserved)
}

/// Fills in the defaults of a pool. `None`: it stopped early.
fn fill_pool(pool: &mut SpiderIPPool, subnets: &[Arc<SpiderSubnet>], settings: &AdmissionSettings) -> Option<()> {
    let version = fill_cidr(&mut pool.metadata, LABEL_IPPOOL_CIDR, &pool.spec.subnet, &mut pool.spec.ip_version)?;
    if settings.enable_spider_subnet {
        fill_owner(pool, subnets)?;
    }
    merge(&mut pool.spec.ips, version)?;
    merge(&mut pool.spec.exclude_ips, version)
}

fn fill_subnet(subnet: &mut SpiderSubnet) -> Option<()> {
    let version = fill_cidr(&mut subnet.metadata, LABEL_SUBNET_CIDR, &subnet.spec.subnet, &mut subnet.spec.ip_version)?;
    merge(&mut subnet.spec.ips, version)?;
    merge(&mut subnet.spec.exclude_ips, version)
}

fn fill_reserved_ip(reserved: &mut SpiderReservedIP) -> Option<()> {
    let first = reserved.spec.ips.as_ref()?.first()?;
    let of_first = || [4, 6].into_iter().find(|version| check_range(first, *version, &Policy::hardened()).is_ok());
    reserved.spec.ip_version = reserved.spec.ip_version.or_else(of_first);
    merge(&mut reserved.spec.ips, reserved.spec.ip_version?)
}

/// Fills in the finalizer, the IP version of the CIDR, and the label of the CIDR.
fn fill_cidr(metadata: &mut ObjectMeta, label: &str, subnet: &str, version: &mut Option<i64>) -> Option<i64> {
    let finalizers = metadata.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        finalizers.push(FINALIZER.to_owned());
    }
    if version.is_none() {
        *version = Some(Cidr::parse(subnet, &Policy::hardened()).ok()?.version().number());
    }
    let version = (*version)?;
    let value = cidr_label(subnet, version, &Policy::hardened()).ok()?;
    metadata.labels.get_or_insert_default().insert(label.to_owned(), value);
    Some(version)
}

/// Makes the subnet of the same CIDR the controller, and takes its gateway and routes where the pool has none; does nothing if its label
/// already says so (A §14.16).
fn fill_owner(pool: &mut SpiderIPPool, subnets: &[Arc<SpiderSubnet>]) -> Option<()> {
    let owner = pool.metadata.labels.as_ref().and_then(|labels| labels.get(LABEL_OWNER_SUBNET));
    if controller_of(&pool.metadata).is_some_and(|controller| owner.is_some_and(|owner| *owner == owner_label(&controller.name))) {
        return Some(());
    }
    let cidr = label(&pool.metadata, LABEL_IPPOOL_CIDR)?;
    let Some(subnet) = subnets.iter().find(|subnet| label(&subnet.metadata, LABEL_SUBNET_CIDR) == Some(cidr)) else { return Some(()) };
    let name = subnet.metadata.name.clone()?;
    own(&mut pool.metadata, &name, subnet.metadata.uid.clone().unwrap_or_default())?;
    pool.metadata.labels.get_or_insert_default().insert(LABEL_OWNER_SUBNET.to_owned(), owner_label(&name).into_owned());
    pool.spec.gateway = pool.spec.gateway.take().or_else(|| subnet.spec.gateway.clone());
    pool.spec.routes = pool.spec.routes.take().or_else(|| subnet.spec.routes.clone());
    Some(())
}

/// Makes a subnet the controller. `None`: another object is.
fn own(metadata: &mut ObjectMeta, name: &str, uid: String) -> Option<()> {
    let is_it =
        |owner: &OwnerReference| owner.kind == "SpiderSubnet" && owner.name == name && owner.api_version.split('/').next() == Some(GROUP);
    if controller_of(metadata).is_some_and(|controller| !is_it(controller)) {
        return None;
    }
    let reference = OwnerReference {
        api_version: format!("{GROUP}/{VERSION}"),
        block_owner_deletion: Some(true),
        controller: Some(true),
        kind: "SpiderSubnet".to_owned(),
        name: name.to_owned(),
        uid,
    };
    let owners = metadata.owner_references.get_or_insert_default();
    match owners.iter_mut().find(|owner| is_it(owner)) {
        Some(owner) => *owner = reference,
        None => owners.push(reference),
    }
    Some(())
}

fn label<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a String> {
    metadata.labels.as_ref()?.get(key)
}

/// Replaces a list of more than one range by its shortest form. `None`: one of them is not a range, and the list stays unchanged.
fn merge(list: &mut Option<Vec<String>>, version: i64) -> Option<()> {
    if let Some(texts) = list.as_mut().filter(|texts| texts.len() > 1) {
        *texts = merge_ranges(texts, version, &Policy::hardened()).ok()?;
    }
    Some(())
}
