//! A pod's entitlement to its addresses by its state (G §3, §10.1): a second implementation, without any cache.

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

/// The excuse of an address that still answers after it was reclaimed from a pod whose object exists (G EX1). It begins with the bound of
/// DC-4, or with the same bound counted again from the return of its node, and ends when its node must have ended the sandbox
/// ([`View::may_outlive`]).
pub(crate) const UNREACHABLE_NODE: &str = "unreachable-node-release";

/// The excuse of an address that still answers after it was reclaimed from a pod whose object is gone, because it was deleted by force or
/// its Node object is gone (G EX2). It begins when the grace period that the pod skipped is over, or at once for a replica that was never
/// shown the pod, and ends like [`UNREACHABLE_NODE`].
pub(crate) const FORCE_DELETE: &str = "force-delete-release";

/// The excuse of an address that was reclaimed from a running pod whose status names no address, as a setting permits (G EX3). It lasts
/// while the pod answers on the address.
pub(crate) const EMPTY_POD_IPS: &str = "empty-pod-ips-release";

/// An address that a replica reclaimed.
#[derive(Clone, Debug)]
pub(in super::super) struct Reclaimed {
    /// The pool whose record was removed.
    pub(in super::super) pool: std::sync::Arc<str>,
    /// The address that was recorded for the pod.
    pub(in super::super) address: std::net::IpAddr,
    /// The replica, and the time.
    pub(in super::super) said: Said,
    /// The documented hazard, if the address still answers.
    pub(in super::super) excuse: Option<&'static str>,
    /// Whether the pod's entitlement to it had ended.
    pub(in super::super) entitled: bool,
}

impl View {
    /// The wall clock of a process.
    pub(in super::super) fn clock(&self, process: ProcessId) -> Timestamp {
        let ahead = self.rt.clock_of(process).wall_ahead(self.at);
        later(EPOCH, SignedDuration::from_micros(ahead.saturating_add_unsigned(self.at.as_micros())))
    }

    /// The true wall-clock time.
    pub(in super::super) fn true_time(&self) -> Timestamp {
        wall(self.at)
    }

    /// The time at which the grace period of a terminating pod is over: twice what its containers get, counted from the request (one grace
    /// period before deletionTimestamp), and the additional delay; DT + DGPS + d, if they get no more than the stated grace period.
    pub(in super::super) fn stop_of(&self, pod: &PodObject) -> Option<Timestamp> {
        let start = pod.metadata.deletion_timestamp.as_ref()?.0;
        let grace = SignedDuration::from_secs(pod.metadata.deletion_grace_period_seconds.unwrap_or(DEFAULT_GRACE));
        Some(later(later(start, of_containers(grace) * 2 - grace), self.terms.settings.grace_delay))
    }

    /// Whether the grace period of a pod is over by any clock that may count: the true one, or the replica's, now or when it announced the
    /// release.
    fn is_overdue(&self, pod: &Pod, by: ProcessId, announced: Option<&Announced>) -> bool {
        self.stop_of(&pod.object).is_some_and(|stop| self.is_past(stop, by, announced))
    }

    /// Whether a time has passed by any clock that may count.
    fn is_past(&self, time: Timestamp, by: ProcessId, announced: Option<&Announced>) -> bool {
        let clocks = [Some(self.true_time()), Some(self.clock(by)), announced.map(|announced| announced.clock)];
        clocks.into_iter().flatten().any(|clock| clock > time)
    }

    /// The time at which the skipped grace period of a pod whose object is gone would have ended (D §0): by its last version with a grace
    /// period or, if its deletion was not requested before, after twice what its containers get, as for any other pod. `None` = it skipped
    /// none: it has ended, or has no node.
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

    /// Whether a replica must leave a pod all its addresses (GS3): it exists, has not ended, and its grace period is not over. A pod that
    /// was never seen does not exist.
    pub(in super::super) fn has_right(&self, uid: &str, by: ProcessId, announced: Option<&Announced>) -> bool {
        let Some(pod) = self.pods.get(uid) else { return false };
        !pod.gone && !has_ended(&pod.object) && !self.is_overdue(pod, by, announced)
    }

    /// Whether a setting permits a scan to take the addresses of a pod that runs and has none in its status (G EX3), now or when the
    /// replica that announced the release asked for the pod.
    pub(in super::super) fn runs_without_ips(&self, uid: &str, announced: Option<&Announced>) -> bool {
        let Some(pod) = self.pods.get(uid).filter(|_| self.terms.settings.running_without_ips) else { return false };
        let ran = pod.without_ips_until.zip(announced).is_some_and(|(until, announced)| until > announced.read);
        runs_without_ips(&pod.object) || ran
    }

