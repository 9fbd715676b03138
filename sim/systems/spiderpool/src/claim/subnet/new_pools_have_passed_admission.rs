//! A §9.1: every new pool has what the webhooks add and require.

use ipam_spiderpool::names::FINALIZER;

use super::super::view::{EventMask, Seen, View};
use super::super::{Findings, IpamClaim};

/// No pool is created without its IP version, without which it serves no pod, or without Spiderpool's finalizer, without which it would be
/// deleted while it has records, where webhooks are registered.
///
/// Exact: users leave both to the webhooks, and the webhooks are called even if a user sets them. Broken by `webhooks-fail-open`. It does
/// not detect what only a validating webhook would have refused.
pub(crate) struct NewPoolsHavePassedAdmission;

impl IpamClaim for NewPoolsHavePassedAdmission {
    fn event_mask(&self) -> EventMask {
        EventMask::POOL
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Pool(change) = seen else { return };
        let (None, Some(pool)) = (&change.before, &change.after) else { return };
        if !view.terms.has_webhooks {
            return;
        }
        findings.exercised();
        let is_held = pool.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER);
        let lacks = match (pool.spec.ip_version, is_held) {
            (Some(_), true) => return,
            (None, true) => "its IP version",
            (Some(_), false) => "its finalizer",
            (None, false) => "its IP version and its finalizer",
        };
        findings.violated(|| vec![format!("pool {} comes without {lacks}", change.pool), view.story_of_write(change)]);
    }
}

#[cfg(test)]
mod tests {
    use ipam_spiderpool::SpiderIPPool;
    use serde_json::json;

    use super::super::super::testing::{Stage, on_stage, on_stage_under};

    const CLAIM: &str = "new-pools-have-passed-admission";

    fn create(stage: &mut Stage, name: &str, version: Option<i64>, finalizers: &[&str]) {
        let spec = json!({"ipVersion": version, "subnet": "10.0.0.0/24", "ips": ["10.0.0.1"]});
        stage.write::<SpiderIPPool>(stage.person, json!({"metadata": {"name": name, "finalizers": finalizers}, "spec": spec}));
    }

    #[test]
    fn a_pool_that_comes_without_what_the_webhooks_add_has_passed_by_them() {
        let registered = |terms: &mut super::super::super::view::Terms| terms.has_webhooks = true;
        on_stage_under(CLAIM, registered, |stage| {
            stage.pool("whole", &["10.0.0.1"]);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            // Removing it later is not a creation.
            stage.change_pool(stage.person, "whole", |pool| pool.metadata.finalizers = None);
            assert_eq!(stage.excuses(), []);
            create(stage, "bare", None, &["example.com/other"]);
            assert_eq!(
                (stage.excuses(), stage.detail()[0].clone()),
                (vec![None], "pool bare comes without its IP version and its finalizer".to_owned())
            );
            create(stage, "unheld", Some(4), &[]);
            create(stage, "unversioned", None, &["spiderpool.spidernet.io"]);
            assert_eq!(stage.excuses().len(), 3);
        });
    }

    #[test]
    fn without_webhooks_objects_come_as_they_are() {
        on_stage(CLAIM, |stage| {
            create(stage, "bare", None, &[]);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], false));
        });
    }
}
