//! A L4: terminating pools without records disappear.

use super::view::View;
use super::{IpamClaim, told};

/// Eventually no terminating pool is without records.
pub(crate) struct EmptyTerminatingPoolsDisappear;

impl IpamClaim for EmptyTerminatingPoolsDisappear {
    fn pending(&self, view: &View) -> Option<String> {
        let empty = view.pools.iter().filter(|(_, pool)| pool.is_terminating() && pool.records().is_empty());
        told(
            ["terminating pool has no record and is still there", "terminating pools have no record and are still there"],
            empty.map(|(name, _)| name.to_string()).collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use ipam_spiderpool::SpiderIPPool;
    use kube_machinery::ObjectKey;
    use serde_json::json;

    use super::super::testing::on_stage;

    #[test]
    fn an_empty_terminating_pool_is_waited_for() {
        on_stage("empty-terminating-pools-disappear", |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "a");
            stage.change_pool(stage.person, "p", |pool| {
                pool.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-05T09:00:00Z")).unwrap();
            });
            assert_eq!(stage.pending(), None);
            stage.unrecord(stage.agent, "p", "10.0.0.1");
            assert_eq!(stage.pending().unwrap(), "1 terminating pool has no record and is still there: p");
            stage.put::<SpiderIPPool>(stage.kubelet, &ObjectKey::cluster("p"), None);
            assert_eq!(stage.pending(), None);
        });
    }
}
