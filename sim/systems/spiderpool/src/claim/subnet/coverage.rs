//! Events that happen to subnets and their pools in some runs, so that scenarios test what they are meant to test.

use std::collections::BTreeMap;
use std::sync::Arc;

use ipam_spiderpool::select::is_auto_pool;
use kube_machinery::FxHashMap;
use kube_sim::rt::ProcessId;

use super::super::view::{EventMask, PoolChange, Seen, View, listed};
use super::super::{Findings, IpamClaim};

/// Coverage by a single event.
#[derive(Clone, Copy)]
pub(crate) enum SubnetCoverage {
    /// An auto pool is created.
    AnAutoPoolIsMade,
    /// An auto pool has more addresses than before.
    AnAutoPoolGrows,
    /// An auto pool has fewer addresses than before.
    AnAutoPoolShrinks,
    /// A replica of the controller deletes an auto pool.
    AnAutoPoolIsReclaimed,
    /// A write of a pool is refused.
    APoolIsRefused,
    /// Two pools share an address.
    PoolsOverlap,
}

impl IpamClaim for SubnetCoverage {
    fn event_mask(&self) -> EventMask {
        EventMask::POOL.and(EventMask::POOL_REFUSED)
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let held = match (*self, seen) {
            (Self::APoolIsRefused, Seen::PoolRefused) => true,
            (Self::PoolsOverlap, Seen::Pool(change)) => change.moved && view.pools.overlaps.is_younger(&change.pool),
            (sight, Seen::Pool(change)) => !change.by_hand && sight.is_in(change),
            _ => false,
        };
        if held {
            findings.held();
        }
    }
}

impl SubnetCoverage {
    fn is_in(self, change: &PoolChange) -> bool {
        let is_auto = [&change.before, &change.after].into_iter().flatten().all(|pool| is_auto_pool(pool));
        if !is_auto {
            return false;
        }
        let ends = |pool: &Arc<ipam_spiderpool::SpiderIPPool>| pool.metadata.deletion_timestamp.is_some();
        let size = |pool: &Arc<ipam_spiderpool::SpiderIPPool>| listed(&pool.spec).map_or(0, |ips| ips.count());
        match (self, &change.before, &change.after) {
            (Self::AnAutoPoolIsMade, None, Some(_)) => true,
            (Self::AnAutoPoolGrows, Some(before), Some(after)) if change.moved => size(before) < size(after),
            (Self::AnAutoPoolShrinks, Some(before), Some(after)) if change.moved => size(before) > size(after),
            (Self::AnAutoPoolIsReclaimed, Some(before), after) => change.by_replica && !ends(before) && after.as_ref().is_none_or(ends),
            _ => false,
        }
    }
}

/// Agents and the controller have written the same auto pool.
#[derive(Default)]
pub(crate) struct AgentsAndTheControllerWriteOnePool {
    /// Whether an agent and whether a replica has written each pool.
    writers: FxHashMap<Arc<str>, [bool; 2]>,
}

impl IpamClaim for AgentsAndTheControllerWriteOnePool {
    fn event_mask(&self) -> EventMask {
        EventMask::POOL
    }

    fn observe(&mut self, seen: &Seen<'_>, _: &View, findings: &mut Findings) {
        let Seen::Pool(change) = seen else { return };
        let Some(after) = &change.after else {
            self.writers.remove(&change.pool);
            return;
        };
        if !is_auto_pool(after) || !(change.by_agent || change.by_replica) {
            return;
        }
        let [agent, replica] = self.writers.entry(change.pool.clone()).or_default();
        (*agent, *replica) = (*agent || change.by_agent, *replica || change.by_replica);
        if *agent && *replica {
            findings.held();
        }
    }
}

/// Agents and the controller have changed addresses of pools of one subnet, so that both write the subnet's pre-allocations.
#[derive(Default)]
pub(crate) struct AgentsAndTheControllerScaleOnOneSubnet {
    /// Whether an agent and whether a replica has changed addresses, by the CIDR of the subnet.
    writers: BTreeMap<String, [bool; 2]>,
}

impl IpamClaim for AgentsAndTheControllerScaleOnOneSubnet {
    fn event_mask(&self) -> EventMask {
        EventMask::POOL
    }

    fn observe(&mut self, seen: &Seen<'_>, _: &View, findings: &mut Findings) {
        let Seen::Pool(change) = seen else { return };
        let Some(after) = change.after.as_ref().filter(|after| change.moved && is_auto_pool(after)) else { return };
        let [agent, replica] = self.writers.entry(after.spec.subnet.clone()).or_default();
        (*agent, *replica) = (*agent || change.by_agent, *replica || change.by_replica);
        if *agent && *replica {
            findings.held();
        }
    }
}

