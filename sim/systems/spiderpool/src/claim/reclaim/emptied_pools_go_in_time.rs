//! G GL11: a terminating pool is deleted with its last record.

use std::sync::Arc;
use std::time::Duration;

use kube_machinery::FxHashMap;
use sim_config::time::SimTime;

use super::super::view::{AFTERMATH, EventMask, Seen, View};
use super::super::{Findings, IpamClaim};
use super::due::Due;
use super::leak::{failover, hinders, is_reclaimed};
use crate::workload::ReclaimNote;

/// The time that the controller of pools needs to be notified and to write.
const PROMPTLY: Duration = Duration::from_secs(15);

/// A terminating pool without records is deleted soon after, while a replica leads.
///
/// Broken by whatever keeps the records in it: a leak also prevents a pool's deletion. It does not judge pools that wait for a record.
#[derive(Default)]
pub(crate) struct EmptiedPoolsGoInTime {
    due: Due,
    /// The times since which terminating pools have had no record.
    empty: FxHashMap<Arc<str>, SimTime>,
}

impl EmptiedPoolsGoInTime {
    fn deadline(&mut self, view: &View, name: &Arc<str>) -> Option<SimTime> {
        let is_empty = view.pools.get(name).is_some_and(|pool| pool.is_terminating() && pool.records().is_empty());
        if !is_empty || view.changes.touched_pool(name) {
            self.empty.remove(name);
            return None;
        }
        let since = *self.empty.entry(name.clone()).or_insert(view.at);
        Some(match view.replicas.led_since() {
            Some(led) if view.health.is_calm_since(since, hinders) => since.max(led) + PROMPTLY,
            _ => since.max(view.health.heal_at) + failover(view) + AFTERMATH + PROMPTLY,
        })
    }
}

impl IpamClaim for EmptiedPoolsGoInTime {
    fn event_mask(&self) -> EventMask {
        EventMask::POOL.and(EventMask::RECLAIM)
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        if !is_reclaimed(view) {
            return;
        }
        let pools: Vec<Arc<str>> = match seen {
            Seen::Pool(change) => vec![change.pool.clone()],
            Seen::Reclaim(_, ReclaimNote::Leads(true)) => self.empty.keys().cloned().collect(),
            _ => return,
        };
        for pool in pools {
            if let Some(by) = self.deadline(view, &pool) {
                self.due.expect(&pool, by, findings);
            }
        }
    }

    fn overdue(&mut self, at: SimTime, view: &View, findings: &mut Findings) {
        for pool in self.due.take(at) {
            findings.exercised();
            let Some(by) = self.deadline(view, &pool) else { continue };
            if by > at {
                self.due.expect(&pool, by, findings);
                continue;
            }
            let since = self.empty.get(&pool).copied().unwrap_or_default();
            findings.violated(|| vec![format!("pool {pool} is terminating, has had no record since {since}, and is still there")]);
        }
    }
}

#[cfg(test)]
mod tests {
    use ipam_spiderpool::SpiderIPPool;
    use kube_machinery::ObjectKey;
    use serde_json::json;

    use super::super::super::testing::{Stage, on_stage};
    use super::*;

    fn staged(test: impl FnOnce(&mut Stage)) {
        on_stage("emptied-pools-go-in-time", |stage| {
            stage.reclaims(stage.replicas[0], ReclaimNote::Leads(true));
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "a");
            stage.change_pool(stage.person, "p", |pool| {
                pool.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-05T09:00:00Z")).unwrap();
            });
            stage.pass(Duration::from_secs(1_000));
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], false), "it has a record");
            stage.reclaim(stage.replicas[0], "ns/a", "a", "p", "10.0.0.1");
            test(stage);
        });
    }

    #[test]
    fn an_empty_pool_that_stays_is_a_violation_and_one_that_goes_is_none() {
        staged(|stage| {
            stage.pass(Duration::from_secs(14));
            assert_eq!(stage.excuses(), []);
            stage.pass(Duration::from_secs(2));
            assert_eq!((stage.excuses(), stage.exercised()), (vec![None], true));
        });
        staged(|stage| {
            stage.put::<SpiderIPPool>(stage.replicas[0], &ObjectKey::cluster("p"), None);
            stage.pass(Duration::from_secs(100));
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
        });
    }

    #[test]
    fn without_a_leader_it_takes_a_failover() {
        staged(|stage| {
            stage.reclaims(stage.replicas[0], ReclaimNote::Leads(false));
            stage.pass(Duration::from_secs(90));
            assert_eq!(stage.excuses(), []);
            stage.pass(Duration::from_secs(20));
            assert_eq!(stage.excuses(), [None]);
        });
    }
}
