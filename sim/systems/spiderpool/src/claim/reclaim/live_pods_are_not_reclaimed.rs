//! G GS3: reclaim takes no record of a live pod.

use super::super::view::{EventMask, Seen, View};
use super::super::{Findings, IpamClaim};
use super::{violated, without_ips};

/// A replica of the controller removes no record under the name and with the UID of a pod that, in the store at the moment of the write,
/// exists, has not ended, and is not past its grace period: deletionTimestamp, deletionGracePeriodSeconds and the additional delay after
/// it. The latest of three clocks counts: the true time, the clock of the replica, and that clock when it announced the release.
///
/// Excused as `empty-pod-ips-release`, where the setting is on. Broken by `scan-trusts-cached-pod`, `scan-trusts-cached-endpoint`,
/// `half-written-endpoint-frees`, `grace-counted-once` and `empty-pod-ips-means-gone`. It does not judge pods that are gone while their
/// containers run: they are the business of `live-sandboxes-keep-their-records`.
pub(crate) struct LivePodsAreNotReclaimed;

impl IpamClaim for LivePodsAreNotReclaimed {
    fn event_mask(&self) -> EventMask {
        EventMask::POOL
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Pool(change) = seen else { return };
        if !change.by_replica {
            return;
        }
        for (address, before) in change.edits.iter().filter_map(|edit| edit.taken()) {
            findings.exercised();
            let uid = &*before.pod_uid;
            // The view's evaluation of this very write, with the clocks that count.
            if view.reclaimed_of(uid, address).is_none_or(|reclaimed| reclaimed.entitled) {
                continue;
            }
            let announced = view.replicas.announced(change.said.by, &change.pool, address, uid).map(|announced| &**announced);
            violated(findings, without_ips(view, uid, announced), view.changes.touched(address), || {
                let pod = view.pods.get(uid);
                let stop = pod.and_then(|pod| view.stop_of(&pod.object));
                let until = stop.map_or(String::new(), |stop| format!(", whose grace is over at {stop}"));
                vec![
                    format!("{address} of pool {} is reclaimed of {}{until}", change.pool, view.pod_of(uid)),
                    view.story_of_write(change),
                    view.story_of(&change.pool, address),
                ]
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::BY_HAND;
    use super::super::super::testing::{Stage, on_stage, on_stage_with};
    use super::super::super::view::EMPTY_POD_IPS;
    use std::time::Duration;

    const CLAIM: &str = "live-pods-are-not-reclaimed";

    fn with_pod(stage: &mut Stage) {
        stage.pool("p", &["10.0.0.1-10.0.0.9"]);
        stage.pod("ns/a", "a");
        stage.add("ns/a", "a", &[("eth0", "p", "10.0.0.1")]);
    }

    fn reclaim(stage: &mut Stage) {
        stage.reclaim(stage.replicas[0], "ns/a", "a", "p", "10.0.0.1");
    }

    #[test]
    fn what_a_live_pod_has_is_not_reclaimed() {
        on_stage(CLAIM, |stage| {
            with_pod(stage);
            reclaim(stage);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![None], true));
            assert!(stage.detail()[0].starts_with("10.0.0.1 of pool p is reclaimed of ns/a (uid a, alive"), "{:?}", stage.detail());
        });
    }

    #[test]
    fn a_pod_that_is_gone_has_ended_or_is_unknown_may_lose_it() {
        let gone: [fn(&mut Stage); 3] =
            [|stage| stage.pod_gone("ns/a"), |stage| stage.pod_is("ns/a", "Succeeded", None), |stage| stage.pod_is("ns/a", "Failed", None)];
        for end in gone {
            on_stage(CLAIM, |stage| {
                with_pod(stage);
                end(stage);
                reclaim(stage);
                assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            });
        }
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1"]);
            stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "a");
            reclaim(stage);
            assert_eq!(stage.excuses(), []);
        });
    }

    #[test]
    fn a_terminating_pod_keeps_it_for_two_graces_and_the_delay() {
        for (delay, seconds, keeps) in [(0, 59, true), (0, 61, false), (5, 61, true), (5, 66, false)] {
            on_stage_with(
                CLAIM,
                |settings| settings.grace_delay = jiff::SignedDuration::from_secs(delay),
                |stage| {
                    with_pod(stage);
                    stage.terminate_with("ns/a", 30);
                    stage.pass(Duration::from_secs(seconds));
                    reclaim(stage);
                    assert_eq!(stage.excuses().len(), usize::from(keeps), "delay {delay} s, after {seconds} s");
                },
            );
        }
    }

    #[test]
    fn a_clock_that_is_ahead_when_a_release_is_announced_counts() {
        on_stage(CLAIM, |stage| {
            with_pod(stage);
            stage.terminate_with("ns/a", 30);
            stage.clock_ahead(stage.replicas[0], Duration::from_secs(61));
            reclaim(stage);
            assert_eq!(stage.excuses(), []);
        });
    }

    #[test]
    fn a_running_pod_without_an_address_is_excused_where_a_setting_wants_it() {
        for (set, excuse) in [(true, Some(EMPTY_POD_IPS)), (false, None)] {
            on_stage_with(
                CLAIM,
                |settings| settings.running_without_ips = set,
                |stage| {
                    with_pod(stage);
                    stage.pod_is("ns/a", "Running", None);
                    reclaim(stage);
                    assert_eq!(stage.excuses(), [excuse]);
                    stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "a");
                    stage.pod_is("ns/a", "Running", Some("10.0.0.1"));
                    reclaim(stage);
                    assert_eq!(stage.excuses(), [excuse, None]);
                },
            );
        }
    }

    #[test]
    fn a_pod_that_has_an_address_again_is_excused_if_it_had_none_when_its_release_was_announced() {
        for (passes, excuse) in [(Duration::ZERO, Some(EMPTY_POD_IPS)), (Duration::from_secs(2), None)] {
            on_stage_with(
                CLAIM,
                |settings| settings.running_without_ips = true,
                |stage| {
                    with_pod(stage);
                    stage.pod_is("ns/a", "Running", None);
                    stage.pass(Duration::from_secs(1));
                    if !passes.is_zero() {
                        stage.pod_is("ns/a", "Running", Some("10.0.0.1"));
                        stage.pass(passes);
                    }
                    stage.announce(stage.replicas[0], "ns/a", "a", &[("p", "10.0.0.1")]);
                    stage.pass(Duration::from_millis(20));
                    stage.pod_is("ns/a", "Running", Some("10.0.0.1"));
                    stage.unrecord(stage.replicas[0], "p", "10.0.0.1");
                    assert_eq!(stage.excuses(), [excuse], "{passes:?}");
                },
            );
        }
    }

    #[test]
    fn a_pod_that_has_an_address_again_is_excused_if_it_had_none_when_its_replica_asked_for_it() {
        for (passes, excuse) in [(4, Some(EMPTY_POD_IPS)), (6, None)] {
            on_stage_with(
                CLAIM,
                |settings| settings.running_without_ips = true,
                |stage| {
                    with_pod(stage);
                    stage.pod_is("ns/a", "Running", None);
                    stage.asks::<k8s_openapi::api::core::v1::Pod>(stage.replicas[0], &kube_machinery::ObjectKey::namespaced("ns", "a"));
                    stage.pass(Duration::from_millis(1));
                    stage.pod_is("ns/a", "Running", Some("10.0.0.1"));
                    stage.pass(Duration::from_secs(passes));
                    stage.announce(stage.replicas[0], "ns/a", "a", &[("p", "10.0.0.1")]);
                    stage.unrecord(stage.replicas[0], "p", "10.0.0.1");
                    assert_eq!(stage.excuses(), [excuse], "{passes} s");
                },
            );
        }
    }

    #[test]
    fn agents_are_not_meant_and_hands_excuse() {
        on_stage(CLAIM, |stage| {
            with_pod(stage);
            stage.unrecord(stage.agent, "p", "10.0.0.1");
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], false));
            stage.record(stage.person, "p", "10.0.0.1", "ns/a", "a");
            reclaim(stage);
            assert_eq!(stage.excuses(), [Some(BY_HAND)]);
        });
    }

    #[test]
    fn a_record_under_another_name_is_not_the_pods() {
        on_stage(CLAIM, |stage| {
            with_pod(stage);
            stage.record(stage.agent, "p", "10.0.0.2", "ns/b", "a");
            stage.reclaim(stage.replicas[0], "ns/b", "a", "p", "10.0.0.2");
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
        });
    }
}
