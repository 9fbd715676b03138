//! What a pod's state says about its right to its addresses (G §3, §10.1), read once more and without any cache.

use ipam_spiderpool::ipam::PATIENCE;
use ipam_spiderpool::reclaim::NodeState;
use ipam_spiderpool::{PoolIPAllocation, SpiderEndpoint};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod as PodObject;
use kube_sim::cluster::{EPOCH, later};
use kube_sim::rt::ProcessId;
use sim_config::time::SimTime;

use super::pod_state::{DEFAULT_GRACE, grace, has_ended, has_stopped, of_containers, runs_without_ips};
use super::pods::{Place, Pod};
use super::pools::PoolChange;
use super::replicas::Announced;
use super::{Said, View};

/// The excuse of an address that still answers after it was reclaimed of a pod whose object is there (G EX1). It begins with the bound of
/// DC-4, or with the same once more after the return of its node, and ends when its node must have ended the sandbox
/// ([`View::may_outlive`]).
pub(crate) const UNREACHABLE_NODE: &str = "unreachable-node-release";

/// The excuse of an address that still answers after it was reclaimed of a pod whose object is gone, because it was deleted by force or
/// its Node object is gone (G EX2). It begins when the grace is over that the pod skipped, for a replica that was never shown the pod at
/// once, and ends like [`UNREACHABLE_NODE`].
pub(crate) const FORCE_DELETE: &str = "force-delete-release";

/// The excuse of an address that was reclaimed of a running pod while its status names none, as a setting wants it (G EX3). It lasts while
/// the pod answers on the address.
pub(crate) const EMPTY_POD_IPS: &str = "empty-pod-ips-release";

/// An address that a replica reclaimed.
#[derive(Clone, Debug)]
pub(in super::super) struct Reclaimed {
    /// Name of the pool whose record was removed.
    pub(in super::super) pool: std::sync::Arc<str>,
    /// The address that was recorded for the pod.
    pub(in super::super) address: std::net::IpAddr,
    /// By whom and when.
    pub(in super::super) said: Said,
    /// The documented hazard that it is if the address still answers.
    pub(in super::super) excuse: Option<&'static str>,
    /// Whether the pod had no right to it any more.
    pub(in super::super) entitled: bool,
}

impl View {
    /// The wall clock of a process.
    pub(in super::super) fn clock(&self, process: ProcessId) -> Timestamp {
        let ahead = self.rt.clock_of(process).wall_ahead(self.at);
        later(EPOCH, SignedDuration::from_micros(ahead.saturating_add_unsigned(self.at.as_micros())))
    }

    /// The true time on the wall.
    pub(in super::super) fn true_time(&self) -> Timestamp {
        wall(self.at)
    }

    /// When the grace of a terminating pod is over: what its containers have, counted from the request, which is a grace before
    /// deletionTimestamp, and as much once more (DT + DGPS + d, if they have no more than they are told).
    pub(in super::super) fn stop_of(&self, pod: &PodObject) -> Option<Timestamp> {
        let start = pod.metadata.deletion_timestamp.as_ref()?.0;
        let grace = SignedDuration::from_secs(pod.metadata.deletion_grace_period_seconds.unwrap_or(DEFAULT_GRACE));
        Some(later(later(start, of_containers(grace) * 2 - grace), self.terms.settings.grace_delay))
    }

    /// Whether the grace of a pod is over by any clock that can have counted: the true one, or that of a replica, now or when it
    /// announced what it does.
    fn is_overdue(&self, pod: &Pod, by: ProcessId, announced: Option<&Announced>) -> bool {
        self.stop_of(&pod.object).is_some_and(|stop| self.is_past(stop, by, announced))
    }

    /// Whether a time has passed by any clock that can have counted.
    fn is_past(&self, time: Timestamp, by: ProcessId, announced: Option<&Announced>) -> bool {
        let clocks = [Some(self.true_time()), Some(self.clock(by)), announced.map(|announced| announced.clock)];
        clocks.into_iter().flatten().any(|clock| clock > time)
    }

    /// When the grace is over that a pod skipped whose object is gone (D §0): as its last version tells that left it one, or, if nobody
    /// asked it to end before, what its containers have twice, as for any other. `None` = it skipped none: it has ended, or has no node.
    fn end_of_skipped_grace(&self, pod: &Pod) -> Option<Timestamp> {
        let gone = pod.since.gone?;
        if has_stopped(&pod.object) || pod.node().is_none() {
            return None;
        }
        let forced = pod.object.metadata.deletion_grace_period_seconds == Some(0);
        let last = if forced { pod.unforced.as_ref() } else { Some(&pod.object) };
        let twice = || later(later(wall(gone), of_containers(grace(&pod.object)) * 2), self.terms.settings.grace_delay);
        Some(last.and_then(|object| self.stop_of(object)).unwrap_or_else(twice))
    }

