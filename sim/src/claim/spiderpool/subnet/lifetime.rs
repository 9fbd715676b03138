//! A §8.1: a subnet goes after its pools.

use ipam_core::spiderpool::names::LABEL_OWNER_SUBNET;

use super::super::view::{Seen, View, label};
use super::super::{Findings, IpamClaim, violated};

/// No subnet vanishes while a pool that was cut from it is there.
///
/// Broken by `subnet-finalizer-trusts-status`. Whoever takes the finalizer by hand has only themselves to blame.
pub(in super::super::super) struct PoolsGoBeforeSubnets;

impl IpamClaim for PoolsGoBeforeSubnets {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Subnet(change) = seen else { return };
        let (Some(before), None) = (&change.before, &change.after) else { return };
        findings.judged();
        let uid = before.metadata.uid.as_deref();
        let owned = |pool: &ipam_core::spiderpool::SpiderIPPool| {
            let owners = pool.metadata.owner_references.iter().flatten();
            let by_reference = owners.into_iter().any(|owner| owner.controller == Some(true) && Some(owner.uid.as_str()) == uid);
            by_reference || label(pool, LABEL_OWNER_SUBNET) == Some(&change.subnet)
        };
        if let Some((pool, _)) = view.pools.iter().find(|(_, pool)| owned(&pool.object)) {
            violated(findings, change.by_hand, || {
                vec![format!("subnet {} vanishes, and its pool {pool} is there", change.subnet), view.story_of_subnet(change)]
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use ipam_core::ObjectKey;
    use ipam_core::spiderpool::SpiderSubnet;

    use super::super::super::testing::on_stage;

    #[test]
    fn a_subnet_waits_for_its_pools() {
        on_stage("subnets-outlive-their-pools", |stage| {
            let by = stage.replicas[0];
            for gone_first in [true, false] {
                stage.subnet("s", &["10.0.0.1-10.0.0.9"]);
                stage.pool("manual", &["10.0.0.9"]);
                stage.auto_pool(by, "auto", "u", &["10.0.0.1"]);
                if gone_first {
                    stage.pool_gone(by, "auto");
                }
                stage.put::<SpiderSubnet>(by, &ObjectKey::cluster("s"), None);
                assert_eq!((stage.excuses().len(), stage.judged()), (usize::from(!gone_first), true));
            }
        });
    }
}
