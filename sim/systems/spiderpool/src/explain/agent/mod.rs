//! The ADD itself: core's agent, run once against the objects of a question.
//!
//! [`explain`](super::explain) calls it. The agent has just started, its caches show what the API server has, nobody else writes, and no
//! auto pool appears while it waits. So it answers here as it does in a run; its writes are thrown away.

mod server;

use std::collections::BTreeMap;
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ipam_spiderpool::ipam::{AddAnswer, AddRequest, Agent, AgentConfig, AgentSettings, Caches, How, IpamError, Observer, Step};
use ipam_spiderpool::select::{CapacityMemo, Cluster, Objects, TopController};
use ipam_spiderpool::{IPAllocationDetail, SpiderEndpoint, SpiderIPPool, SpiderReservedIP, SpiderSubnet};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube_machinery::Env;
use kube_machinery::api::ObjectKey;
use kube_sim::env::SimEnv;
use kube_sim::rt::{self, TaskHandle};
use parking_lot::Mutex;

use self::server::Server;
use super::Question;

/// An address and its pool, the pool first.
type Recorded = (Arc<str>, IpAddr);

/// The result of an ADD.
pub(super) struct Ended {
    /// The agent's answer to the request.
    pub(super) result: Result<AddAnswer, IpamError>,
    /// The pod's endpoint before the ADD.
    pub(super) before: Option<Arc<SpiderEndpoint>>,
    /// The pod's endpoint as it would be after the ADD.
    pub(super) after: Option<Arc<SpiderEndpoint>>,
    /// The pools that the answer or `taken_away` names, as they would be after the ADD.
    pools: BTreeMap<String, Arc<SpiderIPPool>>,
    /// The addresses whose records the agent started to remove.
    pub(super) taken_away: Vec<Recorded>,
}

/// One address of the answer.
pub(super) struct Given {
    /// The name of the NIC; in nameless mode its index.
    pub(super) nic: String,
    /// The IP family, 4 or 6, as in reports.
    pub(super) ip_version: u8,
    /// The address with its prefix length.
    pub(super) address: String,
    /// Name of the pool that the answer names, whether or not it holds a record of the address.
    pub(super) pool: String,
    /// The entry of the endpoint that had the address before; absent if it was drawn now.
    pub(super) kept: Option<IPAllocationDetail>,
}

impl Given {
    /// The address without its prefix length.
    pub(super) fn ip(&self) -> Option<IpAddr> {
        self.address.split('/').next()?.parse().ok()
    }
}

/// The key of the endpoint that is the pod's own, which depends on the keeper of the pod's addresses.
pub(super) fn endpoint_key(question: &Question) -> ObjectKey {
    let meta = &question.pod.metadata;
    let pod = ObjectKey::namespaced(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default());
    match TopController::of(&question.objects, &question.pod) {
        Ok(controller) => question.agent.keeper(&controller).endpoint_of(&pod, &controller),
        Err(_) => pod,
    }
}

