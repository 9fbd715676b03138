//! The caches of an agent, filled by watches.

use std::sync::{Arc, OnceLock};

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};

use super::caches::Caches;
use crate::api::{Object, ObjectKey};
use crate::client::Client;
use crate::env::Env;
use crate::informer::{Index, Informer, InformerOptions, StoreReader};
use crate::spiderpool::select::Cluster;
use crate::spiderpool::{SpiderEndpoint, SpiderIPPool, SpiderReservedIP, SpiderSubnet};

/// One informer for each kind, as a process has them. Clones are the same process.
///
/// The informers of pods, endpoints, pools, reserved IPs, namespaces and nodes start at once, because every ADD needs them.
/// Those of workloads and subnets start when the first pod needs them: that ADD finds nothing and comes again, as after
/// the start of a process. [`warm`](Self::warm) starts all.
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

struct Running<K: Object, V: Env> {
    informer: Informer<K, V>,
    store: StoreReader<K>,
}

/// An informer that starts when it is first asked.
type Late<K, V> = OnceLock<Running<K, V>>;

struct Informers<C, V: Env> {
    client: C,
    env: V,
    pods: Running<Pod, V>,
    endpoints: Running<SpiderEndpoint, V>,
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
    /// Starts to watch. With `node`, of pods only those of that node; upstream watches all.
    pub fn start(client: C, env: V, node: Option<&str>) -> Self {
        let field_selector = node.map(|node| format!("spec.nodeName={node}"));
        let is_default = Index::new(DEFAULT, |pool: &SpiderIPPool, value| {
            if pool.spec.default {
                value(DEFAULT);
            }
        });
        Self(Arc::new(Informers {
            pods: Running::start(&client, &env, InformerOptions { field_selector, ..InformerOptions::default() }),
            endpoints: Running::start(&client, &env, InformerOptions::default()),
            pools: Running::start(&client, &env, InformerOptions { indexes: vec![is_default], ..InformerOptions::default() }),
            reserved_ips: Running::start(&client, &env, InformerOptions::default()),
            namespaces: Running::start(&client, &env, InformerOptions::default()),
            nodes: Running::start(&client, &env, InformerOptions::default()),
            subnets: Late::new(),
            replica_sets: Late::new(),
            deployments: Late::new(),
            stateful_sets: Late::new(),
            daemon_sets: Late::new(),
            jobs: Late::new(),
            cron_jobs: Late::new(),
            client,
            env,
        }))
    }

    /// Starts the informers of workloads and subnets, too.
    pub fn warm(&self) {
        let it = &*self.0;
        it.late(&it.subnets);
        it.late(&it.replica_sets);
        it.late(&it.deployments);
        it.late(&it.stateful_sets);
        it.late(&it.daemon_sets);
        it.late(&it.jobs);
        it.late(&it.cron_jobs);
    }

    /// Completes when what was started has its first list. An agent serves nobody before that.
    pub async fn synced(&self) {
        let it = &*self.0;
        it.pods.informer.synced().await;
        it.endpoints.informer.synced().await;
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
    fn late<'a, K: Object>(&self, late: &'a Late<K, V>) -> &'a StoreReader<K> {
        &late.get_or_init(|| Running::start(&self.client, &self.env, InformerOptions::default())).store
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

impl<C: Client, V: Env> Caches for InformerCaches<C, V> {
    fn pod(&self, key: &ObjectKey) -> Option<Arc<Pod>> {
        self.0.pods.store.get(key)
    }

    fn endpoint(&self, key: &ObjectKey) -> Option<Arc<SpiderEndpoint>> {
        self.0.endpoints.store.get(key)
    }
}
