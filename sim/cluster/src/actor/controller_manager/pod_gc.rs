//! Pod garbage collection: removes pods that nothing else removes (K §6.3, K138).
//!
//! ```text
//!   each 20 s, while there is something to collect:
//!     terminated pods above the threshold, oldest first
//!     terminating pods of nodes that are not ready and out of service
//!     pods of nodes that do not exist: the node is kept in mind for 40 s, then asked for once more
//!     terminating pods without a node
//! ```
//! A pod that is not over is marked Failed first, with its UID; then whichever pod has its name is deleted without grace and without a UID
//! (K144). None of this touches a node: sandboxes go on running (K137).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube_machinery::informer::{Notification, StoreReader};
use kube_machinery::{ApiError, ClientExt, ObjectKey};
use parking_lot::Mutex;
use sim_config::time::SimTime;
use tokio::sync::Notify;

use super::batch;
use super::nodes::write::Writer;
use super::view::{View, node_of};
use crate::actor::informers::Informers;
use crate::cluster::Cluster;
use crate::node::taints::{is_out_of_service, is_ready};

/// The interval between two rounds of collection.
const EVERY: Duration = Duration::from_secs(20);
/// The time for which a node has to be missing before its pods count as orphans.
const QUARANTINE: Duration = Duration::from_secs(40);

/// The changes that the informers have reported, as far as they show whether there may be something to collect.
#[derive(Default)]
struct Known {
    nodes: BTreeMap<String, bool>,
    terminated: usize,
}

/// The part that listens before the informers start.
pub(super) struct Ears {
    known: Mutex<Known>,
    bell: Notify,
    /// The number of terminated pods that may be left.
    threshold: usize,
}

impl Ears {
    pub(super) fn new(informers: &mut Informers, threshold: usize) -> Arc<Self> {
        let ears = Arc::new(Self { known: Mutex::default(), bell: Notify::new(), threshold });
        let told = ears.clone();
        informers.tell::<Node>(move |notification| told.hear_of_node(notification));
        let told = ears.clone();
        informers.tell::<Pod>(move |notification| told.hear_of_pod(notification));
        ears
    }

    fn hear_of_node(&self, notification: &Notification<Node>) {
        let node = notification.object();
        let name = node.metadata.name.clone().unwrap_or_default();
        let mut known = self.known.lock();
        if matches!(notification, Notification::Deleted { .. } | Notification::DeletedFinalStateUnknown { .. }) {
            known.nodes.remove(&name);
            self.bell.notify_one();
        } else {
            let out = is_out_of_service(node);
            known.nodes.insert(name, out);
            if out {
                self.bell.notify_one();
            }
        }
    }

    fn hear_of_pod(&self, notification: &Notification<Pod>) {
        let ended = |pod: &Pod| usize::from(View::of(pod).ended());
        let (before, now) = match notification {
            Notification::Added { object, .. } => (0, ended(object)),
            Notification::Updated { old, new } => (ended(old), ended(new)),
            Notification::Deleted { object } | Notification::DeletedFinalStateUnknown { object, .. } => (ended(object), 0),
        };
        let mut known = self.known.lock();
        known.terminated = (known.terminated + now).saturating_sub(before);
        let pod = notification.object();
        let terminating = pod.metadata.deletion_timestamp.is_some();
        let concerns = match node_of(pod) {
            Some(node) => known.nodes.get(node).is_none_or(|&out| out && terminating),
            None => terminating,
        };
        if concerns || known.terminated > self.threshold {
            self.bell.notify_one();
        }
    }
}

/// The controller in one life of its process: it collects in rounds once its [`Ears`] have noticed that there may be something to collect.
pub(super) struct PodGc {
    pub(super) cluster: Arc<Cluster>,
    pub(super) writer: Writer,
    pub(super) ears: Arc<Ears>,
    pub(super) nodes: StoreReader<Node>,
    pub(super) pods: StoreReader<Pod>,
    /// The start of this life of the process.
    pub(super) begun: SimTime,
}