/// Runs the ADD of a question to its end, against objects in memory that are thrown away.
pub(super) fn add(question: &Question) -> Ended {
    let server = Server::default();
    let meta = &question.pod.metadata;
    let pod_key = ObjectKey::namespaced(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default());
    let mut pod = question.pod.clone();
    if !question.node.is_empty() {
        pod.spec.get_or_insert_default().node_name = Some(question.node.clone());
    }
    server.put(pod);
    for pool in question.objects.pools.iter() {
        let mut pool = SpiderIPPool::clone(pool);
        // An object written by hand has not been changed since.
        pool.metadata.generation.get_or_insert(1);
        server.put(pool);
    }
    question.endpoints.iter().for_each(|endpoint| server.put(SpiderEndpoint::clone(endpoint)));
    question.instances.iter().for_each(|instance| server.put((**instance).clone()));
    let key = endpoint_key(question);
    let before = server.find(&key);

    // No controller makes the pools that the agent would wait for.
    let settings = AgentSettings { select: question.settings.clone(), subnet_pool_retries: 1, ..question.agent.clone() };
    let config = AgentConfig { node: question.node.as_str().into(), settings, policy: question.policy };
    let request = AddRequest {
        container_id: "explained".into(),
        nic: question.nic.as_str().into(),
        pod: pod_key,
        pod_uid: meta.uid.as_deref().unwrap_or_default().into(),
        cni: Arc::new(question.cni.clone()),
        master: question.master.as_slice().into(),
        deadline: None,
    };
    let caches = Known { objects: Arc::new(question.objects.clone()), server: server.clone() };
    let onlooker = Onlooker::default();
    let result = rt::run(0, async |rt| {
        let process = rt.add_process(rt.add_host("node"), "agent");
        rt.start(process);
        let env = Even(SimEnv::new(&rt, 0, process));
        let agent = Agent::new(server.clone(), env, caches, onlooker.clone(), config);
        // The agent has run long enough that nothing from before its start is in progress.
        rt.sleep(Duration::from_secs(3600)).await;
        agent.add(&request).await
    });
    let taken_away = std::mem::take(&mut *onlooker.0.lock());
    let named = result.iter().flat_map(|answer| &answer.ips).map(|ip| &ip.pool);
    let named = named.chain(taken_away.iter().map(|(pool, _)| pool)).map(|pool| pool.to_string());
    let pools = named.filter_map(|name| Some((name.clone(), server.find(&ObjectKey::cluster(&name))?))).collect();
    Ended { result, before, after: server.find(&key), pools, taken_away }
}

/// The entries of an endpoint.
pub(super) fn entries(endpoint: Option<&SpiderEndpoint>) -> &[IPAllocationDetail] {
    endpoint.and_then(|endpoint| endpoint.status.as_ref()).map_or(&[], |status| &status.current.ips)
}

/// The addresses of an entry by family, with their pools.
pub(super) fn addresses(entry: &IPAllocationDetail) -> impl Iterator<Item = (u8, &str, &str)> {
    let families = [(4, &entry.ipv4, &entry.ipv4_pool), (6, &entry.ipv6, &entry.ipv6_pool)];
    families.into_iter().filter_map(|(version, address, pool)| Some((version, address.as_deref()?, pool.as_deref().unwrap_or_default())))
}

impl Ended {
    /// The UID of the pod for which a pool records an address after the ADD.
    pub(super) fn holder(&self, pool: &str, ip: IpAddr) -> Option<&str> {
        let records = self.pools.get(pool)?.status.as_ref()?.allocated_ips.parse().ok()?;
        records.get(ip).map(|record| record.pod_uid.as_str())
    }

    /// The addresses of the answer, with the NIC names that selection uses.
    pub(super) fn given(&self, nameless: bool, as_drawn: bool) -> Vec<Given> {
        let Ok(answer) = &self.result else { return Vec::new() };
        let had = |text: &str| {
            let entries = entries(self.before.as_deref()).iter();
            entries.into_iter().find(|entry| addresses(entry).any(|(_, address, _)| address == text)).cloned()
        };
        if as_drawn && answer.how == How::Fresh {
            let of_answer = answer.ips.iter().map(|ip| Given {
                nic: if nameless && ip.nic == "eth0" { "0".to_owned() } else { ip.nic.clone() },
                ip_version: if ip.address.addr().is_ipv4() { 4 } else { 6 },
                address: ip.address.to_string(),
                pool: ip.pool.to_string(),
                kept: None,
            });
            return of_answer.collect();
        }
        let answered = |text: &str, pool: &str| answer.ips.iter().any(|ip| ip.address.to_string() == text && *ip.pool == *pool);
        let mut given = Vec::new();
        for (place, entry) in entries(self.after.as_deref()).iter().enumerate() {
            let nic = if nameless { place.to_string() } else { entry.interface.clone() };
            for (ip_version, address, pool) in addresses(entry).filter(|(_, address, pool)| answered(address, pool)) {
                let (nic, pool) = (nic.clone(), pool.to_owned());
                given.push(Given { nic, ip_version, address: address.to_owned(), pool, kept: had(address) });
            }
        }
        given
    }
}

