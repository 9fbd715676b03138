//! A S13: an auto pool has only addresses that are set aside for it.

use std::sync::Arc;

use ipam_spiderpool::ranges::IpSet;

use super::super::view::{EventMask, Seen, View};
use super::super::{Findings, IpamClaim, violated};
use super::{by_hand, first, subnet_of, wishes};

/// After every write of an auto pool's ranges, or of the addresses that its subnet sets aside for it, the pool is contained in the latter.
///
/// Broken by `subnet-shrinks-lowest`, `lost-preallocation-not-restored` and `unreadable-preallocation-dropped`. Addresses that are set
/// aside for another pool at the same time are the business of `no-address-is-set-aside-twice`. The pool of a workload that is gone is not
/// judged: a paused replica may create it while another one gives back the addresses that were set aside for it, and no write can depend on
/// two objects (K124). That such a pool is deleted is the business of `pools-that-nobody-asks-for-disappear`. Nothing is judged while the
/// subnet is being deleted: its addresses are no longer allocated, its pools are deleted with it, and it may forget a pool that was created
/// at that moment.
pub(crate) struct AutoPoolsStayWithinWhatIsSetAside;

/// The addresses of an auto pool that its subnet sets aside for no pool.
fn excess(view: &View, pool: &str) -> Option<IpSet> {
    let subnet = subnet_of(view, pool).filter(|subnet| !subnet.is_terminating())?;
    let has = view.pools.get(pool)?.addresses.as_ref()?;
    let excess = subnet.share(pool).map_or_else(|| IpSet::clone(has), |share| has.difference(share));
    if excess.is_empty() {
        return None;
    }
    let of_others: IpSet = subnet.intervals.others(pool, &excess).map(|(_, range)| range).collect();
    Some(excess.difference(&of_others)).filter(|excess| !excess.is_empty())
}

fn judge(pool: &Arc<str>, hand: bool, what: impl Fn() -> String, view: &View, findings: &mut Findings) {
    if view.pools.get(pool).is_some_and(|pool| wishes::is_of_nobody(view, &pool.object)) {
        return;
    }
    findings.exercised();
    if let Some(excess) = excess(view, pool) {
        violated(findings, hand || by_hand(view, pool), || {
            vec![format!("pool {pool} has {}, which its subnet sets aside for no pool", first(&excess)), what()]
        });
    }
}

impl IpamClaim for AutoPoolsStayWithinWhatIsSetAside {
    fn event_mask(&self) -> EventMask {
        EventMask::POOL.and(EventMask::SUBNET)
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        match seen {
            Seen::Pool(change) if change.moved && change.after.is_some() && subnet_of(view, &change.pool).is_some() => {
                judge(&change.pool, change.by_hand, || view.story_of_write(change), view, findings);
            }
            Seen::Subnet(change) => {
                for edit in change.edits.iter().filter(|edit| edit.loses() && subnet_of(view, &edit.pool).is_some()) {
                    let what = || view.story_of_subnet(change);
                    judge(&edit.pool, change.by_hand, what, view, findings);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::BY_HAND;
    use super::super::super::testing::{Stage, on_stage};

    fn staged(test: impl FnOnce(&mut Stage)) {
        on_stage("auto-pools-stay-within-what-is-set-aside", |stage| {
            stage.subnet("s", &["10.0.0.1-10.0.0.99"]);
            stage.application("u", 3, Some("s"));
            stage.set_aside(stage.replicas[0], "s", "auto", &["10.0.0.1-10.0.0.3"]);
            stage.auto_pool(stage.replicas[0], "auto", "u", &["10.0.0.1-10.0.0.3"]);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            test(stage);
        });
    }

    #[test]
    fn growing_writes_the_subnet_first_and_shrinking_the_pool() {
        staged(|stage| {
            let by = stage.replicas[0];
            stage.set_aside(by, "s", "auto", &["10.0.0.1-10.0.0.5"]);
            stage.resize(by, "auto", &["10.0.0.1-10.0.0.5"]);
            stage.resize(by, "auto", &["10.0.0.1-10.0.0.2"]);
            stage.set_aside(by, "s", "auto", &["10.0.0.1-10.0.0.2"]);
            assert_eq!(stage.excuses(), []);
            stage.resize(by, "auto", &["10.0.0.1-10.0.0.3"]);
            assert_eq!(stage.excuses(), [None]);
            assert_eq!(stage.detail()[0], "pool auto has 10.0.0.3, which its subnet sets aside for no pool");
        });
        staged(|stage| {
            stage.set_aside(stage.replicas[0], "s", "auto", &["10.0.0.2-10.0.0.3"]);
            assert_eq!(stage.excuses(), [None]);
        });
        staged(|stage| {
            stage.give_back(stage.replicas[0], "s", "auto");
            assert_eq!(stage.excuses(), [None]);
        });
    }

    #[test]
    fn what_a_workload_that_is_gone_leaves_behind_does_not_count() {
        staged(|stage| {
            stage.application_gone();
            stage.give_back(stage.replicas[0], "s", "auto");
            assert_eq!(stage.excuses(), []);
        });
    }

    #[test]
    fn a_subnet_that_is_being_deleted_may_forget_its_pools() {
        staged(|stage| {
            stage.change_subnet(stage.person, "s", |subnet| {
                subnet.metadata.deletion_timestamp = serde_json::from_value(serde_json::json!("2026-01-05T09:00:00Z")).unwrap();
            });
            stage.give_back(stage.replicas[0], "s", "auto");
            assert_eq!(stage.excuses(), []);
        });
    }

    #[test]
    fn what_a_person_wrote_excuses_and_manual_pools_do_not_count() {
        staged(|stage| {
            stage.give_back(stage.person, "s", "auto");
            assert_eq!(stage.excuses(), [Some(BY_HAND)]);
            stage.pool("manual", &["10.0.0.50-10.0.0.60"]);
            assert_eq!(stage.excuses(), [Some(BY_HAND)]);
        });
    }
}
