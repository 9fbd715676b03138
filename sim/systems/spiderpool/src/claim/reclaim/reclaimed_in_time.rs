//! G GL1 to GL7: leaked addresses are taken back in time.

use std::net::IpAddr;
use std::sync::Arc;

use sim_config::time::SimTime;

use super::super::view::{EventMask, Seen, View};
use super::super::{Findings, IpamClaim};
use super::due::Due;
use super::leak::{Kind, Leak, by_scan, by_tracing, hinders_records, is_reclaimed, recorded_leak};
use crate::workload::ReclaimNote;

/// The way in which addresses are taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReclaimCase {
    /// GL1: the object of an ordinary pod is gone, and its DEL did not release the addresses. Counted from the end of its grace period if
    /// the pod vanished before that. Broken by `event-lost-on-error`, `full-database-drops-newest`, `database-keyed-by-name` and
    /// `static-by-kind-only`.
    VanishedPodsAreReclaimedInTime,
    /// GL2: an ordinary pod is terminating, its grace period is over, and the settings do not exempt the pods of its node.
    StuckPodsAreReclaimedInTime,
    /// GL3: an ordinary pod has ended and still exists. Broken by `terminal-pods-not-scanned`, where tracing missed it.
    EndedPodsAreReclaimedInTime,
    /// GL4: every leak is found by a scan at the latest. Broken by `one-list-error-ends-scan`, `no-scan-on-takeover`,
    /// `terminal-pods-not-scanned` and `pools-without-version-skipped`; `standbys-scan-once` changes a figure.
    LeaksAreFoundByScans,
    /// GL5: a place was given up before its pod began to end. Broken by `terminating-static-ignored`.
    GivenUpPlacesAreReclaimedInTime,
    /// GL6: a place was given up when its pod was ending, or gone. Only scans find it.
    AbandonedPlacesAreReclaimedByScans,
    /// GL7: a record without an endpoint, of a gone pod. Only scans find it.
    RecordsWithoutEndpointsAreReclaimedByScans,
}

/// Addresses that a pod is no longer entitled to are recorded for it no longer than taking them back takes (G §10.2), as `leak.rs` counts
/// it.
///
/// If the endpoint still names another gone pod, whose containers may answer on the addresses, the bound counts from the later end (S-8).
///
/// The bound is judged before the first event after it, and when the run ends. It does not judge addresses that were edited by hand, unless
/// the record names a pod that was never seen, or the pods of nodes that the settings exempt.
pub(crate) struct ReclaimedInTime {
    way: ReclaimCase,
    due: Due,
}

impl ReclaimedInTime {
    /// The claim about one way of taking addresses back: each is a separate claim in the catalogue.
    pub(crate) fn on(way: ReclaimCase) -> Self {
        Self { way, due: Due::default() }
    }

    /// The time by which the addresses of a pod have to be taken back; `None` = they are, or they are taken back in another way.
    fn deadline(&self, view: &View, uid: &str) -> Option<(SimTime, Leak, Arc<str>, IpAddr)> {
        let (leak, pool, address) = recorded_leak(view, uid)?;
        let is_bare = || view.pods.get(uid).is_none_or(|pod| pod.gone && view.endpoint_of(pod).is_none());
        let by = match (self.way, leak.kind) {
            (ReclaimCase::VanishedPodsAreReclaimedInTime, Kind::Vanished)
            | (ReclaimCase::StuckPodsAreReclaimedInTime, Kind::Stuck)
            | (ReclaimCase::EndedPodsAreReclaimedInTime, Kind::Ended)
            | (ReclaimCase::GivenUpPlacesAreReclaimedInTime, Kind::GivenUp) => by_tracing(view, uid, &leak),
            (ReclaimCase::LeaksAreFoundByScans, _) | (ReclaimCase::AbandonedPlacesAreReclaimedByScans, Kind::Abandoned) => {
                by_scan(view, &leak, hinders_records)
            }
            (ReclaimCase::RecordsWithoutEndpointsAreReclaimedByScans, _) if is_bare() => by_scan(view, &leak, hinders_records),
            _ => return None,
        };
        Some((by, leak, pool, address))
    }
}

