//! A S2: an address is recorded in one pool.

use super::view::{Seen, View};
use super::{Findings, IpamClaim, violated};

/// No commit of a pool adds a record of an address that another pool has a record of.
///
/// Broken by pools that overlap. It does not see pools that overlap while only one of them has given the address away.
pub(in super::super) struct RecordedOnce;

impl IpamClaim for RecordedOnce {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Pool(change) = seen else { return };
        for (address, _) in change.edits.iter().filter_map(|edit| edit.added()) {
            findings.judged();
            if let Some(other) = view.pools.holders(address).find(|holder| holder.pool != change.pool) {
                violated(findings, change.by_hand || view.changes.touched(address), || {
                    let line = format!("{address} is recorded in {} and in {}", other.pool, change.pool);
                    vec![line, view.story_of_write(change), view.story_of(&change.pool, address)]
                });
            }
        }
    }
}