/// The content of the agent's caches.
#[derive(Clone)]
struct Known {
    objects: Arc<Objects>,
    server: Server,
}

impl Caches for Known {
    fn pod(&self, key: &ObjectKey) -> Option<Arc<Pod>> {
        self.server.find(key)
    }

    fn endpoint(&self, key: &ObjectKey) -> Option<Arc<SpiderEndpoint>> {
        self.server.find(key)
    }
}

impl Cluster for Known {
    fn namespace(&self, name: &str) -> Option<Arc<Namespace>> {
        self.objects.namespace(name)
    }

    fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.objects.node(name)
    }

    fn pool(&self, name: &str) -> Option<Arc<SpiderIPPool>> {
        self.objects.pool(name)
    }

    fn for_each_pool(&self, visit: &mut dyn FnMut(&Arc<SpiderIPPool>)) {
        self.objects.for_each_pool(visit);
    }

    fn for_each_reserved_ip(&self, visit: &mut dyn FnMut(&Arc<SpiderReservedIP>)) {
        self.objects.for_each_reserved_ip(visit);
    }

    fn subnet(&self, name: &str) -> Option<Arc<SpiderSubnet>> {
        self.objects.subnet(name)
    }

    fn replica_set(&self, namespace: &str, name: &str) -> Option<Arc<ReplicaSet>> {
        self.objects.replica_set(namespace, name)
    }

    fn deployment(&self, namespace: &str, name: &str) -> Option<Arc<Deployment>> {
        self.objects.deployment(namespace, name)
    }

    fn stateful_set(&self, namespace: &str, name: &str) -> Option<Arc<StatefulSet>> {
        self.objects.stateful_set(namespace, name)
    }

    fn daemon_set(&self, namespace: &str, name: &str) -> Option<Arc<DaemonSet>> {
        self.objects.daemon_set(namespace, name)
    }

    fn job(&self, namespace: &str, name: &str) -> Option<Arc<Job>> {
        self.objects.job(namespace, name)
    }

    fn cron_job(&self, namespace: &str, name: &str) -> Option<Arc<CronJob>> {
        self.objects.cron_job(namespace, name)
    }

    fn capacity_memo(&self) -> Option<&CapacityMemo> {
        self.objects.capacity_memo()
    }
}

/// An environment that draws the same number every time.
#[derive(Clone)]
struct Even(SimEnv);

/// One less than the least common multiple of all numbers up to 46. A draw among up to 46 items therefore takes the last one, which leaves
/// equal pools in the user's order.
const LAST_OF_ANY: u64 = 9_419_588_158_802_421_599;

impl Env for Even {
    type Task = TaskHandle;

    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }

    fn wall(&self) -> jiff::Timestamp {
        self.0.wall()
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send + 'static {
        self.0.sleep(duration)
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> TaskHandle {
        self.0.spawn(future)
    }

    fn random(&self) -> u64 {
        LAST_OF_ANY
    }

    fn crash(&self, reason: &str) -> ! {
        panic!("the process crashes: {reason}")
    }
}

/// Collects the records that are taken away.
#[derive(Clone, Default)]
struct Onlooker(Arc<Mutex<Vec<Recorded>>>);

impl Observer for Onlooker {
    fn observe(&self, step: Step<'_>) {
        if let Step::ReleaseBegun { what, .. } = step {
            self.0.lock().extend(what.iter().cloned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_drawn_among_a_few_is_the_last() {
        for bound in 1..=46 {
            assert_eq!(LAST_OF_ANY % bound, bound - 1);
        }
    }
}
