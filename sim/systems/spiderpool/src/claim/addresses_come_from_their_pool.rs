//! A S5: pools give only addresses that they have.

use super::view::{EventMask, Seen, View};
use super::{Findings, IpamClaim, violated};

/// A record is added only to a pool that has the address: in `ips` and not in `excludeIPs` of the object that is written.
///
/// Broken by `upstream-ranges` and by hand. It does not detect an address that leaves its pool while it is recorded: admission forbids
/// that.
pub(crate) struct AddressesComeFromTheirPool;

impl IpamClaim for AddressesComeFromTheirPool {
    fn event_mask(&self) -> EventMask {
        EventMask::POOL
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Pool(change) = seen else { return };
        let Some(pool) = view.pools.get(&change.pool) else { return };
        for (address, record) in change.edits.iter().filter_map(|edit| edit.added()) {
            findings.exercised();
            if !pool.addresses.as_ref().is_some_and(|addresses| addresses.contains(address)) {
                violated(findings, change.by_hand, || {
                    let spec = &pool.object.spec;
                    let listed = |ips: &Option<Vec<String>>| {
                        ips.as_ref().filter(|ips| !ips.is_empty()).map_or("none".to_owned(), |ips| ips.join(", "))
                    };
                    vec![
                        format!("{address} is recorded in {} for {}", change.pool, view.pod_of(&record.pod_uid)),
                        format!("the pool has the addresses {} without {}", listed(&spec.ips), listed(&spec.exclude_ips)),
                        view.story_of_write(change),
                    ]
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::BY_HAND;
    use super::super::testing::on_stage;

    const CLAIM: &str = "addresses-come-from-their-pool";

    #[test]
    fn what_is_excluded_or_not_listed_is_not_the_pools_to_give() {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.record(stage.agent, "p", "10.0.0.4", "ns/a", "a");
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            stage.change_pool(stage.person, "p", |pool| pool.spec.exclude_ips = Some(vec!["10.0.0.5".to_owned()]));
            stage.record(stage.agent, "p", "10.0.0.5", "ns/b", "b");
            stage.record(stage.agent, "p", "10.0.0.10", "ns/c", "c");
            assert_eq!(stage.excuses(), [None, None]);
            stage.record(stage.person, "p", "10.0.0.11", "ns/d", "d");
            assert_eq!(stage.excuses(), [None, None, Some(BY_HAND)]);
        });
    }

    #[test]
    fn the_object_that_is_written_counts() {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1"]);
            stage.change_pool(stage.person, "p", |pool| pool.spec.ips = Some(vec!["10.0.0.2".to_owned()]));
            stage.record(stage.agent, "p", "10.0.0.2", "ns/a", "a");
            assert_eq!(stage.excuses(), []);
            stage.record(stage.agent, "p", "10.0.0.1", "ns/b", "b");
            assert_eq!(stage.excuses(), [None]);
        });
    }
}
