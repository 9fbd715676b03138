//! A §8.1: owners that others gave a pool stay.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::super::view::{EventMask, Seen, View};
use super::super::{Findings, IpamClaim};

/// Neither a replica of the controller nor an agent removes an owner reference to anything but a subnet from a pool.
pub(crate) struct OwnersOfOthersStay;

impl IpamClaim for OwnersOfOthersStay {
    fn event_mask(&self) -> EventMask {
        EventMask::POOL
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Pool(change) = seen else { return };
        let (Some(before), Some(after)) = (&change.before, &change.after) else { return };
        if !(change.by_replica || change.by_agent) {
            return;
        }
        let mut foreign = before.metadata.owner_references.iter().flatten().filter(|owner| owner.kind != "SpiderSubnet").peekable();
        if foreign.peek().is_none() {
            return;
        }
        findings.exercised();
        let has = |owner: &OwnerReference| after.metadata.owner_references.iter().flatten().any(|has| has.uid == owner.uid);
        if let Some(lost) = foreign.find(|owner| !has(owner)) {
            findings.violated(|| {
                vec![format!("pool {} loses its owner {} {}", change.pool, lost.kind, lost.name), view.story_of_write(change)]
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

    use super::super::super::testing::on_stage;

    #[test]
    fn the_owner_that_is_no_subnet_survives_an_update() {
        on_stage("owners-of-others-stay", |stage| {
            let by = stage.replicas[0];
            let owner = |kind: &str| OwnerReference {
                kind: kind.to_owned(),
                name: "n".to_owned(),
                uid: kind.to_owned(),
                ..OwnerReference::default()
            };
            stage.pool("p", &["10.0.0.1"]);
            stage.change_pool(stage.person, "p", |pool| pool.metadata.owner_references = Some(vec![owner("SpiderSubnet")]));
            stage.change_pool(by, "p", |pool| pool.metadata.owner_references = None);
            assert!(!stage.exercised(), "a subnet may give a pool up");
            stage.change_pool(stage.person, "p", |pool| pool.metadata.owner_references = Some(vec![owner("Node")]));
            stage.change_pool(by, "p", |pool| pool.metadata.owner_references.get_or_insert_default().push(owner("SpiderSubnet")));
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            stage.change_pool(by, "p", |pool| pool.metadata.owner_references = Some(vec![owner("SpiderSubnet")]));
            assert_eq!(stage.excuses(), [None]);
            assert_eq!(stage.detail()[0], "pool p loses its owner Node n");
        });
    }
}
