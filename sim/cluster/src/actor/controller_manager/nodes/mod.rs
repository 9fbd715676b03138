//! The node lifecycle controller: finds silent nodes, marks them, and keeps pods away from them (K §6.1, K136).
//!
//! ```text
//!   leases, Nodes (informers) ─► scan, each 5 s ─► Ready=Unknown after the grace, pods Ready=False
//!   heartbeats that are not sent ──┘            └► taints NoSchedule at once, NoExecute at the pace of the zone ─► Evictor
//! ```
//! It scans only while some node is not quietly healthy. Kubernetes taints a moment after a Node has changed; here the next scan does it,
//! up to 5 s later. A node without a condition Ready has a minute to post one.

mod evictor;
mod health;
pub(super) mod write;
mod zones;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use evictor::{Evictor, Inbox};
use health::{Health, Scans, Signs};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Pod};
use kube_machinery::informer::{Index, StoreReader};
use kube_machinery::race::race;
use kube_machinery::{Env, ObjectKey};
use parking_lot::Mutex;
use sim_config::time::SimTime;
use tokio::sync::Notify;
use write::Writer;
use zones::{Whole, Zones};

use super::batch;
use super::view::{Phase, View, node_of};
use crate::actor::ApiClient;
use crate::actor::informers::{Informers, Started};
use crate::cluster::Cluster;
use crate::env::SimEnv;
use crate::node::heartbeat::{LEASES, revision_of};
use crate::node::taints::{NO_EXECUTE, NO_SCHEDULE, NOT_READY, UNREACHABLE, taints_of};
use crate::rt::ProcessId;

/// The name of the index of pods by their node.
pub(super) const BY_NODE: &str = "node";
/// The time that a node may take to post its first condition.
const STARTUP_GRACE: Duration = Duration::from_secs(60);
/// The labels that define a zone.
const ZONE: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

/// The part that listens before the informers start.
pub(super) struct Ears {
    bell: Arc<Notify>,
    inbox: Arc<Inbox>,
}

impl Ears {
    pub(super) fn new(informers: &mut Informers) -> Self {
        let (bell, inbox) = (Arc::new(Notify::new()), Inbox::new(informers));
        informers.index::<Pod>(Index::new(BY_NODE, |pod: &Pod, tell| {
            if let Some(node) = node_of(pod) {
                tell(node);
            }
        }));
        let rings = bell.clone();
        informers.tell::<Node>(move |_| rings.notify_one());
        // Leases are only looked up: the index requests their informer, and no callback is needed.
        informers.index::<Lease>(Index::new(BY_NODE, |_, _| {}));
        Self { bell, inbox }
    }

    /// Starts both controllers in the process.
    pub(super) fn start(self, cluster: &Arc<Cluster>, process: ProcessId, client: &ApiClient, env: &SimEnv, at: Life, informers: &Started) {
        let writer = Writer { client: client.clone(), env: env.clone() };
        let evictor = Evictor::new(cluster, writer.clone(), self.inbox, informers.store());
        drop(env.spawn(async move { evictor.run().await }));
        cluster.nodes.heartbeats.observe(process);
        cluster.nodes.heartbeats.look_around(cluster);
        let lifecycle = NodeLifecycle {
            cluster: cluster.clone(),
            process,
            writer,
            bell: self.bell,
            grace: at.grace,
            scans: Scans::since(at.begun),
            nodes: informers.store(),
            leases: informers.store(),
            pods: informers.store(),
            memory: Mutex::default(),
        };
        drop(env.spawn(async move { lifecycle.run().await }));
    }
}

/// The start of this life of the process, and the time for which a node may be silent in it.
#[derive(Clone, Copy)]
pub(super) struct Life {
    pub(super) begun: SimTime,
    pub(super) grace: Duration,
}

/// The memory of one life.
#[derive(Default)]
struct Memory {
    health: BTreeMap<String, Health>,
    zones: Zones,
    /// Nodes that wait for their NoExecute taint, and the time since which they wait.
    queue: BTreeMap<String, SimTime>,
}

struct NodeLifecycle {
    cluster: Arc<Cluster>,
    process: ProcessId,
    writer: Writer,
    bell: Arc<Notify>,
    grace: Duration,
    scans: Scans,
    nodes: StoreReader<Node>,
    leases: StoreReader<Lease>,
    pods: StoreReader<Pod>,
    memory: Mutex<Memory>,
}

