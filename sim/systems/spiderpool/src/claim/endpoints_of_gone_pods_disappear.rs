//! A L8: endpoints of gone pods disappear.

use std::net::IpAddr;
use std::sync::Arc;

use ipam_spiderpool::SpiderEndpoint;
use ipam_spiderpool::names::{ANNOTATION_REPLACED_SANDBOXES, ANNOTATION_SANDBOX};
use ipam_spiderpool::select::FIRST_NIC;
use kube_machinery::FxHashSet;
use kube_machinery::api::ObjectKey;
use kube_sim::node::PodNote;

use super::view::{EventMask, Seen, View, addresses_of, is_held_by_others, uid_of};
use super::{Findings, IpamClaim, told};
use crate::workload::IpamNote;

/// Eventually there is no endpoint of a gone pod whose node considers its DEL done, unless the endpoint waits for the next pod of a place
/// of a StatefulSet or a VM. An endpoint that is being deleted does not wait; it may only be held by finalizers of others. If its addresses
/// are still recorded, reclaim finds it; otherwise nothing does (A W26). An endpoint is ended only by the DELs of all sandboxes that it
/// names: other DELs release nothing (K §5.4), however often they are repeated. If it names none, the DEL of any sandbox ends it. An
/// endpoint that appears while no agent is handling an ADD of its pod results from a write that was repeated or late (K §2.13): no DEL that
/// had begun by then knew of it, so it is left as after A W26. If the DEL of one of several NICs failed and the runtime forgets the sandbox
/// nevertheless (K §5.3), nothing asks again for the addresses of that NIC, even if the rollback of an ADD that had not reached that NIC
/// had called the first NIC's DEL before (A D2). The same holds if that DEL came while the next pod of the place was to inherit the
/// addresses (A §7.1) and the place was gone before the DEL of the first NIC, which covers that NIC only. The endpoint of a VM's pod has
/// the VM's name: a DEL that no longer finds the pod does not know that name, so its endpoint is left to reclaim (G C8).
///
/// Broken by `finalizer-left-behind`, `missing-pool-keeps-endpoint` and `pod-operations-overlap`. It does not judge pods without such a
/// completed DEL: they are the business of reclaim.
#[derive(Default)]
pub(crate) struct EndpointsOfGonePodsDisappear {
    /// The sandboxes whose pods were not alive when an agent was asked to release them.
    asked: FxHashSet<Arc<str>>,
    /// The sandboxes whose DEL a node considers done.
    released: FxHashSet<Arc<str>>,
    /// The UIDs of the pods of the `released` sandboxes.
    uids: FxHashSet<Arc<str>>,
    /// The sandboxes and NICs whose last DEL failed or, for a NIC other than the first, left its addresses to the next pod of the place.
    left: FxHashSet<(Arc<str>, Arc<str>)>,
    /// The sandboxes and NICs that have had a DEL of neither kind.
    done: FxHashSet<(Arc<str>, Arc<str>)>,
}

impl EndpointsOfGonePodsDisappear {
    /// Withdraws the release of a sandbox: the DEL of a NIC was still to come when that of the first NIC released the sandbox.
    fn withdraw(&mut self, view: &View, id: &str) {
        if self.released.remove(id)
            && let Some(sandbox) = view.sandboxes.get(id)
            && !self.released.iter().any(|other| view.sandboxes.get(other).is_some_and(|other| other.uid == sandbox.uid))
        {
            self.uids.remove(&sandbox.uid);
        }
    }

    /// Whether a node considers all DELs done that were to end an endpoint of this pod.
    fn is_released(&self, endpoint: &SpiderEndpoint, uid: &str) -> bool {
        let annotations = endpoint.metadata.annotations.as_ref();
        let keys = [ANNOTATION_SANDBOX, ANNOTATION_REPLACED_SANDBOXES].into_iter();
        let mut named = keys.filter_map(|key| annotations?.get(key)).flat_map(|sandboxes| sandboxes.split(','));
        self.uids.contains(uid) && named.all(|sandbox| self.released.contains(sandbox))
    }
}

