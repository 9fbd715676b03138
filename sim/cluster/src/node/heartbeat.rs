//! Heartbeats of nodes, which cost nothing while no observer could notice whether they were sent (K §6.1).
//!
//! ```text
//!             start ──► awake: real requests ── lease and status written and seen, nothing in the way ──► resting: nothing is sent
//!                         ▲                                                                                   │
//!                         └── a fault touches the way, or the Node is not what its kubelet says ──────────────┘
//! ```
//! While a kubelet rests, its lease counts as renewed at each beat of its `HeartbeatSchedule`, a pure function of time. It rests only while
//! there is no obstacle between it and the API servers, and between these and every observer of nodes (`cluster::clear`). A fault that
//! begins wakes it, so that it affects real requests.
//!
//! Kubelets (`actor::kubelet`) send and rest; the node lifecycle controller is the observer; `Cluster` reports changes.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use kube_machinery::ObjectKey;
use parking_lot::Mutex;
use sim_config::time::SimTime;

use super::heartbeat_schedule::{HeartbeatSchedule, RENEWS_EVERY};
use super::taints;
use crate::cluster::{Cluster, EPOCH, later};
use crate::kinds::KindId;
use crate::object::{Obj, make_mut};
use crate::rt::{ProcessId, ProcessState};
use crate::trace::ProcessChange;

/// The namespace of the leases of nodes.
pub const LEASES: &str = "kube-node-lease";
/// The interval at which it posts an unchanged status.
pub const POSTS_EVERY: Duration = Duration::from_secs(300);
/// The duration of a lease; written into it, and not read by anything (K §6.1).
pub const LEASE_LASTS: Duration = Duration::from_secs(40);
/// The time from an unsent renewal until an observer would have seen it.
pub const SEEN_AFTER: Duration = Duration::from_millis(50);

/// A condition for a kubelet to rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It has renewed its lease, which has this revision since.
    Lease(u64),
    /// It has seen that its Node has the status that it would write.
    Status,
}

#[derive(Debug)]
struct Beat {
    node: Arc<str>,
    schedule: HeartbeatSchedule,
    /// The revision of its first renewal since it woke.
    renewed: Option<u64>,
    /// Whether its Node has been in the right state since it woke.
    posted: bool,
    /// The observers that have seen that renewal.
    seen_by: BTreeSet<ProcessId>,
    /// The time since which it rests.
    rests: Option<SimTime>,
    /// The beginning and the end of its last rest.
    rested: Option<(SimTime, SimTime)>,
    waiting: Vec<Waker>,
}

#[derive(Debug, Default)]
struct Beats {
    /// Whether heartbeats are always sent.
    always: bool,
    observers: Vec<ProcessId>,
    beats: BTreeMap<ProcessId, Beat>,
    by_node: BTreeMap<Arc<str>, ProcessId>,
    /// The number of times that a kubelet woke.
    wakes: u64,
    watching: Vec<Waker>,
}

impl Beats {
    fn wake(&mut self, kubelet: ProcessId, now: SimTime) {
        let Some(beat) = self.beats.get_mut(&kubelet) else { return };
        (beat.renewed, beat.posted) = (None, false);
        beat.seen_by.clear();
        let Some(since) = beat.rests.take() else { return };
        beat.rested = Some((since, now));
        beat.waiting.drain(..).for_each(Waker::wake);
        self.wakes += 1;
        self.watching.drain(..).for_each(Waker::wake);
    }

    fn wake_all(&mut self, now: SimTime) {
        let all: Vec<ProcessId> = self.beats.keys().copied().collect();
        all.into_iter().for_each(|kubelet| self.wake(kubelet, now));
    }

    fn of_node(&self, node: &str) -> Option<&Beat> {
        self.beats.get(self.by_node.get(node)?)
    }
}

/// The heartbeats of a cluster.
#[derive(Debug, Default)]
pub struct Heartbeats(Mutex<Beats>);