    /// Whether a replica must leave a pod all it has (GS3): it exists, has not ended, and its grace is not over. A pod that nobody
    /// has seen does not exist.
    pub(in super::super) fn has_right(&self, uid: &str, by: ProcessId, announced: Option<&Announced>) -> bool {
        let Some(pod) = self.pods.get(uid) else { return false };
        !pod.gone && !has_ended(&pod.object) && !self.is_overdue(pod, by, announced)
    }

    /// Whether a setting lets a scan take the addresses of a pod that runs and has none in its status (G EX3), or ran so when a replica
    /// that announced the release asked for it.
    pub(in super::super) fn runs_without_ips(&self, uid: &str, announced: Option<&Announced>) -> bool {
        let Some(pod) = self.pods.get(uid).filter(|_| self.terms.settings.running_without_ips) else { return false };
        let ran = pod.without_ips_until.zip(announced).is_some_and(|(until, announced)| until > announced.read);
        runs_without_ips(&pod.object) || ran
    }

    /// Under which documented hazard an address falls that a replica takes from a pod now.
    fn hazard(&self, uid: &str, by: ProcessId, announced: Option<&Announced>) -> Option<&'static str> {
        let pod = self.pods.get(uid)?;
        if pod.gone {
            let over = self.end_of_skipped_grace(pod).is_none_or(|stop| self.is_past(stop, by, announced));
            // Who never saw the pod knows of no grace.
            let permitted = over || !self.replicas.knows_pod(by, uid);
            return (permitted && self.may_outlive(uid)).then_some(FORCE_DELETE);
        }
        if self.is_overdue(pod, by, announced) && self.is_past_return(pod, by, announced) && self.may_outlive(uid) {
            return Some(UNREACHABLE_NODE);
        }
        self.runs_without_ips(uid, announced).then_some(EMPTY_POD_IPS)
    }

    /// Whether pods that end on a node in this state give up their addresses, as the settings say; `None` = the node is of no kind. Read
    /// once more: what a replica makes of the switches is what claims judge.
    pub(in super::super) fn gives_up(&self, state: NodeState) -> Option<bool> {
        let settings = &self.terms.settings;
        let is_on = match state {
            NodeState::Ready { .. } => settings.on_ready_node,
            NodeState::NotReady => settings.on_not_ready_node,
            NodeState::Gone | NodeState::Unreadable => return None,
        };
        Some(settings.terminating && is_on)
    }

    /// Whether the node of a terminating pod, in a state that a replica can have seen, lets the pod be given up: it is not ready, or was
    /// all the time, or is again for as long as a kubelet that learns only now may take: what the containers have, twice, and the
    /// additional delay.
    fn is_past_return(&self, pod: &Pod, by: ProcessId, announced: Option<&Announced>) -> bool {
        let Some(node) = pod.node() else { return true };
        let (meta, settings) = (&pod.object.metadata, &self.terms.settings);
        let stated = SignedDuration::from_secs(meta.deletion_grace_period_seconds.unwrap_or(DEFAULT_GRACE));
        let Some(asked) = meta.deletion_timestamp.as_ref().map(|time| later(time.0, -stated)) else { return false };
        let shown = announced.map_or(u64::MAX, |announced| announced.nodes);
        let bound = |since| later(later(since, of_containers(stated) * 2), settings.grace_delay);
        self.nodes.states_since(node, shown).filter(|state| self.gives_up(*state) == Some(true)).any(|state| match state {
            NodeState::Ready { since: Some(since) } if since > asked => self.is_past(bound(since), by, announced),
            _ => true,
        })
    }

    /// A replica wrote a pool: what becomes of what it took.
    pub(super) fn note_reclaimed(&mut self, change: &PoolChange) {
        for (address, before) in change.edits.iter().filter_map(|edit| edit.taken()) {
            let reclaimed = self.reclaimed(change.said, &change.pool, address, before);
            let uid = self.pods.id(&before.pod_uid).cloned().unwrap_or_else(|| before.pod_uid.as_str().into());
            self.reclaimed.entry(uid).or_default().push(reclaimed);
        }
    }

    /// What becomes known of an address that a replica takes from a pod by the write that is seen now.
    ///
    /// What is recorded under a name that the pod of its UID does not have is not that pod's: a damaged name is the name of nobody (S-3).
    fn reclaimed(&self, by: Said, pool: &std::sync::Arc<str>, address: std::net::IpAddr, record: &PoolIPAllocation) -> Reclaimed {
        let uid = &*record.pod_uid;
        let announced = self.replicas.announced(by.by, pool, address, uid).map(|announced| &**announced);
        let excuse = self.hazard(uid, by.by, announced);
        let is_own = self.pods.get(uid).is_some_and(|pod| pod.has_name(&record.pod));
        let entitled = !is_own || !self.has_right(uid, by.by, announced);
        Reclaimed { pool: pool.clone(), address, said: by, excuse, entitled }
    }

    /// The last time that a replica took an address from a pod.
    pub(in super::super) fn reclaimed_of(&self, uid: &str, address: std::net::IpAddr) -> Option<&Reclaimed> {
        self.reclaimed.get(uid)?.iter().rev().find(|reclaimed| reclaimed.address == address)
    }

    /// The documented hazard of which it follows that an address is a pod's no more; `None` = there is none.
    ///
    /// What began as a hazard ends when the node must have ended the sandbox.
    pub(in super::super) fn excuse_of(&self, uid: &str, address: std::net::IpAddr) -> Option<&'static str> {
        self.reclaimed_of(uid, address)?.excuse.filter(|excuse| *excuse == EMPTY_POD_IPS || self.may_outlive(uid))
    }

    /// Whether a scan took an address from a pod after a point of the run because the pod ran and its status named none, as a setting lets
    /// it (G EX3): what the pod was told until then does not bind any more.
    pub(in super::super) fn is_taken_by_setting(&self, uid: &str, address: std::net::IpAddr, after: Said) -> bool {
        self.reclaimed_of(uid, address)
            .is_some_and(|reclaimed| reclaimed.excuse == Some(EMPTY_POD_IPS) && reclaimed.said.moment > after.moment)
    }

    /// Whether a replica has been taking an address from a pod since a moment, as a setting lets it (G EX3): it has marked the endpoint,
    /// which is the point of no return (D §1.3), or removed the record.
    pub(in super::super) fn is_being_taken_by_setting(&self, uid: &str, pool: &str, address: std::net::IpAddr, since: u64) -> bool {
        let is_taken =
            |reclaimed: &Reclaimed| reclaimed.excuse == Some(EMPTY_POD_IPS) && *reclaimed.pool == *pool && reclaimed.said.moment >= since;
        if self.reclaimed_of(uid, address).is_some_and(is_taken) {
            return true;
        }
        let endpoint = self.pods.get(uid).and_then(|pod| self.endpoint_of(pod));
        let marked = endpoint.and_then(|(endpoint, _)| self.endpoints.marked(endpoint)).filter(|marked| marked.moment >= since);
        let announced = marked.and_then(|marked| self.replicas.announced(marked.by, pool, address, uid));
        announced.is_some_and(|announced| self.runs_without_ips(uid, Some(announced)))
    }

    /// Whether a sandbox of a pod was there when a scan took what the pod had, as a setting lets it (G EX3): its NICs may answer on what
    /// they had before, and not on what was recorded since.
    pub(in super::super) fn outlives_its_addresses(&self, uid: &str) -> bool {
        let taken = self.reclaimed.get(uid).into_iter().flatten().filter(|reclaimed| reclaimed.excuse == Some(EMPTY_POD_IPS));
        let Some(last) = taken.map(|reclaimed| reclaimed.said.moment).max() else { return false };
        self.sandboxes.iter().any(|(_, sandbox)| *sandbox.uid == *uid && sandbox.said.moment < last)
    }

    /// Whether reclaim treats a place as one that keeps its addresses.
    pub(in super::super) fn keeps_places(&self, place: &Place) -> bool {
        match place {
            Place::Ordinal(..) => self.terms.settings.enable_stateful_set,
            Place::Vm(_) => self.terms.settings.enable_kubevirt_static_ip,
        }
    }

    /// Whether nobody controlled a pod when an agent can have asked whose it is that releases addresses of it now: in the course of its
    /// request.
    pub(in super::super) fn was_orphan_lately(&self, pod: &Pod) -> bool {
        pod.was_orphan_since(SimTime::ZERO + self.at.since_start().saturating_sub(PATIENCE))
    }

    /// The place of a pod, if it keeps addresses by the settings. An orphan has the one that its endpoint says, or its name, if there is no
    /// endpoint (A §7.1, G §5.2).
    pub(in super::super) fn keeping_place<'a>(&self, pod: &'a Pod) -> Option<&'a Place> {
        pod.place.as_ref().filter(|place| self.keeps_places(place) && (!pod.is_orphan() || self.is_kept_by_endpoint(pod)))
    }

    /// Whether no endpoint says that a pod of a StatefulSet was an orphan when it was given addresses.
    fn is_kept_by_endpoint(&self, pod: &Pod) -> bool {
        self.endpoint_of(pod).is_none_or(|(endpoint, _)| is_of_set(endpoint))
    }
}

/// Whether an endpoint was written for a pod of a StatefulSet, and not for an orphan, with which it goes.
pub(in super::super) fn is_of_set(endpoint: &SpiderEndpoint) -> bool {
    let of_set = endpoint.status.as_ref().is_some_and(|status| status.owner_controller_type == "StatefulSet");
    of_set && endpoint.metadata.owner_references.iter().flatten().all(|owner| owner.kind != "Pod")
}

/// What a right clock shows at a point of the run.
pub(in super::super) fn wall(at: SimTime) -> Timestamp {
    later(EPOCH, SignedDuration::from_micros(i64::try_from(at.as_micros()).unwrap_or(i64::MAX)))
}

/// The point of the run at which a right clock shows this time; its beginning for all that is before.
pub(in super::super) fn sim_time(time: Timestamp) -> SimTime {
    let micros = time.duration_since(EPOCH).as_micros();
    SimTime::from_micros(u64::try_from(micros).unwrap_or(0))
}
