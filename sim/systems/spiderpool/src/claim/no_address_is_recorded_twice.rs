//! A S2: no address is recorded in two pools.

use super::view::{EventMask, Seen, View};
use super::{Findings, IpamClaim, violated};

/// No commit of a pool adds a record of an address that is recorded in another pool.
///
/// Broken by pools that overlap. It does not detect overlapping pools while only one of them has allocated the address.
pub(crate) struct NoAddressIsRecordedTwice;

impl IpamClaim for NoAddressIsRecordedTwice {
    fn event_mask(&self) -> EventMask {
        EventMask::POOL
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Pool(change) = seen else { return };
        for (address, _) in change.edits.iter().filter_map(|edit| edit.added()) {
            findings.exercised();
            if let Some(other) = view.pools.holders(address).find(|holder| holder.pool != change.pool) {
                violated(findings, change.by_hand || view.changes.touched(address), || {
                    let line = format!("{address} is recorded in {} and in {}", other.pool, change.pool);
                    vec![line, view.story_of_write(change), view.story_of(&change.pool, address)]
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::BY_HAND;
    use super::super::testing::on_stage;

    const CLAIM: &str = "no-address-is-recorded-twice";

    #[test]
    fn a_second_record_is_a_violation_until_the_first_is_gone() {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.2"]);
            stage.pool("q", &["10.0.0.1-10.0.0.2"]);
            stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "a");
            stage.record(stage.agent, "q", "10.0.0.2", "ns/b", "b");
            stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "a2");
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            stage.record(stage.agent, "q", "10.0.0.1", "ns/c", "c");
            assert_eq!(stage.excuses(), [None]);
            assert_eq!(stage.detail()[0], "10.0.0.1 is recorded in p and in q");
            stage.unrecord(stage.agent, "p", "10.0.0.1");
            stage.unrecord(stage.agent, "q", "10.0.0.1");
            stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "a");
            assert_eq!(stage.excuses(), [None]);
        });
    }

    #[test]
    fn a_record_made_by_hand_excuses() {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1"]);
            stage.pool("q", &["10.0.0.1"]);
            stage.record(stage.person, "p", "10.0.0.1", "ns/a", "a");
            stage.record(stage.agent, "q", "10.0.0.1", "ns/b", "b");
            assert_eq!(stage.excuses(), [Some(BY_HAND)]);
        });
    }
}
