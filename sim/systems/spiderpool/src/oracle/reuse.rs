//! The addresses of its predecessor that a pod may reuse (A §6.2, §6.3; D §0: only those that the rules would still give it).

use std::net::IpAddr;
use std::sync::Arc;

use ipam_spiderpool::ranges::{IpSet, parse_range};
use ipam_spiderpool::select::{Cluster, Request, TopController};
use ipam_spiderpool::{IPAllocationDetail, Policy};

use super::{Asked, answer};

/// The addresses in a predecessor's `entries`, with their pools, that a pod may not reuse: their pool is not among those that serve their
/// NIC by the rules, no longer holds them, or they are reserved. Where a tier names pools for one NIC at a time, it is asked about each
/// NIC. A NIC for which it names none keeps its addresses in any pool that serves at all. If the rules yield an error, nothing is refused.
pub fn refused(
    cluster: &dyn Cluster,
    request: &Request<'_>,
    controller: &TopController,
    entries: &[IPAllocationDetail],
) -> Vec<(Arc<str>, IpAddr)> {
    // The addresses that the pod already has need not be free.
    let policy = Policy { capacity_not_filtered: true, ..Policy::hardened() };
    let first = answer(cluster, request, controller, &policy);
    if first.early.is_some() {
        return Vec::new();
    }
    let asked = Asked { cluster, request, controller, policy: &policy, reserved: Default::default() };
    let for_all = first.tier == "pod-ippools";
    let nameless = super::text::is_nameless(request.pod);
    let mut refused = Vec::new();
    for (place, entry) in entries.iter().enumerate() {
        let name = if nameless { place.to_string() } else { entry.interface.clone() };
        let of_other = (!for_all && !name.is_empty() && name != *request.nic)
            .then(|| answer(cluster, &Request { nic: &name, ..*request }, controller, &policy));
        let of_nic = of_other.as_ref().unwrap_or(&first);
        let nic = of_nic.nics.iter().find(|nic| nic.name == name).filter(|_| of_nic.early.is_none());
        for (version, address, pool) in [(4, &entry.ipv4, &entry.ipv4_pool), (6, &entry.ipv6, &entry.ipv6_pool)] {
            let (Some(address), Some(pool)) = (address, pool) else { continue };
            let Some(address) = address.split('/').next().and_then(|address| address.parse::<IpAddr>().ok()) else { continue };
            let families = nic.into_iter().flat_map(|nic| &nic.families).filter(|family| family.version == version);
            let mut candidates = families.flat_map(|family| &family.candidates);
            let serves = if nic.is_some_and(|nic| !nic.families.is_empty()) || for_all {
                candidates.any(|candidate| candidate.name() == pool && candidate.reason.is_none())
            } else {
                cluster.pool(pool).is_some_and(|pool| pool.metadata.deletion_timestamp.is_none() && !pool.spec.disable)
            };
            if !serves || !asked.has(pool, version, address) {
                refused.push((pool.as_str().into(), address));
            }
        }
    }
    refused
}

impl Asked<'_> {
    /// Whether a pool holds an address that is not reserved; also true if the ranges cannot be parsed.
    fn has(&self, pool: &str, version: i64, address: IpAddr) -> bool {
        let Some(pool) = self.cluster.pool(pool) else { return false };
        let set = |texts: &Option<Vec<String>>| -> Option<IpSet> {
            texts.iter().flatten().map(|text| parse_range(text, version, self.policy).ok()).collect()
        };
        let (Some(all), Some(excluded)) = (set(&pool.spec.ips), set(&pool.spec.exclude_ips)) else { return true };
        all.contains(address) && !excluded.contains(address) && !self.reserved(version).contains(address)
    }
}
