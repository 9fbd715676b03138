//! A §9.1: with `enableValidatingResourcesDeletedWebhook` a pool in use is not deleted.

use super::super::view::{EventMask, Seen, View, records_of};
use super::super::{Findings, IpamClaim};

/// No pool is marked for deletion while it has a record, whatever its count says, where a setting has admission guard pools in use.
///
/// Exact, as a deletion is judged by the version of the object that it is carried out on (K094). Broken by `delete-trusts-count`.
pub(crate) struct PoolsInUseAreNotDeleted;

impl IpamClaim for PoolsInUseAreNotDeleted {
    fn event_mask(&self) -> EventMask {
        EventMask::POOL
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Pool(change) = seen else { return };
        let Some(before) = change.before.as_ref().filter(|before| before.metadata.deletion_timestamp.is_none()) else { return };
        let goes = change.after.as_ref().is_none_or(|after| after.metadata.deletion_timestamp.is_some());
        if !goes || !view.terms.guards_deletion {
            return;
        }
        findings.exercised();
        let records = records_of(before).map_or(0, |records| records.len());
        if records > 0 {
            findings.violated(|| vec![format!("pool {} is deleted with {records} records", change.pool), view.story_of_write(change)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{Stage, on_stage, on_stage_under};

    const CLAIM: &str = "pools-in-use-are-not-deleted";

    fn delete(stage: &mut Stage, pool: &str) {
        stage.change_pool(stage.person, pool, |pool| {
            pool.metadata.deletion_timestamp = serde_json::from_value(serde_json::json!("2026-01-05T09:00:00Z")).unwrap();
        });
    }

    fn scene(stage: &mut Stage) {
        stage.pool("used", &["10.0.0.1"]);
        stage.record(stage.agent, "used", "10.0.0.1", "ns/a", "a");
        stage.pool("empty", &["10.0.0.2"]);
        delete(stage, "empty");
        assert_eq!(stage.excuses(), []);
        delete(stage, "used");
    }

    #[test]
    fn a_pool_with_a_record_stays_where_it_is_guarded() {
        on_stage_under(
            CLAIM,
            |terms| terms.guards_deletion = true,
            |stage| {
                scene(stage);
                assert_eq!((stage.excuses(), stage.exercised()), (vec![None], true));
                assert_eq!(stage.detail()[0], "pool used is deleted with 1 records");
                stage.change_pool(stage.agent, "used", |pool| pool.metadata.finalizers = None);
                assert_eq!(stage.excuses(), [None], "it was being deleted already");
            },
        );
    }

    #[test]
    fn without_the_setting_anybody_may_delete_it() {
        on_stage(CLAIM, |stage| {
            scene(stage);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], false));
        });
    }
}
