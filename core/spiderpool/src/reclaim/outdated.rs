//! Upstream's rule for an endpoint that no record leads to (G §3.5).

use crate::{SpiderEndpoint, SpiderIPPool};
use kube_machinery::api::ObjectKey;

/// Whether no record of a pool has this endpoint's name; false for unreadable records.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IPPoolStatus, PoolIPAllocation};

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
