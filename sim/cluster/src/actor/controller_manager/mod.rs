//! The controller manager: the process that makes and deletes pods for their owners (K §7), and the garbage collector (K §2.10), over one
//! informer per type.
//!
//! ```text
//!   informers ──► Families (pods by owner) ──► one queue ──► workers ──► requests
//!             └─► Expectations                  Item = controller and key
//! ```
//! A workload selects the controllers that it needs:
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use kube_sim::cluster::Cluster;
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube_sim::actor::controller_manager::{self, Controller, Set};
//!
//! # fn example(cluster: &Arc<Cluster>, seed: u64) {
//! let set = Set::of([Controller::StatefulSet, Controller::ReplicaSet, Controller::Deployment]).collecting::<ConfigMap>();
//! let process = controller_manager::install(cluster, seed, set);
//! # let _ = process;
//! # }
//! ```
//! From then on it only creates, changes and deletes StatefulSets and the like, as operators do. Pods are created unscheduled unless their
//! template names a node; the actors that model scheduler and kubelet make them run, be ready, end and go. Controllers read of a pod its
//! phase, its condition `Ready`, its deletion timestamp and its node.
//!
//! The garbage collector sees pods, the types of the chosen controllers, and the types added by `collecting`.
//!
//! Everything is decided from the present state (K §4.5), so the process may crash at any point and go on. Nothing is polled but namespaces
//! that are being emptied and nodes that are not healthy: a cluster in which nothing happens causes no request.

mod batch;
mod clone_set;
mod cron_job;
mod daemon_set;
mod deployment;
mod disruption;
mod expectations;
mod families;
mod job;
mod kubevirt;
mod listen;
pub mod names;
mod namespace;
mod nodes;
mod pod_gc;
mod replica_set;
mod replicas;
mod shared;
mod stateful_set;
mod template;
mod view;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use clone_set::CloneSets;
use cron_job::CronJobs;
use daemon_set::DaemonSets;
use deployment::Deployments;
use disruption::{Disruptions, Scales};
use job::Jobs;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_machinery::Object;
use kube_machinery::transparent::{Policy, Transparent};
use kube_machinery::{ApiError, Env, ObjectKey};
use kubevirt::{Instances, Machines};
use namespace::Namespaces;
use parking_lot::Mutex;
use replica_set::ReplicaSets;
use shared::Shared;
use stateful_set::StatefulSets;

use super::garbage_collector::{self, Collected, Collector};
use super::informers::{Informers, Started};
use crate::cluster::{Cluster, SimClient};
use crate::env::SimEnv;
use crate::kinds::Registry;
use crate::kinds::kruise;
use crate::rt::ProcessId;

pub use namespace::NamespaceContent;

/// The name of the host and of the process.
pub const NAME: &str = garbage_collector::NAME;

/// A controller that can run in the process: see [`Set::controllers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// Pods with names by ordinal (K §7.1).
    StatefulSet,
    /// Pods with random names (K §7.2).
    ReplicaSet,
    /// Roll-outs of ReplicaSets (K §7.2); does nothing without [`Controller::ReplicaSet`].
    Deployment,
    /// One pod for each node (K §7.3).
    DaemonSet,
    /// Pods that run to their end (K §7.3).
    Job,
    /// Empties namespaces that are deleted (K §1.3).
    Namespace,
    /// VMs, their instances, and live migration (A §6).
    KubeVirt,
    /// Silent nodes: their condition, their taints, and the eviction of their pods (K §6.1, §6.2). Kubelets have to send heartbeats.
    NodeLifecycle,
    /// Pods that nothing else removes (K §6.3). Each node with pods needs its Node.
    PodGc,
    /// Jobs on a schedule (K §7.3); does nothing without [`Controller::Job`].
    CronJob,
    /// Pods of CloneSets, a kind of workload that is not part of Kubernetes.
    CloneSet,
    /// The number of pods that evictions may remove (K §6.5).
    Disruption,
}

impl Controller {
    /// Every controller of pod owners. The controllers of nodes require more of a cluster.
    pub const ALL: [Controller; 9] = [
        Controller::StatefulSet,
        Controller::ReplicaSet,
        Controller::Deployment,
        Controller::DaemonSet,
        Controller::Job,
        Controller::Namespace,
        Controller::KubeVirt,
        Controller::CronJob,
        Controller::CloneSet,
    ];
}

