//! A §8.6: a pool that its workload asks for is not deleted.

use std::time::Duration;

use ipam_spiderpool::names::{LABEL_IPPOOL_RECLAIM, LABEL_OWNER_APPLICATION_UID};
use ipam_spiderpool::owner_label;
use ipam_spiderpool::select::is_auto_pool;

use super::super::view::{EventMask, Seen, View, label};
use super::super::{Findings, IpamClaim};
use super::{subnet_of, wishes};

/// The maximum age of the read of the workload on which a deletion is based.
const DECIDES_WITHIN: Duration = Duration::from_secs(30);

/// No replica of the controller deletes an auto pool while its workload has existed and asked for it for some time; nor one whose workload
/// is of an unknown kind, as its state cannot be known; nor one whose label says that it is to stay.
///
/// Broken by `auto-pool-reclaim-trusts-cache`. A subnet that is being deleted takes all its pools with it.
pub(crate) struct WantedPoolsAreNotReclaimed;

impl IpamClaim for WantedPoolsAreNotReclaimed {
    fn event_mask(&self) -> EventMask {
        EventMask::POOL
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Pool(change) = seen else { return };
        let Some(before) = change.before.as_ref().filter(|before| change.by_replica && is_auto_pool(before)) else { return };
        let goes = change.after.as_ref().is_none_or(|after| after.metadata.deletion_timestamp.is_some());
        if !goes || before.metadata.deletion_timestamp.is_some() {
            return;
        }
        let subnet = owner_label::subnet_of(before).and_then(|name| view.subnets.get(name));
        if subnet.or_else(|| subnet_of(view, &change.pool)).is_none_or(|subnet| subnet.is_terminating()) {
            return;
        }
        findings.exercised();
        if label(before, LABEL_IPPOOL_RECLAIM) != Some("true") {
            findings.violated(|| vec![format!("pool {} is deleted, and it is to stay", change.pool), view.story_of_write(change)]);
            return;
        }
        let Some((name, application)) = label(before, LABEL_OWNER_APPLICATION_UID).and_then(|uid| view.applications.of_uid(uid)) else {
            if !wishes::is_of_known_kind(view, before) {
                findings.violated(|| {
                    let line = format!("pool {} is deleted, although it is unknown whether its workload still exists", change.pool);
                    vec![line, view.story_of_write(change)]
                });
            }
            return;
        };
        let settled = application.changed + DECIDES_WITHIN < view.at;
        let wanted = wishes::of(view, application).is_some_and(|demands| demands.iter().any(|demand| wishes::is_for(before, demand)));
        if wanted && settled {
            findings.violated(|| {
                let line = format!("pool {} is deleted, and {} {name} asks for it", change.pool, application.kind());
                vec![line, view.story_of_write(change)]
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use ipam_spiderpool::names::LABEL_OWNER_APPLICATION_GV;

    use super::super::super::testing::{Stage, on_stage};
    use super::*;

    fn staged(test: impl FnOnce(&mut Stage)) {
        on_stage("wanted-pools-are-not-reclaimed", |stage| {
            stage.subnet("s", &["10.0.0.1-10.0.0.9"]);
            stage.application("u", 1, Some("s"));
            stage.auto_pool(stage.replicas[0], "auto", "u", &["10.0.0.1"]);
            stage.pass(2 * DECIDES_WITHIN);
            test(stage);
        });
    }

    #[test]
    fn a_pool_is_deleted_only_if_nobody_asks_for_it() {
        staged(|stage| {
            stage.terminate_pool(stage.replicas[0], "auto");
            assert_eq!((stage.excuses(), stage.exercised()), (vec![None], true));
        });
        staged(|stage| {
            stage.application_gone();
            stage.terminate_pool(stage.replicas[0], "auto");
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
        });
        staged(|stage| {
            stage.application("u", 1, None);
            stage.terminate_pool(stage.replicas[0], "auto");
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
        });
    }

    #[test]
    fn the_pool_of_a_workload_that_nobody_knows_stays() {
        staged(|stage| {
            stage.application_gone();
            stage.change_pool(stage.replicas[0], "auto", |pool| {
                let group_version = "example.com_v1".to_owned();
                pool.metadata.labels.get_or_insert_default().insert(LABEL_OWNER_APPLICATION_GV.to_owned(), group_version);
            });
            stage.terminate_pool(stage.replicas[0], "auto");
            assert_eq!((stage.excuses(), stage.exercised()), (vec![None], true));
        });
    }

    #[test]
    fn a_pool_that_is_to_stay_stays_also_when_its_workload_is_gone() {
        staged(|stage| {
            stage.change_pool(stage.replicas[0], "auto", |pool| {
                pool.metadata.labels.get_or_insert_default().insert(LABEL_IPPOOL_RECLAIM.to_owned(), "false".to_owned());
            });
            stage.application_gone();
            stage.terminate_pool(stage.replicas[0], "auto");
            assert_eq!((stage.excuses(), stage.exercised()), (vec![None], true));
        });
    }

    #[test]
    fn a_person_may_delete_what_they_like_and_a_subnet_takes_all() {
        staged(|stage| {
            stage.terminate_pool(stage.person, "auto");
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], false));
        });
        staged(|stage| {
            stage.change_subnet(stage.person, "s", |subnet| {
                subnet.metadata.deletion_timestamp = serde_json::from_value(serde_json::json!("2026-01-05T09:00:00Z")).unwrap();
            });
            stage.terminate_pool(stage.replicas[0], "auto");
            assert_eq!(stage.excuses(), []);
        });
    }
}
