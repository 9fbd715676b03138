//! G GS9: pods on exempt nodes are left alone.

use ipam_spiderpool::reclaim::NodeState;

use super::super::view::{EventMask, Seen, View, has_ended};
use super::super::{Findings, IpamClaim};
use super::violated;

/// A replica of the controller removes no record of a pod that exists, has no place, and is terminating or has ended, on a node of a kind
/// for which reclaim is switched off.
///
/// The readiness of the node is judged at any revision that the API server can have answered with: from the replica's request for the node
/// up to the write, or at the write alone if it did not ask (D §1.3.3). A node that is gone is of no kind. Broken by `node-judged-once` and
/// `empty-pod-ips-means-gone`. It does not judge pods whose object is gone: the settings do not apply to them.
pub(crate) struct SwitchedOffNodesAreLeftAlone;

impl IpamClaim for SwitchedOffNodesAreLeftAlone {
    fn event_mask(&self) -> EventMask {
        EventMask::POOL
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Pool(change) = seen else { return };
        if !change.by_replica {
            return;
        }
        for (address, before) in change.edits.iter().filter_map(|edit| edit.taken()) {
            let uid = &*before.pod_uid;
            let Some(pod) = view.pods.get(uid).filter(|pod| !pod.gone && view.keeping_place(pod).is_none()) else { continue };
            let Some(node) = pod.node().filter(|_| pod.is_terminating() || has_ended(&pod.object)) else { continue };
            findings.exercised();
            let announced = view.replicas.announced(change.said.by, &change.pool, address, uid);
            let asked = announced.map_or(u64::MAX, |announced| announced.node);
            if view.nodes.states_since(node, asked).any(|state| view.gives_up(state) != Some(false)) {
                continue;
            }
            violated(findings, None, view.changes.touched(address), || {
                let state = in_words(view.nodes.now(node));
                vec![
                    format!("{address} of pool {} is reclaimed of {}", change.pool, view.pod_of(uid)),
                    format!("{node} is {state}, and pods of such nodes are to be left alone"),
                    view.story_of_write(change),
                ]
            });
        }
    }
}

/// A short description of a node's state.
fn in_words(state: NodeState) -> String {
    match state {
        NodeState::Ready { since: Some(since) } => format!("ready since {since}"),
        NodeState::Ready { since: None } => "ready".to_owned(),
        NodeState::NotReady => "not ready".to_owned(),
        NodeState::Gone => "gone".to_owned(),
        NodeState::Unreadable => "not to be read".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{Stage, on_stage_with};
    use ipam_spiderpool::reclaim::ReclaimSettings;
    use k8s_openapi::api::core::v1::Node;

    const CLAIM: &str = "switched-off-nodes-are-left-alone";

    fn staged(ready: bool, test: impl FnOnce(&mut Stage)) {
        staged_with(|settings| (settings.on_ready_node, settings.on_not_ready_node) = (true, false), ready, test);
    }

    fn staged_with(set: fn(&mut ReclaimSettings), ready: bool, test: impl FnOnce(&mut Stage)) {
        on_stage_with(CLAIM, set, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.node_is("node-0", ready);
            stage.deliver::<Node>(stage.replicas[0]);
            stage.pod("ns/a", "a");
            stage.add("ns/a", "a", &[("eth0", "p", "10.0.0.1")]);
            test(stage);
        });
    }

    fn reclaim(stage: &mut Stage) {
        stage.reclaim(stage.replicas[0], "ns/a", "a", "p", "10.0.0.1");
    }

    #[test]
    fn only_pods_of_nodes_whose_switch_is_on_are_reclaimed() {
        for ready in [true, false] {
            for end in [|stage: &mut Stage| stage.terminate_with("ns/a", 1), |stage: &mut Stage| stage.pod_is("ns/a", "Failed", None)] {
                staged(ready, |stage| {
                    end(stage);
                    reclaim(stage);
                    assert_eq!((stage.excuses().is_empty(), stage.exercised()), (ready, true), "ready: {ready}");
                });
            }
        }
    }

    #[test]
    fn the_switch_of_all_terminating_pods_is_one_for_each_kind_of_node() {
        for ready in [true, false] {
            let off = |settings: &mut ReclaimSettings| settings.terminating = false;
            staged_with(off, ready, |stage| {
                stage.terminate_with("ns/a", 1);
                reclaim(stage);
                assert_eq!((stage.excuses(), stage.exercised()), (vec![None], true), "ready: {ready}");
            });
        }
    }

    #[test]
    fn a_flip_that_the_decision_could_not_see_is_no_violation() {
        for asks in [false, true] {
            staged(true, |stage| {
                stage.terminate_with("ns/a", 1);
                stage.node_is("node-0", false);
                if asks {
                    stage.asks::<Node>(stage.replicas[0], &kube_machinery::ObjectKey::cluster("node-0"));
                }
                reclaim(stage);
                assert_eq!((stage.excuses(), stage.exercised()), (vec![None], true), "a cache may show it as ready; asks: {asks}");
            });
        }
        staged(true, |stage| {
            stage.terminate_with("ns/a", 1);
            stage.asks::<Node>(stage.replicas[0], &kube_machinery::ObjectKey::cluster("node-0"));
            stage.node_is("node-0", false);
            stage.deliver::<Node>(stage.replicas[0]);
            reclaim(stage);
            assert_eq!(stage.excuses(), [], "it was asked for before");
            stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "a");
            stage.pass(std::time::Duration::from_secs(60));
            reclaim(stage);
            assert_eq!(stage.excuses(), [None]);
        });
    }

    #[test]
    fn pods_that_are_gone_or_have_a_place_are_not_meant() {
        staged(false, |stage| {
            stage.pod_gone("ns/a");
            reclaim(stage);
            stage.static_pod("ns/web-0", "w");
            stage.terminate_with("ns/web-0", 1);
            stage.record(stage.agent, "p", "10.0.0.2", "ns/web-0", "w");
            stage.reclaim(stage.replicas[0], "ns/web-0", "w", "p", "10.0.0.2");
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], false));
        });
    }

    #[test]
    fn a_node_that_is_gone_is_of_no_kind() {
        staged(false, |stage| {
            stage.terminate_with("ns/a", 1);
            stage.put::<Node>(stage.person, &kube_machinery::ObjectKey::cluster("node-0"), None);
            reclaim(stage);
            assert_eq!(stage.excuses(), []);
        });
    }
}
