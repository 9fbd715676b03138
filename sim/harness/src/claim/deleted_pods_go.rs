//! The claim that deleted pods are removed eventually.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_machinery::ObjectKey;
use kube_sim::object::Obj;
use kube_sim::trace::{Event, EventKind, Interest};
use sim_config::time::SimTime;

use super::{Claim, Context, Findings};
use crate::workload::OutOfReach;

/// The time that a pod may still exist after its grace period: its kubelet stops its sandbox, and tells the API server.
const TAKES: Duration = Duration::from_secs(60);
/// The number of pods that a report names.
const TOLD: usize = 5;

/// Eventually no deleted pod is left whose grace period ended at least a minute ago and that no finalizer holds: its kubelet has ended its
/// containers and its sandbox, and confirmed that (K127). Pods on nodes that are down or cut off permanently are not waited for.
pub(super) fn deleted_pods_go(context: &Context<'_>) -> Box<dyn Claim> {
    Box::new(DeletedPodsGo { out_of_reach: context.out_of_reach.clone(), now: SimTime::ZERO, terminating: BTreeMap::new() })
}

/// A pod that is being deleted.
struct Terminating {
    node: String,
    /// The end of its grace period.
    over: SimTime,
    /// Whether a finalizer holds it.
    is_held: bool,
}

struct DeletedPodsGo {
    out_of_reach: OutOfReach,
    now: SimTime,
    terminating: BTreeMap<ObjectKey, Terminating>,
}

fn pod(object: Option<&Obj>) -> Option<&Pod> {
    object?.as_any().downcast_ref()
}

impl DeletedPodsGo {
    /// The pods that are being deleted, without those that a finalizer holds or that are on a lost node.
    fn awaited(&self) -> impl Iterator<Item = (&ObjectKey, &Terminating)> {
        self.terminating.iter().filter(|(key, pod)| {
            let is_lost = self.out_of_reach.names.contains(&pod.node) || self.out_of_reach.pods.contains(key.as_str());
            !pod.is_held && !is_lost
        })
    }

    /// Notes a pod that is being deleted. A deletion after the first one can only shorten the grace period.
    fn see(&mut self, key: &ObjectKey, after: &Pod, now: SimTime, findings: &mut Findings) {
        let (Some(grace), Some(node)) =
            (after.metadata.deletion_grace_period_seconds, after.spec.as_ref().and_then(|spec| spec.node_name.as_ref()))
        else {
            return;
        };
        let is_held = after.metadata.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty());
        let over = now + Duration::from_secs(grace.max(0).unsigned_abs());
        let is_known = self.terminating.get(key).map(|known| known.over);
        let over = is_known.map_or(over, |known| known.min(over));
        findings.expect_by(over + TAKES);
        self.terminating.insert(key.clone(), Terminating { node: node.clone(), over, is_held });
    }
}

impl Claim for DeletedPodsGo {
    fn interest(&self) -> Interest {
        Interest::COMMIT
    }

    fn observe(&mut self, event: &Event<'_>, findings: &mut Findings) {
        self.now = event.at;
        let EventKind::Commit { key, before, after, .. } = event.kind else { return };
        match pod(after) {
            Some(after) if after.metadata.deletion_timestamp.is_some() => self.see(key, after, event.at, findings),
            None if pod(before).is_some() => drop(self.terminating.remove(key)),
            _ => {}
        }
    }

    fn overdue(&mut self, at: SimTime, _: &mut Findings) {
        self.now = at;
    }

    fn pending(&self) -> Option<String> {
        let left = self.awaited().filter(|(_, pod)| pod.over + TAKES <= self.now);
        let left: Vec<String> = left.map(|(key, pod)| format!("{key} on {}", pod.node)).collect();
        let (first, count) = (left.iter().take(TOLD).map(String::as_str).collect::<Vec<_>>().join(", "), left.len());
        (count > 0).then(|| format!("{count} deleted pods are still there: {first}"))
    }

    fn awaits(&self) -> bool {
        self.awaited().next().is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::PodSpec;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
    use kube_machinery::api::Verb;
    use kube_sim::cluster::EPOCH;
    use kube_sim::kinds::KindId;
    use kube_sim::rt::ProcessId;

    use super::*;

    fn claim(lost: &str) -> DeletedPodsGo {
        let out_of_reach = OutOfReach { names: [lost.to_owned()].into(), ..OutOfReach::default() };
        DeletedPodsGo { out_of_reach, now: SimTime::ZERO, terminating: BTreeMap::new() }
    }

    fn object(grace: Option<i64>, finalizers: &[&str]) -> Obj {
        let metadata = ObjectMeta {
            deletion_timestamp: grace.map(|_| Time(EPOCH)),
            deletion_grace_period_seconds: grace,
            finalizers: Some(finalizers.iter().map(|&name| name.to_owned()).collect()),
            ..ObjectMeta::default()
        };
        let spec = Some(PodSpec { node_name: Some("node-0".to_owned()), ..PodSpec::default() });
        Arc::new(Pod { metadata, spec, ..Pod::default() })
    }

    fn commit(claim: &mut DeletedPodsGo, at: u64, before: Option<&Obj>, after: Option<&Obj>) {
        let (key, kind) = (ObjectKey::namespaced("default", "web"), KindId(0));
        let (client, server) = (ProcessId(0), ProcessId(1));
        let kind = EventKind::Commit { client, server, verb: Verb::Update, kind, key: &key, revision: 1, before, after, content: 0 };
        claim.observe(&Event { at: SimTime::from_secs(at), kind }, &mut Findings::of_one_claim());
    }

    /// The report of the missing, `at` seconds after a pod was deleted with a grace period of 30 s.
    fn missing(claim: &mut DeletedPodsGo, finalizers: &[&str], at: u64) -> Option<String> {
        let (there, going) = (object(None, &[]), object(Some(30), finalizers));
        commit(claim, 0, None, Some(&there));
        commit(claim, 0, Some(&there), Some(&going));
        claim.overdue(SimTime::from_secs(at), &mut Findings::of_one_claim());
        claim.pending()
    }

    #[test]
    fn a_pod_whose_grace_is_over_is_missed_until_it_is_gone() {
        let mut claim = claim("node-1");
        assert_eq!(missing(&mut claim, &[], 80), None, "its kubelet has some time");
        assert!(claim.awaits());
        assert_eq!(missing(&mut claim, &[], 90).as_deref(), Some("1 deleted pods are still there: default/web on node-0"));
        let going = object(Some(30), &[]);
        commit(&mut claim, 92, Some(&going), None);
        assert_eq!((claim.pending(), claim.awaits()), (None, false));
    }

    #[test]
    fn what_finalizers_hold_and_lost_nodes_is_not_waited_for() {
        assert_eq!(missing(&mut claim("node-0"), &[], 200), None);
        assert_eq!(missing(&mut claim("node-1"), &["example.com/keep"], 200), None);
        assert!(missing(&mut claim("node-1"), &[], 200).is_some());
    }

    #[test]
    fn a_second_deletion_only_shortens_the_grace() {
        let mut claim = claim("node-1");
        let (going, sooner, later) = (object(Some(300), &[]), object(Some(1), &[]), object(Some(300), &[]));
        commit(&mut claim, 0, None, Some(&going));
        commit(&mut claim, 10, Some(&going), Some(&sooner));
        commit(&mut claim, 70, Some(&sooner), Some(&later));
        claim.overdue(SimTime::from_secs(72), &mut Findings::of_one_claim());
        assert!(claim.pending().is_some());
    }
}