/// Whether the endpoint of a gone pod has another name than the pod.
fn is_under_unknown_name(view: &View, uid: &str) -> bool {
    let pod = view.pods.get(uid).filter(|pod| pod.gone);
    pod.is_some_and(|pod| view.endpoint_of(pod).is_some_and(|(endpoint, _)| ObjectKey::of(&**endpoint).as_str() != &*pod.key))
}

/// Whether an endpoint may wait for the next pod of a place.
fn waits_for_next(endpoint: &SpiderEndpoint) -> bool {
    let kind = endpoint.status.as_ref().map_or("", |status| status.owner_controller_type.as_str());
    matches!(kind, "StatefulSet" | "VirtualMachineInstance") && endpoint.metadata.deletion_timestamp.is_none()
}

fn is_recorded(view: &View, uid: &str, pool: &str, address: IpAddr) -> bool {
    view.pools.holder(pool, address).is_some_and(|holder| holder.record.pod_uid == uid)
}

/// Whether a DEL of a NIC other than the first has left the NIC's addresses to the next pod of the place.
fn is_kept_for_place(view: &View, sandbox: &str, nic: &str) -> bool {
    let uid = view.sandboxes.get(sandbox).map_or("", |sandbox| &sandbox.uid);
    let Some((endpoint, _)) = view.pods.get(uid).filter(|_| *nic != *FIRST_NIC).and_then(|pod| view.endpoint_of(pod)) else { return false };
    let mut addresses = addresses_of(endpoint).filter(|(entry, ..)| entry.interface == *nic);
    uid_of(endpoint) == uid && waits_for_next(endpoint) && addresses.any(|(_, pool, address)| is_recorded(view, uid, pool, address))
}

impl IpamClaim for EndpointsOfGonePodsDisappear {
    fn event_mask(&self) -> EventMask {
        EventMask::RELEASE.and(EventMask::POD).and(EventMask::ENDPOINT)
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, _: &mut Findings) {
        if let Seen::Pod(_, PodNote::DelDone { sandbox: id, nic, failed }) = *seen {
            let last = (id.clone(), nic.clone());
            if *failed || is_kept_for_place(view, id, nic) {
                if !self.done.contains(&last) {
                    self.withdraw(view, id);
                }
                self.left.insert(last);
            } else {
                self.left.remove(&last);
                self.done.insert(last);
            }
        }
        // NICs are taken down in reverse order: after the DEL of the first NIC all have had theirs, except those that a rolled-back ADD had
        // not reached. Their DELs are called when the runtime cleans up (K §5.1).
        if let Seen::Pod(_, PodNote::DelDone { sandbox: id, nic, failed: false }) = *seen
            && **nic == *FIRST_NIC
            && let Some(sandbox) = view.sandboxes.get(id)
            && self.asked.contains(id)
            && !self.left.iter().any(|(of, _)| of == id)
            && !is_under_unknown_name(view, &sandbox.uid)
        {
            self.released.insert(id.clone());
            self.uids.insert(sandbox.uid.clone());
        }
        if let Seen::Ipam(_, IpamNote::DelBegun { uid, container, .. }) = *seen
            && !uid.is_empty()
            && !view.pods.is_alive(uid)
        {
            self.asked.insert(container.clone());
        }
        if let Seen::Endpoint(change) = seen
            && let (None, Some(endpoint)) = (&change.before, &change.after)
            && !view.agents.is_asked(uid_of(endpoint))
        {
            let uid = uid_of(endpoint);
            self.uids.remove(uid);
            // A DEL in progress may have looked for the endpoint before, and a completed one has not seen it.
            let of_others = |id: &Arc<str>| view.sandboxes.get(id).is_none_or(|sandbox| *sandbox.uid != *uid);
            self.asked.retain(of_others);
            self.released.retain(of_others);
        }
    }

    fn pending(&self, view: &View) -> Option<String> {
        let mut left = Vec::new();
        for (key, endpoint) in view.endpoints.iter() {
            let uid = uid_of(endpoint);
            let is_gone = view.pods.get(uid).is_none_or(|pod| pod.gone);
            let leads_back = addresses_of(endpoint).any(|(_, pool, address)| is_recorded(view, uid, pool, address));
            if is_gone
                && !waits_for_next(endpoint)
                && !leads_back
                && !is_held_by_others(endpoint)
                && self.is_released(endpoint, uid)
                && !view.changes.touched_endpoint(key)
            {
                left.push(format!("{key} of {}", view.pod_of(uid)));
            }
        }
        told(["endpoint is left of a pod that is gone", "endpoints are left of pods that are gone"], left)
    }
}

