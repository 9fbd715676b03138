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
