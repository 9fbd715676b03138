//! A L6: unwanted pools are deleted.

use ipam_spiderpool::names::{LABEL_IPPOOL_RECLAIM, LABEL_OWNER_APPLICATION_UID};
use ipam_spiderpool::select::is_auto_pool;

use super::super::view::{Pool, View, label};
use super::super::{IpamClaim, told};
use super::{subnet_of, wishes};

/// Eventually there is no auto pool without records that is to be deleted with its workload, and whose workload is gone or no longer asks
/// for it.
///
/// A pool with a record waits for its release. A controller that learns of a workload's end deletes its pools, with or without records (A
/// §8.5); but a replica may die between learning and writing, and its successor deletes only pools without records (A §8.6), as does
/// admission where it guards pools in use (A §9.1). The release of records is the business of other claims.
///
/// Broken by `removed-annotation-keeps-pool`. For workloads of third-party kinds it knows only whether they are gone, not what they ask
/// for.
pub(crate) struct PoolsThatNobodyAsksForDisappear;

impl IpamClaim for PoolsThatNobodyAsksForDisappear {
    fn pending(&self, view: &View) -> Option<String> {
        let left = view.pools.iter().filter_map(|(name, pool)| {
            let why = why(view, name, pool)?;
            Some(format!("{name} ({why})"))
        });
        told(["auto pool is left that no workload asks for", "auto pools are left that no workload asks for"], left.collect())
    }
}

fn why(view: &View, name: &str, pool: &Pool) -> Option<&'static str> {
    let text = |key| label(&pool.object, key);
    let goes = text(LABEL_IPPOOL_RECLAIM) == Some("true") && wishes::is_of_known_kind(view, &pool.object);
    if !goes || !is_auto_pool(&pool.object) || view.changes.touched_pool(name) || subnet_of(view, name).is_none() {
        return None;
    }
    let has_records = !pool.records().is_empty();
    match wishes::wants(view, text(LABEL_OWNER_APPLICATION_UID)?, &pool.object)? {
        _ if has_records => None,
        None if pool.is_terminating() => Some("its workload is gone, and it is being deleted"),
        None => Some("its workload is gone"),
        Some(true) => None,
        Some(false) => Some("its workload does not ask for it"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{Stage, on_stage};

    fn staged(test: impl FnOnce(&mut Stage)) {
        on_stage("pools-that-nobody-asks-for-disappear", |stage| {
            stage.subnet("s", &["10.0.0.1-10.0.0.9"]);
            stage.application("u", 1, Some("s"));
            stage.auto_pool(stage.replicas[0], "auto", "u", &["10.0.0.1"]);
            assert_eq!(stage.pending(), None);
            test(stage);
        });
    }

    #[test]
    fn a_pool_goes_after_its_workload_and_after_its_records() {
        staged(|stage| {
            stage.record(stage.agent, "auto", "10.0.0.1", "ns/a", "a");
            stage.application_gone();
            assert_eq!(stage.pending(), None, "a pod has its address");
            stage.unrecord(stage.agent, "auto", "10.0.0.1");
            assert!(stage.pending().unwrap().ends_with("auto (its workload is gone)"));
            stage.terminate_pool(stage.replicas[0], "auto");
            assert!(stage.pending().unwrap().ends_with("auto (its workload is gone, and it is being deleted)"));
            stage.pool_gone(stage.replicas[0], "auto");
            assert_eq!(stage.pending(), None);
        });
    }

    #[test]
    fn another_incarnation_does_not_keep_it() {
        staged(|stage| {
            stage.application_gone();
            stage.application("v", 1, Some("s"));
            assert!(stage.pending().is_some());
        });
    }

    #[test]
    fn a_pool_that_is_not_asked_for_goes_when_no_pod_has_an_address_of_it() {
        staged(|stage| {
            stage.record(stage.agent, "auto", "10.0.0.1", "ns/a", "a");
            stage.application("u", 1, None);
            assert_eq!(stage.pending(), None);
            stage.unrecord(stage.agent, "auto", "10.0.0.1");
            assert!(stage.pending().unwrap().ends_with("auto (its workload does not ask for it)"));
        });
    }
}
