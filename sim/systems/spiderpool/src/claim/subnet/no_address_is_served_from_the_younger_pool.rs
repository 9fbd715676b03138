//! A S12: of two overlapping pools, the younger one allocates no address of the older one.

use super::super::view::{EventMask, Seen, View};
use super::super::{Findings, IpamClaim, told};
use crate::workload::IpamNote;

/// No agent records an address in a pool if another pool had the address before it and still has it.
///
/// Overlapping pools slip past admission when they are created at the same time (K124). Age is determined by commits: a pool has an address
/// since its creation, or since its ranges were changed. That two pools of the same age never allocate the same address is the business of
/// `no-address-is-recorded-twice`.
pub(crate) struct NoAddressIsServedFromTheYoungerPool;

impl IpamClaim for NoAddressIsServedFromTheYoungerPool {
    fn event_mask(&self) -> EventMask {
        EventMask::CHOICE.and(EventMask::POOL)
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        if let Seen::Ipam(_, IpamNote::Tried { pool, .. }) = seen
            && view.pools.overlaps.is_younger(pool)
        {
            findings.exercised();
        }
        let Seen::Pool(change) = seen else { return };
        if !change.by_agent || !view.pools.overlaps.is_younger(&change.pool) {
            // A write of the older pool counts as well: its addresses are the ones that could be allocated twice.
            if change.by_agent && view.pools.overlaps.is_older(&change.pool) && change.edits.iter().any(|edit| edit.added().is_some()) {
                findings.exercised();
            }
            return;
        }
        for (address, _) in change.edits.iter().filter_map(|edit| edit.added()) {
            findings.exercised();
            if let Some(older) = view.pools.overlaps.older(&change.pool, address) {
                findings.violated(|| {
                    let line = format!("{address} is allocated from {}, and {older} had it before", change.pool);
                    let story = told(["pool overlaps an older one", "pools overlap older ones"], view.pools.overlaps.pairs());
                    [vec![line, view.story_of_write(change)], story.into_iter().collect()].concat()
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::on_stage;
    use crate::workload::Refusal;

    const CLAIM: &str = "no-address-is-served-from-the-younger-pool";

    #[test]
    fn the_younger_pool_may_not_give_away_what_it_shares() {
        on_stage(CLAIM, |stage| {
            stage.pool("old", &["10.0.0.1-10.0.0.9"]);
            stage.record(stage.agent, "old", "10.0.0.9", "ns/a", "a");
            assert!(!stage.exercised(), "nothing overlaps");
            stage.pool("young", &["10.0.0.8-10.0.0.12"]);
            stage.record(stage.agent, "old", "10.0.0.8", "ns/b", "b");
            stage.record(stage.agent, "young", "10.0.0.10", "ns/c", "c");
            stage.record(stage.person, "young", "10.0.0.9", "ns/d", "d");
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            stage.unrecord(stage.person, "young", "10.0.0.9");
            stage.record(stage.agent, "young", "10.0.0.9", "ns/d", "d");
            assert_eq!(stage.excuses(), [None]);
            assert_eq!(stage.detail()[0], "10.0.0.9 is allocated from young, and old had it before");
        });
    }

    #[test]
    fn an_agent_that_gets_nothing_from_the_younger_pool_was_looked_at() {
        on_stage(CLAIM, |stage| {
            stage.pool("old", &["10.0.0.1-10.0.0.9"]);
            stage.try_pool("a", "old", Err(Refusal::Blocked));
            stage.pool("young", &["10.0.0.9"]);
            stage.try_pool("a", "old", Err(Refusal::Blocked));
            assert!(!stage.exercised());
            stage.try_pool("a", "young", Err(Refusal::Blocked));
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
        });
    }

    #[test]
    fn ranges_that_are_changed_later_are_younger_and_what_is_gone_is_not_older() {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.4"]);
            stage.pool("q", &["10.0.0.5-10.0.0.9"]);
            stage.resize(stage.person, "p", &["10.0.0.1-10.0.0.6"]);
            stage.record(stage.agent, "q", "10.0.0.6", "ns/a", "a");
            stage.record(stage.agent, "p", "10.0.0.4", "ns/b", "b");
            assert_eq!(stage.excuses(), []);
            stage.record(stage.agent, "p", "10.0.0.5", "ns/c", "c");
            assert_eq!(stage.excuses(), [None]);
            stage.pool_gone(stage.person, "q");
            stage.record(stage.agent, "p", "10.0.0.6", "ns/d", "d");
            assert_eq!(stage.excuses(), [None]);
            stage.pool("q", &["10.0.0.5-10.0.0.9"]);
            stage.record(stage.agent, "q", "10.0.0.6", "ns/d", "d");
            assert_eq!(stage.excuses(), [None, None]);
        });
    }
}