/// The configuration of a controller manager.
#[derive(Clone)]
pub struct Set {
    /// The Kubernetes controllers that run in the process.
    pub controllers: BTreeSet<Controller>,
    /// The types that the garbage collector sees besides pods and the types of the controllers.
    pub collected: Vec<Collected>,
    /// The least time between two writes of the status of one object. Kubernetes' limit on the requests of its controllers has the same
    /// effect when many pods change at once; 0 = none. Does not apply to Jobs, which count by their status.
    pub status_pace: Duration,
    /// The duration of a live migration once its target pod is ready.
    pub migration_takes: Duration,
    /// The time for which a node may be silent before it counts as lost (`--node-monitor-grace-period`): 50 s since Kubernetes 1.32, 40 s
    /// before.
    pub monitor_grace: Duration,
    /// The number of ended pods that may be left before the oldest are collected (`--terminated-pod-gc-threshold`).
    pub terminated_pods: usize,
}

impl Set {
    /// A set of these controllers, with status writes at least 200 ms apart and migrations of 10 s.
    pub fn of(controllers: impl IntoIterator<Item = Controller>) -> Self {
        Self {
            controllers: controllers.into_iter().collect(),
            collected: Vec::new(),
            status_pace: Duration::from_millis(200),
            migration_takes: Duration::from_secs(10),
            monitor_grace: Duration::from_secs(50),
            terminated_pods: 12_500,
        }
    }

    /// The same set, with objects of type `K` collected when their owners are gone.
    #[must_use]
    pub fn collecting<K: Object>(mut self) -> Self {
        self.collected.push(Collected::of::<K>());
        self
    }
}

/// Adds the controller manager, as a process on its own host, and starts it. The cluster has to serve the types of everything in `set`.
pub fn install(cluster: &Arc<Cluster>, seed: u64, set: Set) -> ProcessId {
    let rt = &cluster.rt;
    let process = rt.add_process(rt.add_host(NAME), NAME);
    let (shared, set) = (Arc::downgrade(cluster), Arc::new(set));
    rt.set_main(process, move |_| {
        let (cluster, set) = (shared.upgrade(), set.clone());
        async move {
            if let Some(cluster) = cluster {
                run(&cluster, process, seed, &set).await;
            }
        }
    });
    cluster.start(process);
    process
}

/// The kind of a queued item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Kind {
    StatefulSet,
    ReplicaSet,
    Deployment,
    DaemonSet,
    Job,
    Namespace,
    Machine,
    Instance,
    CronJob,
    CloneSet,
    Budget,
}

impl Kind {
    /// The kind of an owner of pods.
    fn of_owner(owner: &OwnerReference) -> Option<Self> {
        Some(match (owner.api_version.as_str(), owner.kind.as_str()) {
            ("apps/v1", "StatefulSet") => Kind::StatefulSet,
            ("apps/v1", "ReplicaSet") => Kind::ReplicaSet,
            ("apps/v1", "DaemonSet") => Kind::DaemonSet,
            ("batch/v1", "Job") => Kind::Job,
            (kube_machinery::kubevirt::API_VERSION, "VirtualMachineInstance") => Kind::Instance,
            (kruise::API_VERSION, "CloneSet") => Kind::CloneSet,
            _ => return None,
        })
    }

    /// The controller that reconciles this kind.
    fn controller(self) -> Controller {
        match self {
            Kind::StatefulSet => Controller::StatefulSet,
            Kind::ReplicaSet => Controller::ReplicaSet,
            Kind::Deployment => Controller::Deployment,
            Kind::DaemonSet => Controller::DaemonSet,
            Kind::Job => Controller::Job,
            Kind::Namespace => Controller::Namespace,
            Kind::Machine | Kind::Instance => Controller::KubeVirt,
            Kind::CronJob => Controller::CronJob,
            Kind::CloneSet => Controller::CloneSet,
            Kind::Budget => Controller::Disruption,
        }
    }

    fn item(self, key: ObjectKey) -> Item {
        Item { kind: self, key }
    }
}

/// An object to reconcile.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Item {
    kind: Kind,
    key: ObjectKey,
}

/// The name of the index of objects by the UID of the owner that controls them.
const OWNER: &str = "owner";

/// The number of objects that are reconciled at the same time, by all controllers together.
const WORKERS: usize = 10;

/// The controllers that run.
struct Controllers {
    shared: Arc<Shared>,
    stateful_sets: Option<StatefulSets>,
    replica_sets: Option<ReplicaSets>,
    deployments: Option<Deployments>,
    daemon_sets: Option<DaemonSets>,
    jobs: Option<Jobs>,
    namespaces: Option<Namespaces>,
    machines: Option<Machines>,
    instances: Option<Instances>,
    cron_jobs: Option<CronJobs>,
    clone_sets: Option<CloneSets>,
    disruptions: Option<Disruptions>,
}