impl Heartbeats {
    /// Makes every heartbeat be sent from now on, whether an observer could notice or not: for comparisons.
    pub fn send_all(&self) {
        self.0.lock().always = true;
    }

    /// Whether there are no heartbeats.
    fn is_idle(&self) -> bool {
        self.0.lock().beats.is_empty()
    }

    // ------------------------------------------------------------------------------------------------- for kubelets

    /// Starts the heartbeats of a kubelet that has just started: it is awake.
    pub fn begin(&self, kubelet: ProcessId, node: &Arc<str>, schedule: HeartbeatSchedule, now: SimTime) {
        let mut beats = self.0.lock();
        beats.wake(kubelet, now);
        beats.by_node.insert(node.clone(), kubelet);
        beats.beats.entry(kubelet).or_insert_with(|| Beat {
            node: node.clone(),
            schedule,
            renewed: None,
            posted: false,
            seen_by: BTreeSet::new(),
            rests: None,
            rested: None,
            waiting: Vec::new(),
        });
    }

    /// Notes that a kubelet has met one of the conditions for rest.
    pub fn done(&self, cluster: &Cluster, kubelet: ProcessId, part: Part) {
        if let Some(beat) = self.0.lock().beats.get_mut(&kubelet) {
            match part {
                Part::Lease(revision) => drop(beat.renewed.get_or_insert(revision)),
                Part::Status => beat.posted = true,
            }
        }
        self.try_to_rest(cluster, kubelet);
    }

    /// Lets a kubelet rest if it has met all conditions, all running observers have seen it, its Node is ready, and there is no obstacle.
    fn try_to_rest(&self, cluster: &Cluster, kubelet: ProcessId) {
        let (node, observers) = {
            let beats = self.0.lock();
            let Some(beat) = beats.beats.get(&kubelet) else { return };
            if beats.always || beat.rests.is_some() || beat.renewed.is_none() || !beat.posted {
                return;
            }
            let is_there = |observer: &ProcessId| cluster.rt.state(*observer) != ProcessState::Down;
            if !beats.observers.iter().filter(|observer| is_there(observer)).all(|observer| beat.seen_by.contains(observer)) {
                return;
            }
            (beat.node.clone(), beats.observers.clone())
        };
        let (key, kinds) = (ObjectKey::cluster(&node), kinds(cluster));
        let ready = cluster.store(|store| store.table(kinds[0]).get(&key).and_then(|node| taints::is_ready(node.as_any().downcast_ref()?)));
        if ready == Some(true) && observers_see(cluster, &observers) && cluster.is_clear(kubelet, &kinds) {
            let mut beats = self.0.lock();
            if let Some(beat) = beats.beats.get_mut(&kubelet) {
                beat.rests = Some(cluster.rt.now());
            }
        }
    }

    /// Completes when `kubelet` does not rest.
    pub async fn awake(&self, kubelet: ProcessId) {
        poll_fn(|cx| {
            let mut beats = self.0.lock();
            match beats.beats.get_mut(&kubelet) {
                Some(beat) if beat.rests.is_some() => {
                    beat.waiting.push(cx.waker().clone());
                    Poll::Pending
                }
                _ => Poll::Ready(()),
            }
        })
        .await;
    }

    /// Whether the heartbeats of `kubelet` count as sent although no request is; false for a kubelet that is not known.
    pub fn rests(&self, kubelet: ProcessId) -> bool {
        self.0.lock().beats.get(&kubelet).is_some_and(|beat| beat.rests.is_some())
    }

    // ------------------------------------------------------------------------------------------------ for observers

    /// Adds `observer`, which looks at leases and nodes from now on.
    pub fn observe(&self, observer: ProcessId) {
        let mut beats = self.0.lock();
        if !beats.observers.contains(&observer) {
            beats.observers.push(observer);
        }
    }

