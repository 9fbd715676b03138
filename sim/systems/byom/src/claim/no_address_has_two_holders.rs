//! B I1: no address has two holders.

use super::view::{Seen, View};
use super::{Findings, PoolClaim, violated};
use crate::workload::{PoolNote, short};

/// No sandbox is told an address that another live sandbox holds. A sandbox holds the address it was told until it is over or its release
/// begins.
///
/// Broken by `byom-decide-once` (with `byom-select-first` at once), `byom-release-by-address`, `byom-reset-after-read-error` and
/// `byom-missing-map-is-empty-pool`. Not covered: two *records* of one address, which the partition claim judges; and an address that is
/// used after the release of its sandbox began.
pub(crate) struct NoAddressHasTwoHolders;

impl PoolClaim for NoAddressHasTwoHolders {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Note(process, PoolNote::Told { id, address }) = seen else { return };
        let ledger = &view.ledger;
        if !ledger.is_live(id) {
            return;
        }
        findings.exercised();
        for other in ledger.holders(address.key()).iter().filter(|other| *other != id) {
            violated(findings, ledger.excuse_of([id, other]), || {
                let teller = view.name(*process);
                vec![
                    format!("{teller} tells {id} the address {address}, which {other} holds", id = short(id), other = short(other)),
                    view.story_of(other),
                    view.story_of(id),
                ]
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::BY_HAND;
    use super::super::testing::{on_stage, on_stage_under_upgrade};
    use sim_config::time::SimTime;

    #[test]
    fn an_address_told_twice_is_a_violation_and_one_told_after_the_release_is_not() {
        on_stage("no-address-has-two-holders", |stage| {
            let adaptor = stage.adaptor("adaptor-0", "10.0.0.1,10.0.0.2");
            stage.told(adaptor, "a", "10.0.0.1");
            stage.told(adaptor, "a", "10.0.0.1");
            stage.told(adaptor, "b", "10.0.0.2");
            assert_eq!(stage.excuses(), []);
            stage.told(adaptor, "c", "::ffff:10.0.0.1");
            assert_eq!(stage.excuses(), [None]);
            assert!(stage.detail()[0].contains("adaptor-0 tells c the address ::ffff:10.0.0.1, which a holds"));
            stage.ended("a");
            stage.ended("c");
            stage.release(adaptor, "b");
            stage.told(adaptor, "d", "10.0.0.1");
            stage.told(adaptor, "e", "10.0.0.2");
            assert_eq!(stage.excuses(), [None]);
        });
    }

    #[test]
    fn a_sandbox_whose_record_an_older_version_removed_is_that_versions_until_it_is_over() {
        for (upgraded, excuse) in [(SimTime::ZERO, None), (SimTime::from_secs(60), Some("older-version"))] {
            on_stage_under_upgrade("no-address-has-two-holders", &[("peerpod-ctrl-0", upgraded)], |stage| {
                let adaptor = stage.adaptor("adaptor-0", "10.0.0.1");
                let controller = stage.adaptor("peerpod-ctrl-0", "10.0.0.1");
                stage.allocate(adaptor, "a", "10.0.0.1");
                stage.told(adaptor, "a", "10.0.0.1");
                stage.edit(controller, |document| super::super::testing::give_back(document, "a"));
                stage.pass(std::time::Duration::from_secs(600));
                stage.told(adaptor, "b", "10.0.0.1");
                assert_eq!(stage.excuses(), [excuse]);
            });
        }
    }

    #[test]
    fn a_record_removed_by_hand_excuses() {
        on_stage("no-address-has-two-holders", |stage| {
            let (adaptor, person) = (stage.adaptor("adaptor-0", "10.0.0.1"), stage.process("kubectl"));
            stage.allocate(adaptor, "a", "10.0.0.1");
            stage.told(adaptor, "a", "10.0.0.1");
            stage.edit(person, |document| super::super::testing::give_back(document, "a"));
            stage.told(adaptor, "b", "10.0.0.1");
            assert_eq!(stage.excuses(), [Some(BY_HAND)]);
        });
    }
}