/// One life of the process.
async fn run(cluster: &Arc<Cluster>, process: ProcessId, seed: u64, set: &Arc<Set>) {
    let (env, begun) = (SimEnv::new(&cluster.rt, seed, process), cluster.rt.now());
    let client = Transparent::new(SimClient::new(cluster, process), env.clone(), Policy::ClientGo);
    let shared = Shared::new(client.clone(), env.clone(), set.clone());
    let mut informers = Informers::default();
    listen::listen(&shared, &mut informers);
    let collector = Collector::new(client.clone(), env.clone(), listen::collected(set), &mut informers);
    let runs = |controller| set.controllers.contains(&controller);
    let nodes = runs(Controller::NodeLifecycle).then(|| nodes::Ears::new(&mut informers));
    let pods = runs(Controller::PodGc).then(|| pod_gc::Ears::new(&mut informers, set.terminated_pods));
    let mut informers = informers.start(&client, &env);
    informers.told().await;
    if let Some(ears) = nodes {
        ears.start(cluster, process, &client, &env, nodes::Life { begun, grace: set.monitor_grace }, &informers);
    }
    if let Some(ears) = pods {
        let (cluster, writer) = (cluster.clone(), nodes::write::Writer { client: client.clone(), env: env.clone() });
        let gc = pod_gc::PodGc { cluster, writer, ears, nodes: informers.store(), pods: informers.store(), begun };
        drop(env.spawn(gc.run()));
    }
    let controllers = Arc::new(Controllers::new(shared, &informers, &cluster.registry));
    for _ in 0..WORKERS {
        let controllers = controllers.clone();
        drop(env.spawn(async move { controllers.work().await }));
    }
    collector.run().await;
}

impl Controllers {
    fn new(shared: Arc<Shared>, informers: &Started, registry: &Registry) -> Self {
        let of = |controller| shared.set.controllers.contains(&controller).then(|| shared.clone());
        let runs_budgets = shared.set.controllers.contains(&Controller::Disruption);
        Self {
            stateful_sets: of(Controller::StatefulSet).map(|shared| StatefulSets {
                shared,
                sets: informers.store(),
                revisions: informers.store(),
                pods: informers.store(),
            }),
            replica_sets: of(Controller::ReplicaSet).map(|shared| ReplicaSets { shared, sets: informers.store() }),
            deployments: of(Controller::Deployment).map(|shared| Deployments {
                shared,
                deployments: informers.store(),
                sets: informers.store(),
            }),
            daemon_sets: of(Controller::DaemonSet).map(|shared| DaemonSets { shared, sets: informers.store(), nodes: informers.store() }),
            jobs: of(Controller::Job).map(|shared| Jobs { shared, jobs: informers.store(), failures: Mutex::default() }),
            namespaces: of(Controller::Namespace).map(|shared| Namespaces {
                shared,
                namespaces: informers.store(),
                content: namespace::content(registry, runs_budgets),
            }),
            machines: of(Controller::KubeVirt).map(|shared| Machines { shared, machines: informers.store(), instances: informers.store() }),
            instances: of(Controller::KubeVirt).map(|shared| Instances {
                shared,
                instances: informers.store(),
                migrations: informers.store(),
            }),
            cron_jobs: of(Controller::CronJob).map(|shared| CronJobs { shared, cron_jobs: informers.store(), jobs: informers.store() }),
            clone_sets: of(Controller::CloneSet).map(|shared| CloneSets { shared, sets: informers.store() }),
            disruptions: of(Controller::Disruption).map(|shared| Disruptions {
                shared,
                budgets: informers.store(),
                pods: informers.store(),
                scales: Scales { stateful_sets: informers.store(), replica_sets: informers.store(), deployments: informers.store() },
            }),
            shared,
        }
    }

    async fn work(&self) {
        while let Some(item) = self.shared.queue.next().await {
            match self.reconcile(&item).await {
                Ok(()) => self.shared.queue.forget(&item),
                Err(_) => self.shared.queue.add_rate_limited(item.clone()),
            }
        }
    }

    async fn reconcile(&self, item: &Item) -> Result<(), ApiError> {
        macro_rules! with {
            ($controller:ident) => {
                match &self.$controller {
                    Some(controller) => controller.reconcile(item).await,
                    None => Ok(()),
                }
            };
        }
        match item.kind {
            Kind::StatefulSet => with!(stateful_sets),
            Kind::ReplicaSet => with!(replica_sets),
            Kind::Deployment => with!(deployments),
            Kind::DaemonSet => with!(daemon_sets),
            Kind::Job => with!(jobs),
            Kind::Namespace => with!(namespaces),
            Kind::Machine => with!(machines),
            Kind::Instance => with!(instances),
            Kind::CronJob => with!(cron_jobs),
            Kind::CloneSet => with!(clone_sets),
            Kind::Budget => with!(disruptions),
        }
    }
}
