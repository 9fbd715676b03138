//! Machines that are on only while they have pods, which makes a cluster of thousands of nodes affordable.
//!
//! ```text
//!   pods (informer) ──► first pod of a node: its agent and kubelet start ──► last one gone, [`LINGER`] over, nothing left: they stop
//! ```
//! A watch costs a delivery for each change of each object, on each node. A node without pods, sandboxes and outstanding DELs has no effect
//! on others, so a plan may leave its processes off (`on_demand`). A pod there then waits until the agent has filled its caches, which is
//! harder than finding it ready; on the other hand an agent's caches are never older than the node's oldest pod, so this does not suit runs
//! that test stale caches.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_machinery::Env;
use kube_machinery::informer::{Informer, InformerOptions, Notification};
use kube_machinery::transparent::{Policy, Transparent};
use kube_sim::cluster::{Cluster, SimClient};
use kube_sim::env::SimEnv;
use kube_sim::rt::ProcessId;
use parking_lot::Mutex;

use super::site::Site;

/// The process that switches machines on and off.
pub(super) const NAME: &str = "machines";
/// The time that a machine stays on after its last pod: an agent's longest operation with all its clean-up (A §5.2), and a margin.
const LINGER: Duration = Duration::from_secs(180);

/// The state of a node's machine: whether it is on, and for which pods.
#[derive(Default)]
struct Machine {
    on: bool,
    /// The UIDs of its pods.
    pods: BTreeSet<String>,
    /// The number of times that it lost its last pod.
    left: u64,
}

/// The state of one life of the process.
#[derive(Clone)]
struct Machines {
    site: Arc<Site>,
    cluster: Arc<Cluster>,
    env: SimEnv,
    numbers: Arc<BTreeMap<Arc<str>, usize>>,
    all: Arc<Mutex<BTreeMap<usize, Machine>>>,
}

/// Runs the process once, from its start to its end.
pub(super) async fn run(site: Arc<Site>, cluster: Arc<Cluster>, process: ProcessId) {
    let env = site.env(&cluster, process);
    let client = Transparent::new(SimClient::new(&cluster, process), env.clone(), Policy::ClientGo);
    let informer = Informer::<Pod, _>::start(client, env.clone(), InformerOptions::default());
    let mut news = informer.subscribe();
    let numbers = site.nodes.iter().enumerate().map(|(number, node)| (node.name.clone(), number)).collect();
    let machines = Machines { site, cluster, env, numbers: Arc::new(numbers), all: Arc::default() };
    while let Some(notification) = news.next().await {
        match notification {
            Notification::Added { object, .. } => machines.has(&object),
            Notification::Updated { old, new } => {
                if old.metadata.uid != new.metadata.uid {
                    machines.lost(&old);
                }
                machines.has(&new);
            }
            Notification::Deleted { object } | Notification::DeletedFinalStateUnknown { object, .. } => machines.lost(&object),
        }
    }
}

impl Machines {
    /// The number of a pod's machine, and the pod's UID.
    fn place(&self, pod: &Pod) -> Option<(usize, String)> {
        let number = self.numbers.get(pod.spec.as_ref()?.node_name.as_deref()?)?;
        Some((*number, pod.metadata.uid.clone()?))
    }

    fn has(&self, pod: &Pod) {
        let Some((number, uid)) = self.place(pod) else { return };
        let mut all = self.all.lock();
        let machine = all.entry(number).or_default();
        machine.pods.insert(uid);
        if !std::mem::replace(&mut machine.on, true) {
            let node = &self.site.nodes[number];
            drop(all);
            self.cluster.start(node.agent);
            self.cluster.start(node.kubelet);
        }
    }

    fn lost(&self, pod: &Pod) {
        let Some((number, uid)) = self.place(pod) else { return };
        let mut all = self.all.lock();
        let Some(machine) = all.get_mut(&number) else { return };
        if machine.pods.remove(&uid) && machine.pods.is_empty() {
            machine.left += 1;
            let (it, left) = (self.clone(), machine.left);
            drop(self.env.spawn(async move { it.switch_off(number, left).await }));
        }
    }

    /// Switches a machine off once nothing is left to be done on it, unless another pod arrives.
    async fn switch_off(self, number: usize, left: u64) {
        let node = &self.site.nodes[number];
        loop {
            self.env.sleep(LINGER).await;
            let mut all = self.all.lock();
            let Some(machine) = all.get_mut(&number).filter(|machine| machine.pods.is_empty() && machine.left == left) else { return };
            let runtime = self.cluster.nodes.runtime_of(node.kubelet);
            if runtime.is_none_or(|runtime| runtime.owes() == 0 && runtime.sandboxes().is_empty()) {
                machine.on = false;
                break;
            }
        }
        self.cluster.crash(node.kubelet);
        self.cluster.crash(node.agent);
    }
}
