//! A X2: a workload has one pool for a NIC and a family.

use std::sync::Arc;

use ipam_spiderpool::names::{LABEL_INTERFACE, LABEL_IP_VERSION, LABEL_OWNER_APPLICATION_UID, LABEL_OWNER_SUBNET};
use ipam_spiderpool::select::is_auto_pool;

use super::super::view::{EventMask, Seen, View, label};
use super::super::{Findings, IpamClaim, violated};
use super::by_hand;

/// No write leaves a workload with two pools of one subnet for one NIC and family, unless one of them is being deleted.
///
/// A workload that asks for another subnet than before has pools of both for a while. Selection by labels then finds two pools, and gives
/// no address at all.
pub(crate) struct WorkloadsHaveOnePoolForANic;

impl IpamClaim for WorkloadsHaveOnePoolForANic {
    fn event_mask(&self) -> EventMask {
        EventMask::POOL
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Pool(change) = seen else { return };
        let Some(after) = &change.after else { return };
        let uid = |pool| label(pool, LABEL_OWNER_APPLICATION_UID);
        let is_new = change.before.as_ref().is_none_or(|before| uid(before) != uid(after));
        if !is_new || !is_auto_pool(after) || after.metadata.deletion_timestamp.is_some() {
            return;
        }
        let Some(owner) = uid(after) else { return };
        findings.exercised();
        let same = |name: &&Arc<str>| {
            let other = view.pools.get(name).filter(|pool| !pool.is_terminating());
            let keys = [LABEL_OWNER_SUBNET, LABEL_INTERFACE, LABEL_IP_VERSION];
            **name != change.pool && other.is_some_and(|other| keys.iter().all(|key| label(&other.object, key) == label(after, key)))
        };
        if let Some(other) = view.applications.pools_of(owner).iter().find(same) {
            violated(findings, change.by_hand || by_hand(view, other), || {
                let line = format!("pools {other} and {} are for the same NIC and family of one workload", change.pool);
                vec![line, view.story_of_write(change)]
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::on_stage;

    #[test]
    fn a_second_pool_is_a_violation_unless_the_first_is_being_deleted() {
        on_stage("workloads-have-one-pool-for-a-nic", |stage| {
            let by = stage.replicas[0];
            stage.auto_pool(by, "first", "u", &["10.0.0.1"]);
            stage.auto_pool(by, "other", "v", &["10.0.0.2"]);
            stage.terminate_pool(by, "first");
            stage.auto_pool(by, "second", "u", &["10.0.0.3"]);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            stage.auto_pool(stage.replicas[1], "third", "u", &["10.0.0.4"]);
            assert_eq!(stage.excuses(), [None]);
            assert_eq!(stage.detail()[0], "pools second and third are for the same NIC and family of one workload");
        });
    }
}
