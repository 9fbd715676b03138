//! A S13, S12: set-aside addresses belong to the subnet.

use super::super::view::{EventMask, Seen, View};
use super::super::{Findings, IpamClaim, violated};
use super::first;

/// No write of a subnet leaves an address set aside that the subnet does not have.
///
/// Broken by an admission that permits removing addresses from a subnet that its pools have (A §9.2).
pub(crate) struct WhatIsSetAsideIsOfTheSubnet;

impl IpamClaim for WhatIsSetAsideIsOfTheSubnet {
    fn event_mask(&self) -> EventMask {
        EventMask::SUBNET
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Subnet(change) = seen else { return };
        let Some(subnet) = view.subnets.get(&change.subnet) else { return };
        let Some(total) = &subnet.total else { return };
        let added = change.edits.iter().map(|edit| (&edit.pool, edit.added()));
        let added: Vec<_> = added.filter(|(_, added)| !added.is_empty()).collect();
        for (pool, added) in added {
            findings.exercised();
            if !total.contains_all(&added) {
                violated(findings, change.by_hand, || {
                    let line =
                        format!("{} is set aside for {pool}, and {} does not have it", first(&added.difference(total)), change.subnet);
                    vec![line, view.story_of_subnet(change)]
                });
            }
        }
        if !change.total_changed || change.before.is_none() {
            return;
        }
        for (pool, share) in &subnet.shares {
            let Some(ips) = share.ips.as_ref().filter(|_| !view.subnets.touched(pool)) else { continue };
            findings.exercised();
            if !total.contains_all(ips) {
                findings.violated(|| {
                    let lost = first(&ips.difference(total));
                    let line = format!("subnet {} loses {lost}, which is set aside for {pool}", change.subnet);
                    vec![line, view.story_of_subnet(change)]
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::BY_HAND;
    use super::super::super::testing::on_stage;

    #[test]
    fn neither_the_share_nor_the_subnet_may_leave_the_other() {
        on_stage("what-is-set-aside-is-of-the-subnet", |stage| {
            let (by, person) = (stage.replicas[0], stage.person);
            stage.subnet("s", &["10.0.0.1-10.0.0.9"]);
            stage.set_aside(by, "s", "p", &["10.0.0.1-10.0.0.3"]);
            stage.change_subnet(person, "s", |subnet| subnet.spec.exclude_ips = Some(vec!["10.0.0.8".to_owned()]));
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            stage.set_aside(by, "s", "q", &["10.0.0.7-10.0.0.8"]);
            assert_eq!(stage.detail()[0], "10.0.0.8 is set aside for q, and s does not have it");
            stage.set_aside(by, "s", "q", &["10.0.0.7"]);
            stage.change_subnet(person, "s", |subnet| subnet.spec.ips = Some(vec!["10.0.0.2-10.0.0.9".to_owned()]));
            assert_eq!(stage.detail()[0], "subnet s loses 10.0.0.1, which is set aside for p");
            assert_eq!(stage.excuses(), [None, None]);
            stage.set_aside(person, "s", "r", &["10.0.0.10"]);
            assert_eq!(stage.excuses(), [None, None, Some(BY_HAND)]);
        });
    }
}
