//! A scan of all records of a cluster in which nothing leaked, with the informers of a replica.

use std::any::Any;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ipam_spiderpool::leadership::Leadership;
use ipam_spiderpool::reclaim::{InformerCaches, Reclaim, ReclaimConfig, ReclaimSettings, ScanCause};
use ipam_spiderpool::{Policy, PoolIPAllocation, SpiderEndpoint, SpiderIPPool};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube_machinery::api::{ApiError, Call, List, Object, Reason, Reply, Request, Status, WatchEvent, WatchOptions};
use kube_machinery::client::{Client, WatchStream};
use kube_machinery::env::{Env, Task};
use serde_json::json;

/// The number of records of one pool.
const POOL: u32 = 16_384;

/// A scan of `records` records, whose pods and endpoints are alive.
pub(crate) fn scanning(policy: Policy, records: u32) -> impl FnMut() -> usize {
    let (client, env) = (cluster(records), Still::default());
    let caches = InformerCaches::start(client.clone(), env.clone(), &ReclaimSettings::new(&policy), &policy);
    env.run(caches.synced());
    let reclaim = Reclaim::new(client, env.clone(), caches, (), ReclaimConfig::new(policy));
    let leadership = Leadership::always();
    move || {
        let counts = env.run(reclaim.scan(&leadership, ScanCause::Asked));
        assert_eq!((counts.records, counts.kept), (u64::from(records), u64::from(records)));
        1
    }
}

/// A cluster of `records` pods with one address each.
fn cluster(records: u32) -> Lists {
    let (mut pools, mut pods, mut endpoints) = (Vec::<SpiderIPPool>::new(), Vec::new(), Vec::new());
    for number in 0..records {
        // Addresses that are adjacent in a pool have names that are not.
        let name = format!("app-{:06x}-{number}", number.wrapping_mul(2_654_435_761) >> 8);
        let (uid, ip) = (format!("00000000-0000-4000-8000-{number:012}"), std::net::Ipv4Addr::from_bits(0x0a00_0000 + number));
        let pod = json!({
            "metadata": {"name": name, "namespace": "ns", "uid": uid},
            "spec": {"nodeName": "n", "containers": []}, "status": {"phase": "Running", "podIPs": [{"ip": ip}]},
        });
        pods.push(Arc::new(serde_json::from_value::<Pod>(pod).expect("that is a pod")));
        let endpoint = json!({
            "metadata": {"name": name, "namespace": "ns", "finalizers": ["spiderpool.spidernet.io"]},
            "status": {
                "current": {"uid": uid, "node": "n", "ips": [{"interface": "eth0", "ipv4": format!("{ip}/8"), "ipv4Pool": "p"}]},
                "ownerControllerType": "Pod", "ownerControllerName": name,
            },
        });
        endpoints.push(Arc::new(serde_json::from_value::<SpiderEndpoint>(endpoint).expect("that is an endpoint")));
        if number % POOL == 0 {
            let mut pool = SpiderIPPool::default();
            (pool.metadata.name, pool.spec.ip_version) = (Some(format!("p{}", pools.len())), Some(4));
            pools.push(pool);
        }
        let record = PoolIPAllocation { pod: format!("ns/{name}"), pod_uid: uid, ..PoolIPAllocation::default() };
        let status = pools.last_mut().expect("there is one").status.get_or_insert_default();
        status.allocated_ips.make_mut().expect("they can be read").insert(std::net::IpAddr::from(ip), record);
    }
    let pools: Vec<Arc<SpiderIPPool>> = pools.into_iter().map(Arc::new).collect();
    Lists(Arc::new(vec![Box::new(pods), Box::new(endpoints), Box::new(pools)]))
}

/// An API server that lists its objects; nothing ever happens.
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

type Boxed = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A process for which no time passes: a sleep never ends.
#[derive(Clone, Default)]
struct Still(Arc<Mutex<Vec<Boxed>>>);

struct Unending;

impl Task for Unending {
    fn abort(&self) {}
}

impl Env for Still {
    type Task = Unending;

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn wall(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn sleep(&self, _: Duration) -> impl Future<Output = ()> + Send + 'static {
        std::future::pending()
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Unending {
        self.0.lock().expect("nobody panics").push(Box::pin(future));
        Unending
    }

    fn random(&self) -> u64 {
        0
    }

    fn crash(&self, reason: &str) -> ! {
        panic!("the process crashes: {reason}")
    }
}

impl Still {
    /// Runs `future` to its end, together with the spawned tasks whenever it waits.
    fn run<T>(&self, future: impl Future<Output = T>) -> T {
        let (mut future, mut context) = (pin!(future), Context::from_waker(Waker::noop()));
        loop {
            if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
                return result;
            }
            let mut tasks = std::mem::take(&mut *self.0.lock().expect("nobody panics"));
            tasks.retain_mut(|task| task.as_mut().poll(&mut context).is_pending());
            self.0.lock().expect("nobody panics").append(&mut tasks);
        }
    }
}
