//! G §2.1: reclaim that is switched off does nothing.

use super::super::view::{EventMask, Seen, View};
use super::super::{Findings, IpamClaim};
use super::{ends, violated};

/// A replica of the controller that started while `SPIDERPOOL_GC_IP_ENABLED` was off removes no record, and ends no endpoint. The setting
/// that it found is known if no fault can delay the change of settings. Writes that were sent while reclaim was on may still arrive.
///
/// The claim is exercised if a pod is gone, its endpoint exists, no place keeps the endpoint, and all running replicas are switched off.
/// Broken by `reclaims-while-switched-off`.
pub(crate) struct SwitchedOffReclaimStandsStill;

impl IpamClaim for SwitchedOffReclaimStandsStill {
    fn event_mask(&self) -> EventMask {
        EventMask::POOL.and(EventMask::ENDPOINT).and(EventMask::LIFE)
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        match seen {
            Seen::Life(uid) => {
                let Some(pod) = view.pods.get(uid).filter(|pod| pod.gone) else { return };
                if view.keeping_place(pod).is_none() && view.endpoint_of(pod).is_some() && view.reclaim_is_switched_off() {
                    findings.exercised();
                }
            }
            Seen::Pool(change) if change.by_replica && view.is_switched_off(change.said.by) => {
                for (address, before) in change.edits.iter().filter_map(|edit| edit.taken()) {
                    let announced = view.replicas.announced(change.said.by, &change.pool, address, &before.pod_uid);
                    if view.may_be_of_a_former_life(change.said.by, announced.map(|announced| &**announced)) {
                        continue;
                    }
                    violated(findings, None, view.changes.touched(address), || {
                        let (name, of) = (view.name(change.said.by), view.pod_of(&before.pod_uid));
                        let line = format!("{name} takes {address} of pool {} from {of}, and runs with reclaim switched off", change.pool);
                        vec![line, view.story_of_write(change)]
                    });
                }
            }
            Seen::Endpoint(change) if change.by_replica && view.is_switched_off(change.said.by) => {
                let announced = view.replicas.announced_endpoint(change.said.by, &change.key);
                if view.may_be_of_a_former_life(change.said.by, announced.map(|announced| &**announced)) {
                    return;
                }
                if let Some(ends) = ends(change) {
                    let name = view.name(change.said.by);
                    let line = format!("the endpoint {} {ends} by {name}, which runs with reclaim switched off", change.key);
                    violated(findings, None, view.changes.touched_endpoint(&change.key), || vec![line]);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kube_sim::trace::ProcessChange;
    use sim_config::time::SimTime;

    use super::super::super::testing::{Stage, on_stage_under};
    use super::super::super::view::Terms;

    /// A stage with a pod that has an address, in a run in which reclaim is on and off from these times on.
    fn staged(switched: &[(u64, bool)], test: impl FnOnce(&mut Stage)) {
        let states = |terms: &mut Terms| switched.iter().for_each(|&(at, on)| terms.switch_reclaim(SimTime::from_secs(at), on));
        on_stage_under("switched-off-reclaim-stands-still", states, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.pod("ns/a", "a");
            stage.add("ns/a", "a", &[("eth0", "p", "10.0.0.1")]);
            // This note makes it known as a replica.
            stage.announce(stage.replicas[0], "ns/other", "other", &[("p", "10.0.0.9")]);
            test(stage);
        });
    }

    fn starts(stage: &mut Stage) {
        for change in [ProcessChange::Crashed, ProcessChange::Started] {
            stage.process_changes(stage.replicas[0], change);
        }
    }

    fn reclaim(stage: &mut Stage) {
        stage.reclaim(stage.replicas[0], "ns/a", "a", "p", "10.0.0.1");
    }

    #[test]
    fn nothing_is_reclaimed_by_who_never_found_it_switched_on() {
        for on in [false, true] {
            staged(&[(0, on)], |stage| {
                stage.pass(Duration::from_secs(2));
                starts(stage);
                stage.pod_gone("ns/a");
                assert_eq!(stage.exercised(), !on, "an address is there to be taken");
                reclaim(stage);
                assert_eq!(stage.excuses().is_empty(), on);
            });
        }
        staged(&[(0, false)], |stage| {
            stage.pod_gone("ns/a");
            stage.announce(stage.replicas[0], "ns/a", "a", &[]);
            stage.mark(stage.replicas[0], "ns/a");
            assert_eq!(stage.excuses(), [None], "an endpoint is left alone, too");
        });
    }

    #[test]
    fn what_a_replica_found_when_it_started_counts_until_it_starts_anew() {
        staged(&[(0, true), (10, false)], |stage| {
            stage.pod_gone("ns/a");
            stage.pass(Duration::from_secs(20));
            reclaim(stage);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], false), "it has not heard of it");
        });
        for (after, violated) in [(10, false), (12, true)] {
            staged(&[(0, true), (10, false)], |stage| {
                stage.pass(Duration::from_secs(after));
                starts(stage);
                stage.pod_gone("ns/a");
                reclaim(stage);
                assert_eq!(stage.excuses().is_empty(), !violated, "the change takes up to a second: {after}");
            });
        }
    }

    #[test]
    fn what_was_announced_before_it_was_switched_off_may_still_arrive() {
        staged(&[(0, true), (10, false)], |stage| {
            stage.pod_gone("ns/a");
            stage.announce(stage.replicas[0], "ns/a", "a", &[("p", "10.0.0.1")]);
            stage.pass(Duration::from_secs(20));
            starts(stage);
            stage.unrecord(stage.replicas[0], "p", "10.0.0.1");
            assert_eq!(stage.excuses(), []);
        });
    }
}
