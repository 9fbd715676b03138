//! A §8.1: subnets outlive their pools.

use std::sync::Arc;
use std::time::Duration;

use ipam_spiderpool::owner_label::subnet_of;
use kube_machinery::FxHashMap;
use sim_config::time::SimTime;

use super::super::view::{EventMask, Seen, View};
use super::super::{Findings, IpamClaim, violated};

/// The maximum age of a replica's list of pools when it removes the finalizer of a subnet.
const DECIDES_WITHIN: Duration = Duration::from_secs(10);

/// No subnet vanishes while a pool that was cut from it has existed for some time. A pool that is created at the same moment cannot be seen
/// (K124), and is deleted because its owner is gone.
///
/// Broken by `subnet-finalizer-trusts-status`. The removal of a finalizer by hand is not judged.
#[derive(Default)]
pub(crate) struct SubnetsOutliveTheirPools {
    /// The creation time of each pool that was created in this run.
    made: FxHashMap<Arc<str>, SimTime>,
}

impl IpamClaim for SubnetsOutliveTheirPools {
    fn event_mask(&self) -> EventMask {
        EventMask::POOL.and(EventMask::SUBNET)
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        if let Seen::Pool(change) = seen {
            match (&change.before, &change.after) {
                (None, Some(_)) => drop(self.made.insert(change.pool.clone(), view.at)),
                (_, None) => drop(self.made.remove(&change.pool)),
                _ => {}
            }
        }
        let Seen::Subnet(change) = seen else { return };
        let (Some(before), None) = (&change.before, &change.after) else { return };
        findings.exercised();
        let uid = before.metadata.uid.as_deref();
        let owned = |pool: &ipam_spiderpool::SpiderIPPool| {
            let owners = pool.metadata.owner_references.iter().flatten();
            let by_reference = owners.into_iter().any(|owner| owner.controller == Some(true) && Some(owner.uid.as_str()) == uid);
            by_reference || subnet_of(pool) == Some(&*change.subnet)
        };
        let is_new = |pool: &Arc<str>| self.made.get(pool).is_some_and(|made| *made + DECIDES_WITHIN > view.at);
        if let Some((pool, _)) = view.pools.iter().find(|(name, pool)| owned(&pool.object) && !is_new(name)) {
            violated(findings, change.by_hand, || {
                vec![format!("subnet {} vanishes, and its pool {pool} is there", change.subnet), view.story_of_subnet(change)]
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use ipam_spiderpool::SpiderSubnet;
    use kube_machinery::ObjectKey;

    use super::super::super::testing::on_stage;
    use super::DECIDES_WITHIN;

    #[test]
    fn a_pool_that_is_made_at_the_same_moment_cannot_be_waited_for() {
        on_stage("subnets-outlive-their-pools", |stage| {
            let by = stage.replicas[0];
            stage.subnet("s", &["10.0.0.1-10.0.0.9"]);
            stage.auto_pool(by, "auto", "u", &["10.0.0.1"]);
            stage.put::<SpiderSubnet>(by, &ObjectKey::cluster("s"), None);
            assert_eq!(stage.excuses(), []);
        });
    }

    #[test]
    fn a_subnet_waits_for_its_pools() {
        on_stage("subnets-outlive-their-pools", |stage| {
            let by = stage.replicas[0];
            for gone_first in [true, false] {
                stage.subnet("s", &["10.0.0.1-10.0.0.9"]);
                stage.pool("manual", &["10.0.0.9"]);
                stage.auto_pool(by, "auto", "u", &["10.0.0.1"]);
                stage.pass(DECIDES_WITHIN);
                if gone_first {
                    stage.pool_gone(by, "auto");
                }
                stage.put::<SpiderSubnet>(by, &ObjectKey::cluster("s"), None);
                assert_eq!((stage.excuses().len(), stage.exercised()), (usize::from(!gone_first), true));
            }
        });
    }
}
