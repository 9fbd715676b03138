//! B I14, call by call: dead VMs do not make calls fail.

use super::view::{Seen, View};
use super::{Findings, PoolClaim};
use crate::workload::{Failure, PoolNote, short};

/// No call is refused because a VM does not answer while another one that answers is available.
///
/// Broken by `byom-dead-vm-not-skipped` (B W15). It judges only VMs whose state is noted.
pub(crate) struct FreeVmsAreFound;

impl PoolClaim for FreeVmsAreFound {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let (process, id, effort) = match seen {
            // More than one VM was probed, so one of them did not answer.
            Seen::Note(_, PoolNote::Allocated { effort, .. }) if effort.probes > 1 => return findings.exercised(),
            Seen::Note(process, PoolNote::Refused { id, why: Failure::NotReady, effort, .. }) => (process, id, effort),
            _ => return,
        };
        findings.exercised();
        let config = view.processes.configuration(*process).map(|configuration| &configuration.config);
        let (Some(document), Some(config)) = (view.state.document(), config) else { return };
        let answers = |key| view.vms.get(key).is_none_or(|vm| !vm.broken && vm.going_down.is_none());
        let free: Vec<_> = document.available.iter().filter(|address| config.contains(address.key()) && answers(address.key())).collect();
        if let Some(first) = free.first() {
            findings.violated(|| {
                let (name, free, probes) = (view.name(*process), free.len(), effort.probes);
                vec![
                    format!(
                        "{name} is refused an address for {} after {probes} VMs did not answer, although {free} do, {first} for one",
                        short(id)
                    ),
                    view.story_of(id),
                ]
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use ipam_byom::Effort;

    use super::super::conflicts_are_retried::tests::refused;
    use super::super::testing::on_stage;
    use super::*;
    use crate::workload::VmChange;

    #[test]
    fn a_call_that_finds_another_vm_is_judged() {
        on_stage("free-vms-are-found", |stage| {
            let adaptor = stage.adaptor("adaptor-0", "10.0.0.1,10.0.0.2");
            stage.allocated_with(adaptor, "a", "10.0.0.2", Effort { probes: 1, ..Effort::default() });
            assert!(!stage.exercised());
            stage.allocated_with(adaptor, "b", "10.0.0.1", Effort { probes: 2, ..Effort::default() });
            assert!(stage.exercised());
        });
    }

    #[test]
    fn a_dead_vm_is_no_reason_to_fail_while_another_answers() {
        on_stage("free-vms-are-found", |stage| {
            let adaptor = stage.adaptor("adaptor-0", "10.0.0.1,10.0.0.2");
            stage.edit(adaptor, |_| {});
            stage.vm("10.0.0.1", VmChange::Broken);
            stage.vm("10.0.0.2", VmChange::Broken);
            refused(stage, adaptor, Failure::NotReady, Effort::default());
            assert_eq!(stage.excuses(), []);
            stage.vm("10.0.0.2", VmChange::Mended);
            refused(stage, adaptor, Failure::NotReady, Effort::default());
            assert_eq!(stage.excuses(), [None]);
        });
    }
}
