//! The scheduler: binds pods without a node to one, by POST of a binding (K §5.1 step 2, K126).
//!
//! ```text
//!   pods without a node (informer) ──► which nodes fit, fewest pods first ──► binding ──► done, or back-off and again
//!                                        └ none: waits for a change of a node ◄── nodes (informer)
//! ```
//! A pod that names a node is left alone, and so is one of another scheduler. The load of a node is the number of pods that this life of
//! the scheduler has bound to it. Resources and preferences are not modelled.

mod fit;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube_machinery::informer::{Informer, InformerOptions, Notification, StoreReader};
use kube_machinery::transparent::{Policy, Transparent};
use kube_machinery::{ClientExt, Env, FxHashMap, ObjectKey};
use parking_lot::Mutex;

use crate::actor::object_tasks::{ObjectTasks, Spawner};
use crate::cluster::{Cluster, SimClient};
use crate::env::SimEnv;
use crate::net::{Delay, Sampler};
use crate::rt::ProcessId;

/// The name of the host and of the process.
pub const NAME: &str = "scheduler";
/// The time from the sight of a pod to its binding, without the request (K §11.2).
const DECISION: Delay = Delay::lognormal_us(15_000, 300_000, 60_000_000);
/// The least wait before a failed binding is retried; the longest is half as much again.
const BACK_OFF: Duration = Duration::from_secs(1);

/// Adds the scheduler, as a process on its own host, and starts it.
pub fn install(cluster: &Arc<Cluster>, seed: u64) -> ProcessId {
    let rt = &cluster.rt;
    let process = rt.add_process(rt.add_host(NAME), NAME);
    let shared = Arc::downgrade(cluster);
    rt.set_main(process, move |_| {
        let cluster = shared.upgrade();
        async move {
            if let Some(cluster) = cluster {
                live(cluster, process, seed).await;
            }
        }
    });
    cluster.start(process);
    process
}

struct Scheduler {
    cluster: Arc<Cluster>,
    env: SimEnv,
    client: Transparent<SimClient, SimEnv>,
    pods: StoreReader<Pod>,
    nodes: StoreReader<Node>,
    decision: Sampler,
    /// Tasks end with the pod, its node, and whether it is bound.
    spawner: Spawner<(ObjectKey, Assignment, bool)>,
    state: Mutex<State>,
}

#[derive(Clone)]
struct Assignment {
    uid: Option<String>,
    node: String,
}

#[derive(Default)]
struct State {
    /// The number of pods that were bound to each node, or are about to be.
    loads: FxHashMap<String, u64>,
    /// Pods that are being bound, and those that are bound while the informer still shows them without a node.
    assigned: BTreeMap<ObjectKey, Assignment>,
    /// Pods that fit no node.
    waiting: BTreeSet<ObjectKey>,
}

enum Heard {
    Pod(Option<Notification<Pod>>),
    Node(Option<Notification<Node>>),
    Done(ObjectKey, Assignment, bool),
}

async fn live(cluster: Arc<Cluster>, process: ProcessId, seed: u64) {
    let env = SimEnv::new(&cluster.rt, seed, process);
    let client = Transparent::new(SimClient::new(&cluster, process), env.clone(), Policy::ClientGo);
    let unassigned = InformerOptions::<Pod> { field_selector: Some("spec.nodeName=".to_owned()), ..InformerOptions::default() };
    let nodes = Informer::<Node, _>::start(client.clone(), env.clone(), InformerOptions::default());
    let pods = Informer::start(client.clone(), env.clone(), unassigned);
    let (mut node_news, mut pod_news) = (nodes.subscribe(), pods.subscribe());
    nodes.synced().await;
    let (pod_store, node_store) = (pods.store(), nodes.store());
    let scheduler = Arc::new(Scheduler {
        cluster,
        env,
        client,
        pods: pod_store,
        nodes: node_store,
        decision: DECISION.sampler(),
        spawner: Spawner::default(),
        state: Mutex::default(),
    });
    let _end = scheduler.spawner.until_dropped();
    let mut tasks = ObjectTasks::new();
    loop {
        let heard = std::future::poll_fn(|cx| {
            if let Poll::Ready(notification) = pin!(node_news.next()).poll(cx) {
                return Poll::Ready(Heard::Node(notification));
            }
            if let Poll::Ready(notification) = pin!(pod_news.next()).poll(cx) {
                return Poll::Ready(Heard::Pod(notification));
            }
            tasks.poll_next(&scheduler.spawner, cx).map(|(key, assignment, bound)| Heard::Done(key, assignment, bound))
        });
        match heard.await {
            Heard::Pod(Some(Notification::Deleted { object } | Notification::DeletedFinalStateUnknown { object, .. })) => {
                scheduler.left(&object);
            }
            Heard::Pod(Some(notification)) => scheduler.consider(notification.key()),
            Heard::Node(Some(_)) => {
                let waiting = std::mem::take(&mut scheduler.state.lock().waiting);
                waiting.into_iter().for_each(|key| scheduler.consider(key));
            }
            Heard::Done(key, assignment, bound) => scheduler.done(key, assignment, bound),
            Heard::Pod(None) | Heard::Node(None) => return,
        }
    }
}

