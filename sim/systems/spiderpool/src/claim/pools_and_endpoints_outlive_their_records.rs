//! A S14: pools and endpoints outlive their records.

use std::sync::Arc;

use ipam_spiderpool::SpiderEndpoint;
use kube_machinery::{FxHashMap, FxHashSet};

use super::view::{EMPTY_POD_IPS, EndpointChange, EventMask, Seen, View, addresses_of, uid_of};
use super::{Findings, IpamClaim, violated};

/// No pool vanishes while it has records, and no endpoint while one of its addresses is recorded for its UID.
///
/// An endpoint of a live pod that was marked by Kubernetes' garbage collector or by hand, or was being deleted before the run, can only be
/// replaced: the agent that serves the pod removes its finalizer and makes another one for the same records, which may be those of NICs
/// that answer. That does not count as the end of the endpoint while the pod lives and the agent is asked for its addresses; whether the
/// new one comes is the business of `records-equal-endpoints`. The agent does the same with the endpoint of a running pod that reclaim
/// marked, as a setting permits (G EX3), even while reclaim is still removing the records: that is excused as `empty-pod-ips-release`. Or
/// it makes the records anew after reclaim removed them and before reclaim removes the endpoint's finalizer, and makes another endpoint
/// afterwards. That is excused as well, as far as the records are newer than the mark and made by agents that are asked for the pod.
///
/// Broken by `endpoint-delete-by-name`, `namesake-records-left` and by hand. It does not see who asked for the deletion.
#[derive(Default)]
pub(crate) struct PoolsAndEndpointsOutliveTheirRecords {
    /// The terminating endpoints that neither an agent nor a replica of the controller marked.
    collected: FxHashSet<Arc<str>>,
    /// The terminating endpoints that a replica marked by the setting that permits taking the addresses of a running pod, with the moments
    /// of the marks.
    taken_by_setting: FxHashMap<Arc<str>, u64>,
}

fn is_terminating(endpoint: Option<&Arc<SpiderEndpoint>>) -> bool {
    endpoint.is_some_and(|endpoint| endpoint.metadata.deletion_timestamp.is_some())
}

impl PoolsAndEndpointsOutliveTheirRecords {
    /// Remembers who marked an endpoint.
    fn see_mark(&mut self, change: &EndpointChange, view: &View) {
        let Some(before) = change.before.as_ref() else { return };
        if change.by_replica {
            let announced = view.replicas.announced_endpoint(change.said.by, &change.key);
            if view.runs_without_ips(uid_of(before), announced.map(|announced| &**announced)) {
                self.taken_by_setting.insert(change.key.clone(), change.said.moment);
            }
        } else if !view.agents.is_agent(change.said.by) {
            self.collected.insert(change.key.clone());
        }
    }

    /// Whether the agent of a live pod removes an endpoint in order to replace it, or replaces it after a replica has taken its addresses;
    /// and the hazard that excuses it, if it is not legitimate.
    fn is_replaced(&mut self, change: &EndpointChange, before: &SpiderEndpoint, view: &View) -> (bool, Option<&'static str>) {
        let uid = uid_of(before);
        let is_marked = self.collected.remove(&change.key) || view.began_terminating(before);
        let taken = self.taken_by_setting.remove(&change.key);
        let is_served_by = |process| view.pods.is_alive(uid) && view.agents.asked(process, uid).next().is_some();
        let is_served = is_served_by(change.said.by);
        let made_anew = |taken: u64| {
            let held = addresses_of(before).filter_map(|(_, pool, address)| view.pools.holder(pool, address));
            let mut left = held.filter(|holder| holder.record.pod_uid == *uid);
            left.all(|holder| holder.since.is_some_and(|made| made.moment > taken && is_served_by(made.by)))
        };
        let is_hazard = taken.is_some_and(|taken| is_served || (change.by_replica && made_anew(taken)));
        (is_marked && is_served, is_hazard.then_some(EMPTY_POD_IPS))
    }
}