#[cfg(test)]
mod tests {
    use ipam_spiderpool::SpiderEndpoint;
    use ipam_spiderpool::names::{ANNOTATION_REPLACED_SANDBOXES, ANNOTATION_SANDBOX};
    use kube_machinery::ObjectKey;
    use serde_json::json;

    use super::super::testing::{Stage, on_stage};
    use crate::workload::IpamNote;
    use kube_sim::node::PodNote;

    const CLAIM: &str = "endpoints-of-gone-pods-disappear";
    const FIRST: &[(&str, &str, &str)] = &[("eth0", "p", "10.0.0.1")];

    #[test]
    fn an_endpoint_is_left_once_its_pod_is_released_and_gone() {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.pod("ns/a", "a");
            stage.add("ns/a", "a", FIRST);
            stage.sandbox("a", "ns/a", "a");
            stage.del("ns/a", "a", true);
            stage.pod_gone("ns/a");
            stage.unrecord(stage.agent, "p", "10.0.0.1");
            assert_eq!(stage.pending(), None, "that DEL came while the pod was alive");
            stage.del("ns/a", "a", false);
            assert_eq!(stage.pending(), None);
            stage.node(PodNote::DelDone { sandbox: "a".into(), nic: "net1".into(), failed: false });
            assert_eq!(stage.pending(), None, "the DEL of the first NIC is still to come");
            stage.del("ns/a", "a", true);
            stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "a");
            assert_eq!(stage.pending(), None, "a record leads to it");
            stage.unrecord(stage.agent, "p", "10.0.0.1");
            assert!(stage.pending().unwrap().starts_with("1 endpoint is left of a pod that is gone: ns/a of"));
            stage.endpoint_gone(stage.agent, "ns/a");
            assert_eq!(stage.pending(), None);
        });
    }

    #[test]
    fn the_endpoint_of_a_vm_is_left_only_by_a_del_that_could_know_the_vm() {
        for known in [true, false] {
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.vm_pod("ns/launcher", "a", "vm");
                stage.ask("ns/launcher", "a", "eth0");
                stage.record(stage.agent, "p", "10.0.0.1", "ns/vm", "a");
                stage.endpoint(stage.agent, "ns/vm", "a", FIRST);
                stage.answer("ns/launcher", "a", "eth0", FIRST);
                stage.sandbox("a", "ns/launcher", "a");
                stage.terminate("ns/launcher");
                // The agent dies after it has marked the endpoint and released the address.
                stage.mark(stage.agent, "ns/vm");
                stage.unrecord(stage.agent, "p", "10.0.0.1");
                if !known {
                    stage.del("ns/launcher", "a", false);
                    stage.pod_gone("ns/launcher");
                }
                stage.del("ns/launcher", "a", true);
                if known {
                    stage.pod_gone("ns/launcher");
                }
                assert_eq!(stage.pending().is_some(), known, "the pod was there: {known}");
            });
        }
    }

    #[test]
    fn an_endpoint_is_not_left_by_a_del_of_which_a_part_failed() {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.pod("ns/a", "a");
            stage.add("ns/a", "a", FIRST);
            stage.sandbox("a", "ns/a", "a");
            stage.pod_gone("ns/a");
            stage.unrecord(stage.agent, "p", "10.0.0.1");
            stage.del("ns/a", "a", false);
            stage.node(PodNote::DelDone { sandbox: "a".into(), nic: "net1".into(), failed: true });
            stage.del("ns/a", "a", true);
            assert_eq!(stage.pending(), None, "nobody asks again for what net1 had");
            stage.node(PodNote::DelDone { sandbox: "a".into(), nic: "net1".into(), failed: false });
            stage.del("ns/a", "a", true);
            assert!(stage.pending().is_some());
        });
    }

    #[test]
    fn an_endpoint_is_not_left_by_the_roll_back_of_an_add_that_had_not_come_to_all_nics() {
        for came_to_all in [false, true] {
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.pod("ns/a", "a");
                stage.add("ns/a", "a", &[("eth0", "p", "10.0.0.1"), ("net1", "p", "10.0.0.2")]);
                stage.sandbox("a", "ns/a", "a");
                stage.pod_gone("ns/a");
                let done = |nic: &str, failed| PodNote::DelDone { sandbox: "a".into(), nic: nic.into(), failed };
                if came_to_all {
                    stage.node(done("net1", false));
                }
                stage.unrecord(stage.agent, "p", "10.0.0.1");
                stage.del("ns/a", "a", true);
                // The agent dies in the first DEL of the clean-up, and the runtime forgets the sandbox.
                stage.unrecord(stage.agent, "p", "10.0.0.2");
                stage.node(done("net1", true));
                stage.node(done("eth0", true));
                assert_eq!(stage.pending().is_some(), came_to_all, "came to all: {came_to_all}");
                stage.node(done("net1", false));
                stage.del("ns/a", "a", true);
                assert!(stage.pending().is_some(), "these DELs should have ended it");
            });
        }
    }

    #[test]
    fn a_nic_whose_del_kept_what_it_had_for_the_place_is_left_to_others() {
        for (of_set, kept) in [(true, true), (true, false), (false, true)] {
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.static_pod("ns/web-0", "a");
                stage.add("ns/web-0", "a", &[("eth0", "p", "10.0.0.1"), ("net1", "p", "10.0.0.2")]);
                stage.sandbox("a", "ns/web-0", "a");
                stage.pod_gone("ns/web-0");
                let key = ObjectKey::namespaced("ns", "web-0");
                if of_set {
                    stage.change::<SpiderEndpoint>(stage.agent, &key, |endpoint| {
                        endpoint.status.as_mut().unwrap().owner_controller_type = "StatefulSet".to_owned();
                    });
                }
                if !kept {
                    stage.mark(stage.agent, "ns/web-0");
                }
                stage.node(PodNote::DelDone { sandbox: "a".into(), nic: "net1".into(), failed: false });
                if kept {
                    stage.mark(stage.agent, "ns/web-0");
                }
                stage.unrecord(stage.agent, "p", "10.0.0.1");
                stage.del("ns/web-0", "a", true);
                assert_eq!(stage.pending(), None, "a record leads to it");
                stage.unrecord(stage.agent, "p", "10.0.0.2");
                assert_eq!(stage.pending().is_none(), of_set && kept, "of a set: {of_set}, kept: {kept}");
                stage.node(PodNote::DelDone { sandbox: "a".into(), nic: "net1".into(), failed: false });
                stage.del("ns/web-0", "a", true);
                assert!(stage.pending().is_some(), "these DELs should have ended it");
            });
        }
    }

    #[test]
    fn an_endpoint_is_left_only_by_the_del_of_the_sandbox_that_it_names() {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.pod("ns/a", "a");
            stage.add("ns/a", "a", FIRST);
            stage.sandbox("a", "ns/a", "a");
            stage.sandbox("second", "ns/a", "a");
            let key = ObjectKey::namespaced("ns", "a");
            let name = |stage: &mut Stage, sandbox: Option<&str>| {
                stage.change::<SpiderEndpoint>(stage.agent, &key, |endpoint| {
                    endpoint.metadata.annotations = sandbox.map(|sandbox| [(ANNOTATION_SANDBOX.to_owned(), sandbox.to_owned())].into());
                });
            };
            name(stage, Some("second"));
            stage.pod_gone("ns/a");
            stage.unrecord(stage.agent, "p", "10.0.0.1");
            stage.del("ns/a", "a", true);
            assert_eq!(stage.pending(), None, "another sandbox is named, whose DEL is still to come");
            name(stage, Some("a"));
            assert!(stage.pending().is_some());
            name(stage, None);
            assert!(stage.pending().is_some(), "any sandbox will do where none is named");
            stage.change::<SpiderEndpoint>(stage.agent, &key, |endpoint| {
                endpoint.metadata.annotations = Some([(ANNOTATION_REPLACED_SANDBOXES.to_owned(), "second,a".to_owned())].into());
            });
            assert_eq!(stage.pending(), None, "one that was replaced is there still");
        });
    }

    #[test]
    fn an_endpoint_that_comes_after_its_del_is_left_only_by_an_add() {
        for by_add in [true, false] {
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.pod("ns/a", "a");
                stage.sandbox("a", "ns/a", "a");
                stage.pod_gone("ns/a");
                if by_add {
                    stage.ask("ns/a", "a", "eth0");
                }
                stage.del("ns/a", "a", true);
                stage.endpoint(stage.agent, "ns/a", "a", FIRST);
                assert_eq!(stage.pending().is_some(), by_add, "without an ADD it is a copy of an earlier write");
                stage.del("ns/a", "a", true);
                assert!(stage.pending().is_some(), "this DEL should have ended it");
            });
        }
    }

    #[test]
    fn a_late_endpoint_is_left_only_by_a_del_that_began_after_it() {
        for began_after in [false, true] {
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.pod("ns/a", "a");
                stage.sandbox("a", "ns/a", "a");
                stage.pod_gone("ns/a");
                if began_after {
                    stage.endpoint(stage.agent, "ns/a", "a", FIRST);
                    stage.del_asked("ns/a", "a");
                } else {
                    stage.del_asked("ns/a", "a");
                    stage.endpoint(stage.agent, "ns/a", "a", FIRST);
                }
                stage.node(PodNote::DelDone { sandbox: "a".into(), nic: "eth0".into(), failed: false });
                assert_eq!(stage.pending().is_some(), began_after, "it may have been looked for before it was there");
                stage.del("ns/a", "a", true);
                assert!(stage.pending().is_some(), "this DEL should have ended it");
            });
        }
    }

    #[test]
    fn a_late_endpoint_is_not_left_by_the_del_of_a_sandbox_that_it_does_not_name() {
        for again in [false, true] {
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.pod("ns/a", "a");
                stage.sandbox("a", "ns/a", "a");
                stage.pod_gone("ns/a");
                stage.del("ns/a", "a", true);
                stage.endpoint(stage.agent, "ns/a", "a", FIRST);
                stage.change::<SpiderEndpoint>(stage.agent, &ObjectKey::namespaced("ns", "a"), |endpoint| {
                    endpoint.metadata.annotations.get_or_insert_default().insert(ANNOTATION_SANDBOX.to_owned(), "a".to_owned());
                });
                stage.sandbox("second", "ns/a", "a");
                let (pod, uid, container, nic) = ("ns/a".into(), "a".into(), "second".into(), "eth0".into());
                stage.say(stage.agent, IpamNote::DelBegun { pod, uid, container, nic });
                stage.node(PodNote::DelDone { sandbox: "second".into(), nic: "eth0".into(), failed: false });
                assert_eq!(stage.pending(), None, "the DEL of the first sandbox was over before it came");
                if again {
                    stage.del("ns/a", "a", true);
                }
                assert_eq!(stage.pending().is_some(), again, "the DELs of all sandboxes that it names have to end it");
            });
        }
    }

    #[test]
    fn an_endpoint_of_a_place_waits_for_the_next_pod_until_it_is_being_deleted() {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.static_pod("ns/web-0", "a");
            stage.add("ns/web-0", "a", FIRST);
            stage.sandbox("a", "ns/web-0", "a");
            let key = ObjectKey::namespaced("ns", "web-0");
            stage.change::<SpiderEndpoint>(stage.agent, &key, |endpoint| {
                endpoint.status.as_mut().unwrap().owner_controller_type = "StatefulSet".to_owned();
            });
            stage.pod_gone("ns/web-0");
            stage.unrecord(stage.agent, "p", "10.0.0.1");
            stage.del("ns/web-0", "a", true);
            assert_eq!(stage.pending(), None);
            stage.change::<SpiderEndpoint>(stage.agent, &key, |endpoint| {
                endpoint.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-05T09:00:00Z")).unwrap();
            });
            assert!(stage.pending().is_some());
        });
    }
}
