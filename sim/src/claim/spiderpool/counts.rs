//! A S11: pools count right.

use super::view::{Seen, View, records_of, total};
use super::{Findings, IpamClaim, told};

/// An agent that adds or removes records leaves `allocatedIPCount` as the number of records.
///
/// Broken by a writer that does not count. What the setting for the most records allows is not known here.
pub(in super::super) struct CountsAreRight;

impl IpamClaim for CountsAreRight {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Pool(change) = seen else { return };
        let counts = change.edits.iter().any(|edit| edit.before.is_none() || edit.after.is_none());
        let Some(after) = change.after.as_ref().filter(|_| change.by_agent && counts) else { return };
        findings.judged();
        let records = records_of(after).map_or(0, |records| records.len() as i64);
        let count = after.status.as_ref().and_then(|status| status.allocated_ip_count);
        if count != Some(records) {
            findings.violated(|| {
                vec![format!("pool {} has {records} records and allocatedIPCount {count:?}", change.pool), view.story_of_write(change)]
            });
        }
    }
}

/// In the end `totalIPCount` of each pool is the number of its addresses, as its controller writes it.
pub(in super::super) struct TotalsComeRight;

impl IpamClaim for TotalsComeRight {
    fn observe(&mut self, _: &Seen<'_>, _: &View, _: &mut Findings) {}

    fn pending(&self, view: &View) -> Option<String> {
        let wrong = view.pools.iter().filter(|(_, pool)| !pool.is_terminating()).filter_map(|(name, pool)| {
            let (has, count) = (total(pool)?, pool.object.status.as_ref().and_then(|status| status.total_ip_count));
            (count != Some(has)).then(|| format!("{name} has {has} addresses and totalIPCount {count:?}"))
        });
        told("pools do not count their addresses right", wrong.collect())
    }
}
