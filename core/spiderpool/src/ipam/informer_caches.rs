//! The caches of an agent, filled by watches.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};

use super::caches::Caches;
use super::settings::AgentConfig;
use crate::select::Cluster;
use crate::{SpiderEndpoint, SpiderIPPool, SpiderReservedIP, SpiderSubnet};
use kube_machinery::api::{Object, ObjectKey};
use kube_machinery::client::Client;
use kube_machinery::env::Env;
use kube_machinery::informer::{Index, Informer, InformerOptions, StoreReader};

/// One informer for each kind, as in a process. Clones share them.
///
/// The informers of pods, endpoints, pools, reserved IPs, namespaces and nodes start at once, because every ADD needs them; those of pods
/// and endpoints within the first ADD with `first-add-fills-caches`. Those of workloads and subnets start when the first pod needs them:
/// that ADD finds nothing and is retried, as after the start of a process. [`warm`](Self::warm) starts those that will be needed.
pub struct InformerCaches<C, V: Env>(Arc<Informers<C, V>>);

impl<C, V: Env> Clone for InformerCaches<C, V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C, V: Env> std::fmt::Debug for InformerCaches<C, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InformerCaches").finish_non_exhaustive()
    }
}

/// A kind that some ADDs do not need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LateKind {
    /// SpiderSubnets: needed by pods with a subnet annotation.
    Subnets,
    /// ReplicaSets: needed by pods that one controls, those of Deployments included.
    ReplicaSets,
    /// Deployments: needed by pods whose ReplicaSet belongs to one.
    Deployments,
    /// StatefulSets: needed by pods that one controls.
    StatefulSets,
    /// DaemonSets: needed by pods that one controls.
    DaemonSets,
    /// Jobs: needed by pods that one controls, those of CronJobs included.
    Jobs,
    /// CronJobs: needed by pods whose Job belongs to one.
    CronJobs,
}

impl LateKind {
    /// All of them, in declaration order.
    pub const ALL: [LateKind; 7] = [
        LateKind::Subnets,
        LateKind::ReplicaSets,
        LateKind::Deployments,
        LateKind::StatefulSets,
        LateKind::DaemonSets,
        LateKind::Jobs,
        LateKind::CronJobs,
    ];
}

struct Running<K: Object, V: Env> {
    informer: Informer<K, V>,
    store: StoreReader<K>,
}

/// An informer that starts when it is first read.
type Late<K, V> = OnceLock<Running<K, V>>;

struct Informers<C, V: Env> {
    client: C,
    env: V,
    patience: Option<Duration>,
    /// The node whose pods are watched; `None` = those of all nodes.
    pods_of: Option<Arc<str>>,
    pods: Late<Pod, V>,
    endpoints: Late<SpiderEndpoint, V>,
    pools: Running<SpiderIPPool, V>,
    reserved_ips: Running<SpiderReservedIP, V>,
    namespaces: Running<Namespace, V>,
    nodes: Running<Node, V>,
    subnets: Late<SpiderSubnet, V>,
    replica_sets: Late<ReplicaSet, V>,
    deployments: Late<Deployment, V>,
    stateful_sets: Late<StatefulSet, V>,
    daemon_sets: Late<DaemonSet, V>,
    jobs: Late<Job, V>,
    cron_jobs: Late<CronJob, V>,
}

/// The index of pools that are marked as default.
const DEFAULT: &str = "default";

