//! A S18: dead pods get no address.

use super::view::{EventMask, Seen, Shown, View};
use super::{Findings, IpamClaim};

/// No agent records an address, by a new record or by handing one on, for a pod that its watch had shown as terminating, over or gone (A
/// §7.2) before the request for the pod began, or a request without a UID for a gone pod of its name. A stale cache is an excuse.
///
/// Broken by `uid-from-cached-pod`. It does not consider what an agent could have read live.
pub(crate) struct DeadPodsGetNoAddress;

impl IpamClaim for DeadPodsGetNoAddress {
    fn event_mask(&self) -> EventMask {
        EventMask::POOL
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Pool(change) = seen else { return };
        if !change.by_agent {
            return;
        }
        for (address, record) in change.edits.iter().filter_map(|edit| edit.given()) {
            let Some(pod) = view.pods.get(&record.pod_uid) else { continue };
            findings.exercised();
            let is_taken_for_it = |asked: &str| view.taken_for(asked).any(|uid| **uid == *record.pod_uid);
            let shown = view.agents.shown_before_any_add(change.said.by, &record.pod_uid, is_taken_for_it, Shown::Pods);
            if let Some(dead) = pod.dead.filter(|dead| *dead <= shown) {
                findings.violated(|| {
                    vec![
                        format!("{address} is recorded for {}", view.pod_of(&record.pod_uid)),
                        format!("{} had been shown pods up to revision {shown}; this one is dead since {dead}", view.name(change.said.by)),
                        view.story_of_write(change),
                    ]
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::super::testing::{on_stage, on_stage_under};
    use kube_sim::trace::ProcessChange;

    const CLAIM: &str = "dead-pods-get-no-address";

    #[test]
    fn only_what_an_agent_was_shown_before_it_was_asked_counts() {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.pod("ns/a", "a");
            stage.ask("ns/a", "a", "eth0");
            stage.terminate("ns/a");
            stage.deliver::<Pod>(stage.agent);
            stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "a");
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            stage.pod("ns/b", "b");
            stage.pod_gone("ns/b");
            stage.deliver::<Pod>(stage.agent);
            stage.ask("ns/b", "b", "eth0");
            stage.record(stage.agent, "p", "10.0.0.2", "ns/b", "b");
            assert_eq!(stage.excuses(), [None]);
        });
    }

    #[test]
    fn without_a_uid_what_was_shown_before_a_request_for_the_pod_before_counts_as_long_as_that_is_open() {
        for (open, excuses) in [(true, vec![]), (false, vec![None])] {
            on_stage_under(
                CLAIM,
                |terms| terms.without_uid.extend(["node-0".to_owned()]),
                |stage| {
                    stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                    stage.pod("ns/a", "old");
                    stage.pod_gone("ns/a");
                    stage.pod("ns/a", "new");
                    stage.deliver::<Pod>(stage.agent);
                    stage.ask("ns/a", "old", "eth0");
                    if !open {
                        stage.answer("ns/a", "old", "eth0", &[]);
                    }
                    stage.terminate("ns/a");
                    stage.deliver::<Pod>(stage.agent);
                    stage.ask("ns/a", "new", "eth0");
                    stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "new");
                    assert_eq!(stage.excuses(), excuses, "open: {open}");
                },
            );
        }
    }

    #[test]
    fn a_process_that_lost_its_memory_was_shown_nothing() {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.pod("ns/a", "a");
            stage.terminate("ns/a");
            stage.deliver::<Pod>(stage.agent);
            stage.process_changes(stage.agent, ProcessChange::Crashed);
            stage.ask("ns/a", "a", "eth0");
            stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "a");
            assert_eq!(stage.excuses(), []);
        });
    }
}
