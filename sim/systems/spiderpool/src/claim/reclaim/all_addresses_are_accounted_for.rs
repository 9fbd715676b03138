//! G §11: once the cluster is idle, records, endpoints, pods and sandboxes agree.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ipam_spiderpool::PoolIPAllocation;

use super::super::pods_get_addresses::can_be_served;
use super::super::view::{Pod, View, addresses_of, is_held_by_others, uid_of};
use super::super::{IpamClaim, told};
use super::leak::{at_the_latest, is_reclaimed, leak_of, leak_of_record};
use super::{NoEndpointOutlivesItsPod, RecordsOfGonePodsDisappear};

/// The time for which a new record need not answer yet: an ADD may take so long (A §10).
const YOUNG: Duration = Duration::from_secs(120);

/// Eventually every record belongs to an existing pod that answers on the address in one place, or to a pod whose place waits for its next
/// pod; it has an endpoint of the same UID that names the address; counts match; no endpoint of a gone pod is left, unless only finalizers
/// of others hold it; and no sandbox answers on an address that is not recorded for it.
///
/// Not judged are pods in transition: young ones, those with an open request at an agent, those on nodes that are permanently out of reach,
/// those that could not be served when they asked last, those whose sandbox existed when a setting permitted a scan to take their addresses
/// (G EX3), and those whose entitlement ended so recently that reclaim may still find them. Nor are records of live pods that no endpoint
/// named before the run, or that were made unreadable by hand during the last request for their pods. If the pod of a record was never
/// seen, its name decides who keeps the address. Upstream's own chaos tests check the same property (G §12). It is broken by nearly every
/// mutation, so a claim with a narrower statement says more.
pub(crate) struct AllAddressesAreAccountedFor;

impl IpamClaim for AllAddressesAreAccountedFor {
    fn pending(&self, view: &View) -> Option<String> {
        if !is_reclaimed(view) {
            return None;
        }
        let mut wrong = Vec::new();
        for (name, pool) in view.pools.iter() {
            let count = pool.object.status.as_ref().and_then(|status| status.allocated_ip_count).unwrap_or(0);
            let records = pool.records().len() as i64;
            if count != records {
                wrong.push(format!("pool {name} counts {count} of {records} records"));
            }
            for (key, record) in pool.records().iter() {
                let Some(address) = key.address().filter(|address| !view.changes.touched(*address)) else { continue };
                wrong.extend(wrong_record(view, name, address, record).map(|what| format!("{address} of {name} {what}")));
            }
        }
        for (key, endpoint) in view.endpoints.iter().filter(|(key, _)| !view.changes.touched_endpoint(key)) {
            let uid = uid_of(endpoint);
            if view.pods.get(uid).is_some_and(|pod| pod.gone) && is_over(view, uid) && !is_held_by_others(endpoint) {
                wrong.push(format!("endpoint {key} is left of {}", view.pod_of(uid)));
            }
        }
        for (_, sandbox) in view.sandboxes.iter().filter(|(_, sandbox)| !is_on_lost_node(view, view.pods.get(&sandbox.uid))) {
            let addresses = sandbox.nics.iter().flat_map(|(_, since, addresses)| addresses.iter().map(move |address| (since, *address)));
            for (_, address) in addresses.filter(|(since, address)| since.at + YOUNG < view.at && !view.changes.touched(*address)) {
                let own = |uid: &str| *sandbox.uid == *uid || super::super::view::is_migration(view, &sandbox.uid, uid);
                let excused = view.excuse_of(&sandbox.uid, address).is_some();
                if !excused && !view.pools.holders(address).any(|holder| own(&holder.record.pod_uid)) {
                    wrong.push(format!("{} answers on {address}, which is not recorded for it", view.pod_of(&sandbox.uid)));
                }
            }
        }
        told(["record or sandbox has no counterpart", "records or sandboxes have no counterpart"], wrong)
    }

