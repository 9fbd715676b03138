//! Upstream's way to act: on what was read before, by name, and its sweep of outdated endpoints (G §3.5, §4.2).

use std::sync::Arc;

use super::caches::Caches;
use super::error::ReclaimError;
use super::observer::{Observer, Releaser, ScanCounts, Target};
use super::process::Reclaim;
use super::record::Verdict;
use super::release::Order;
use super::row::Row;
use super::settle::Suspect;
use crate::api::ObjectKey;
use crate::client::Client;
use crate::env::Env;
use crate::spiderpool::{SpiderEndpoint, SpiderIPPool};

/// Whether no record of a pool has this endpoint's name; records that cannot be read say nothing.
pub(super) fn is_outdated(endpoint: &ObjectKey, pool: &SpiderIPPool) -> bool {
    let Some(status) = &pool.status else { return true };
    let Ok(records) = status.allocated_ips.parse() else { return false };
    records.iter().all(|(_, record)| record.pod != endpoint.as_str())
}

/// The pools that an endpoint names, NIC by NIC.
pub(super) fn pools_of(endpoint: &SpiderEndpoint) -> impl Iterator<Item = &str> {
    let entries = endpoint.status.as_ref().map_or(&[][..], |status| &status.current.ips);
    entries.iter().flat_map(|entry| entry.ipv4_pool.iter().chain(&entry.ipv6_pool)).map(String::as_str)
}

impl<C: Client, V: Env, K: Caches, O: Observer> Reclaim<C, V, K, O> {
    /// Stage 5 of a record: acts on what was judged, whatever has changed since.
    pub(super) async fn act(&self, suspect: &Suspect, verdict: &Verdict) -> Result<(), ReclaimError> {
        let failed = |error| ReclaimError::Endpoint { endpoint: suspect.key.clone(), error };
        let target = |(pool, ip): &(Arc<str>, _)| Target { pool: pool.clone(), ip: *ip, uid: suspect.uid.clone() };
        let what = if verdict.release { suspect.records.iter().map(target).collect() } else { vec![] };
        let endpoint = if verdict.endpoint { self.caches.endpoint(suspect.key.as_str()).map_err(failed)? } else { None };
        let order = Order { by: suspect.by, key: suspect.key.clone(), what, endpoint, row: verdict.row };
        self.carry_out(&order, &|| true).await
    }

    /// G C8: of the endpoints that no record led to, those go of which one pool has no record.
    pub(super) async fn sweep_outdated(&self, endpoints: impl Iterator<Item = &Arc<SpiderEndpoint>> + Send, counts: &mut ScanCounts) {
        for endpoint in endpoints {
            let key = ObjectKey::of(&**endpoint);
            for pool in pools_of(endpoint) {
                let Ok(Some(pool)) = self.get::<SpiderIPPool>(&ObjectKey::cluster(pool)).await else { continue };
                if !is_outdated(&key, &pool) {
                    continue;
                }
                let Ok(Some(endpoint)) = self.get::<SpiderEndpoint>(&key).await else { continue };
                let (what, endpoint) = (vec![], Some(endpoint));
                let order = Order { by: Releaser::Sweep, key: key.clone(), what, endpoint, row: Row::SweepOrphan };
                match self.carry_out(&order, &|| true).await {
                    Ok(()) => counts.swept += 1,
                    Err(_) => counts.failed += 1,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spiderpool::{IPPoolStatus, PoolIPAllocation};

    #[test]
    fn an_endpoint_is_outdated_for_a_pool_without_any_record_of_its_name() {
        let key = ObjectKey::namespaced("ns", "a");
        assert!(is_outdated(&key, &SpiderIPPool::default()));
        let pool = |pod: &str| {
            let mut status = IPPoolStatus::default();
            let ip: std::net::IpAddr = "10.0.0.1".parse().unwrap();
            let record = PoolIPAllocation { pod: pod.to_owned(), pod_uid: "other".to_owned(), ..PoolIPAllocation::default() };
            status.allocated_ips.make_mut().unwrap().insert(ip, record);
            SpiderIPPool { status: Some(status), ..SpiderIPPool::default() }
        };
        assert!(!is_outdated(&key, &pool("ns/a")), "whatever its UID");
        assert!(is_outdated(&key, &pool("ns/b")));
        let unreadable = serde_json::from_value(serde_json::json!({"allocatedIPs": "broken"})).unwrap();
        assert!(!is_outdated(&key, &SpiderIPPool { status: Some(unreadable), ..SpiderIPPool::default() }));
    }
}
