//! A S13: no address is set aside for two pools.

use ipam_spiderpool::ranges::IpSet;

use super::super::view::{EventMask, Seen, Subnet, View};
use super::super::{Findings, IpamClaim, violated};
use super::first;

/// No write of a subnet sets an address aside for a pool if it sets it aside for another one.
///
/// Broken by `interrupted-shrink-takes-back` and `lost-preallocation-not-restored`. Overlapping pools are recorded as they are: for a
/// manual pool only addresses that it does not have are violations.
pub(crate) struct NoAddressIsSetAsideTwice;

/// The addresses that two pools share, if one of them is a manual pool.
fn really_shared(view: &View, subnet: &Subnet, one: &str, other: &str) -> IpSet {
    let is_auto = |pool: &str| subnet.shares.get(pool).is_some_and(|share| share.is_auto);
    if is_auto(one) && is_auto(other) {
        return IpSet::default();
    }
    let has = |pool: &str| view.pools.get(pool).and_then(|pool| pool.addresses.clone());
    match (has(one), has(other)) {
        (Some(one), Some(other)) => one.intersection(&other),
        _ => IpSet::default(),
    }
}

impl IpamClaim for NoAddressIsSetAsideTwice {
    fn event_mask(&self) -> EventMask {
        EventMask::SUBNET
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Subnet(change) = seen else { return };
        let Some(subnet) = view.subnets.get(&change.subnet) else { return };
        for edit in &change.edits {
            let added = edit.added();
            if added.is_empty() {
                continue;
            }
            findings.exercised();
            for (other, range) in subnet.intervals.others(&edit.pool, &added) {
                let twice = IpSet::from(range).intersection(&added).difference(&really_shared(view, subnet, &edit.pool, other));
                if !twice.is_empty() {
                    // Ranges that are given to a pool by hand are for admission to judge.
                    let hand = change.by_hand || view.subnets.touched(&edit.pool) || view.subnets.touched(other);
                    violated(findings, hand, || {
                        let line = format!("{} is set aside for {} and for {other}", first(&twice), edit.pool);
                        vec![line, view.story_of_subnet(change)]
                    });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::BY_HAND;
    use super::super::super::testing::{Stage, on_stage};

    fn staged(test: impl FnOnce(&mut Stage)) {
        on_stage("no-address-is-set-aside-twice", |stage| {
            stage.subnet("s", &["10.0.0.1-10.0.0.99"]);
            stage.set_aside(stage.replicas[0], "s", "one", &["10.0.0.1-10.0.0.3"]);
            stage.set_aside(stage.replicas[0], "s", "two", &["10.0.0.4-10.0.0.6"]);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            test(stage);
        });
    }

    #[test]
    fn an_address_is_set_aside_again_only_after_it_was_given_back() {
        staged(|stage| {
            let by = stage.replicas[1];
            stage.set_aside(by, "s", "one", &["10.0.0.1-10.0.0.2"]);
            stage.set_aside(by, "s", "two", &["10.0.0.3-10.0.0.6"]);
            assert_eq!(stage.excuses(), []);
            stage.set_aside(by, "s", "one", &["10.0.0.1-10.0.0.3"]);
            assert_eq!(stage.excuses(), [None]);
            assert_eq!(stage.detail()[0], "10.0.0.3 is set aside for one and for two");
            stage.give_back(by, "s", "two");
            stage.set_aside(by, "s", "one", &["10.0.0.1-10.0.0.6"]);
            assert_eq!(stage.excuses(), [None]);
            stage.set_aside(stage.person, "s", "two", &["10.0.0.6"]);
            assert_eq!(stage.excuses(), [None, Some(BY_HAND)]);
        });
    }

    #[test]
    fn pools_that_overlap_are_written_down_as_they_are() {
        staged(|stage| {
            let by = stage.replicas[0];
            stage.auto_pool(by, "one", "u", &["10.0.0.1-10.0.0.3"]);
            stage.pool("manual", &["10.0.0.3-10.0.0.9"]);
            stage.set_aside_for_manual(by, "s", "manual", &["10.0.0.3", "10.0.0.7-10.0.0.9"]);
            assert_eq!(stage.excuses(), []);
            stage.set_aside_for_manual(by, "s", "manual", &["10.0.0.2-10.0.0.3", "10.0.0.7-10.0.0.9"]);
            assert_eq!(stage.detail()[0], "10.0.0.2 is set aside for manual and for one");
        });
    }
}
