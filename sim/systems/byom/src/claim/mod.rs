//! Claims about the BYOM pool: B I1 to I17, and claims that keep its scenarios honest.
//!
//! ```text
//!  events ──► View: document, ledger, processes, VMs ──► Seen ──► each claim ──► Findings
//! ```
//!
//! The pool is the ConfigMap in the default place. Each commit is compared with the previous one once, whatever the number of claims, at
//! the cost of its changes. Text is made only for violations.

mod acknowledged_records_persist;
mod addresses_are_selected_by_hash;
mod addresses_that_left_are_drained;
mod asking_again_changes_nothing;
pub(crate) mod catalogue;
mod conflicts_are_retried;
mod coverage;
mod desired_pods_run;
mod free_vms_are_found;
mod group;
mod last_updated_says_when;
mod no_address_has_two_holders;
mod no_record_is_left_behind;
mod other_data_of_the_config_map_stays;
mod pool_addresses_are_conserved;
mod pool_document_is_a_partition;
mod pool_document_is_well_formed;
mod pool_operations_end_in_time;
mod pool_version_counts_writes;
mod records_say_whose_they_are;
mod recovery_keeps_records;
mod recovery_lists_what_is_configured;
mod refused_requests_wait;
mod releases_touch_nobody_else;
mod same_config_same_pool;
mod the_pool_is_in_its_place;
mod view;
mod vms_are_clean_when_given;

#[cfg(test)]
mod testing;

use sim_config::time::SimTime;
use sim_harness::claim::Findings;
use view::Seen;

pub(super) use acknowledged_records_persist::AcknowledgedRecordsPersist;
pub(super) use addresses_are_selected_by_hash::AddressesAreSelectedByHash;
pub(super) use addresses_that_left_are_drained::AddressesThatLeftAreDrained;
pub(super) use asking_again_changes_nothing::AskingAgainChangesNothing;
pub(super) use conflicts_are_retried::ConflictsAreRetried;
pub(super) use coverage::{ADocumentIsRebuilt, Coverage};
pub(super) use desired_pods_run::DesiredPodsRun;
pub(super) use free_vms_are_found::FreeVmsAreFound;
pub(crate) use group::{GROUP, boxed};
pub(super) use last_updated_says_when::LastUpdatedSaysWhen;
pub(super) use no_address_has_two_holders::NoAddressHasTwoHolders;
pub(super) use no_record_is_left_behind::NoRecordIsLeftBehind;
pub(super) use other_data_of_the_config_map_stays::OtherDataOfTheConfigMapStays;
pub(super) use pool_addresses_are_conserved::PoolAddressesAreConserved;
pub(super) use pool_document_is_a_partition::PoolDocumentIsAPartition;
pub(super) use pool_document_is_well_formed::PoolDocumentIsWellFormed;
pub(super) use pool_operations_end_in_time::PoolOperationsEndInTime;
pub(super) use pool_version_counts_writes::PoolVersionCountsWrites;
pub(super) use records_say_whose_they_are::RecordsSayWhoseTheyAre;
pub(super) use recovery_keeps_records::RecoveryKeepsRecords;
pub(super) use recovery_lists_what_is_configured::RecoveryListsWhatIsConfigured;
pub(super) use refused_requests_wait::RefusedRequestsWait;
pub(super) use releases_touch_nobody_else::ReleasesTouchNobodyElse;
pub(super) use same_config_same_pool::SameConfigSamePool;
pub(super) use the_pool_is_in_its_place::ThePoolIsInItsPlace;
pub(super) use view::View;
pub(super) use vms_are_clean_when_given::VmsAreCleanWhenGiven;

/// The excuse for consequences of a manual edit that removed or changed a record.
pub(crate) const BY_HAND: &str = "pool-edited-by-hand";

/// The excuse for a document that was rebuilt without an owner that no list showed.
pub(crate) const UNLISTED: &str = "owner-lost-by-watch-cache";

/// A claim about the pool.
pub(crate) trait PoolClaim: Send {
    /// Handles an event; `view` is the state after it.
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings);

    /// Handles the time of [`Findings::expect_by`], as in [`Claim::overdue`](sim_harness::claim::Claim::overdue); does nothing unless
    /// overridden.
    fn overdue(&mut self, _at: SimTime, _view: &View, _findings: &mut Findings) {}

    /// For `eventually` only: what is still missing; `None` = the claim holds now.
    fn pending(&self, _view: &View) -> Option<String> {
        None
    }
}

/// Reports a violation with its excuse, if it has one.
fn violated(findings: &mut Findings, excuse: Option<&'static str>, detail: impl FnOnce() -> Vec<String>) {
    match excuse {
        Some(excuse) => findings.violated_with(excuse, detail),
        None => findings.violated(detail),
    }
}
