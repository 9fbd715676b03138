//! Limits that no policy changes: the size of an object, and the request rate of a client.

use std::net::{IpAddr, Ipv4Addr};

use ipam_byom::{Available, IpAllocation, PoolDocument, Seconds};
use ipam_reports::capacity::{agent_limits, hard_limits};
use ipam_spiderpool::{PoolIPAllocation, PoolIPAllocations};
use kube_machinery::TextForm;
use kube_machinery::rate_limit::CLIENT_GO;
use kube_sim::cluster::EPOCH;

/// The rate limit of an agent's client, where it has one (A §10): requests per second, and burst.
const AGENT: (f64, u32) = (50.0, 100);

/// A typical name: that of a pod of a Deployment.
fn pod(number: u32) -> String {
    format!("web-7c5ddbdf54-x2{number:03}")
}

/// The limits from the document of a BYOM pool.
pub(super) fn of_pool() -> [String; 2] {
    let record = |number: u32| {
        let pod = pod(number);
        // A sandbox of containerd (B §2.1).
        let id: std::sync::Arc<str> = format!("{pod}-{}", "0123456789abcdef".repeat(4)).into();
        let record = IpAllocation {
            allocation_id: id.clone(),
            ip: IpAddr::V4(Ipv4Addr::new(10, 64, 100, 100)).into(),
            node_name: "worker-12".into(),
            pod_name: pod.into(),
            pod_namespace: Some("default".into()),
            allocated_at: Seconds::new(EPOCH),
        };
        (id, record)
    };
    let size = |records: u32| {
        let document = PoolDocument {
            allocated: (0..records).map(record).collect(),
            available: Available::default(),
            last_updated: Seconds::new(EPOCH),
            version: 1,
        };
        document.text_len() as u64
    };
    // The second record and all later ones are preceded by a comma.
    let each = size(3) - size(2);
    hard_limits(each, size(0), CLIENT_GO.burst, CLIENT_GO.qps, 2)
}

/// The limits from the records of a pool of Spiderpool, which are a text in its status.
pub(super) fn of_agents() -> [String; 2] {
    let size = |records: u32| {
        let mut all = PoolIPAllocations::default();
        for number in 0..records {
            let uid = "0123abcd-4567-89ab-cdef-0123456789ab".to_owned();
            let record = PoolIPAllocation { interface: Some("eth0".to_owned()), pod: format!("default/{}", pod(number)), pod_uid: uid };
            all.insert(IpAddr::V4(Ipv4Addr::new(10, 64, 100, 100 + number as u8)), record);
        }
        // In JSON, each quote in a text is preceded by a backslash.
        serde_json::to_string(&all.to_text()).map_or(0, |text| text.len() as u64)
    };
    agent_limits(size(3) - size(2), AGENT)
}