/// The events that [`suspects`] looks at.
pub(super) const SUSPECTS: EventMask =
    EventMask::LIFE.and(EventMask::POOL).and(EventMask::PLACES).and(EventMask::NODE).and(EventMask::RECLAIM);

/// The pods that an event may cause to leak, or whose bound it may bring forward.
pub(super) fn suspects(seen: &Seen<'_>, view: &View) -> Vec<Arc<str>> {
    // An agent considers a failed pod alive if its containers were to be restarted, but it is over.
    let has_ended = |uid: &str| view.pods.get(uid).is_some_and(|pod| pod.since.ended.is_some());
    let all = || view.pools.uids().filter(|uid| !view.pods.is_alive(uid) || has_ended(uid)).map(Arc::from).collect();
    match seen {
        Seen::Life(uid) => vec![uid.clone()],
        Seen::Pool(change) => {
            let given = change.edits.iter().filter_map(|edit| edit.given()).map(|(_, record)| &*record.pod_uid);
            given.filter(|uid| !view.pods.is_alive(uid)).map(Arc::from).collect()
        }
        Seen::Places | Seen::Node | Seen::Reclaim(_, ReclaimNote::Leads(true)) => all(),
        _ => Vec::new(),
    }
}

impl IpamClaim for ReclaimedInTime {
    fn event_mask(&self) -> EventMask {
        SUSPECTS
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        if !is_reclaimed(view) {
            return;
        }
        for uid in suspects(seen, view) {
            if let Some((by, ..)) = self.deadline(view, &uid) {
                self.due.expect(&uid, by, findings);
            }
        }
    }