/// The value of the condition Ready of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ready {
    True,
    False,
    Unknown,
    /// The Node has no such condition yet: it is tainted as unreachable.
    Never,
}

fn ready_condition(node: &Node) -> Option<&NodeCondition> {
    node.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == "Ready")
}

impl Ready {
    fn of(node: &Node) -> Self {
        match ready_condition(node).map(|condition| condition.status.as_str()) {
            Some("True") => Ready::True,
            Some("False") => Ready::False,
            Some(_) => Ready::Unknown,
            None => Ready::Never,
        }
    }

    /// The key of the taints that follow from this value.
    fn taint(self) -> Option<&'static str> {
        match self {
            Ready::True => None,
            Ready::False => Some(NOT_READY),
            Ready::Unknown | Ready::Never => Some(UNREACHABLE),
        }
    }
}

fn name_of(node: &Node) -> &str {
    node.metadata.name.as_deref().unwrap_or("")
}

fn zone_of(node: &Node) -> String {
    let label = |name: &str| node.metadata.labels.as_ref().and_then(|labels| labels.get(name)).map_or("", String::as_str);
    format!("{}/{}", label(ZONE[0]), label(ZONE[1]))
}

/// The one of the two taints of this effect that a node has.
fn tainted(node: &Node, effect: &str) -> Option<&'static str> {
    let has = |key: &&'static str| taints_of(node).iter().any(|taint| taint.key == *key && taint.effect == effect);
    [NOT_READY, UNREACHABLE].into_iter().find(|key| has(key))
}

impl NodeLifecycle {
    async fn run(&self) {
        let (rt, heartbeats) = (&self.cluster.rt, &self.cluster.nodes.heartbeats);
        self.scan().await;
        loop {
            let wakes = heartbeats.wakes();
            if self.all_is_well() {
                race(self.bell.notified(), heartbeats.woken(wakes)).await;
                continue;
            }
            rt.sleep_until(self.scans.after(rt.now())).await;
            self.scan().await;
        }
    }

    /// Whether a scan would find nothing, now and until a change is reported.
    fn all_is_well(&self) -> bool {
        let mut well = true;
        self.nodes.for_each(|node| {
            let clean = || tainted(node, NO_EXECUTE).is_none() && tainted(node, NO_SCHEDULE).is_none();
            well = well && Ready::of(node) == Ready::True && clean() && self.cluster.nodes.heartbeats.is_resting(name_of(node));
        });
        well && self.memory.lock().queue.is_empty()
    }

    async fn scan(&self) {
        let now = self.cluster.rt.now();
        let mut nodes = self.nodes.list();
        nodes.sort_unstable_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
        let silent = self.listen(&nodes, now);
        let told = Mutex::new(BTreeMap::new());
        let tell = |index: usize| {
            let (node, told) = (&nodes[silent[index]], &told);
            async move {
                let node = self.writer.set_unknown(node).await?;
                told.lock().insert(name_of(&node).to_owned(), node);
                Ok(())
            }
        };
        // Failed writes are retried at the next scan.
        let _ = batch::all(silent.len(), tell).await;
        for (name, node) in told.into_inner() {
            if let Some(slot) = nodes.iter_mut().find(|known| name_of(known) == name) {
                *slot = node;
            }
        }
        self.mark_pods(&nodes).await;
        let changes = self.plan_taints(&nodes, now);
        let change = |index: usize| {
            let (place, add, remove) = &changes[index];
            let node = &nodes[*place];
            async move {
                let result = self.writer.retaint(node, add, remove).await;
                // A node whose write failed stays in the queue.
                if result.is_ok() && add.iter().any(|(_, effect)| *effect == NO_EXECUTE) {
                    self.memory.lock().queue.remove(name_of(node));
                }
                result.map(drop)
            }
        };
        let _ = batch::all(changes.len(), change).await;
    }