impl Scheduler {
    /// Notes that a pod is bound, or gone.
    fn left(&self, pod: &Pod) {
        let key = ObjectKey::of(pod);
        let mut state = self.state.lock();
        state.waiting.remove(&key);
        if state.assigned.get(&key).is_some_and(|assignment| assignment.uid == pod.metadata.uid) {
            state.assigned.remove(&key);
        }
    }

    /// Begins to bind a pod, if there is one of this name that needs it and a node that fits.
    fn consider(self: &Arc<Self>, key: ObjectKey) {
        let Some(pod) = self.pods.get(&key).filter(|pod| fit::is_ours(pod)) else { return };
        let mut state = self.state.lock();
        if state.assigned.get(&key).is_some_and(|assignment| assignment.uid == pod.metadata.uid) {
            return;
        }
        let Some(node) = self.pick(&pod, &state.loads) else {
            state.waiting.insert(key);
            return;
        };
        *state.loads.entry(node.clone()).or_default() += 1;
        let assignment = Assignment { uid: pod.metadata.uid.clone(), node };
        state.assigned.insert(key.clone(), assignment.clone());
        let scheduler = self.clone();
        self.spawner.begin(async move {
            let rt = &scheduler.cluster.rt;
            rt.sleep(scheduler.decision.sample(scheduler.env.random_unit())).await;
            let bound = scheduler.client.bind(&key, assignment.uid.clone(), &assignment.node).await.is_ok();
            if !bound {
                rt.sleep(BACK_OFF.mul_f64(1.0 + 0.5 * scheduler.env.random_unit())).await;
            }
            (key, assignment, bound)
        });
    }

    /// Handles the end of a binding. A failed one may have been carried out all the same: then the informer does not show the pod any more.
    fn done(self: &Arc<Self>, key: ObjectKey, assignment: Assignment, bound: bool) {
        if bound {
            return;
        }
        {
            let mut state = self.state.lock();
            if let Some(load) = state.loads.get_mut(&assignment.node) {
                *load = load.saturating_sub(1);
            }
            if state.assigned.get(&key).is_some_and(|known| known.uid == assignment.uid) {
                state.assigned.remove(&key);
            }
        }
        self.consider(key);
    }

    /// The node for a pod: of those that fit, one with the fewest pods, drawn if there are several.
    fn pick(&self, pod: &Pod, loads: &FxHashMap<String, u64>) -> Option<String> {
        let mut best: Option<(u64, Arc<Node>)> = None;
        let mut equals = 0u64;
        self.nodes.for_each(|node| {
            let load = node.metadata.name.as_ref().and_then(|name| loads.get(name)).copied().unwrap_or(0);
            // Most nodes of a large cluster are ruled out by their load, and looking that up is faster than comparing a node with a pod.
            if best.as_ref().is_some_and(|(least, _)| load > *least) || !fit::fits(pod, node) {
                return;
            }
            equals = match &best {
                Some((least, _)) if load == *least => equals + 1,
                _ => 1,
            };
            // The n-th of equal nodes is chosen with probability 1/n.
            if equals == 1 || sim_config::draw::below(self.env.random(), equals) == 0 {
                best = Some((load, node.clone()));
            }
        });
        best.and_then(|(_, node)| node.metadata.name.clone())
    }
}