impl PodGc {
    pub(super) async fn run(self) {
        let rt = &self.cluster.rt;
        let mut missing = BTreeMap::new();
        loop {
            self.ears.bell.notified().await;
            while {
                rt.sleep_until(self.next(rt.now())).await;
                self.collect(&mut missing).await
            } {}
        }
    }

    /// The first round after `now`.
    fn next(&self, now: SimTime) -> SimTime {
        let (begun, every) = (self.begun.as_micros(), EVERY.as_micros() as u64);
        SimTime::from_micros(begun + (now.as_micros().saturating_sub(begun) / every + 1) * every)
    }

    /// Runs one round. `missing`: the missing nodes that pods name, with the time since which they are missing. Returns whether the next
    /// round may find something without any change being reported.
    async fn collect(&self, missing: &mut BTreeMap<String, SimTime>) -> bool {
        let now = self.cluster.rt.now();
        let mut nodes: BTreeMap<String, bool> = BTreeMap::new();
        self.nodes.for_each(|node| {
            let fenced = is_ready(node) != Some(true) && is_out_of_service(node);
            nodes.insert(node.metadata.name.clone().unwrap_or_default(), fenced);
        });
        let pods = self.pods.list();
        let orphaned: BTreeSet<&str> = pods.iter().filter_map(|pod| node_of(pod)).filter(|node| !nodes.contains_key(*node)).collect();
        missing.retain(|node, _| orphaned.contains(node.as_str()));
        let mut gone = BTreeSet::new();
        for &node in &orphaned {
            match missing.get(node) {
                None => drop(missing.insert(node.to_owned(), now)),
                Some(&since) if now >= since + QUARANTINE => {
                    // Check once more with a live read. A node that is back, or for which there is no answer, waits again.
                    let found = self.writer.client.get::<Node>(&ObjectKey::cluster(node)).await;
                    if found.is_err_and(|error| error.is_not_found()) {
                        gone.insert(node.to_owned());
                    }
                    missing.remove(node);
                }
                Some(_) => {}
            }
        }
        let mut victims: Vec<(Arc<Pod>, &str)> = self.too_many(&pods).into_iter().map(|pod| (pod, "")).collect();
        for pod in &pods {
            let terminating = pod.metadata.deletion_timestamp.is_some();
            let chosen = match node_of(pod) {
                Some(node) => gone.contains(node) || terminating && nodes.get(node) == Some(&true),
                None => terminating,
            };
            if chosen {
                victims.push((pod.clone(), "DeletionByPodGC"));
            }
        }
        let _ = batch::all(victims.len(), |index| self.remove(&victims[index].0, victims[index].1)).await;
        !victims.is_empty() || !missing.is_empty() || !gone.is_empty()
    }

    /// The oldest terminated pods above the threshold.
    fn too_many(&self, pods: &[Arc<Pod>]) -> Vec<Arc<Pod>> {
        let mut ended: Vec<&Arc<Pod>> = pods.iter().filter(|pod| View::of(pod).ended()).collect();
        let Some(too_many) = ended.len().checked_sub(self.ears.threshold).filter(|&count| count > 0) else { return Vec::new() };
        let age = |pod: &Pod| (pod.metadata.creation_timestamp.clone(), ObjectKey::of(pod));
        ended.sort_by_key(|pod| age(pod));
        ended.into_iter().take(too_many).cloned().collect()
    }

    async fn remove(&self, pod: &Pod, reason: &str) -> Result<(), ApiError> {
        if !View::of(pod).ended() {
            match self.writer.disrupt(pod, reason, Some("Failed")).await {
                Err(error) if error.is_not_found() => return Ok(()),
                result => result?,
            }
        }
        self.writer.delete_by_name(&ObjectKey::of(pod), Some(0)).await
    }
}