    /// The documented hazard that applies to an address which a replica takes from a pod now.
    fn hazard(&self, uid: &str, by: ProcessId, announced: Option<&Announced>) -> Option<&'static str> {
        let pod = self.pods.get(uid)?;
        if pod.gone {
            let over = self.end_of_skipped_grace(pod).is_none_or(|stop| self.is_past(stop, by, announced));
            // A replica that never saw the pod knows of no grace period.
            let permitted = over || !self.replicas.knows_pod(by, uid);
            return (permitted && self.may_outlive(uid)).then_some(FORCE_DELETE);
        }
        if self.is_overdue(pod, by, announced) && self.is_past_return(pod, by, announced) && self.may_outlive(uid) {
            return Some(UNREACHABLE_NODE);
        }
        self.runs_without_ips(uid, announced).then_some(EMPTY_POD_IPS)
    }

    /// Whether the settings permit reclaiming from terminating pods on a node in this state; `None` = the node is gone or unreadable. A
    /// second implementation, since the replica's own reading of the settings is under test.
    pub(in super::super) fn gives_up(&self, state: NodeState) -> Option<bool> {
        let settings = &self.terms.settings;
        let is_on = match state {
            NodeState::Ready { .. } => settings.on_ready_node,
            NodeState::NotReady => settings.on_not_ready_node,
            NodeState::Gone | NodeState::Unreadable => return None,
        };
        Some(settings.terminating && is_on)
    }

    /// Whether the node of a terminating pod permits reclaiming from it, in a state that a replica can have seen: the node is not ready,
    /// was ready all the time, or is ready again for as long as a kubelet that learns of the deletion only now may take: twice what the
    /// containers get, and the additional delay.
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

    /// Records the addresses that a replica took with a write of a pool.
    pub(super) fn note_reclaimed(&mut self, change: &PoolChange) {
        for (address, before) in change.edits.iter().filter_map(|edit| edit.taken()) {
            let reclaimed = self.reclaimed(change.said, &change.pool, address, before);
            let uid = self.pods.id(&before.pod_uid).cloned().unwrap_or_else(|| before.pod_uid.as_str().into());
            self.reclaimed.entry(uid).or_default().push(reclaimed);
        }
    }

    /// Describes an address that a replica takes from a pod with the present write.
    ///
    /// A record under a name that the pod with its UID does not have is not that pod's record: a damaged name belongs to no pod (S-3).
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

    /// The documented hazard because of which a pod has lost an address; `None` = there is none.
    ///
    /// The hazard ends when the node must have ended the sandbox.
    pub(in super::super) fn excuse_of(&self, uid: &str, address: std::net::IpAddr) -> Option<&'static str> {
        self.reclaimed_of(uid, address)?.excuse.filter(|excuse| *excuse == EMPTY_POD_IPS || self.may_outlive(uid))
    }

    /// Whether a scan took an address from a pod after a point of the run because the pod ran without an address in its status, as a
    /// setting permits (G EX3): answers to the pod from before no longer bind.
    pub(in super::super) fn is_taken_by_setting(&self, uid: &str, address: std::net::IpAddr, after: Said) -> bool {
        self.reclaimed_of(uid, address)
            .is_some_and(|reclaimed| reclaimed.excuse == Some(EMPTY_POD_IPS) && reclaimed.said.moment > after.moment)
    }

    /// Whether a replica has been taking an address from a pod since a moment, as a setting permits (G EX3): it has marked the endpoint,
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

    /// Whether a sandbox of a pod existed when a scan took the pod's addresses, as a setting permits (G EX3): its NICs may answer on their
    /// former addresses rather than on those recorded since.
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

    /// Whether a pod had no controller at some time within the patience of a request: an agent that now releases its addresses may have
    /// asked for its owner then.
    pub(in super::super) fn was_orphan_lately(&self, pod: &Pod) -> bool {
        pod.was_orphan_since(SimTime::ZERO + self.at.since_start().saturating_sub(PATIENCE))
    }

    /// The place of a pod, if the settings let it keep addresses. An orphan has the place only if its endpoint says so, or by its name, if
    /// there is no endpoint (A §7.1, G §5.2).
    pub(in super::super) fn keeping_place<'a>(&self, pod: &'a Pod) -> Option<&'a Place> {
        pod.place.as_ref().filter(|place| self.keeps_places(place) && (!pod.is_orphan() || self.is_kept_by_endpoint(pod)))
    }

    /// Whether no endpoint says that a pod of a StatefulSet was an orphan when its addresses were allocated.
    fn is_kept_by_endpoint(&self, pod: &Pod) -> bool {
        self.endpoint_of(pod).is_none_or(|(endpoint, _)| is_of_set(endpoint))
    }
}

/// Whether an endpoint was written for a pod of a StatefulSet and not for an orphan; an orphan's endpoint is deleted with it.
pub(in super::super) fn is_of_set(endpoint: &SpiderEndpoint) -> bool {
    let of_set = endpoint.status.as_ref().is_some_and(|status| status.owner_controller_type == "StatefulSet");
    of_set && endpoint.metadata.owner_references.iter().flatten().all(|owner| owner.kind != "Pod")
}

/// The time that a correct clock shows at a point of the run.
pub(in super::super) fn wall(at: SimTime) -> Timestamp {
    later(EPOCH, SignedDuration::from_micros(i64::try_from(at.as_micros()).unwrap_or(i64::MAX)))
}

/// The point of the run at which a correct clock shows this time; the beginning of the run for earlier times.
pub(in super::super) fn sim_time(time: Timestamp) -> SimTime {
    let micros = time.duration_since(EPOCH).as_micros();
    SimTime::from_micros(u64::try_from(micros).unwrap_or(0))
}
