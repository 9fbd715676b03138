//! What no policy changes: how large an object may be, and how fast a client may ask.

use std::net::{IpAddr, Ipv4Addr};

use ipam_byom::{Available, IpAllocation, PoolDocument, Seconds};
use ipam_reports::capacity::{agent_limits, hard_limits};
use ipam_spiderpool::{PoolIPAllocation, PoolIPAllocations};
use kube_machinery::TextForm;
use kube_machinery::rate_limit::CLIENT_GO;
use kube_sim::cluster::EPOCH;

/// An agent's client, where it is limited (A §10): requests a second, and at once.
const AGENT: (f64, u32) = (50.0, 100);

/// Names as they are in a cluster: a pod of a Deployment.
fn pod(number: u32) -> String {
    format!("web-7c5ddbdf54-x2{number:03}")
}

/// Of the document of a BYOM pool.
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
    // The second record has a comma before it, as all that follow.
    let each = size(3) - size(2);
    hard_limits(each, size(0), CLIENT_GO.burst, CLIENT_GO.qps, 2)
}

/// Of the records of a pool of Spiderpool, which are a text in its status.
pub(super) fn of_agents() -> [String; 2] {
    let size = |records: u32| {
        let mut all = PoolIPAllocations::default();
        for number in 0..records {
            let uid = "0123abcd-4567-89ab-cdef-0123456789ab".to_owned();
            let record = PoolIPAllocation { interface: Some("eth0".to_owned()), pod: format!("default/{}", pod(number)), pod_uid: uid };
            all.insert(IpAddr::V4(Ipv4Addr::new(10, 64, 100, 100 + number as u8)), record);
        }
        // A text in JSON has a backslash before each of its quotes.
        serde_json::to_string(&all.to_text()).map_or(0, |text| text.len() as u64)
    };
    agent_limits(size(3) - size(2), AGENT)
}
