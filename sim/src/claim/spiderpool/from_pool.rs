//! A S5: a pool gives what it has.

use super::view::{Seen, View};
use super::{Findings, IpamClaim, violated};

/// Whoever adds a record adds it to a pool of whose addresses that is one: in `ips` and not in `excludeIPs` of the very object
/// that is written.
///
/// Broken by `upstream-ranges` and by hand. It does not see an address that leaves its pool while it is recorded: admission
/// forbids that.
pub(in super::super) struct FromItsPool;

impl IpamClaim for FromItsPool {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Pool(change) = seen else { return };
        let Some(pool) = view.pools.get(&change.pool) else { return };
        for (address, record) in change.edits.iter().filter_map(|edit| edit.added()) {
            findings.judged();
            if !pool.addresses.as_ref().is_some_and(|addresses| addresses.contains(address)) {
                violated(findings, change.by_hand, || {
                    let spec = &pool.object.spec;
                    vec![
                        format!("{address} is recorded in {} for {}", change.pool, view.pod_of(&record.pod_uid)),
                        format!("the pool has ips {:?} without {:?}", spec.ips.iter().flatten(), spec.exclude_ips.iter().flatten()),
                        view.story_of_write(change),
                    ]
                });
            }
        }
    }
}
