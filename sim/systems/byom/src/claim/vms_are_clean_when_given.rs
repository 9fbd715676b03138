//! B I13: a VM is clean when it is handed out.

use super::view::{Seen, View};
use super::{Findings, PoolClaim, violated};
use crate::workload::{PoolNote, VmChange, short};

/// No process of the pool records an address for an ID while the VM still has another allocation's user data or is about to boot, and no VM
/// takes user data then.
///
/// Broken by `byom-free-before-reboot`. Records of a rebuilt document are not judged: they are old ones. It judges only VMs whose state is
/// noted.
pub(crate) struct VmsAreCleanWhenGiven;

impl PoolClaim for VmsAreCleanWhenGiven {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let ledger = &view.ledger;
        match seen {
            Seen::Note(_, PoolNote::Vm { address, change: VmChange::Given { id, tenant, going_down } }) => {
                findings.exercised();
                let other = tenant.as_ref().filter(|tenant| *tenant != id);
                if other.is_some() || *going_down {
                    violated(findings, ledger.excuse_of([id].into_iter().chain(other)), || {
                        let why = match other {
                            Some(other) => format!("still has that of {other}", other = short(other)),
                            None => "is about to boot and will lose it".to_owned(),
                        };
                        let mut lines =
                            vec![format!("VM {address} takes the user data of {id} and {why}", id = short(id)), view.story_of(id)];
                        lines.extend(other.map(|other| view.story_of(other)));
                        lines
                    });
                }
            }
            Seen::Commit(change) if change.by_pool && !change.anew => {
                for edit in &change.records {
                    let Some((record, vm)) = edit.added().and_then(|record| Some((record, view.vms.get(record.ip.key())?))) else {
                        continue;
                    };
                    let other = vm.tenant.as_ref().filter(|(tenant, _)| *tenant != edit.id);
                    if other.is_none() && vm.going_down.is_none() {
                        continue;
                    }
                    let tenant = vm.tenant.as_ref().map(|(tenant, _)| tenant);
                    violated(findings, ledger.excuse_of([&edit.id].into_iter().chain(tenant)), || {
                        let mut lines = vec![format!("{} is recorded for {}, and its VM is not clean", record.ip, short(&edit.id))];
                        lines.extend(
                            other.map(|(tenant, at)| format!("it has the user data of {tenant} since {at}", tenant = short(tenant))),
                        );
                        lines.extend(vm.going_down.map(|at| format!("it is about to boot since {at}")));
                        lines.push(view.story_of_write(change));
                        lines.extend(other.map(|(tenant, _)| view.story_of(tenant)));
                        lines
                    });
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::BY_HAND;
    use super::super::testing::{give_back, on_stage};
    use crate::workload::VmChange;

    const CLAIM: &str = "vms-are-clean-when-given";

    fn given(id: &str) -> VmChange {
        VmChange::Given { id: id.into(), tenant: None, going_down: false }
    }

    #[test]
    fn an_address_is_recorded_only_once_its_vm_has_booted() {
        on_stage(CLAIM, |stage| {
            let adaptor = stage.adaptor("adaptor-0", "10.0.0.1");
            for (round, finding) in [(0, 0), (1, 1), (2, 2)] {
                let (old, new) = (format!("old-{round}"), format!("new-{round}"));
                stage.allocate(adaptor, &old, "10.0.0.1");
                stage.vm("10.0.0.1", given(&old));
                stage.release(adaptor, &old);
                stage.edit(adaptor, |document| give_back(document, &old));
                if round < 2 {
                    stage.vm("10.0.0.1", VmChange::Rebooting { tenant: Some(old.as_str().into()), fence: None });
                }
                if round == 0 {
                    stage.vm("10.0.0.1", VmChange::Booted);
                }
                stage.allocate(adaptor, &new, "10.0.0.1");
                assert_eq!(stage.excuses().len(), finding, "round {round}");
                stage.release(adaptor, &new);
                stage.edit(adaptor, |document| give_back(document, &new));
                stage.vm("10.0.0.1", VmChange::Booted);
            }
        });
    }

    #[test]
    fn user_data_on_top_of_another_tenants_or_before_a_boot_is_a_violation() {
        on_stage(CLAIM, |stage| {
            stage.vm("10.0.0.1", given("a"));
            stage.vm("10.0.0.1", VmChange::Given { id: "a".into(), tenant: Some("a".into()), going_down: false });
            assert_eq!(stage.excuses(), []);
            stage.vm("10.0.0.1", VmChange::Given { id: "b".into(), tenant: Some("a".into()), going_down: false });
            stage.vm("10.0.0.1", VmChange::Given { id: "b".into(), tenant: None, going_down: true });
            assert_eq!(stage.excuses(), [None, None]);
        });
    }

    #[test]
    fn so_does_one_that_is_being_released_and_that_a_document_lacks_which_somebody_made_readable_again() {
        on_stage(CLAIM, |stage| {
            let (adaptor, person) = (stage.adaptor("adaptor-0", "10.0.0.1"), stage.process("kubectl"));
            stage.allocate(adaptor, "a", "10.0.0.1");
            stage.vm("10.0.0.1", given("a"));
            stage.release(adaptor, "a");
            stage.scribble(person);
            stage.edit(person, |_| {});
            stage.allocate(adaptor, "b", "10.0.0.1");
            assert_eq!(stage.excuses(), [Some(BY_HAND)]);
        });
    }

    #[test]
    fn a_record_that_somebody_outside_removed_excuses() {
        on_stage(CLAIM, |stage| {
            let (adaptor, person) = (stage.adaptor("adaptor-0", "10.0.0.1"), stage.process("kubectl"));
            stage.allocate(adaptor, "a", "10.0.0.1");
            stage.vm("10.0.0.1", given("a"));
            stage.edit(person, |document| give_back(document, "a"));
            stage.allocate(adaptor, "b", "10.0.0.1");
            assert_eq!(stage.excuses(), [Some(BY_HAND)]);
        });
    }
}
