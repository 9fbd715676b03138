//! Admission among many pools, and the plan for one of many pools of a large subnet.

use std::sync::Arc;

use ipam_spiderpool::SpiderSubnet;
use ipam_spiderpool::admission::{AdmissionSettings, Listed, Request, review};
use ipam_spiderpool::ranges::{IpSet, IpVersion};
use ipam_spiderpool::subnet::{Application, ApplicationName, Census, Demand, Fate, Known, Want, plan, upkeep};
use ipam_spiderpool::{Policy, SpiderIPPool};
use kube_machinery::JsonText;
use serde_json::json;

/// The number of pools that exist when another one is admitted.
pub(crate) const ADMITTED: u32 = 10_000;
/// The number of pools of a subnet of 65,536 addresses.
pub(crate) const PLANNED: u32 = 1_000;

fn ip(number: u32) -> String {
    std::net::Ipv4Addr::from(0x0a00_0000 + number).to_string()
}

/// A pool of the `number`-th block of `size` addresses of 10.0.0.0/8.
fn pool(name: &str, number: u32, size: u32) -> Arc<SpiderIPPool> {
    let mut pool = SpiderIPPool::default();
    pool.metadata.name = Some(name.to_owned());
    (pool.spec.ip_version, pool.spec.subnet) = (Some(4), "10.0.0.0/8".to_owned());
    pool.spec.ips = Some(vec![format!("{}-{}", ip(number * size), ip(number * size + size - 1))]);
    Arc::new(pool)
}

/// Judges a pool that is to be created beside [`ADMITTED`] others, all of one CIDR.
pub(crate) fn admission() -> impl FnMut() -> usize {
    let pools = (0..ADMITTED).map(|number| pool(&format!("p{number}"), number, 16)).collect();
    let live = Listed { pools, subnets: Vec::new() };
    let (new, settings, policy) = (pool("new", ADMITTED, 16), AdmissionSettings::default(), Policy::hardened());
    move || {
        let verdict = review(&Request::Create(&new), &live, &settings, &policy);
        assert_eq!(verdict.denial, None);
        1
    }
}

/// A subnet of 65,536 addresses with [`PLANNED`] auto pools of 32 addresses.
fn subnet() -> (SpiderSubnet, Vec<Arc<SpiderIPPool>>) {
    let mut subnet = SpiderSubnet::default();
    (subnet.metadata.name, subnet.metadata.uid) = (Some("s".to_owned()), Some("s".to_owned()));
    (subnet.spec.ip_version, subnet.spec.subnet) = (Some(4), "10.0.0.0/8".to_owned());
    subnet.spec.ips = Some(vec![format!("{}-{}", ip(0), ip(65_535))]);
    let mut entries = serde_json::Map::new();
    let mut pools = Vec::new();
    for number in 0..PLANNED {
        let made = pool(&format!("auto4-a{number}-eth0-x"), number, 32);
        entries.insert(
            made.metadata.name.clone().unwrap(),
            json!({"ips": made.spec.ips, "application": format!("apps_v1_Deployment_default_a{number}")}),
        );
        pools.push(made);
    }
    // In an API server's list order, so the pool in the middle is not the one with the middle number.
    pools.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
    subnet.status.get_or_insert_default().controlled_ippools = JsonText::verbatim(serde_json::Value::Object(entries).to_string());
    (subnet, pools)
}

/// Plans for one of the pools of the subnet to grow, or to stay the same.
pub(crate) fn planning(size: u64) -> impl FnMut() -> usize {
    let (subnet, pools) = subnet();
    let own = pools.iter().position(|pool| pool.metadata.name.as_deref() == Some("auto4-a500-eth0-x"));
    let own = own.expect("it is among them");
    let [api_version, kind, namespace, name] = ["apps/v1", "Deployment", "default", "a500"].map(str::to_owned);
    let application = Application { name: ApplicationName { api_version, kind, namespace, name }, uid: "u".to_owned() };
    let [name, nic, number] = ["s", "eth0", "+0"].map(str::to_owned);
    let demand = Demand { subnet: name, nic, family: IpVersion::V4, size, number, reclaim: true };
    let (reserved, policy) = (IpSet::default(), Policy::hardened());
    move || {
        let known = Known { subnet: &subnet, pool: Some(&pools[own]), neighbours: &pools, reserved: &reserved, draw: Some(7) };
        let plan = plan(&Want { application: &application, demand: &demand }, &known, &policy).expect("there is room");
        assert_eq!(plan.writes.len(), if size > 32 { 2 } else { 1 });
        1
    }
}

/// The upkeep of the subnet.
pub(crate) fn keeping() -> impl FnMut() -> usize {
    let (subnet, pools) = subnet();
    let policy = Policy::hardened();
    move || upkeep(&Census { subnet: &subnet, pools: &pools, fate: &|_| Fate::Unknown, is_left: &|_, _| false }, &policy).len()
}
