mod defaults;
mod pool;
mod recorded;
mod reserved_ip;
mod selector;
mod subnet;

use std::sync::Arc;

use ipam_spiderpool::admission::{AdmissionSettings, Fault, Listed};
use ipam_spiderpool::{SpiderIPPool, SpiderReservedIP, SpiderSubnet};
use serde_json::{Value, json};

use super::{Broken, HeldByPools, Ruling};

/// Settings with both families, subnets and the deletion guard enabled.
const ALL: AdmissionSettings =
    AdmissionSettings { enable_ipv4: true, enable_ipv6: true, enable_spider_subnet: true, enable_delete_check: true };

const CIDR: &str = "10.6.0.0/24";

/// An object of `10.6.0.0/24` with a name and further fields of its spec.
fn object(name: &str, spec: Value) -> Value {
    let mut object = json!({
        "metadata": {"name": name, "finalizers": ["spiderpool.spidernet.io"]},
        "spec": {"ipVersion": 4, "subnet": CIDR},
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        object["spec"][key] = value.clone();
    }
    object
}

fn pool(name: &str, spec: Value) -> SpiderIPPool {
    serde_json::from_value(object(name, spec)).unwrap()
}

fn subnet(name: &str, spec: Value) -> SpiderSubnet {
    serde_json::from_value(object(name, spec)).unwrap()
}

fn reserved(spec: Value) -> SpiderReservedIP {
    serde_json::from_value(json!({"metadata": {"name": "r"}, "spec": spec})).unwrap()
}

/// A pool that the subnet `s` controls; with a workload, an auto pool.
fn controlled(name: &str, workload: Option<&str>, spec: Value) -> SpiderIPPool {
    let mut object = object(name, spec);
    let owner =
        json!({"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderSubnet", "name": "s", "uid": "u", "controller": true});
    object["metadata"]["ownerReferences"] = json!([owner]);
    if let Some(workload) = workload {
        object["metadata"]["labels"] = json!({"ipam.spidernet.io/owner-application-name": workload});
    }
    serde_json::from_value(object).unwrap()
}

/// A pool with a status.
fn with_records(mut pool: SpiderIPPool, records: &str, count: i64) -> SpiderIPPool {
    pool.status = serde_json::from_value(json!({"allocatedIPs": records, "allocatedIPCount": count})).unwrap();
    pool
}

/// A subnet with a status.
fn with_pre_allocations(mut subnet: SpiderSubnet, text: &str) -> SpiderSubnet {
    subnet.status = serde_json::from_value(json!({"controlledIPPools": text})).unwrap();
    subnet
}

fn terminating<T: kube::Resource>(mut object: T) -> T {
    let time = serde_json::from_value(json!("2026-01-05T09:00:00Z")).unwrap();
    object.meta_mut().deletion_timestamp = Some(time);
    object
}

fn live(pools: &[SpiderIPPool], subnets: &[SpiderSubnet]) -> Listed {
    Listed { pools: pools.iter().cloned().map(Arc::new).collect(), subnets: subnets.iter().cloned().map(Arc::new).collect() }
}

/// Whether a request is refused for this field and fault, among others.
fn is_refused(ruling: &Ruling, field: &str, fault: Fault) -> bool {
    matches!(ruling, Ruling::Invalid(broken) if broken.contains(&Broken { field: field.to_owned(), fault }))
}

/// The ruling on the write of a pool, with an empty cache of the addresses of pools.
fn ruling_of_pool(old: Option<&SpiderIPPool>, new: Option<&SpiderIPPool>, live: &Listed, settings: &AdmissionSettings) -> Ruling {
    super::pool(old, new, live, settings, &mut HeldByPools::default())
}

/// The ruling on the write of a subnet, with an empty cache of the addresses of pools.
fn ruling_of_subnet(old: Option<&SpiderSubnet>, new: Option<&SpiderSubnet>, live: &Listed, settings: &AdmissionSettings) -> Ruling {
    super::subnet(old, new, live, settings, &mut HeldByPools::default())
}
