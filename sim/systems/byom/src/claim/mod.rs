//! Claims about the BYOM pool: B I1 to I17, and what keeps scenarios about it honest.
//!
//! ```text
//!  events ──► View: document, ledger, processes, VMs ──► Seen ──► each claim ──► Findings
//! ```
//!
//! The pool is the ConfigMap in the default place. Each commit is compared with the one before once, whatever the number of
//! claims, at the cost of what changed. Text is made only for what is violated.

pub(crate) mod catalogue;
mod conservation;
mod exclusive;
mod group;
mod hygiene;
mod leak;
mod partition;
mod persistence;
mod progress;
mod reachable;
mod recovery;
mod refusal;
mod release;
mod repeat;
mod selection;
mod settings;
mod time;
mod version;
mod view;
mod well_formed;

#[cfg(test)]
mod testing;

use sim_config::time::SimTime;
use sim_harness::claim::Findings;
use view::Seen;

pub(super) use conservation::NothingAppears;
pub(super) use exclusive::OneHolder;
pub(crate) use group::{GROUP, boxed};
pub(super) use hygiene::CleanVms;
pub(super) use leak::EveryRecordIsOwned;
pub(super) use partition::Partition;
pub(super) use persistence::RecordsPersist;
pub(super) use progress::PodsGetVms;
pub(super) use reachable::{DocumentRebuilt, Sight};
pub(super) use recovery::{ListAsConfigured, RecoveryKeepsRecords};
pub(super) use refusal::{FreeVmsAreFound, RacesAreRetried};
pub(super) use release::OwnRecordsOnly;
pub(super) use repeat::SameAnswer;
pub(super) use selection::ByHash;
pub(super) use settings::{Drained, OneMeaning};
pub(super) use time::InTime;
pub(super) use version::CountsWrites;
pub(super) use view::View;
pub(super) use well_formed::WellFormed;

/// The excuse of what follows only from somebody outside having removed or changed a record by hand.
pub(crate) const BY_HAND: &str = "pool-edited-by-hand";

/// A claim about the pool.
pub(crate) trait PoolClaim: Send {
    /// Something happened, and `view` is what is known since.
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings);

    /// See [`Claim::overdue`](sim_harness::claim::Claim::overdue).
    fn overdue(&mut self, _at: SimTime, _view: &View, _findings: &mut Findings) {}

    /// Only for `eventually`: what is still missing; `None` = it holds now.
    fn pending(&self, _view: &View) -> Option<String> {
        None
    }
}

/// Reports a violation that is excused if `by_hand`.
fn violated(findings: &mut Findings, by_hand: bool, detail: impl FnOnce() -> Vec<String>) {
    if by_hand { findings.violated_with(BY_HAND, detail) } else { findings.violated(detail) }
}
