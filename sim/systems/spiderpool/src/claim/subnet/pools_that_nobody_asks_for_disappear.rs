//! A L6: pools that nobody asks for any more go.

use ipam_spiderpool::names::{LABEL_IPPOOL_RECLAIM, LABEL_OWNER_APPLICATION_UID};
use ipam_spiderpool::select::is_auto_pool;

use super::super::view::{Pool, View, label};
use super::super::{IpamClaim, told};
use super::{subnet_of, wishes};

/// In the end there is no auto pool that goes with its workload, of which no pod has an address, and whose workload is gone or does not ask
/// for it any more.
///
/// A pool with a record waits for it. Whoever hears that a workload has ended deletes its pools, with records or without (A §8.5); but a
/// replica may die between hearing and writing, and whoever comes after it takes pools without records only (A §8.6), as admission does
/// where it guards pools in use (A §9.1). That records go is what other claims are about.
///
/// Broken by `removed-annotation-keeps-pool`. Of workloads of third-party kinds it sees only that they are gone, not what they ask for.
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
