//! The time for which the sandbox of a pod may answer that is to end or is gone; every hazard of reclaim ends with it.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod as PodObject;
use kube_sim::cluster::KEEPALIVE;
use kube_sim::kinds::KindId;
use kube_sim::object::{Obj, typed_ref};
use kube_sim::rt::ProcessId;
use kube_sim::trace::WatchKind;
use sim_config::time::SimTime;

use super::View;
use super::pod_state::{grace, has_ended, has_stopped, of_containers};
use super::pods::Pod;
use super::sandboxes::Sandbox;
use super::terms::Reach;

/// The time besides the grace period that a kubelet takes until no interface of a sandbox is up: the first steps of its work on a pod (K
/// §5.2).
const TAKE_DOWN: Duration = Duration::from_secs(5);

/// The time for which a kubelet may know nothing of events after the last fault is over: the ping of its connection finds that its last
/// request was lost, its reflector backs off for 30 s and up to as much again, and then it lists (K §4.1).
const HEARS_AGAIN: Duration = KEEPALIVE.saturating_add(Duration::from_secs(60 + 5));

impl View {
    /// Takes in the delivery of a pod by a watch: it tells a kubelet that the pod is to end, and a replica that it exists.
    pub(super) fn hear_of_pod(&mut self, client: ProcessId, kind: KindId, what: WatchKind, object: Option<&Obj>) {
        let Some(object) = object.filter(|_| kind == self.kinds.pods) else { return };
        let pod = typed_ref::<PodObject>(&**object);
        let Some(uid) = pod.metadata.uid.as_deref() else { return };
        if self.kubelets.is_one(client) {
            if what == WatchKind::Deleted || pod.metadata.deletion_timestamp.is_some() || has_ended(pod) {
                self.kubelets.is_told(client, uid, self.at);
            }
        } else if self.is_replica(client)
            && let Some(uid) = self.pods.id(uid)
        {
            self.replicas.is_shown(client, uid.clone(), has_stopped(pod));
            if what == WatchKind::Deleted {
                self.replicas.is_shown_gone(client, uid);
            }
        }
    }

    /// Whether a sandbox of a pod may still answer although the pod is to end or is gone: the grace period of its containers is not over
    /// since its kubelet was told, or could have been; or the kubelet is down or waits for its agent; or the node is lost permanently.
    /// False for a pod whose end was not requested: its sandbox lives by right.
    pub(in super::super) fn may_outlive(&self, uid: &str) -> bool {
        let Some(pod) = self.pods.get(uid) else { return false };
        let since = pod.since;
        let Some(asked) = [since.terminating, since.ended, since.gone].into_iter().flatten().min() else { return false };
        self.ends_by(uid, pod, asked).is_none_or(|by| self.at <= by)
    }

    /// Whether the object of a pod is gone and another pod came to its place in a StatefulSet or VM, whose addresses go with the place (A
    /// §6.6). Linear.
    pub(in super::super) fn is_succeeded(&self, uid: &str) -> bool {
        self.pods.get(uid).is_some_and(|pod| self.pods.of_same_name(pod).any(|(later, _)| self.succeeds(later, uid)))
    }

    /// Whether a pod came later to the same place as another pod whose object is gone. It may be gone, too, before the ADD that it was
    /// there for is over.
    pub(in super::super) fn succeeds(&self, later: &str, earlier: &str) -> bool {
        let (Some(later), Some(earlier)) = (self.pods.get(later), self.pods.get(earlier)) else { return false };
        earlier.gone && earlier.place.is_some() && later.place == earlier.place && earlier.life.0 < later.life.0
    }

    /// Whether a sandbox may have been answered with the addresses of another pod: its container runtime passes no UID, the object of its
    /// pod was gone when it was answered, and a later pod of the node has had the name since (K §5.1). It is false once the node must have
    /// ended the sandbox.
    pub(in super::super) fn may_pass_for_another(&self, sandbox: &Sandbox, answered: SimTime) -> bool {
        self.is_gone_by(&sandbox.uid, answered) && self.taken_for(&sandbox.uid).next().is_some() && self.may_outlive(&sandbox.uid)
    }

    /// Whether the object of a pod was gone by a time.
    pub(in super::super) fn is_gone_by(&self, uid: &str, time: SimTime) -> bool {
        self.pods.get(uid).and_then(|pod| pod.since.gone).is_some_and(|gone| gone <= time)
    }

    /// The pods that an agent may mistake for the subject of a request for the sandbox of the pod `uid`: the container runtime passes no
    /// UID, the object of that pod is gone, and these pods came to its node later under its name (K §5.1). In arbitrary order; linear where
    /// the runtime passes no UID.
    pub(in super::super) fn taken_for<'a>(&'a self, uid: &str) -> impl Iterator<Item = &'a Arc<str>> + use<'a> {
        let has_no_uid = |pod: &&Pod| pod.gone && pod.node().is_some_and(|node| self.terms.without_uid.contains(node));
        let asked = self.pods.get(uid).filter(has_no_uid);
        asked.into_iter().flat_map(|asked| self.pods.namesakes_since(asked))
    }

    /// The time by which no sandbox of a pod answers any more; `None` = unknown.
    fn ends_by(&self, uid: &str, pod: &Pod, asked: SimTime) -> Option<SimTime> {
        if pod.node().is_some_and(|node| self.out_of_reach.names.contains(node)) || self.out_of_reach.pods.contains(&*pod.key) {
            return None;
        }
        let own = || self.sandboxes.iter().map(|(_, sandbox)| sandbox).filter(|sandbox| *sandbox.uid == *uid);
        let hinders = |kubelet| self.kubelets.is_down(kubelet);
        if own().any(|sandbox| !sandbox.pending_dels.is_empty() || sandbox.is_being_set_up || hinders(sandbox.said.by)) {
            return None;
        }
        let kubelet = own().next()?.said.by;
        let told = self.kubelets.told_of_end(kubelet, uid).unwrap_or_else(|| {
            // The view does not see what a list tells the kubelet. Without faults that delay watches it is told at once.
            let hinders = |reach: &Reach| !matches!(reach, Reach::Replicas(_) | Reach::EndpointCaches);
            self.health.troubled_until(hinders).map_or(asked, |until| if until == SimTime::NEVER { until } else { until + HEARS_AGAIN })
        });
        let begins = [Some(told), Some(asked), self.kubelets.up_since(kubelet)].into_iter().flatten().max()?;
        let stated = pod.object.metadata.deletion_grace_period_seconds.map(SignedDuration::from_secs);
        let grace = of_containers(grace(&pod.object).max(stated.unwrap_or_default()));
        let grace = Duration::from_secs(grace.as_secs().unsigned_abs());
        (begins != SimTime::NEVER).then(|| begins + grace + TAKE_DOWN)
    }
}
