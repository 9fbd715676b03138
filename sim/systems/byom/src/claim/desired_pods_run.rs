//! B I14: every request for a VM is served.

use std::sync::Arc;

use ipam_byom::PoolConfig;
use sim_harness::check::OLDER_VERSION;

use super::view::{Seen, View};
use super::{Findings, PoolClaim, UNLISTED};

/// In the end as many desired pods run as there are VMs that answer and that all running processes are configured with, or as are desired,
/// if those are fewer. In workloads without pods, the claim is about calls: each one that was not cut short by a crash has been given an
/// address, unless the list is empty or an outside writer has changed its record to an invalid address.
///
/// Nodes that are permanently down or partitioned are ignored: their pods are not waited for, and the VMs that their records and those pods
/// hold are not counted. Nor is a VM that serves a sandbox which is over and that no list of owners showed when a lost document was rebuilt
/// (`owner-lost-by-watch-cache`), or whose record an older version removed while it ran: it refuses all other allocations until the pod is
/// deleted, or somebody resets it.
///
/// Broken by `byom-create-race-fails`, `byom-four-attempts`, `byom-dead-vm-not-skipped`, `byom-full-pool-restart`, `byom-null-map` and
/// `byom-reset-after-read-error`. It counts the waiting pods, but does not judge which of them wait; and addresses that an outside writer
/// took from the list count as missing until a process recovers.
pub(crate) struct DesiredPodsRun;

/// The maximum number of waiting pods in a message.
const TOLD: usize = 5;