    fn awaits(&self, view: &View) -> bool {
        RecordsOfGonePodsDisappear.awaits(view) || NoEndpointOutlivesItsPod.awaits(view) || self.pending(view).is_some()
    }
}

/// Whether the entitlement of a pod ended so long ago that reclaim must have found it.
fn is_over(view: &View, uid: &str) -> bool {
    leak_of(view, uid).is_some_and(|leak| at_the_latest(view, leak.due) <= view.at)
}

fn is_on_lost_node(view: &View, pod: Option<&Pod>) -> bool {
    let lost =
        |pod: &Pod| pod.node().is_some_and(|node| view.out_of_reach.names.contains(node)) || view.out_of_reach.pods.contains(&*pod.key);
    pod.is_some_and(lost)
}

/// The error about a record, if there is one.
fn wrong_record(view: &View, pool: &Arc<str>, address: IpAddr, record: &PoolIPAllocation) -> Option<String> {
    let uid = &*record.pod_uid;
    let since = view.pools.holder(pool, address).and_then(|holder| holder.since);
    let is_over = leak_of_record(view, address, record).is_some_and(|leak| at_the_latest(view, leak.due) <= view.at);
    if is_over && since.is_none_or(|since| at_the_latest(view, since.at) <= view.at) {
        return Some(format!("is recorded for {}, which is not entitled to it", view.pod_of(uid)));
    }
    let pod = view.pods.get(uid).filter(|pod| pod.is_alive() && pod.has_name(&record.pod))?;
    if view.began_unnamed(pool, address) {
        return None;
    }
    let is_young = since.is_some_and(|since| since.at + YOUNG >= view.at);
    if is_young || view.agents.is_asked(uid) || is_on_lost_node(view, Some(pod)) || !can_be_served(view, uid, pod) {
        return None;
    }
    let answering = view.sandboxes.answering(address).filter(|(_, sandbox)| *sandbox.uid == *uid).count();
    if answering == 0 && view.is_hidden_since_answered(pool, address, uid) {
        return None;
    }
    if answering != 1 && !view.outlives_its_addresses(uid) {
        return Some(format!("is recorded for {}, of which {answering} sandboxes answer on it", view.pod_of(uid)));
    }
    let Some((endpoint, touched)) = view.endpoint_of(pod) else {
        return Some(format!("is recorded for {}, which has no endpoint", pod.key));
    };
    let names = addresses_of(endpoint).any(|(_, of, named)| *of == **pool && named == address);
    let fits = touched || (uid_of(endpoint) == uid && names);
    (!fits).then(|| format!("is recorded for {}, and its endpoint says otherwise", view.pod_of(uid)))
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{Stage, on_stage, on_stage_with};
    use super::*;
    use ipam_spiderpool::reclaim::ReclaimSettings;
    use kube_machinery::json_text::JsonText;
    use kube_sim::node::PodNote;

    const FIRST: &[(&str, &str, &str)] = &[("eth0", "p", "10.0.0.1")];

    fn staged(test: impl FnOnce(&mut Stage)) {
        on_stage("all-addresses-are-accounted-for", |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.pod("ns/a", "a");
            stage.sandbox("a", "ns/a", "a");
            stage.add("ns/a", "a", FIRST);
            stage.attach("a", "eth0", &["10.0.0.1"]);
            stage.pass(YOUNG * 2);
            assert_eq!(stage.pending(), None);
            test(stage);
        });
    }

    fn says(what: &str, change: fn(&mut Stage), seconds: u64) {
        staged(|stage| {
            change(stage);
            stage.pass(Duration::from_secs(seconds));
            let pending = stage.pending().unwrap_or_default();
            assert!(pending.contains(what), "{what}: {pending}");
        });
    }

    #[test]
    fn each_thing_that_does_not_fit_is_told() {
        says("which is not entitled to it", |stage| stage.pod_gone("ns/a"), 1_000);
        says("endpoint ns/a is left of ns/a", |stage| stage.pod_gone("ns/a"), 1_000);
        says("of which 0 sandboxes answer on it", |stage| stage.node(PodNote::SandboxGone { sandbox: "a".into() }), 0);
        says(
            "of which 2 sandboxes answer on it",
            |stage| {
                stage.sandbox("again", "ns/a", "a");
                stage.attach("again", "eth0", &["10.0.0.1"]);
            },
            0,
        );
        says("which has no endpoint", |stage| stage.endpoint_gone(stage.kubelet, "ns/a"), 0);
        says("its endpoint says otherwise", |stage| stage.endpoint(stage.agent, "ns/a", "a", &[]), 0);
        says("answers on 10.0.0.1, which is not recorded for it", |stage| stage.unrecord(stage.agent, "p", "10.0.0.1"), 0);
        says(
            "counts 7 of 1 records",
            |stage| stage.change_pool(stage.agent, "p", |pool| pool.status.as_mut().unwrap().allocated_ip_count = Some(7)),
            0,
        );
    }

    #[test]
    fn a_sandbox_that_outlives_what_a_setting_let_a_scan_take_answers_as_it_did() {
        for on in [true, false] {
            let set = |settings: &mut ReclaimSettings| settings.running_without_ips = on;
            on_stage_with("all-addresses-are-accounted-for", set, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.pod("ns/a", "a");
                stage.pod_is("ns/a", "Running", None);
                stage.sandbox("a", "ns/a", "a");
                stage.add("ns/a", "a", &[("eth0", "p", "10.0.0.1")]);
                stage.attach("a", "eth0", &["10.0.0.1"]);
                stage.reclaim(stage.replicas[0], "ns/a", "a", "p", "10.0.0.1");
                stage.add("ns/a", "a", &[("eth0", "p", "10.0.0.2")]);
                stage.pass(YOUNG * 2);
                assert_eq!(stage.pending().is_none(), on, "{:?}", stage.pending());
            });
        }
    }

    #[test]
    fn a_record_that_hands_hid_when_its_pod_was_answered_stays_unless_somebody_answers_on_it() {
        for (hidden, answers, fits) in [(true, false, true), (true, true, false), (false, false, false)] {
            on_stage("all-addresses-are-accounted-for", |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.pool("q", &["10.0.1.1-10.0.1.9"]);
                stage.pod("ns/a", "a");
                stage.sandbox("a", "ns/a", "a");
                stage.record_for(stage.agent, "p", "10.0.0.1", "a", "eth0");
                stage.pass(Duration::from_secs(1));
                if hidden {
                    stage.change_pool(stage.person, "p", |pool| {
                        let status = pool.status.as_mut().unwrap();
                        status.allocated_ips = JsonText::verbatim(format!("~{}", status.allocated_ips.text()));
                    });
                }
                stage.add("ns/a", "a", &[("eth0", "q", "10.0.1.1")]);
                stage.attach("a", "eth0", &["10.0.1.1"]);
                if answers {
                    stage.attach("a", "net1", &["10.0.0.1"]);
                }
                stage.pass(YOUNG * 2);
                let told = stage.pending().unwrap_or_default();
                assert_eq!(!told.contains("10.0.0.1 of p is recorded for ns/a"), fits, "{hidden}, {answers}: {told}");
            });
        }
    }

    #[test]
    fn what_is_on_its_way_is_not_judged() {
        staged(|stage| {
            stage.pod("ns/b", "b");
            stage.record(stage.agent, "p", "10.0.0.2", "ns/b", "b");
            assert_eq!(stage.pending(), None, "it is young");
            stage.pass(YOUNG * 2);
            assert!(stage.pending().is_some());
            stage.ask("ns/b", "b", "eth0");
            assert_eq!(stage.pending(), None, "somebody sees to it");
        });
        staged(|stage| {
            stage.node(PodNote::SandboxGone { sandbox: "a".into() });
            stage.pod_gone("ns/a");
            assert_eq!(stage.pending(), None, "reclaim may still find it");
        });
    }
}