/// Two agents have changed the addresses of one pool, which they do for workloads that the controller does not know.
#[derive(Default)]
pub(crate) struct AgentsScaleOnePool {
    /// The agent that created or changed each pool last.
    writers: FxHashMap<Arc<str>, ProcessId>,
}

impl IpamClaim for AgentsScaleOnePool {
    fn event_mask(&self) -> EventMask {
        EventMask::POOL
    }

    fn observe(&mut self, seen: &Seen<'_>, _: &View, findings: &mut Findings) {
        let Seen::Pool(change) = seen else { return };
        let Some(after) = &change.after else {
            self.writers.remove(&change.pool);
            return;
        };
        if !change.moved || !change.by_agent || !is_auto_pool(after) {
            return;
        }
        let by = change.said.by;
        if self.writers.insert(change.pool.clone(), by).is_some_and(|last| last != by) {
            findings.held();
        }
    }
}

#[cfg(test)]
mod tests {
    use kube_machinery::api::Reason;

    use super::super::super::testing::on_stage;

    #[test]
    fn an_auto_pool_is_made_grows_shrinks_and_goes() {
        for (claim, holds_after) in
            [("an-auto-pool-is-made", 1), ("an-auto-pool-grows", 2), ("an-auto-pool-shrinks", 3), ("an-auto-pool-is-reclaimed", 4)]
        {
            on_stage(claim, |stage| {
                let by = stage.replicas[0];
                stage.pool("manual", &["10.0.0.9"]);
                stage.resize(by, "manual", &["10.0.0.8-10.0.0.9"]);
                stage.resize(by, "manual", &["10.0.0.9"]);
                stage.terminate_pool(by, "manual");
                for step in 1..=4 {
                    assert_eq!(stage.held(), step > holds_after, "before step {step} of {claim}");
                    match step {
                        1 => stage.auto_pool(by, "auto", "u", &["10.0.0.1"]),
                        2 => stage.resize(by, "auto", &["10.0.0.1-10.0.0.3"]),
                        3 => stage.resize(by, "auto", &["10.0.0.1-10.0.0.2"]),
                        _ => stage.terminate_pool(by, "auto"),
                    }
                }
                assert!(stage.held());
            });
        }
    }

    #[test]
    fn a_refusal_an_overlap_and_two_writers_are_seen() {
        on_stage("a-pool-is-refused", |stage| {
            stage.refused_write(stage.person, Reason::Conflict);
            assert!(!stage.held());
            stage.refused_write(stage.person, Reason::Invalid);
            assert!(stage.held());
        });
        on_stage("pools-overlap", |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.2"]);
            stage.pool("q", &["10.0.0.3-10.0.0.4"]);
            assert!(!stage.held());
            stage.resize(stage.person, "q", &["10.0.0.2-10.0.0.4"]);
            assert!(stage.held());
        });
        on_stage("agents-and-the-controller-write-one-pool", |stage| {
            stage.auto_pool(stage.replicas[0], "auto", "u", &["10.0.0.1"]);
            assert!(!stage.held());
            stage.record(stage.agent, "auto", "10.0.0.1", "ns/a", "a");
            assert!(stage.held());
        });
    }
    #[test]
    fn two_agents_that_scale_one_pool_and_a_subnet_that_agents_and_the_controller_share_are_seen() {
        on_stage("agents-scale-one-pool", |stage| {
            let (one, other) = (stage.agent, stage.other_agent);
            stage.auto_pool(one, "auto", "u", &["10.0.0.1"]);
            stage.resize(one, "auto", &["10.0.0.1-10.0.0.3"]);
            stage.record(other, "auto", "10.0.0.1", "ns/a", "a");
            assert!(!stage.held());
            stage.resize(other, "auto", &["10.0.0.1-10.0.0.2"]);
            assert!(stage.held());
        });
        on_stage("agents-and-the-controller-scale-on-one-subnet", |stage| {
            stage.auto_pool(stage.replicas[0], "auto", "u", &["10.0.0.1"]);
            stage.record(stage.agent, "auto", "10.0.0.1", "ns/a", "a");
            assert!(!stage.held());
            stage.auto_pool(stage.agent, "other", "v", &["10.0.0.2"]);
            assert!(stage.held());
        });
    }
}