    /// Notes that `observer` has seen a lease of `node` with this revision.
    pub fn seen(&self, cluster: &Cluster, observer: ProcessId, node: &str, revision: u64) {
        let kubelet = {
            let mut beats = self.0.lock();
            let Some(kubelet) = beats.by_node.get(node).copied() else { return };
            let Some(beat) = beats.beats.get_mut(&kubelet) else { return };
            if beat.rests.is_some() || beat.renewed.is_none_or(|renewed| revision < renewed) || !beat.seen_by.insert(observer) {
                return;
            }
            kubelet
        };
        self.try_to_rest(cluster, kubelet);
    }

    /// Whether the kubelet of `node` rests, so that the node is healthy.
    pub fn is_resting(&self, node: &str) -> bool {
        self.0.lock().of_node(node).is_some_and(|beat| beat.rests.is_some())
    }

    /// The last two renewals that were not sent and that an observer would have seen by `now`, the later one first.
    pub fn unsent(&self, node: &str, now: SimTime) -> [Option<SimTime>; 2] {
        let beats = self.0.lock();
        let Some(beat) = beats.of_node(node) else { return [None; 2] };
        let Some((since, until)) = beat.rests.map(|since| (since, now)).or(beat.rested) else { return [None; 2] };
        let at = |end: SimTime| beat.schedule.last_renewal(end).filter(|&renewal| renewal > since && renewal + SEEN_AFTER <= now);
        let (last, earlier) = (at(until), until.as_micros().checked_sub(RENEWS_EVERY.as_micros() as u64));
        [last, earlier.and_then(|earlier| at(SimTime::from_micros(earlier)))]
    }

    /// The number of times that a kubelet woke so far.
    pub fn wakes(&self) -> u64 {
        self.0.lock().wakes
    }