    fn overdue(&mut self, at: SimTime, view: &View, findings: &mut Findings) {
        for uid in self.due.take(at) {
            findings.exercised();
            let Some((by, leak, pool, address)) = self.deadline(view, &uid) else { continue };
            if by > at {
                self.due.expect(&uid, by, findings);
                continue;
            }
            findings.violated(|| {
                let mut lines = vec![
                    format!("{address} of pool {pool} is still recorded for {}", view.pod_of(&uid)),
                    format!("its entitlement ended at {}, and the release was due by {by}", leak.due),
                    view.story_of(&pool, address),
                ];
                lines.extend(
                    view.replicas
                        .for_uid(&uid)
                        .iter()
                        .map(|announced| format!("release announced {} ({})", view.by(announced.said), announced.row.code())),
                );
                lines
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ipam_spiderpool::reclaim::{Dropped, ReclaimSettings};

    use super::super::super::testing::{Stage, on_stage_with};
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use kube_sim::rt::ProcessId;
    use kube_sim::trace::FaultChange;

    const FIRST: &[(&str, &str, &str)] = &[("eth0", "p", "10.0.0.1")];

    fn settings(settings: &mut ReclaimSettings) {
        settings.interval = Duration::from_secs(600);
    }

    fn staged(claim: &'static str, test: impl FnOnce(&mut Stage)) {
        on_stage_with(claim, settings, |stage| {
            stage.reclaims(stage.replicas[0], ReclaimNote::Leads(true));
            stage.node_is_shown("node-0", true);
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.pod("ns/a", "a");
            stage.add("ns/a", "a", FIRST);
            test(stage);
        });
    }

    /// Whether the claim is violated a number of seconds after `end`, and is not if the address is reclaimed a moment after that.
    fn late(claim: &'static str, end: fn(&mut Stage), seconds: u64) -> bool {
        staged(claim, |stage| {
            end(stage);
            stage.reclaim(stage.replicas[0], "ns/a", "a", "p", "10.0.0.1");
            stage.pass(Duration::from_secs(10_000));
            assert_eq!(stage.excuses(), [], "{claim}: it is back");
        });
        let mut late = false;
        staged(claim, |stage| {
            end(stage);
            stage.pass(Duration::from_secs(seconds));
            late = !stage.excuses().is_empty();
            assert!(!late || stage.exercised());
        });
        late
    }

    #[test]
    fn each_way_has_its_bound() {
        let vanish: fn(&mut Stage) = |stage| {
            stage.pod_is("ns/a", "Succeeded", None);
            stage.pod_gone("ns/a");
        };
        let stick: fn(&mut Stage) = |stage| stage.terminate_with("ns/a", 30);
        let end: fn(&mut Stage) = |stage| stage.pod_is("ns/a", "Failed", None);
        for (claim, event, early, too_late) in [
            ("vanished-pods-are-reclaimed-in-time", vanish, 10, 30),
            ("stuck-pods-are-reclaimed-in-time", stick, 70, 90),
            ("ended-pods-are-reclaimed-in-time", end, 40, 60),
            ("leaks-are-found-by-scans", vanish, 600, 630),
            ("leaks-are-found-by-scans", stick, 660, 690),
        ] {
            assert!(!late(claim, event, early), "{claim} after {early} s");
            assert!(late(claim, event, too_late), "{claim} after {too_late} s");
        }
    }

    #[test]
    fn a_node_that_came_back_too_late_has_its_time_unless_it_is_lost_again() {
        let back: fn(&mut Stage) = |stage| {
            stage.node_is_shown("node-0", false);
            stage.terminate_with("ns/a", 30);
            stage.pass(Duration::from_secs(50));
            stage.node_returns("node-0");
        };
        let lost_again: fn(&mut Stage) = |stage| {
            stage.node_is_shown("node-0", false);
            stage.terminate_with("ns/a", 30);
            stage.pass(Duration::from_secs(50));
            stage.node_returns("node-0");
            stage.pass(Duration::from_secs(50));
            stage.node_is_shown("node-0", false);
        };
        let claim = "stuck-pods-are-reclaimed-in-time";
        assert!(!late(claim, back, 60) && late(claim, back, 90));
        assert!(!late(claim, lost_again, 10) && late(claim, lost_again, 30));
    }

    #[test]
    fn a_pod_that_vanishes_before_its_grace_is_over_has_the_rest_of_it() {
        let vanish: fn(&mut Stage) = |stage| {
            stage.terminate_with("ns/a", 30);
            stage.pod_gone("ns/a");
        };
        assert!(!late("vanished-pods-are-reclaimed-in-time", vanish, 70));
        assert!(late("vanished-pods-are-reclaimed-in-time", vanish, 90));
    }

    #[test]
    fn to_who_missed_the_end_of_a_pod_its_grace_begins_when_a_list_or_a_stream_tells_that_it_is_gone() {
        fn vanish(stage: &mut Stage, watches: bool, list: impl Fn(&mut Stage, ProcessId)) {
            let replica = stage.replicas[0];
            list(stage, replica);
            // A second list directly after the first covers the pods that the first one showed.
            list(stage, replica);
            stage.pod_is("ns/a", "Succeeded", None);
            if watches {
                stage.pod_is_shown("ns/a");
            }
            stage.pod_gone("ns/a");
            stage.pass(Duration::from_secs(5));
            list(stage, replica);
        }
        let claim = "vanished-pods-are-reclaimed-in-time";
        let told: [fn(&mut Stage); 2] =
            [|stage| vanish(stage, true, Stage::lists::<Pod>), |stage| vanish(stage, true, Stage::streams_pods)];
        for told in told {
            assert!(!late(claim, told, 5) && late(claim, told, 25));
        }
        let missed: [fn(&mut Stage); 2] =
            [|stage| vanish(stage, false, Stage::lists::<Pod>), |stage| vanish(stage, false, Stage::streams_pods)];
        for missed in missed {
            assert!(!late(claim, missed, 70) && late(claim, missed, 95));
        }
    }

    #[test]
    fn other_ways_are_not_meant() {
        let stick: fn(&mut Stage) = |stage| stage.terminate_with("ns/a", 30);
        for claim in ["vanished-pods-are-reclaimed-in-time", "ended-pods-are-reclaimed-in-time", "given-up-places-are-reclaimed-in-time"] {
            assert!(!late(claim, stick, 10_000), "{claim}");
        }
    }

    #[test]
    fn a_place_that_is_given_up_before_or_after_its_pod_ends_makes_the_difference() {
        for (first, claim) in [(true, "given-up-places-are-reclaimed-in-time"), (false, "abandoned-places-are-reclaimed-by-scans")] {
            on_stage_with(claim, settings, |stage| {
                stage.reclaims(stage.replicas[0], ReclaimNote::Leads(true));
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.stateful_set("ns/web", 1);
                stage.static_pod("ns/web-0", "a");
                stage.add("ns/web-0", "a", FIRST);
                if first {
                    stage.stateful_set("ns/web", 0);
                }
                stage.pod_is("ns/web-0", "Succeeded", None);
                stage.pod_gone("ns/web-0");
                stage.pass(Duration::from_secs(5_000));
                assert_eq!(stage.excuses().len(), usize::from(first));
                stage.stateful_set("ns/web", 0);
                stage.pass(Duration::from_secs(590));
                assert_eq!(stage.excuses().len(), usize::from(first), "the scan comes");
                stage.pass(Duration::from_secs(40));
                assert_eq!(stage.excuses(), [None]);
            });
        }
    }

    #[test]
    fn a_pod_whose_endpoint_still_names_a_gone_predecessor_has_the_grace_of_that_one() {
        for (claim, interval) in [("given-up-places-are-reclaimed-in-time", 0), ("leaks-are-found-by-scans", 600)] {
            for names_predecessor in [true, false] {
                on_stage_with(claim, settings, |stage| {
                    stage.reclaims(stage.replicas[0], ReclaimNote::Leads(true));
                    stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                    stage.stateful_set("ns/web", 1);
                    stage.static_pod("ns/web-0", "a");
                    stage.add("ns/web-0", "a", FIRST);
                    // Its containers have twice 30 s and the additional delay.
                    stage.pod_gone("ns/web-0");
                    stage.static_pod("ns/web-0", "b");
                    stage.record(stage.agent, "p", "10.0.0.1", "ns/web-0", "b");
                    if !names_predecessor {
                        stage.endpoint(stage.agent, "ns/web-0", "b", FIRST);
                    }
                    stage.stateful_set("ns/web", 0);
                    stage.pod_is("ns/web-0", "Succeeded", None);
                    stage.pod_gone("ns/web-0");
                    stage.pass(Duration::from_secs(interval + 40));
                    assert_eq!(stage.excuses().is_empty(), names_predecessor, "{claim}: the predecessor is named: {names_predecessor}");
                    stage.pass(Duration::from_secs(50));
                    assert_eq!(stage.excuses(), [None], "{claim}: the predecessor is named: {names_predecessor}");
                });
            }
        }
    }

    #[test]
    fn a_record_without_an_endpoint_waits_for_a_scan() {
        staged("records-without-endpoints-are-reclaimed-by-scans", |stage| {
            stage.pod_gone("ns/a");
            stage.pass(Duration::from_secs(5_000));
            assert_eq!(stage.excuses(), [], "there is an endpoint");
            stage.endpoint_gone(stage.kubelet, "ns/a");
            stage.record(stage.agent, "p", "10.0.0.2", "ns/a", "a");
            stage.pass(Duration::from_secs(590));
            assert_eq!(stage.excuses(), []);
            stage.pass(Duration::from_secs(40));
            assert_eq!(stage.excuses(), [None]);
        });
    }

    #[test]
    fn a_record_that_is_made_when_there_is_nothing_left_to_trace_waits_for_a_scan() {
        for late in [false, true] {
            staged("vanished-pods-are-reclaimed-in-time", |stage| {
                let replica = stage.replicas[0];
                stage.pod_is("ns/a", "Succeeded", None);
                if late {
                    stage.unrecord(stage.agent, "p", "10.0.0.1");
                }
                stage.pod_gone("ns/a");
                stage.pass(Duration::from_secs(6));
                stage.reclaims(replica, ReclaimNote::Dropped { pod: "ns/a".into(), uid: "a".into(), why: Dropped::Moot });
                stage.pass(Duration::from_secs(1));
                if late {
                    stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "a");
                }
                stage.pass(Duration::from_secs(40));
                assert_eq!(stage.excuses().len(), usize::from(!late));
                stage.pass(Duration::from_secs(620));
                assert_eq!(stage.excuses(), [None]);
            });
        }
    }

    #[test]
    fn a_record_that_somebody_wrote_for_a_pod_that_never_was_waits_for_a_scan() {
        for (name, is_kept) in [("ns/nobody", false), ("ns/web-0", true)] {
            staged("records-without-endpoints-are-reclaimed-by-scans", |stage| {
                let person = stage.process("operator");
                stage.stateful_set("ns/web", 1);
                stage.record(person, "p", "10.0.0.2", name, "none");
                stage.pass(Duration::from_secs(590));
                assert_eq!(stage.excuses(), []);
                stage.pass(Duration::from_secs(40));
                assert_eq!(stage.excuses().is_empty(), is_kept, "{name}");
            });
        }
    }

    #[test]
    fn a_pod_that_failed_is_over_although_its_containers_were_to_start_again() {
        let off = |all: &mut ReclaimSettings| {
            settings(all);
            all.on_not_ready_node = false;
        };
        on_stage_with("ended-pods-are-reclaimed-in-time", off, |stage| {
            stage.reclaims(stage.replicas[0], ReclaimNote::Leads(true));
            stage.node_is_shown("node-0", false);
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.pod("ns/a", "a");
            stage.add("ns/a", "a", FIRST);
            stage.change::<k8s_openapi::api::core::v1::Pod>(stage.kubelet, &kube_machinery::ObjectKey::namespaced("ns", "a"), |pod| {
                pod.spec.get_or_insert_default().restart_policy = Some("Always".to_owned());
            });
            stage.pod_is("ns/a", "Failed", None);
            stage.pass(Duration::from_secs(1_000));
            assert_eq!(stage.excuses(), [], "its node is left alone");
            stage.node_is_shown("node-0", true);
            stage.pass(Duration::from_secs(100));
            assert_eq!(stage.excuses(), [None]);
        });
    }

    #[test]
    fn a_takeover_finds_at_once_what_was_missed_before() {
        for scans in [true, false] {
            staged("leaks-are-found-by-scans", |stage| {
                stage.pod_is("ns/a", "Succeeded", None);
                stage.pod_gone("ns/a");
                stage.pass(Duration::from_secs(20));
                if scans {
                    stage.reclaims(stage.replicas[0], ReclaimNote::Leads(false));
                    stage.reclaims(stage.replicas[1], ReclaimNote::Leads(true));
                }
                stage.pass(Duration::from_secs(30));
                assert_eq!(stage.excuses().len(), usize::from(scans));
            });
        }
    }

    #[test]
    fn faults_that_can_hinder_it_put_the_bound_off_until_after_the_heal() {
        staged("vanished-pods-are-reclaimed-in-time", |stage| {
            stage.fault(FaultChange::Began);
            stage.pod_is("ns/a", "Succeeded", None);
            stage.pod_gone("ns/a");
            stage.fault(FaultChange::Ended);
            stage.pass(Duration::from_secs(600));
            assert_eq!(stage.excuses(), []);
            stage.pass(Duration::from_secs(200));
            assert_eq!(stage.excuses(), [None]);
        });
    }

    #[test]
    fn who_is_off_by_its_node_or_by_hand_is_not_meant() {
        on_stage_with(
            "stuck-pods-are-reclaimed-in-time",
            |settings| settings.on_not_ready_node = false,
            |stage| {
                stage.reclaims(stage.replicas[0], ReclaimNote::Leads(true));
                stage.node_is_shown("node-0", false);
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.pod("ns/a", "a");
                stage.add("ns/a", "a", FIRST);
                stage.terminate_with("ns/a", 30);
                stage.pass(Duration::from_secs(10_000));
                assert_eq!((stage.excuses(), stage.exercised()), (vec![], false));
                stage.node_is_shown("node-0", true);
                // Its kubelet has the grace period once more, and again.
                stage.pass(Duration::from_secs(70));
                assert_eq!(stage.excuses(), []);
                stage.pass(Duration::from_secs(20));
                assert_eq!(stage.excuses(), [None]);
            },
        );
        staged("vanished-pods-are-reclaimed-in-time", |stage| {
            stage.pod_gone("ns/a");
            stage.record(stage.person, "p", "10.0.0.1", "ns/a", "b");
            stage.record(stage.person, "p", "10.0.0.1", "ns/a", "a");
            stage.pass(Duration::from_secs(10_000));
            assert_eq!(stage.excuses(), []);
        });
    }
}
