//! A S6: reserved addresses are not allocated.

use super::view::{EventMask, Seen, Shown, View, is_migration};
use super::{Findings, IpamClaim};

/// No agent records an address for a pod although it had been told that the address is reserved: by an object that existed from the
/// beginning, or that its watch had delivered before it read the pool. For an address that is handed on, the delivery must precede the
/// request, since reuse is decided before the pool is read. Later deliveries do not count, nor do reservations whose removal the agent may
/// have been told, nor changes after one that a watch cache has lost, until the agent restarts. A VM that migrates keeps its address if
/// another pod of it exists during the request, even one that is being deleted: the VM runs there (A S1), and nothing is newly allocated.
///
/// Broken by `static-reuse-skips-filter` and `failure-cache-unchecked`. It does not detect an agent whose watch shows nothing.
pub(crate) struct ReservedAddressesAreNotGiven;

impl IpamClaim for ReservedAddressesAreNotGiven {
    fn event_mask(&self) -> EventMask {
        EventMask::POOL
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Pool(change) = seen else { return };
        if !change.by_agent || view.reservations.is_empty() {
            return;
        }
        for edit in &change.edits {
            let Some((address, record)) = edit.given() else { continue };
            let from = edit.before.as_ref().map(|before| &before.pod_uid);
            let is_handed_on = from.is_some_and(|from| is_migration(view, from, &record.pod_uid));
            if is_handed_on && view.may_have_run_beside(change.said.by, &record.pod_uid) {
                continue;
            }
            let shown = match edit.before {
                None => view.reservations_shown,
                Some(_) => Some(view.agents.shown_before_add(change.said.by, &record.pod_uid, Shown::Reservations)),
            };
            let Some(shown) = shown else { continue };
            findings.exercised();
            if view.reservations.is_surely_reserved(address, shown) {
                findings.violated(|| {
                    vec![
                        format!("{address} is reserved, and recorded in {} for {}", change.pool, view.pod_of(&record.pod_uid)),
                        format!("{} had been shown all reservations up to revision {shown}", view.name(change.said.by)),
                        view.story_of_write(change),
                    ]
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ipam_spiderpool::SpiderReservedIP;
    use kube_machinery::ObjectKey;
    use kube_sim::trace::ProcessChange;

    use super::super::testing::{Stage, on_stage};

    const CLAIM: &str = "reserved-addresses-are-not-given";

    #[test]
    fn only_what_an_agent_was_told_before_it_read_the_pool_counts() {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.read(stage.agent, "p");
            stage.reserve("r", &["10.0.0.1-10.0.0.3"]);
            stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "a");
            stage.read(stage.agent, "p");
            stage.deliver::<SpiderReservedIP>(stage.agent);
            stage.record(stage.agent, "p", "10.0.0.2", "ns/b", "b");
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            stage.read(stage.agent, "p");
            stage.record(stage.agent, "p", "10.0.0.4", "ns/c", "c");
            assert_eq!(stage.excuses(), []);
            stage.read(stage.agent, "p");
            stage.record(stage.agent, "p", "10.0.0.3", "ns/d", "d");
            assert_eq!(stage.excuses(), [None]);
            assert!(stage.detail()[0].starts_with("10.0.0.3 is reserved, and recorded in p"));
        });
    }

    #[test]
    fn what_a_watch_cache_lost_does_not_count_until_the_agent_begins_anew() {
        on_stage(CLAIM, |stage| {
            let given = |stage: &mut Stage, address: &str, uid: &str| {
                stage.deliver::<SpiderReservedIP>(stage.agent);
                stage.read(stage.agent, "p");
                stage.record(stage.agent, "p", address, &format!("ns/{uid}"), uid);
                stage.excuses()
            };
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.deliver::<SpiderReservedIP>(stage.agent);
            stage.reserve("r", &["10.0.0.1-10.0.0.3"]);
            stage.cache_loses::<SpiderReservedIP>(&ObjectKey::cluster("r"));
            assert_eq!(given(stage, "10.0.0.1", "a"), []);
            stage.cache_has_all::<SpiderReservedIP>();
            assert_eq!(given(stage, "10.0.0.2", "b"), [], "its watch goes on without");
            stage.process_changes(stage.agent, ProcessChange::Crashed);
            stage.process_changes(stage.agent, ProcessChange::Started);
            assert_eq!(given(stage, "10.0.0.3", "c"), [None]);
        });
    }

    #[test]
    fn what_may_have_been_told_to_be_gone_does_not_count() {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.reserve("r", &["10.0.0.1"]);
            stage.deliver::<SpiderReservedIP>(stage.agent);
            stage.put::<SpiderReservedIP>(stage.person, &ObjectKey::cluster("r"), None);
            stage.read(stage.agent, "p");
            stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "a");
            assert_eq!(stage.excuses(), []);
        });
    }

    #[test]
    fn a_vm_that_moves_keeps_a_reserved_address_while_the_pod_is_there_that_it_leaves() {
        for (is_gone, excuses) in [(false, vec![]), (true, vec![None])] {
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.vm_pod("ns/virt-1", "a", "vm");
                stage.record(stage.agent, "p", "10.0.0.1", "ns/vm", "a");
                stage.reserve("r", &["10.0.0.1"]);
                stage.deliver::<SpiderReservedIP>(stage.agent);
                stage.vm_pod("ns/virt-2", "b", "vm");
                stage.terminate("ns/virt-1");
                if is_gone {
                    stage.pod_gone("ns/virt-1");
                }
                stage.ask("ns/virt-2", "b", "eth0");
                stage.record(stage.agent, "p", "10.0.0.1", "ns/vm", "b");
                assert_eq!(stage.excuses(), excuses);
            });
        }
    }

    #[test]
    fn a_vm_that_moves_keeps_a_reserved_address_if_another_pod_of_it_was_there_during_the_request() {
        // The pod that goes during the request, the instance's active pods before and after that, and whether the address may stay.
        for (gone_during, active, later_active, is_kept) in [
            (true, None, None, true),
            (false, None, None, false),
            (false, Some(&["a", "b"][..]), None, true),
            (false, Some(&["a", "b"][..]), Some(&["b"][..]), true),
            (false, Some(&["b"][..]), None, false),
        ] {
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.vm_pod("ns/virt-1", "a", "vm");
                stage.record(stage.agent, "p", "10.0.0.1", "ns/vm", "a");
                stage.reserve("r", &["10.0.0.1"]);
                stage.deliver::<SpiderReservedIP>(stage.agent);
                stage.vm_pod("ns/virt-2", "b", "vm");
                if let Some(active) = active {
                    stage.vm_instance("ns/vm", active);
                }
                if !gone_during {
                    stage.pod_gone("ns/virt-1");
                }
                stage.pass(Duration::from_secs(1));
                stage.ask("ns/virt-2", "b", "eth0");
                if gone_during {
                    stage.pod_gone("ns/virt-1");
                }
                if let Some(active) = later_active {
                    stage.vm_instance("ns/vm", active);
                }
                stage.pass(Duration::from_secs(1));
                stage.record(stage.agent, "p", "10.0.0.1", "ns/vm", "b");
                assert_eq!(stage.excuses().is_empty(), is_kept, "{gone_during}, {active:?}, {later_active:?}");
            });
        }
    }

    #[test]
    fn handing_a_reserved_address_on_counts_and_what_others_write_does_not() {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.record(stage.agent, "p", "10.0.0.1", "ns/web-0", "old");
            stage.reserve("r", &["10.0.0.1-10.0.0.2"]);
            stage.deliver::<SpiderReservedIP>(stage.agent);
            stage.record(stage.person, "p", "10.0.0.2", "ns/b", "b");
            assert_eq!(stage.excuses(), []);
            stage.record(stage.agent, "p", "10.0.0.1", "ns/web-0", "not asked for");
            assert_eq!(stage.excuses(), []);
            stage.ask("ns/web-0", "new", "eth0");
            stage.record(stage.agent, "p", "10.0.0.1", "ns/web-0", "new");
            assert_eq!(stage.excuses(), [None]);
        });
    }
}