impl<C: Client, V: Env> InformerCaches<C, V> {
    /// Starts the watches of a node's agent: of pods only those of the node, where upstream watches all. A list is given up after
    /// [`AgentSettings::list_timeout`](super::AgentSettings::list_timeout).
    pub fn start(client: C, env: V, config: &AgentConfig) -> Self {
        let patience = config.settings.list_timeout;
        let is_default = Index::new(DEFAULT, |pool: &SpiderIPPool, value| {
            if pool.spec.default {
                value(DEFAULT);
            }
        });
        let (pods, endpoints) = (Late::new(), Late::new());
        let whose = if config.policy.first_add_fills_caches {
            None
        } else {
            let whose = Some(&*config.node);
            pods.get_or_init(|| Running::start(&client, &env, of_node(whose, patience)));
            endpoints.get_or_init(|| Running::start(&client, &env, of_all(patience)));
            whose
        };
        Self(Arc::new(Informers {
            pods,
            pods_of: whose.map(Arc::from),
            endpoints,
            pools: Running::start(&client, &env, InformerOptions { indexes: vec![is_default], ..of_all(patience) }),
            reserved_ips: Running::start(&client, &env, of_all(patience)),
            namespaces: Running::start(&client, &env, of_all(patience)),
            nodes: Running::start(&client, &env, of_all(patience)),
            subnets: Late::new(),
            replica_sets: Late::new(),
            deployments: Late::new(),
            stateful_sets: Late::new(),
            daemon_sets: Late::new(),
            jobs: Late::new(),
            cron_jobs: Late::new(),
            patience,
            client,
            env,
        }))
    }

    /// Starts informers that would otherwise start late.
    pub fn warm(&self, kinds: impl IntoIterator<Item = LateKind>) {
        let it = &*self.0;
        for kind in kinds {
            match kind {
                LateKind::Subnets => it.begin(&it.subnets),
                LateKind::ReplicaSets => it.begin(&it.replica_sets),
                LateKind::Deployments => it.begin(&it.deployments),
                LateKind::StatefulSets => it.begin(&it.stateful_sets),
                LateKind::DaemonSets => it.begin(&it.daemon_sets),
                LateKind::Jobs => it.begin(&it.jobs),
                LateKind::CronJobs => it.begin(&it.cron_jobs),
            }
        }
    }

    /// The same caches for an observer that reads them while an operation does, such as the observer of an ADD.
    pub fn as_last_read(&self) -> LastRead<C, V> {
        LastRead(self.clone())
    }

    /// Completes when all started informers have their first list. An agent serves nobody before that.
    pub async fn synced(&self) {
        let it = &*self.0;
        synced(&it.pods).await;
        synced(&it.endpoints).await;
        it.pools.informer.synced().await;
        it.reserved_ips.informer.synced().await;
        it.namespaces.informer.synced().await;
        it.nodes.informer.synced().await;
        synced(&it.subnets).await;
        synced(&it.replica_sets).await;
        synced(&it.deployments).await;
        synced(&it.stateful_sets).await;
        synced(&it.daemon_sets).await;
        synced(&it.jobs).await;
        synced(&it.cron_jobs).await;
    }
}

/// The options of an informer of all objects of a type.
fn of_all<K: Object>(patience: Option<Duration>) -> InformerOptions<K> {
    InformerOptions { patience, ..InformerOptions::default() }
}

/// The options of an informer of a node's pods; `None` = pods of all nodes.
fn of_node(node: Option<&str>, patience: Option<Duration>) -> InformerOptions<Pod> {
    InformerOptions { field_selector: node.map(|node| format!("spec.nodeName={node}")), ..of_all(patience) }
}

async fn synced<K: Object, V: Env>(late: &Late<K, V>) {
    if let Some(running) = late.get() {
        running.informer.synced().await;
    }
}

impl<K: Object, V: Env> Running<K, V> {
    fn start<C: Client>(client: &C, env: &V, options: InformerOptions<K>) -> Self {
        let informer = Informer::start(client.clone(), env.clone(), options);
        Self { store: informer.store(), informer }
    }
}

impl<C: Client, V: Env> Informers<C, V> {
    fn begin<K: Object>(&self, late: &Late<K, V>) {
        self.late(late);
    }

    fn late<'a, K: Object>(&self, late: &'a Late<K, V>) -> &'a StoreReader<K> {
        &late.get_or_init(|| Running::start(&self.client, &self.env, of_all(self.patience))).store
    }

    fn pods(&self) -> &StoreReader<Pod> {
        &self.pods.get_or_init(|| Running::start(&self.client, &self.env, of_node(self.pods_of.as_deref(), self.patience))).store
    }
}

impl<C: Client, V: Env> Cluster for InformerCaches<C, V> {
    fn namespace(&self, name: &str) -> Option<Arc<Namespace>> {
        self.0.namespaces.store.get(&ObjectKey::cluster(name))
    }

    fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.0.nodes.store.get(&ObjectKey::cluster(name))
    }

    fn pool(&self, name: &str) -> Option<Arc<SpiderIPPool>> {
        self.0.pools.store.get(&ObjectKey::cluster(name))
    }

    fn for_each_pool(&self, visit: &mut dyn FnMut(&Arc<SpiderIPPool>)) {
        self.0.pools.store.for_each(visit);
    }

    fn for_each_default_pool(&self, visit: &mut dyn FnMut(&Arc<SpiderIPPool>)) {
        self.0.pools.store.by_index(DEFAULT, DEFAULT, visit);
    }

    fn for_each_reserved_ip(&self, visit: &mut dyn FnMut(&Arc<SpiderReservedIP>)) {
        self.0.reserved_ips.store.for_each(visit);
    }

    fn subnet(&self, name: &str) -> Option<Arc<SpiderSubnet>> {
        self.0.late(&self.0.subnets).get(&ObjectKey::cluster(name))
    }

    fn replica_set(&self, namespace: &str, name: &str) -> Option<Arc<ReplicaSet>> {
        self.0.late(&self.0.replica_sets).get(&ObjectKey::namespaced(namespace, name))
    }

    fn deployment(&self, namespace: &str, name: &str) -> Option<Arc<Deployment>> {
        self.0.late(&self.0.deployments).get(&ObjectKey::namespaced(namespace, name))
    }

    fn stateful_set(&self, namespace: &str, name: &str) -> Option<Arc<StatefulSet>> {
        self.0.late(&self.0.stateful_sets).get(&ObjectKey::namespaced(namespace, name))
    }

    fn daemon_set(&self, namespace: &str, name: &str) -> Option<Arc<DaemonSet>> {
        self.0.late(&self.0.daemon_sets).get(&ObjectKey::namespaced(namespace, name))
    }

    fn job(&self, namespace: &str, name: &str) -> Option<Arc<Job>> {
        self.0.late(&self.0.jobs).get(&ObjectKey::namespaced(namespace, name))
    }

    fn cron_job(&self, namespace: &str, name: &str) -> Option<Arc<CronJob>> {
        self.0.late(&self.0.cron_jobs).get(&ObjectKey::namespaced(namespace, name))
    }
}

/// The state that selection saw when it last read an agent's caches, without later changes. Reading it starts no informer.
///
/// Workloads are not included: the top controller of a pod is known by the time that pools are selected for it.
pub struct LastRead<C, V: Env>(InformerCaches<C, V>);

impl<C: Client, V: Env> LastRead<C, V> {
    /// Takes in all changes of pools, reserved IPs, namespaces, nodes and subnets so far, as a read would.
    pub fn catch_up(&self) {
        let it = &*self.0.0;
        it.pools.store.len();
        it.reserved_ips.store.len();
        it.namespaces.store.len();
        it.nodes.store.len();
        it.subnets.get().map(|running| running.store.len());
    }
}

impl<C, V: Env> std::fmt::Debug for LastRead<C, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LastRead").finish_non_exhaustive()
    }
}

impl<C: Client, V: Env> Cluster for LastRead<C, V> {
    fn namespace(&self, name: &str) -> Option<Arc<Namespace>> {
        self.0.0.namespaces.store.as_last_read().get(&ObjectKey::cluster(name))
    }

    fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.0.0.nodes.store.as_last_read().get(&ObjectKey::cluster(name))
    }

    fn pool(&self, name: &str) -> Option<Arc<SpiderIPPool>> {
        self.0.0.pools.store.as_last_read().get(&ObjectKey::cluster(name))
    }

    fn for_each_pool(&self, visit: &mut dyn FnMut(&Arc<SpiderIPPool>)) {
        self.0.0.pools.store.as_last_read().for_each(visit);
    }

    fn for_each_default_pool(&self, visit: &mut dyn FnMut(&Arc<SpiderIPPool>)) {
        self.0.0.pools.store.as_last_read().by_index(DEFAULT, DEFAULT, visit);
    }

    fn for_each_reserved_ip(&self, visit: &mut dyn FnMut(&Arc<SpiderReservedIP>)) {
        self.0.0.reserved_ips.store.as_last_read().for_each(visit);
    }

    fn subnet(&self, name: &str) -> Option<Arc<SpiderSubnet>> {
        self.0.0.subnets.get()?.store.as_last_read().get(&ObjectKey::cluster(name))
    }

    fn replica_set(&self, _: &str, _: &str) -> Option<Arc<ReplicaSet>> {
        None
    }

    fn deployment(&self, _: &str, _: &str) -> Option<Arc<Deployment>> {
        None
    }

    fn stateful_set(&self, _: &str, _: &str) -> Option<Arc<StatefulSet>> {
        None
    }

    fn daemon_set(&self, _: &str, _: &str) -> Option<Arc<DaemonSet>> {
        None
    }

    fn job(&self, _: &str, _: &str) -> Option<Arc<Job>> {
        None
    }

    fn cron_job(&self, _: &str, _: &str) -> Option<Arc<CronJob>> {
        None
    }
}

impl<C: Client, V: Env> Caches for InformerCaches<C, V> {
    /// Lists one kind after the other, in the order in which an ADD reads them.
    async fn filled(&self) {
        let it = &*self.0;
        it.pods();
        synced(&it.pods).await;
        it.begin(&it.endpoints);
        synced(&it.endpoints).await;
    }

    fn pod(&self, key: &ObjectKey) -> Option<Arc<Pod>> {
        self.0.pods().get(key)
    }