impl IpamClaim for PoolsAndEndpointsOutliveTheirRecords {
    fn event_mask(&self) -> EventMask {
        EventMask::POOL.and(EventMask::ENDPOINT)
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        match seen {
            Seen::Pool(change) => {
                let (Some(_), None) = (&change.before, &change.after) else { return };
                findings.exercised();
                // All edited records, whether or not they could be parsed.
                let records = change.edits.len();
                if records > 0 {
                    violated(findings, view.changes.touched_pool(&change.pool), || {
                        vec![format!("pool {} vanishes with {records} records", change.pool), view.story_of_write(change)]
                    });
                }
            }
            Seen::Endpoint(change) => {
                if !is_terminating(change.before.as_ref()) && is_terminating(change.after.as_ref()) {
                    self.see_mark(change, view);
                }
                let (Some(before), None) = (&change.before, &change.after) else { return };
                findings.exercised();
                let uid = uid_of(before);
                let recorded = |pool: &str, address| view.pools.holder(pool, address).is_some_and(|holder| holder.record.pod_uid == *uid);
                let left = addresses_of(before).find(|(_, pool, address)| recorded(pool, *address));
                let (is_replaced, hazard) = self.is_replaced(change, before, view);
                if let Some((entry, pool, address)) = left.filter(|_| !is_replaced) {
                    let by_hand = change.by_hand || view.changes.touched_endpoint(&change.key) || view.changes.touched(address);
                    let detail = || {
                        vec![
                            format!(
                                "endpoint {} vanishes {}, and {address} of its {} is still recorded",
                                change.key,
                                view.by(change.said),
                                entry.interface
                            ),
                            view.story_of(pool, address),
                        ]
                    };
                    match hazard {
                        Some(hazard) => findings.violated_with(hazard, detail),
                        None => violated(findings, by_hand, detail),
                    }
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use ipam_spiderpool::SpiderIPPool;
    use ipam_spiderpool::reclaim::ReclaimSettings;
    use kube_machinery::ObjectKey;

    use super::super::BY_HAND;
    use super::super::testing::{Stage, on_stage, on_stage_with};
    use super::super::view::EMPTY_POD_IPS;
    use kube_sim::rt::ProcessId;

    const CLAIM: &str = "pools-and-endpoints-outlive-their-records";

    #[test]
    fn a_pool_goes_without_records() {
        on_stage(CLAIM, |stage| {
            for pool in ["p", "q"] {
                stage.pool(pool, &["10.0.0.1-10.0.0.9"]);
            }
            stage.record(stage.agent, "q", "10.0.0.1", "ns/a", "a");
            stage.put::<SpiderIPPool>(stage.kubelet, &ObjectKey::cluster("p"), None);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
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
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            stage.endpoint(stage.agent, "ns/a", "b", first);
            stage.endpoint_gone(stage.kubelet, "ns/a");
            assert_eq!(stage.excuses(), [None]);
            stage.endpoint(stage.agent, "ns/a", "b", first);
            stage.endpoint_gone(stage.person, "ns/a");
            assert_eq!(stage.excuses(), [None, Some(BY_HAND)]);
        });
    }

    #[test]
    fn an_agent_may_replace_the_endpoint_of_a_living_pod_that_kubernetes_or_a_person_marked() {
        let first: &[(&str, &str, &str)] = &[("eth0", "p", "10.0.0.1")];
        let vanishes = |marked_by: fn(&Stage) -> ProcessId, between: fn(&mut Stage)| {
            let mut excuses = Vec::new();
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.pod("ns/a", "a");
                stage.add("ns/a", "a", first);
                stage.mark(marked_by(stage), "ns/a");
                between(stage);
                stage.endpoint_gone(stage.agent, "ns/a");
                excuses = stage.excuses();
            });
            excuses
        };
        let asks: fn(&mut Stage) = |stage| stage.ask("ns/a", "a", "eth0");
        assert_eq!(vanishes(|stage| stage.kubelet, asks), []);
        assert_eq!(vanishes(|stage| stage.person, asks), []);
        assert_eq!(vanishes(|stage| stage.kubelet, |_| ()), [None], "nobody makes another one");
        assert_eq!(vanishes(|stage| stage.person, |_| ()), [None], "nobody makes another one");
        assert_eq!(vanishes(|stage| stage.agent, asks), [None], "it was the agent itself that marked it");
        assert_eq!(vanishes(|stage| stage.replicas[0], asks), [None], "reclaim marked it");
        let ends: fn(&mut Stage) = |stage| {
            stage.ask("ns/a", "a", "eth0");
            stage.pod_gone("ns/a");
        };
        assert_eq!(vanishes(|stage| stage.kubelet, ends), [None], "the pod is gone");
    }

    #[test]
    fn what_a_setting_lets_reclaim_mark_the_agent_of_the_pod_replaces_and_nobody_else() {
        for (runs_without_ips, asks, by_agent, excuse) in
            [(true, true, true, Some(EMPTY_POD_IPS)), (true, true, false, None), (true, false, true, None), (false, true, true, None)]
        {
            let set = |settings: &mut ReclaimSettings| settings.running_without_ips = true;
            on_stage_with(CLAIM, set, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.pod("ns/a", "a");
                stage.add("ns/a", "a", &[("eth0", "p", "10.0.0.1")]);
                if runs_without_ips {
                    stage.pod_is("ns/a", "Running", None);
                }
                stage.mark(stage.replicas[0], "ns/a");
                if asks {
                    stage.ask("ns/a", "a", "eth0");
                }
                stage.endpoint_gone(if by_agent { stage.agent } else { stage.replicas[0] }, "ns/a");
                assert_eq!(stage.excuses(), [excuse], "runs so: {runs_without_ips}, asks: {asks}, by its agent: {by_agent}");
            });
        }
    }

    #[test]
    fn a_replica_lets_go_by_a_setting_of_what_the_agent_of_the_pod_makes_anew_and_of_nothing_older() {
        for (runs_without_ips, asks, all, by_replica, excuse) in [
            (true, true, true, true, Some(EMPTY_POD_IPS)),
            (true, true, true, false, None),
            (true, true, false, true, None),
            (true, false, true, true, None),
            (false, true, true, true, None),
        ] {
            let set = |settings: &mut ReclaimSettings| settings.running_without_ips = true;
            on_stage_with(CLAIM, set, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.pod("ns/a", "a");
                stage.add("ns/a", "a", &[("eth0", "p", "10.0.0.1"), ("net1", "p", "10.0.0.2")]);
                if runs_without_ips {
                    stage.pod_is("ns/a", "Running", None);
                }
                let replica = stage.replicas[0];
                stage.mark(replica, "ns/a");
                stage.unrecord(replica, "p", "10.0.0.1");
                if all {
                    stage.unrecord(replica, "p", "10.0.0.2");
                }
                if asks {
                    stage.ask("ns/a", "a", "eth0");
                }
                stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "a");
                stage.endpoint_gone(if by_replica { replica } else { stage.kubelet }, "ns/a");
                let told = format!("runs so: {runs_without_ips}, asks: {asks}, took all: {all}, by a replica: {by_replica}");
                assert_eq!(stage.excuses(), [excuse], "{told}");
            });
        }
    }
}
