//! The objects that a decision reads, as the deciding process knows them.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Namespace, Node};

use super::memo::CapacityMemo;
use crate::{SpiderIPPool, SpiderReservedIP, SpiderSubnet};
use kube_machinery::FxHashMap;
use kube_machinery::api::Object;

/// The known state of the cluster. All of it may be outdated; an object that is absent here may exist.
///
/// Nothing is read twice to check for changes: one decision works on one state.
pub trait Cluster {
    /// The namespace of this name; `None` = not known.
    fn namespace(&self, name: &str) -> Option<Arc<Namespace>>;
    /// The node of this name; `None` = not known.
    fn node(&self, name: &str) -> Option<Arc<Node>>;
    /// The pool of this name, terminating or not; `None` = not known.
    fn pool(&self, name: &str) -> Option<Arc<SpiderIPPool>>;
    /// Every pool, in any order.
    fn for_each_pool(&self, visit: &mut dyn FnMut(&Arc<SpiderIPPool>));
    /// Every reserved IP object, in any order.
    fn for_each_reserved_ip(&self, visit: &mut dyn FnMut(&Arc<SpiderReservedIP>));
    /// The subnet of this name, terminating or not; `None` = not known.
    fn subnet(&self, name: &str) -> Option<Arc<SpiderSubnet>>;
    /// The ReplicaSet of this name, whatever its UID; `None` = not known.
    fn replica_set(&self, namespace: &str, name: &str) -> Option<Arc<ReplicaSet>>;
    /// The Deployment of this name, whatever its UID; `None` = not known.
    fn deployment(&self, namespace: &str, name: &str) -> Option<Arc<Deployment>>;
    /// The StatefulSet of this name, whatever its UID; `None` = not known.
    fn stateful_set(&self, namespace: &str, name: &str) -> Option<Arc<StatefulSet>>;
    /// The DaemonSet of this name, whatever its UID; `None` = not known.
    fn daemon_set(&self, namespace: &str, name: &str) -> Option<Arc<DaemonSet>>;
    /// The Job of this name, whatever its UID; `None` = not known.
    fn job(&self, namespace: &str, name: &str) -> Option<Arc<Job>>;
    /// The CronJob of this name, whatever its UID; `None` = not known.
    fn cron_job(&self, namespace: &str, name: &str) -> Option<Arc<CronJob>>;

    /// The cached facts about the addresses of pools. Without a memo, every decision reads the ranges of all candidates.
    fn capacity_memo(&self) -> Option<&CapacityMemo> {
        None
    }

    /// The pools marked as default, in any order. An implementation with an index is faster than this.
    fn for_each_default_pool(&self, visit: &mut dyn FnMut(&Arc<SpiderIPPool>)) {
        self.for_each_pool(&mut |pool| {
            if pool.spec.default {
                visit(pool);
            }
        });
    }
}

/// A cluster in memory, for example from manifests.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// The namespaces, whose labels and annotations are used (A §2.1, §3).
    pub namespaces: Kept<Namespace>,
    /// The nodes, whose labels `nodeAffinity` matches.
    pub nodes: Kept<Node>,
    /// The pools, with their records.
    pub pools: Kept<SpiderIPPool>,
    /// The reserved IP objects, whose addresses no pool allocates.
    pub reserved_ips: Kept<SpiderReservedIP>,
    /// The subnets, which auto pools are made from.
    pub subnets: Kept<SpiderSubnet>,
    /// The ReplicaSets, which may have a Deployment above them.
    pub replica_sets: Kept<ReplicaSet>,
    /// The Deployments at the top of chains of owners.
    pub deployments: Kept<Deployment>,
    /// The StatefulSets, which control pods themselves.
    pub stateful_sets: Kept<StatefulSet>,
    /// The DaemonSets, which control pods themselves.
    pub daemon_sets: Kept<DaemonSet>,
    /// The Jobs, which may have a CronJob above them.
    pub jobs: Kept<Job>,
    /// The CronJobs at the top of chains of owners.
    pub cron_jobs: Kept<CronJob>,
    /// The cached facts about the addresses of pools.
    pub memo: CapacityMemo,
}

/// Objects of one kind by namespace and name.
#[derive(Clone, Debug)]
pub struct Kept<K> {
    ordered: BTreeMap<String, BTreeMap<String, Arc<K>>>,
    /// The same objects, hashed for look-ups: a decision may name a thousand pools.
    index: FxHashMap<String, FxHashMap<String, Arc<K>>>,
}

impl<K> Default for Kept<K> {
    fn default() -> Self {
        Self { ordered: BTreeMap::new(), index: FxHashMap::default() }
    }
}

impl<K: Object> Kept<K> {
    /// Adds an object and returns the one that had its name.
    pub fn insert(&mut self, object: K) -> Option<Arc<K>> {
        let meta = object.meta();
        let (namespace, name) = (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default());
        let object = Arc::new(object);
        self.index.entry(namespace.clone()).or_default().insert(name.clone(), Arc::clone(&object));
        self.ordered.entry(namespace).or_default().insert(name, object)
    }

    /// The objects by namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<K>> {
        self.ordered.values().flat_map(BTreeMap::values)
    }

    /// The object of this name; the namespace of objects that have none is empty.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<K>> {
        self.index.get(namespace)?.get(name)
    }
}

impl Cluster for Objects {
    fn capacity_memo(&self) -> Option<&CapacityMemo> {
        Some(&self.memo)
    }

    fn namespace(&self, name: &str) -> Option<Arc<Namespace>> {
        self.namespaces.get("", name).cloned()
    }

    fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.nodes.get("", name).cloned()
    }

    fn pool(&self, name: &str) -> Option<Arc<SpiderIPPool>> {
        self.pools.get("", name).cloned()
    }

    fn for_each_pool(&self, visit: &mut dyn FnMut(&Arc<SpiderIPPool>)) {
        self.pools.iter().for_each(visit);
    }

    fn for_each_reserved_ip(&self, visit: &mut dyn FnMut(&Arc<SpiderReservedIP>)) {
        self.reserved_ips.iter().for_each(visit);
    }

    fn subnet(&self, name: &str) -> Option<Arc<SpiderSubnet>> {
        self.subnets.get("", name).cloned()
    }

    fn replica_set(&self, namespace: &str, name: &str) -> Option<Arc<ReplicaSet>> {
        self.replica_sets.get(namespace, name).cloned()
    }

    fn deployment(&self, namespace: &str, name: &str) -> Option<Arc<Deployment>> {
        self.deployments.get(namespace, name).cloned()
    }

    fn stateful_set(&self, namespace: &str, name: &str) -> Option<Arc<StatefulSet>> {
        self.stateful_sets.get(namespace, name).cloned()
    }

    fn daemon_set(&self, namespace: &str, name: &str) -> Option<Arc<DaemonSet>> {
        self.daemon_sets.get(namespace, name).cloned()
    }

    fn job(&self, namespace: &str, name: &str) -> Option<Arc<Job>> {
        self.jobs.get(namespace, name).cloned()
    }

    fn cron_job(&self, namespace: &str, name: &str) -> Option<Arc<CronJob>> {
        self.cron_jobs.get(namespace, name).cloned()
    }
}