impl PoolClaim for DesiredPodsRun {
    fn observe(&mut self, _: &Seen<'_>, _: &View, _: &mut Findings) {}

    fn pending(&self, view: &View) -> Option<String> {
        if view.has_pods { pods(view) } else { calls(view) }
    }
}

fn pods(view: &View) -> Option<String> {
    let running = |uid: &Arc<str>| view.ledger.iter().any(|(_, sandbox)| sandbox.runs.as_ref() == Some(uid));
    let within_reach = |(pod, _): &(&Arc<str>, &Arc<str>)| !view.out_of_reach.pods.contains(&***pod);
    let wanted = view.wanted.iter().filter(within_reach).count();
    let waiting: Vec<_> = view.wanted.iter().filter(within_reach).filter(|(_, uid)| !running(uid)).map(|(pod, _)| pod).collect();
    let runs = wanted - waiting.len();
    if view.processes.running().next().is_none() && wanted > 0 {
        return Some(format!("{wanted} pods are wanted, and no process of the pool has accepted its configuration"));
    }
    let vms = healthy(view);
    (runs < vms.min(wanted)).then(|| {
        let first: Vec<&str> = waiting.iter().take(TOLD).map(|pod| &***pod).collect();
        format!(
            "{runs} of {wanted} wanted pods run although {vms} VMs are configured and answer; among those that wait: {}",
            first.join(", ")
        )
    })
}

/// The VMs that answer and that all running processes are configured with.
fn healthy(view: &View) -> usize {
    let configs: Vec<&PoolConfig> = view.processes.running().map(|(_, configuration)| &configuration.config).collect();
    let Some(first) = configs.first() else { return 0 };
    let everywhere = |address: &&ipam_byom::Address| configs.iter().all(|config| config.contains(address.key()));
    let held = |address: &&ipam_byom::Address| {
        let records = view.state.document().into_iter().flat_map(|document| document.allocated.of_address(address.key()));
        // A pod that is not waited for may still run, elsewhere.
        let gone = |record: &ipam_byom::IpAllocation| {
            let pod = format!("{}/{}", record.pod_namespace.as_deref().unwrap_or("default"), record.pod_name);
            view.out_of_reach.names.contains(&*record.node_name) || view.out_of_reach.pods.contains(&pod)
        };
        records.into_iter().any(|(_, record)| gone(record))
    };
    let forgotten = |address: &&ipam_byom::Address| {
        let tenant = view.vms.get(address.key()).and_then(|vm| vm.tenant.as_ref());
        tenant.is_some_and(|(tenant, _)| {
            let lost = view.ledger.hand(tenant).is_some_and(|hand| [UNLISTED, OLDER_VERSION.name].contains(&hand.excuse));
            lost && view.ledger.get(tenant).is_none_or(|sandbox| sandbox.runs.is_none())
        })
    };
    let answers = |address: &&ipam_byom::Address| !view.vms.is_broken(address.key());
    first.pool().iter().filter(everywhere).filter(answers).filter(|address| !held(address) && !forgotten(address)).count()
}

fn calls(view: &View) -> Option<String> {
    let document = view.state.document()?;
    let left = document.available.iter().filter(|address| !view.vms.is_broken(address.key())).count();
    if left == 0 {
        return None;
    }
    // A call is refused forever if an outside writer has made its record invalid.
    let is_spoilt = |id: &str| !view.ledger.is_ours(id) && document.allocated.get(id).is_some_and(|record| !record.ip.key().is_address());
    let asked = view.ledger.iter().filter(|(id, sandbox)| sandbox.asked.is_some() && !is_spoilt(id));
    let mut without: Vec<&str> = asked.filter(|(_, sandbox)| sandbox.open || sandbox.refused).map(|(id, _)| &**id).collect();
    without.sort_unstable();
    (!without.is_empty()).then(|| {
        let stories: Vec<String> = without.iter().take(TOLD).map(|id| view.story_of(id)).collect();
        format!("{} calls were given no address although {left} are available; among them {}", without.len(), stories.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use sim_config::time::SimTime;

    use super::super::testing::{give_back, on_stage, on_stage_under_upgrade, take};
    use crate::workload::{PoolNote, VmChange};

    const CLAIM: &str = "desired-pods-run";

    #[test]
    fn a_vm_that_serves_whom_no_list_shows_is_not_counted_once_its_sandbox_is_over() {
        for (unlisted, expected) in [(true, None), (false, Some("0 of 1 wanted pods run although 1 VMs"))] {
            on_stage(CLAIM, |stage| {
                let (adaptor, other) = (stage.adaptor("adaptor-0", "10.0.0.1"), stage.adaptor("adaptor-1", "10.0.0.1"));
                let (person, server) = (stage.process("kubectl"), stage.process("apiserver-0"));
                stage.note(adaptor, PoolNote::Wanted { pod: "ns/a".into(), uid: "u-a".into() });
                stage.allocate(adaptor, "a-1", "10.0.0.1");
                stage.peer_pod("a-1", true);
                stage.vm("10.0.0.1", VmChange::Given { id: "a-1".into(), tenant: None, going_down: false });
                stage.told(adaptor, "a-1", "10.0.0.1");
                stage.note(adaptor, PoolNote::Running { id: "a-1".into(), pod: "ns/a".into(), uid: "u-a".into() });
                if unlisted {
                    stage.lost_peer_pod(server, "a-1");
                }
                stage.delete(person);
                stage.read(other);
                stage.edit(other, |_| {});
                assert_eq!(stage.pending(), None, "it runs");
                stage.ended_pod("a-1", "ns/a");
                assert_eq!(stage.pending().map(|told| told[..37].to_owned()).as_deref(), expected);
            });
        }
    }

    #[test]
    fn a_vm_that_serves_whom_an_older_version_forgot_is_not_counted_once_its_sandbox_is_over() {
        for (upgraded, expected) in [(60, None), (0, Some("0 of 1 wanted pods run although 1 VMs"))] {
            on_stage_under_upgrade(CLAIM, &[("adaptor-0", SimTime::from_secs(upgraded))], |stage| {
                let adaptor = stage.adaptor("adaptor-0", "10.0.0.1");
                stage.note(adaptor, PoolNote::Wanted { pod: "ns/a".into(), uid: "u-a".into() });
                stage.allocate(adaptor, "a-1", "10.0.0.1");
                stage.vm("10.0.0.1", VmChange::Given { id: "a-1".into(), tenant: None, going_down: false });
                stage.told(adaptor, "a-1", "10.0.0.1");
                stage.note(adaptor, PoolNote::Running { id: "a-1".into(), pod: "ns/a".into(), uid: "u-a".into() });
                stage.edit(adaptor, |document| {
                    give_back(document, "a-1");
                    take(document, "b-1", "10.0.0.1");
                });
                stage.ended_pod("a-1", "ns/a");
                assert_eq!(stage.pending().map(|told| told[..37].to_owned()).as_deref(), expected, "until {upgraded} s");
            });
        }
    }

    #[test]
    fn as_many_pods_run_as_there_are_vms_that_answer() {
        on_stage(CLAIM, |stage| {
            let adaptor = stage.adaptor("adaptor-0", "10.0.0.1,10.0.0.2,10.0.0.3");
            for (pod, uid) in [("ns/a", "u-a"), ("ns/b", "u-b"), ("ns/c", "u-c")] {
                stage.note(adaptor, PoolNote::Wanted { pod: pod.into(), uid: uid.into() });
            }
            // An earlier pod of the same name is another pod.
            stage.note(adaptor, PoolNote::Running { id: "b-0".into(), pod: "ns/b".into(), uid: "u-before".into() });
            stage.note(adaptor, PoolNote::Running { id: "a-1".into(), pod: "ns/a".into(), uid: "u-a".into() });
            stage.note(adaptor, PoolNote::Running { id: "b-1".into(), pod: "ns/b".into(), uid: "u-b".into() });
            assert!(stage.pending().unwrap().starts_with("2 of 3 wanted pods run although 3 VMs"));
            stage.vm("10.0.0.3", VmChange::Broken);
            assert_eq!(stage.pending(), None);
            stage.vm("10.0.0.3", VmChange::Mended);
            stage.note(adaptor, PoolNote::Unwanted { pod: "ns/c".into() });
            assert_eq!(stage.pending(), None);
            stage.ended_pod("b-1", "ns/b");
            assert!(stage.pending().is_some());
        });
    }

    #[test]
    fn without_pods_every_call_is_given_an_address_while_there_are_some() {
        on_stage(CLAIM, |stage| {
            let adaptor = stage.adaptor("adaptor-0", "10.0.0.1,10.0.0.2");
            stage.ask(adaptor, "a");
            stage.refused(adaptor, "a");
            assert_eq!(stage.pending(), None, "nobody knows of an address");
            stage.allocate(adaptor, "b", "10.0.0.1");
            assert!(stage.pending().unwrap().starts_with("1 calls were given no address although 1 are available; among them a: asked"));
            stage.allocate(adaptor, "c", "10.0.0.2");
            assert_eq!(stage.pending(), None);
        });
    }

    #[test]
    fn a_call_that_a_crash_cut_short_is_not_waited_for() {
        on_stage(CLAIM, |stage| {
            let adaptor = stage.adaptor("adaptor-0", "10.0.0.1,10.0.0.2");
            stage.allocate(adaptor, "b", "10.0.0.1");
            stage.ask(adaptor, "a");
            assert!(stage.pending().is_some());
            stage.crash(adaptor);
            assert_eq!(stage.pending(), None);
        });
    }
}
