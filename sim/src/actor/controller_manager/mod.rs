//! The controller manager: the process that makes and deletes pods for those who own them (K §7), and the garbage
//! collector (K §2.10), over one informer per type.
//!
//! ```text
//!   informers ──► Families (pods by owner) ──► one queue ──► workers ──► requests
//!             └─► Expectations                  Item = controller and key
//! ```
//! A workload says which controllers it wants:
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use ipam_sim::cluster::Fabric;
//! use ipam_core::spiderpool::SpiderEndpoint;
//! use ipam_sim::actor::controller_manager::{self, Controller, Set};
//!
//! # fn example(fabric: &Arc<Fabric>, seed: u64) {
//! let set = Set::of([Controller::StatefulSet, Controller::ReplicaSet, Controller::Deployment]).collecting::<SpiderEndpoint>();
//! let process = controller_manager::install(fabric, seed, set);
//! # let _ = process;
//! # }
//! ```
//! and from then on only creates, changes and deletes StatefulSets and the like, as people do. Pods come unscheduled unless
//! their template names a node; whoever plays scheduler and kubelet makes them run, be ready, end and go. What a
//! controller reads of a pod is its phase, its condition `Ready`, its deletion timestamp and its node.
//!
//! The garbage collector sees pods, the types of the chosen controllers, and what `collecting` adds to them.
//!
//! Everything is decided from the present state (K §4.5), so the process may crash at any point and go on. Nothing is
//! polled: a cluster in which nothing happens causes no request and no wake-up.

use std::sync::Arc;
use std::time::Duration;

use ipam_core::transparent::{Policy, Transparent};

use super::garbage_collector::{self, Collected, Collector};
use super::informers::Informers;
use crate::cluster::{Fabric, SimClient};
use crate::env::SimEnv;
use crate::kinds::Stored;
use crate::rt::ProcessId;

/// The name of the host and of the process.
pub const NAME: &str = garbage_collector::NAME;

/// A controller.
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
}

impl Controller {
    /// Every controller.
    pub const ALL: [Controller; 7] = [
        Controller::StatefulSet,
        Controller::ReplicaSet,
        Controller::Deployment,
        Controller::DaemonSet,
        Controller::Job,
        Controller::Namespace,
        Controller::KubeVirt,
    ];
}

/// What a controller manager does.
#[derive(Clone)]
pub struct Set {
    /// Which controllers run.
    pub controllers: Vec<Controller>,
    /// What the garbage collector sees besides pods and the types of the controllers.
    pub collected: Vec<Collected>,
    /// The least time between two writes of the status of one object. Kubernetes' limit on the requests of its controllers
    /// has the same effect when many pods change at once; 0 = none. Does not hold for Jobs, whose status is what they count by.
    pub status_pace: Duration,
    /// How long a live migration takes once its target pod is ready.
    pub migration_takes: Duration,
}

impl Set {
    /// These controllers, with status writes at least 200 ms apart and migrations of 10 s.
    pub fn of(controllers: impl IntoIterator<Item = Controller>) -> Self {
        Self {
            controllers: controllers.into_iter().collect(),
            collected: Vec::new(),
            status_pace: Duration::from_millis(200),
            migration_takes: Duration::from_secs(10),
        }
    }

    /// The same, with objects of type `K` garbage when their owners are gone.
    #[must_use]
    pub fn collecting<K: Stored>(mut self) -> Self {
        self.collected.push(Collected::of::<K>());
        self
    }
}

/// Adds the controller manager, as a process on a host of its own, and starts it. The cluster has to serve the types of
/// all that was asked for.
pub fn install(fabric: &Arc<Fabric>, seed: u64, set: Set) -> ProcessId {
    let rt = &fabric.rt;
    let process = rt.add_process(rt.add_host(NAME), NAME);
    let (shared, set) = (Arc::downgrade(fabric), Arc::new(set));
    rt.set_main(process, move |_| {
        let (fabric, set) = (shared.upgrade(), set.clone());
        async move {
            if let Some(fabric) = fabric {
                run(&fabric, process, seed, &set).await;
            }
        }
    });
    fabric.start(process);
    process
}

/// One life of the process.
async fn run(fabric: &Arc<Fabric>, process: ProcessId, seed: u64, set: &Set) {
    let env = SimEnv::new(&fabric.rt, seed, process);
    let client = Transparent::new(SimClient::new(fabric, process), env.clone(), Policy::ClientGo);
    let mut informers = Informers::default();
    let collector = Collector::new(client.clone(), env.clone(), set.collected.clone().into(), &mut informers);
    let mut informers = informers.start(&client, &env);
    informers.told().await;
    collector.run().await;
}