    fn endpoint(&self, key: &ObjectKey) -> Option<Arc<SpiderEndpoint>> {
        self.0.late(&self.0.endpoints).get(key)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    use serde_json::{Value, json};
    use tokio::sync::mpsc;

    use super::*;
    use crate::Policy;
    use crate::admission::{AdmissionSettings, Webhook};
    use crate::controller::{ControllerSettings, PoolController};
    use crate::reclaim::{self, ReclaimSettings};
    use crate::select::Settings;
    use crate::subnet::SubnetController;
    use kube_machinery::api::{ApiError, Call, List, Reply, Request, WatchOptions};
    use kube_machinery::testing::{TestEnv, TestWatch};

    /// A server with one object of each named kind, in which nothing ever happens.
    #[derive(Clone, Default)]
    struct Still {
        objects: Arc<BTreeMap<&'static str, Value>>,
        /// The kinds that were listed, with the field selector.
        listed: Arc<Mutex<Vec<String>>>,
        /// The timeout of each list.
        patience: Arc<Mutex<Vec<Option<Duration>>>>,
    }

    impl Client for Still {
        type Watch<K: Object> = TestWatch<K>;

        async fn send<K: Object>(&self, request: Request<K>) -> Result<Reply<K>, ApiError> {
            self.patience.lock().unwrap().push(request.timeout);
            let Call::List { options, .. } = request.call else { unreachable!("an informer lists and watches") };
            let kind = K::kind(&()).into_owned();
            let object = self.objects.get(&*kind).map(|value| Arc::new(serde_json::from_value(value.clone()).unwrap()));
            self.listed.lock().unwrap().push(format!("{kind} {}", options.field_selector.unwrap_or_default()).trim().to_owned());
            let items = object.into_iter().collect();
            Ok(Reply::List(List { resource_version: "1".to_owned(), items, continue_token: None, remaining: None }))
        }

        async fn watch<K: Object>(&self, _: Option<Arc<str>>, _: WatchOptions) -> Result<TestWatch<K>, ApiError> {
            let (feed, events) = mpsc::unbounded_channel();
            // The watch stays open for as long as the test.
            std::mem::forget(feed);
            Ok(TestWatch::new(events))
        }
    }

    #[test]
    fn what_every_add_needs_is_there_from_the_start_and_the_rest_when_asked_for() {
        let env = TestEnv::new();
        let pool = json!({"metadata": {"name": "p"}, "spec": {"subnet": "10.0.0.0/24", "default": true}});
        let objects = BTreeMap::from([
            ("Pod", json!({"metadata": {"namespace": "ns", "name": "a"}})),
            ("SpiderIPPool", pool),
            ("StatefulSet", json!({"metadata": {"namespace": "ns", "name": "db"}, "spec": {"selector": {}, "serviceName": ""}})),
        ]);
        let client = Still { objects: Arc::new(objects), ..Still::default() };
        let caches = InformerCaches::start(client.clone(), env.clone(), &AgentConfig::new("n", Policy::hardened()));
        env.block_on(caches.synced());
        let mut defaults = 0;
        caches.for_each_default_pool(&mut |_| defaults += 1);
        assert_eq!((caches.pod(&ObjectKey::namespaced("ns", "a")).is_some(), defaults), (true, 1));
        let listed = std::mem::take(&mut *client.listed.lock().unwrap());
        assert_eq!(listed, ["Pod spec.nodeName=n", "SpiderEndpoint", "SpiderIPPool", "SpiderReservedIP", "Namespace", "Node"]);

        assert!(caches.stateful_set("ns", "db").is_none());
        env.block_on(caches.synced());
        assert!(caches.stateful_set("ns", "db").is_some());
        assert_eq!(*client.listed.lock().unwrap(), ["StatefulSet"]);
        caches.warm(LateKind::ALL);
        env.block_on(caches.synced());
        assert_eq!(client.listed.lock().unwrap().len(), 7);
    }

    #[test]
    fn upstream_lists_pods_and_endpoints_for_the_first_add_and_pods_of_all_nodes() {
        let (env, client) = (TestEnv::new(), Still::default());
        let caches = InformerCaches::start(client.clone(), env.clone(), &AgentConfig::new("n", Policy::upstream()));
        env.block_on(caches.synced());
        assert_eq!(std::mem::take(&mut *client.listed.lock().unwrap()), ["SpiderIPPool", "SpiderReservedIP", "Namespace", "Node"]);
        env.block_on(async { (caches.filled().await, caches.filled().await) });
        assert_eq!(*client.listed.lock().unwrap(), ["Pod", "SpiderEndpoint"]);
    }

    #[test]
    fn no_agent_waits_for_a_list_longer_than_a_server_works_at_it_and_upstream_waits_without_end() {
        for (policy, patience) in [(Policy::hardened(), Some(Duration::from_secs(60))), (Policy::upstream(), None)] {
            let (env, client) = (TestEnv::new(), Still::default());
            let caches = InformerCaches::start(client.clone(), env.clone(), &AgentConfig::new("n", policy));
            caches.warm(LateKind::ALL);
            env.block_on(async { (caches.synced().await, caches.filled().await) });
            assert_eq!(*client.patience.lock().unwrap(), [patience; 13]);
        }
    }

    #[test]
    fn nor_does_the_controller() {
        for (policy, patience) in [(Policy::hardened(), Some(Duration::from_secs(60))), (Policy::upstream(), None)] {
            let (env, client) = (TestEnv::new(), Still::default());
            let settings = ControllerSettings::new(policy);
            let subnets = SubnetController::new(client.clone(), env.clone(), (), (), settings.clone(), Settings::default());
            env.spawn(async move { drop(subnets.run().await) });
            let pools = PoolController::new(client.clone(), env.clone(), settings);
            env.spawn(async move { drop(pools.run().await) });
            let webhook = Webhook::start(client.clone(), env.clone(), AdmissionSettings::default(), policy);
            let reclaim = reclaim::InformerCaches::start(client.clone(), env.clone(), &ReclaimSettings::new(&policy), &policy);
            env.block_on(async { (webhook.synced().await, reclaim.synced().await) });
            env.advance(Duration::from_secs(1));
            let mut listed = client.listed.lock().unwrap().clone();
            listed.sort();
            assert_eq!(
                listed,
                [
                    "CronJob",
                    "DaemonSet",
                    "Deployment",
                    "Job",
                    "Node",
                    "Pod",
                    "ReplicaSet",
                    "SpiderEndpoint",
                    "SpiderIPPool",
                    "SpiderIPPool",
                    "SpiderIPPool",
                    "SpiderReservedIP",
                    "SpiderSubnet",
                    "SpiderSubnet",
                    "StatefulSet"
                ]
            );
            assert_eq!(*client.patience.lock().unwrap(), vec![patience; listed.len()]);
        }
    }
}