    /// Takes in the signs of life. Returns the indices of the nodes that have newly been silent for too long.
    fn listen(&self, nodes: &[Arc<Node>], now: SimTime) -> Vec<usize> {
        let mut memory = self.memory.lock();
        let there: BTreeSet<&str> = nodes.iter().map(|node| name_of(node)).collect();
        memory.health.retain(|name, _| there.contains(name.as_str()));
        memory.queue.retain(|name, _| there.contains(name.as_str()));
        let (mut silent, mut seen) = (Vec::new(), Vec::new());
        for (place, node) in nodes.iter().enumerate() {
            let name = name_of(node);
            let lease = self.leases.get(&ObjectKey::namespaced(LEASES, name));
            if let Some(lease) = &lease {
                seen.push((name, revision_of(&lease.metadata)));
            }
            let signs = Signs {
                renewed: lease.and_then(|lease| lease.spec.as_ref()?.renew_time.clone()),
                posted: ready_condition(node).and_then(|ready| ready.last_heartbeat_time.clone()),
                unsent: self.cluster.nodes.heartbeats.unsent(name, now),
            };
            let ready = Ready::of(node);
            let grace = if ready == Ready::Never { STARTUP_GRACE } else { self.grace };
            match memory.health.get_mut(name) {
                Some(health) => {
                    health.look(now, signs, self.scans);
                    if ready != Ready::Unknown && health.is_silent(now, grace) {
                        silent.push(place);
                    }
                }
                None => drop(memory.health.insert(name.to_owned(), Health::first(now, signs))),
            }
        }
        drop(memory);
        for (name, revision) in seen {
            self.cluster.nodes.heartbeats.seen(&self.cluster, self.process, name, revision);
        }
        silent
    }

    /// Marks the pods of nodes that are not ready as not ready.
    async fn mark_pods(&self, nodes: &[Arc<Node>]) {
        let mut pods = Vec::new();
        for node in nodes.iter().filter(|node| matches!(Ready::of(node), Ready::False | Ready::Unknown)) {
            self.pods.by_index(BY_NODE, name_of(node), |pod| {
                let view = View::of(pod);
                if view.ready && view.phase == Phase::Running {
                    pods.push(pod.clone());
                }
            });
        }
        let _ = batch::all(pods.len(), |index| self.writer.set_pod_unready(&pods[index])).await;
    }

    /// The taints that each node gets and loses, with the nodes given by index.
    fn plan_taints(&self, nodes: &[Arc<Node>], now: SimTime) -> Vec<Retaint> {
        let mut memory = self.memory.lock();
        let Memory { health, zones, queue } = &mut *memory;
        let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        for node in nodes {
            let (ready, lost) = counts.entry(zone_of(node)).or_default();
            *if Ready::of(node) == Ready::True { ready } else { lost } += 1;
        }
        let whole = zones.count(counts);
        if whole == Whole::Back {
            health.values_mut().for_each(|health| health.forgive(now));
        }
        let mut changes: Vec<Retaint> = Vec::new();
        for (place, node) in nodes.iter().enumerate() {
            let (mut add, mut remove) = (Vec::new(), Vec::new());
            let wanted = Ready::of(node).taint();
            let (soft, hard) = (tainted(node, NO_SCHEDULE), tainted(node, NO_EXECUTE));
            if soft != wanted {
                add.extend(wanted.map(|key| (key, NO_SCHEDULE)));
                remove.extend(soft.map(|key| (key, NO_SCHEDULE)));
            }
            match (hard, wanted) {
                (Some(key), None) => remove.push((key, NO_EXECUTE)),
                (Some(key), Some(_)) if whole == Whole::Gone => remove.push((key, NO_EXECUTE)),
                (Some(key), Some(wanted)) if key != wanted => {
                    add.push((wanted, NO_EXECUTE));
                    remove.push((key, NO_EXECUTE));
                }
                (Some(_), Some(_)) | (None, None) => {}
                (None, Some(_)) if whole != Whole::Gone => {
                    queue.entry(name_of(node).to_owned()).or_insert(now);
                }
                (None, Some(_)) => {}
            }
            if wanted.is_none() || whole == Whole::Gone {
                queue.remove(name_of(node));
            }
            changes.push((place, add, remove));
        }
        // The node that has waited longest comes first.
        let mut turn: Vec<(SimTime, usize)> =
            nodes.iter().enumerate().filter_map(|(place, node)| Some((*queue.get(name_of(node))?, place))).collect();
        turn.sort_unstable();
        for (_, place) in turn {
            let node = &nodes[place];
            if let Some(key) = Ready::of(node).taint().filter(|_| tainted(node, NO_EXECUTE).is_none())
                && zones.take(&zone_of(node), now)
            {
                changes[place].1.push((key, NO_EXECUTE));
            }
        }
        changes.retain(|(_, add, remove)| !add.is_empty() || !remove.is_empty());
        changes
    }
}

/// The index of a node, and the keys and effects of the taints that it gets and loses.
type Retaint = (usize, Vec<(&'static str, &'static str)>, Vec<(&'static str, &'static str)>);
