//! B I9: no record is left behind.

use ipam_byom::IpAllocation;
use ipam_reports::human;

use super::view::{Sandbox, Seen, View};
use super::{Findings, PoolClaim};

/// In the end every record belongs to a live sandbox that was not refused, or to a PeerPod that still has its finalizer. A PeerPod that is
/// being deleted counts only while the VM serves another allocation: then the record is kept, so that the VM is not given to a third one. A
/// record without a PeerPod is also kept while the VM serves an allocation that has an owner but lost its record: an older version may
/// cause that.
///
/// Records of nodes that are permanently down or partitioned are not judged: it is unknown whether their sandboxes live.
///
/// Broken by `byom-leaks-kept`, `byom-rollback-on-callers-deadline`, `byom-finalizer-by-pod-name`, `byom-empty-id-counts-as-deleted`,
/// `byom-textual-addresses` and `byom-decide-once`. A call without an answer counts as a live sandbox.
pub(crate) struct NoRecordIsLeftBehind;

/// The maximum number of leaked records in a message.
const TOLD: usize = 5;

impl PoolClaim for NoRecordIsLeftBehind {
    fn observe(&mut self, _: &Seen<'_>, _: &View, _: &mut Findings) {}

    fn pending(&self, view: &View) -> Option<String> {
        let owned = |sandbox: &Sandbox| {
            sandbox.is_live() && !sandbox.refused && (sandbox.open || sandbox.allocated.is_some() || sandbox.told.is_some())
        };
        let records = view.state.document()?.allocated.iter();
        let within_reach = records.filter(|(_, record)| !view.out_of_reach.names.contains(&*record.node_name));
        let is_owned = |id: &str| view.ledger.get(id).is_some_and(owned);
        let tenant_of = |id: &str, record: &IpAllocation| {
            let (tenant, _) = view.vms.get(record.ip.key())?.tenant.as_ref()?;
            (**tenant != *id).then_some(tenant)
        };
        let is_covered = |id: &str, record: &IpAllocation| {
            let tenant = tenant_of(id, record);
            view.owners.cover(record, tenant.is_some()) || tenant.is_some_and(|tenant| is_owned(tenant))
        };
        let leaked = within_reach.filter(|(id, record)| !is_owned(id) && !is_covered(id, record));
        let leaked: Vec<_> = leaked.map(|(id, record)| format!("{} ({})", record.ip, view.story_of(id))).collect();
        if leaked.is_empty() {
            return None;
        }
        let more = if leaked.len() > TOLD { format!(", and {} more", leaked.len() - TOLD) } else { String::new() };
        let count = human::plural(leaked.len() as u64, "record has", "records have");
        Some(format!("{count} no owner: {}{more}", leaked[..leaked.len().min(TOLD)].join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{give_back, on_stage, take};
    use crate::workload::VmChange;

    const CLAIM: &str = "no-record-is-left-behind";

    #[test]
    fn a_record_of_a_refused_call_is_a_leak_until_it_is_released() {
        on_stage(CLAIM, |stage| {
            let adaptor = stage.adaptor("adaptor-0", "10.0.0.1,10.0.0.2");
            stage.allocate(adaptor, "a", "10.0.0.1");
            stage.ask(adaptor, "b");
            stage.edit(adaptor, |document| take(document, "b", "10.0.0.2"));
            assert_eq!(stage.pending(), None);
            stage.refused(adaptor, "b");
            assert!(stage.pending().unwrap().starts_with("1 record has no owner: 10.0.0.2 (b: asked for by adaptor-0"));
            stage.edit(adaptor, |document| give_back(document, "b"));
            assert_eq!(stage.pending(), None);
        });
    }

    #[test]
    fn a_crash_between_record_and_peer_pod_is_a_leak_and_a_peer_pod_owns() {
        on_stage(CLAIM, |stage| {
            let adaptor = stage.adaptor("adaptor-0", "10.0.0.1,10.0.0.2");
            stage.ask(adaptor, "a");
            stage.edit(adaptor, |document| take(document, "a", "10.0.0.1"));
            stage.crash(adaptor);
            assert!(stage.pending().is_some());
            stage.peer_pod("a", true);
            assert_eq!(stage.pending(), None);
            stage.delete_peer_pod("a");
            assert!(stage.pending().is_some(), "whoever looks after it releases the record");
            let given = |id: &str, tenant| VmChange::Given { id: id.into(), tenant, going_down: false };
            stage.vm("10.0.0.1", given("b", None));
            assert_eq!(stage.pending(), None, "the VM serves another allocation");
            stage.vm("10.0.0.1", given("a", Some("b".into())));
            assert!(stage.pending().is_some());
            stage.peer_pod("a", true);
            stage.peer_pod("a", false);
            assert!(stage.pending().is_some());
        });
    }

    #[test]
    fn a_record_is_kept_while_its_vm_serves_a_sandbox_that_lost_its_own() {
        on_stage(CLAIM, |stage| {
            let adaptor = stage.adaptor("adaptor-0", "10.0.0.1");
            stage.allocate(adaptor, "a", "10.0.0.1");
            // Another adaptor has lost the record, and offers the address again.
            stage.edit(adaptor, |document| give_back(document, "a"));
            stage.ask(adaptor, "b");
            stage.edit(adaptor, |document| take(document, "b", "10.0.0.1"));
            stage.crash(adaptor);
            assert!(stage.pending().is_some());
            stage.vm("10.0.0.1", VmChange::Given { id: "a".into(), tenant: None, going_down: false });
            assert_eq!(stage.pending(), None, "a release would reboot the VM under the sandbox");
            stage.ended("a");
            assert!(stage.pending().is_some(), "nobody owns what the VM serves");
        });
    }

    #[test]
    fn a_sandbox_that_is_over_owns_nothing() {
        on_stage(CLAIM, |stage| {
            let adaptor = stage.adaptor("adaptor-0", "10.0.0.1");
            stage.allocate(adaptor, "a", "10.0.0.1");
            stage.ended("a");
            assert!(stage.pending().is_some());
        });
    }
}
