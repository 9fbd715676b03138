//! A scan of a large cluster: for a record whose pod and endpoint are alive, a quick check is enough.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::leadership::Leadership;
use crate::reclaim::{Caches, InformerCaches, Reclaim, ReclaimConfig, ReclaimSettings, ScanCause};
use crate::{Policy, PoolIPAllocation, SpiderEndpoint, SpiderIPPool};
use kube_machinery::api::{ApiError, Call, List, Object, Reason, Reply, Request, Status, WatchEvent, WatchOptions};
use kube_machinery::client::{Client, WatchStream};
use kube_machinery::testing::TestEnv;

/// A server that lists its objects, and does nothing else.
#[derive(Clone)]
struct Lists(Arc<Vec<Box<dyn Any + Send + Sync>>>);

/// A watch without events.
struct Quiet;

impl Client for Lists {
    type Watch<K: Object> = Quiet;

    async fn send<K: Object>(&self, request: Request<K>) -> Result<Reply<K>, ApiError> {
        let Call::List { .. } = request.call else { return Err(Status::new(Reason::NotFound, "").into()) };
        let items = self.0.iter().find_map(|list| list.downcast_ref::<Vec<Arc<K>>>()).cloned().unwrap_or_default();
        Ok(Reply::List(List { resource_version: "1".to_owned(), items, continue_token: None, remaining: None }))
    }

    async fn watch<K: Object>(&self, _: Option<Arc<str>>, _: WatchOptions) -> Result<Quiet, ApiError> {
        Ok(Quiet)
    }
}

impl<K: Object> WatchStream<K> for Quiet {
    async fn next(&mut self) -> Option<Result<WatchEvent<K>, ApiError>> {
        std::future::pending().await
    }
}

/// A cluster of `pods` pods with one address each, in pools of 16384.
fn cluster(pods: u32) -> Lists {
    let mut pools: Vec<SpiderIPPool> = Vec::new();
    let (mut of_pods, mut endpoints) = (Vec::new(), Vec::new());
    for number in 0..pods {
        let (name, uid) = (format!("app-{:06x}", number.wrapping_mul(2_654_435_761) >> 8), format!("00000000-0000-4000-8000-{number:012}"));
        let name = format!("{name}-{number}");
        let ip = std::net::Ipv4Addr::from_bits(0x0a00_0000 + number);
        let pod = json!({
            "metadata": {"name": name, "namespace": "ns", "uid": uid},
            "spec": {"nodeName": "n", "containers": []}, "status": {"phase": "Running", "podIPs": [{"ip": ip}]},
        });
        of_pods.push(Arc::new(serde_json::from_value::<Pod>(pod).unwrap()));
        let endpoint = json!({
            "metadata": {"name": name, "namespace": "ns", "finalizers": ["spiderpool.spidernet.io"]},
            "status": {
                "current": {"uid": uid, "node": "n", "ips": [{"interface": "eth0", "ipv4": format!("{ip}/8"), "ipv4Pool": "p"}]},
                "ownerControllerType": "Pod", "ownerControllerName": name,
            },
        });
        endpoints.push(Arc::new(serde_json::from_value::<SpiderEndpoint>(endpoint).unwrap()));
        if number % 16384 == 0 {
            let mut pool = SpiderIPPool::default();
            (pool.metadata.name, pool.spec.ip_version) = (Some(format!("p{}", pools.len())), Some(4));
            pools.push(pool);
        }
        let record = PoolIPAllocation { pod: format!("ns/{name}"), pod_uid: uid, ..PoolIPAllocation::default() };
        let status = pools.last_mut().unwrap().status.get_or_insert_default();
        status.allocated_ips.make_mut().unwrap().insert(std::net::IpAddr::from(ip), record);
    }
    let pools: Vec<Arc<SpiderIPPool>> = pools.into_iter().map(Arc::new).collect();
    Lists(Arc::new(vec![Box::new(of_pods), Box::new(endpoints), Box::new(pools)]))
}

#[test]
fn a_scan_of_a_large_cluster_costs_a_glance_for_each_record() {
    let pods = if cfg!(debug_assertions) { 4096 } else { 65_536 };
    let env = TestEnv::new();
    let client = cluster(pods);
    for policy in [Policy::hardened(), Policy::upstream()] {
        let caches = InformerCaches::start(client.clone(), env.clone(), &ReclaimSettings::new(&policy), &policy);
        env.block_on(caches.synced());
        assert_eq!(caches.endpoint_census(), Some((pods as usize, 0)));
        assert!(caches.is_plain(&caches.pools().unwrap()[0].key_of_first(), "00000000-0000-4000-8000-000000000000"));
        let reclaim = Reclaim::new(client.clone(), env.clone(), caches, (), ReclaimConfig::new(policy));
        let mut best = None;
        for _ in 0..10 {
            let began = Instant::now();
            let counts = env.block_on(reclaim.scan(&Leadership::always(), ScanCause::Asked));
            let took = began.elapsed();
            best = Some(best.map_or(took, |best: std::time::Duration| best.min(took)));
            assert_eq!((counts.records, counts.kept, counts.incomplete), (u64::from(pods), u64::from(pods), false));
        }
        println!("{pods} records: {best:?}");
    }
}

trait FirstKey {
    /// The key of the first record.
    fn key_of_first(&self) -> String;
}

impl FirstKey for SpiderIPPool {
    fn key_of_first(&self) -> String {
        let records = self.status.as_ref().unwrap().allocated_ips.parse().unwrap();
        records.iter().next().unwrap().1.pod.clone()
    }
}