    /// Completes when a kubelet has woken since [`Heartbeats::wakes`] was `seen`.
    pub async fn woken(&self, seen: u64) {
        poll_fn(|cx| {
            let mut beats = self.0.lock();
            if beats.wakes != seen {
                return Poll::Ready(());
            }
            beats.watching.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    // --------------------------------------------------------------------------------------------------- for Cluster

    /// Wakes the kubelets with an obstacle in their way, after a fault may have begun.
    pub fn look_around(&self, cluster: &Cluster) {
        if self.is_idle() {
            return;
        }
        let (all, observers) = {
            let beats = self.0.lock();
            (beats.beats.keys().copied().collect::<Vec<_>>(), beats.observers.clone())
        };
        // Kubelets that are awake start anew, too: conditions that they met before do not count.
        let (now, seen) = (cluster.rt.now(), observers_see(cluster, &observers));
        for kubelet in all {
            if !seen || !cluster.is_clear(kubelet, &kinds(cluster)) {
                self.0.lock().wake(kubelet, now);
            }
        }
    }

    /// Takes in that a process has stopped, or is paused. Without an API server, all paths may have an obstacle. An observer that is down
    /// sees nothing and starts without a memory; a paused one has its memory, but misses changes.
    pub fn process_changed(&self, process: ProcessId, change: ProcessChange, is_server: bool, now: SimTime) {
        if !matches!(change, ProcessChange::Crashed | ProcessChange::Panicked | ProcessChange::Paused) || self.is_idle() {
            return;
        }
        let mut beats = self.0.lock();
        if is_server || change == ProcessChange::Paused && beats.observers.contains(&process) {
            beats.wake_all(now);
        } else {
            beats.wake(process, now);
        }
    }

    /// Takes in that the Node called `name` was written; `None` = it is gone. If it is not in the right state, its kubelet wakes, which
    /// would notice at its next look.
    pub fn node_changed(&self, name: &str, node: Option<&Obj>, now: SimTime) {
        let ready = node.and_then(|node| node.as_any().downcast_ref::<Node>()).and_then(taints::is_ready);
        if ready == Some(true) || self.is_idle() {
            return;
        }
        let mut beats = self.0.lock();
        if let Some(kubelet) = beats.by_node.get(name).copied() {
            beats.wake(kubelet, now);
        }
    }

    /// The object as it would be if every heartbeat were sent; `None` = unchanged.
    pub fn as_if_sent(&self, object: &Obj, now: SimTime) -> Option<Obj> {
        let name = object.meta().name.as_deref()?;
        let beats = self.0.lock();
        let beat = beats.of_node(name)?;
        let since = beat.rests?;
        let wall = |at: SimTime| later(EPOCH, jiff::SignedDuration::from_micros(at.as_micros() as i64));
        if object.as_any().is::<Lease>() && object.meta().namespace.as_deref() == Some(LEASES) {
            let renewed = beat.schedule.last_renewal(now).filter(|&renewal| renewal > since)?;
            let mut object = object.clone();
            let lease: &mut Lease = make_mut(&mut object).as_any_mut().downcast_mut()?;
            lease.spec.get_or_insert_default().renew_time = Some(MicroTime(wall(renewed)));
            return Some(object);
        }
        let node: &Node = object.as_any().downcast_ref()?;
        let ready = |node: &Node| node.status.as_ref()?.conditions.as_ref()?.iter().position(|condition| condition.type_ == "Ready");
        let position = ready(node)?;
        let posted = node.status.as_ref()?.conditions.as_ref()?.get(position)?.last_heartbeat_time.as_ref()?.0;
        // The status counts as posted at the first look after each such interval since the last post.
        let ago = wall(now).duration_since(posted).as_secs() / POSTS_EVERY.as_secs() as i64;
        if ago < 1 {
            return None;
        }
        let mut object = object.clone();
        let node: &mut Node = make_mut(&mut object).as_any_mut().downcast_mut()?;
        let condition = node.status.as_mut()?.conditions.as_mut()?.get_mut(position)?;
        condition.last_heartbeat_time = Some(Time(later(posted, jiff::SignedDuration::from_secs(ago * POSTS_EVERY.as_secs() as i64))));
        Some(object)
    }
}

/// The revision of an object.
pub fn revision_of(meta: &ObjectMeta) -> u64 {
    meta.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}

fn kinds(cluster: &Cluster) -> [KindId; 2] {
    [cluster.registry.id::<Node>(), cluster.registry.id::<Lease>()]
}

/// Whether every running observer sees all writes.
fn observers_see(cluster: &Cluster, observers: &[ProcessId]) -> bool {
    let sees = |&observer: &ProcessId| cluster.rt.state(observer) == ProcessState::Down || cluster.is_clear(observer, &kinds(cluster));
    observers.iter().all(sees)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_sent_counts_from_the_rest_until_the_wake() {
        let (beats, kubelet, node) = (Heartbeats::default(), ProcessId(1), Arc::<str>::from("node-0"));
        let at = SimTime::from_secs;
        beats.begin(kubelet, &node, HeartbeatSchedule::at(at(5), at(0)), at(1));
        assert_eq!(beats.unsent("node-0", at(100)), [None; 2], "it has never rested");
        beats.0.lock().beats.get_mut(&kubelet).unwrap().rests = Some(at(16));
        assert_eq!(beats.unsent("node-0", at(24)), [None; 2], "the one at 15 was sent");
        assert_eq!(beats.unsent("node-0", at(47)), [Some(at(45)), Some(at(35))]);
        assert_eq!(beats.unsent("node-0", at(45)), [None, Some(at(35))], "nobody has seen the last one yet");
        beats.process_changed(kubelet, ProcessChange::Crashed, false, at(47));
        assert!(!beats.is_resting("node-0"));
        assert_eq!(beats.unsent("node-0", at(90)), [Some(at(45)), Some(at(35))], "none after it woke");
        assert_eq!(beats.wakes(), 1);
    }
}
