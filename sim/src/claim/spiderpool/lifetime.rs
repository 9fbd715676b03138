//! A S14, L4: pools and endpoints go after their records, and do go.

use super::view::{Seen, View, addresses_of, records_of, uid_of};
use super::{Findings, IpamClaim, told, violated};

/// No pool vanishes while it has records, and no endpoint while one of its addresses is recorded for its UID.
///
/// Broken by `endpoint-delete-by-name`, `namesake-records-left` and by hand. It does not see who asked for the deletion.
pub(in super::super) struct RecordsComeFirst;

impl IpamClaim for RecordsComeFirst {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        match seen {
            Seen::Pool(change) => {
                let (Some(before), None) = (&change.before, &change.after) else { return };
                findings.judged();
                let records = records_of(before).map_or(0, |records| records.len());
                if records > 0 {
                    violated(findings, view.changes.touched_pool(&change.pool), || {
                        vec![format!("pool {} vanishes with {records} records", change.pool), view.story_of_write(change)]
                    });
                }
            }
            Seen::Endpoint(change) => {
                let (Some(before), None) = (&change.before, &change.after) else { return };
                findings.judged();
                let uid = uid_of(before);
                let recorded = |pool: &str, address| view.pools.holder(pool, address).is_some_and(|holder| holder.record.pod_uid == *uid);
                let left = addresses_of(before).find(|(_, pool, address)| recorded(pool, *address));
                if let Some((entry, pool, address)) = left {
                    let by_hand = change.by_hand || view.changes.touched_endpoint(&change.key) || view.changes.touched(address);
                    violated(findings, by_hand, || {
                        vec![
                            format!(
                                "endpoint {} vanishes {}, and {address} of its {} is still recorded",
                                change.key,
                                view.by(change.said),
                                entry.interface
                            ),
                            view.story_of(pool, address),
                        ]
                    });
                }
            }
            _ => {}
        }
    }
}

/// In the end no pool is terminating that has no record.
pub(in super::super) struct EmptyPoolsGo;

impl IpamClaim for EmptyPoolsGo {
    fn observe(&mut self, _: &Seen<'_>, _: &View, _: &mut Findings) {}

    fn pending(&self, view: &View) -> Option<String> {
        let empty = view.pools.iter().filter(|(_, pool)| pool.is_terminating() && pool.records().is_empty());
        told("terminating pools have no record and are still there", empty.map(|(name, _)| name.to_string()).collect())
    }
}

#[cfg(test)]
mod tests {
    use ipam_core::ObjectKey;
    use ipam_core::spiderpool::SpiderIPPool;
    use serde_json::json;

    use super::super::BY_HAND;
    use super::super::testing::on_stage;

    const CLAIM: &str = "pools-and-endpoints-outlive-their-records";

    #[test]
    fn a_pool_goes_without_records() {
        on_stage(CLAIM, |stage| {
            for pool in ["p", "q"] {
                stage.pool(pool, &["10.0.0.1-10.0.0.9"]);
            }
            stage.record(stage.agent, "q", "10.0.0.1", "ns/a", "a");
            stage.put::<SpiderIPPool>(stage.kubelet, &ObjectKey::cluster("p"), None);
            assert_eq!((stage.excuses(), stage.judged()), (vec![], true));
            stage.put::<SpiderIPPool>(stage.kubelet, &ObjectKey::cluster("q"), None);
            assert_eq!(stage.excuses(), [None]);
            stage.pool("q", &["10.0.0.1-10.0.0.9"]);
            stage.record(stage.agent, "q", "10.0.0.1", "ns/a", "a");
            stage.put::<SpiderIPPool>(stage.person, &ObjectKey::cluster("q"), None);
            assert_eq!(stage.excuses(), [None, Some(BY_HAND)]);
        });
    }

    #[test]
    fn an_endpoint_goes_after_the_records_of_its_uid() {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            let first: &[(&str, &str, &str)] = &[("eth0", "p", "10.0.0.1")];
            stage.add("ns/a", "a", first);
            stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "b");
            stage.endpoint_gone(stage.kubelet, "ns/a");
            assert_eq!((stage.excuses(), stage.judged()), (vec![], true));
            stage.endpoint(stage.agent, "ns/a", "b", first);
            stage.endpoint_gone(stage.kubelet, "ns/a");
            assert_eq!(stage.excuses(), [None]);
            stage.endpoint(stage.agent, "ns/a", "b", first);
            stage.endpoint_gone(stage.person, "ns/a");
            assert_eq!(stage.excuses(), [None, Some(BY_HAND)]);
        });
    }

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
            assert_eq!(stage.pending().unwrap(), "1 terminating pools have no record and are still there: p");
            stage.put::<SpiderIPPool>(stage.kubelet, &ObjectKey::cluster("p"), None);
            assert_eq!(stage.pending(), None);
        });
    }
}
