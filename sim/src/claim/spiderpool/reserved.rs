//! A S6: what is reserved is not given away.

use super::view::{Seen, View};
use super::{Findings, IpamClaim};

/// No agent records an address for a pod, as a new record or by handing one on, that it had been told is reserved before it read
/// the pool: by an object that was there from the beginning or that its watch had brought. What it was told later does not count,
/// nor does what it may have been told to be gone again.
///
/// Broken by `static-reuse-skips-filter` and `failure-cache-unchecked`. It does not see an agent whose watch shows nothing.
pub(in super::super) struct NotReserved;

impl IpamClaim for NotReserved {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Pool(change) = seen else { return };
        if !change.by_agent || view.reservations.is_empty() {
            return;
        }
        let Some(shown) = view.reservations_shown else { return };
        for (address, record) in change.edits.iter().filter_map(|edit| edit.given()) {
            findings.judged();
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
