//! A §9.1 to §9.3, W18: an update is judged by its changes.

use ipam_spiderpool::select::is_auto_pool;
use ipam_spiderpool::{SpiderIPPool, SpiderReservedIP, SpiderSubnet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_sim::object::Obj;

use super::super::view::{EventMask, Seen, View};
use super::super::{Findings, IpamClaim};

/// No webhook refuses an update that leaves the addresses of a pool, a subnet or a reservation unchanged, or an update of an object
/// in deletion that leaves its spec unchanged.
///
/// Errors in such an object existed before: refusing the update corrects nothing, and hinders those who would correct it, or have to remove
/// its finalizer. Broken by `update-judged-whole` and `terminating-update-refused`.
pub(crate) struct UpdatesAreJudgedByWhatTheyChange;

impl IpamClaim for UpdatesAreJudgedByWhatTheyChange {
    fn event_mask(&self) -> EventMask {
        EventMask::HOOK
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Hook(by, note) = seen else { return };
        let Some((old, new, denied)) = note.update().filter(|(old, new, _)| is_harmless(old, new)) else { return };
        findings.exercised();
        if let Some(why) = denied {
            findings.violated(|| {
                let ends = if ends(old.meta()) { ", which is being deleted," } else { "" };
                let name = new.meta().name.as_deref().unwrap_or_default();
                vec![
                    format!("an update of {name}{ends} is refused that changes none of its addresses"),
                    format!("{} says: {why}", view.name(*by)),
                ]
            });
        }
    }
}

fn ends(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some()
}

/// Whether the update changes nothing that could do harm.
fn is_harmless(old: &Obj, new: &Obj) -> bool {
    if let Some((old, new)) = both::<SpiderIPPool>(old, new) {
        let (was, is) = (&old.spec, &new.spec);
        let same_addresses = was.ip_version == is.ip_version
            && was.subnet == is.subnet
            && was.ips == is.ips
            && was.exclude_ips == is.exclude_ips
            && was.gateway == is.gateway
            && was.routes == is.routes;
        let same_kind = was.pod_affinity == is.pod_affinity && is_auto_pool(old) == is_auto_pool(new);
        return if ends(&new.metadata) { was == is } else { same_addresses && same_kind };
    }
    if let Some((old, new)) = both::<SpiderSubnet>(old, new) {
        return old.spec == new.spec;
    }
    both::<SpiderReservedIP>(old, new).is_some_and(|(old, new)| old.spec == new.spec)
}

/// Both versions, if they are of this type.
fn both<'a, K: 'static>(old: &'a Obj, new: &'a Obj) -> Option<(&'a K, &'a K)> {
    old.as_any().downcast_ref().zip(new.as_any().downcast_ref())
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{Stage, on_stage};
    use super::*;

    const CLAIM: &str = "updates-are-judged-by-what-they-change";

    fn pool() -> SpiderIPPool {
        let spec = serde_json::json!({"ipVersion": 4, "subnet": "10.0.0.0/24", "ips": ["10.0.0.1-10.0.0.9"]});
        serde_json::from_value(serde_json::json!({"metadata": {"name": "p"}, "spec": spec})).unwrap()
    }

    fn update(stage: &mut Stage, old: &SpiderIPPool, denied: bool, change: impl FnOnce(&mut SpiderIPPool)) {
        let mut new = old.clone();
        change(&mut new);
        stage.judges(old, new, denied.then_some("it overlaps"));
    }

    fn terminating() -> SpiderIPPool {
        let mut pool = pool();
        pool.metadata.deletion_timestamp = serde_json::from_value(serde_json::json!("2026-01-05T09:00:00Z")).unwrap();
        pool
    }

    #[test]
    fn what_was_wrong_before_is_no_reason() {
        on_stage(CLAIM, |stage| {
            update(stage, &pool(), true, |pool| pool.spec.ips = Some(vec!["10.0.0.1-10.0.0.20".to_owned()]));
            update(stage, &pool(), true, |pool| pool.spec.gateway = Some("10.0.0.1".to_owned()));
            update(stage, &pool(), true, |pool| pool.spec.pod_affinity = Some(Default::default()));
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], false));
            update(stage, &pool(), false, |pool| pool.spec.disable = true);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            update(stage, &pool(), true, |pool| pool.spec.disable = true);
            assert_eq!(stage.excuses(), [None]);
            assert_eq!(stage.detail()[0], "an update of p is refused that changes none of its addresses");
        });
    }

    #[test]
    fn an_object_that_is_being_deleted_can_be_let_go_but_not_changed() {
        on_stage(CLAIM, |stage| {
            update(stage, &terminating(), true, |pool| pool.spec.disable = true);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], false));
            update(stage, &terminating(), true, |pool| pool.metadata.finalizers = None);
            assert_eq!(stage.excuses(), [None]);
            assert!(stage.detail()[0].starts_with("an update of p, which is being deleted, is refused"));
        });
    }
}
