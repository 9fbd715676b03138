//! Events that happen in some runs, so that scenarios about reclaim test what they are meant to test.

use std::sync::Arc;

use ipam_spiderpool::reclaim::{Releaser, Row, Tracing};
use kube_machinery::{FxHashMap, FxHashSet};
use kube_sim::rt::ProcessId;

use super::super::view::{EventMask, Seen, View};
use super::super::{Findings, IpamClaim};
use super::ends;
use crate::workload::ReclaimNote;

/// Coverage by a single event.
#[derive(Clone, Copy)]
pub(crate) enum ReclaimCoverage {
    /// An executor removes a record.
    AnAddressIsReclaimedByTracing,
    /// A scan removes a record.
    AnAddressIsReclaimedByAScan,
    /// A replica that does not lead removes a record because of a scan.
    AStandbyScansAndReleases,
    /// The database, or the queue of the executors, has no room.
    ReclaimHasNoRoom,
    /// A replica takes the addresses of a running pod whose status names none, as a setting permits.
    APodWithoutAddressesIsReclaimed,
}

impl IpamClaim for ReclaimCoverage {
    fn event_mask(&self) -> EventMask {
        EventMask::POOL.and(EventMask::RECLAIM)
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let removed_by = |wanted: fn(Releaser) -> bool, standby: bool| {
            let Seen::Pool(change) = seen else { return false };
            if !change.by_replica || (standby && view.replicas.leads(change.said.by)) {
                return false;
            }
            change.edits.iter().filter_map(|edit| edit.taken()).any(|(address, before)| {
                let announced = view.replicas.announced(change.said.by, &change.pool, address, &before.pod_uid);
                announced.is_some_and(|announced| wanted(announced.by))
            })
        };
        let holds = match self {
            Self::AnAddressIsReclaimedByTracing => removed_by(|by| by == Releaser::Trace, false),
            Self::AnAddressIsReclaimedByAScan => removed_by(|by| by != Releaser::Trace, false),
            Self::AStandbyScansAndReleases => removed_by(|by| by != Releaser::Trace, true),
            Self::ReclaimHasNoRoom => matches!(seen, Seen::Reclaim(_, ReclaimNote::Full { .. })),
            Self::APodWithoutAddressesIsReclaimed => {
                let Seen::Pool(change) = seen else { return };
                let mut taken = change.edits.iter().filter_map(|edit| edit.taken());
                change.by_replica
                    && taken.any(|(address, before)| {
                        let uid = &*before.pod_uid;
                        let announced = view.replicas.announced(change.said.by, &change.pool, address, uid).map(|announced| &**announced);
                        // A pod whose grace period is over loses them in any case.
                        view.has_right(uid, change.said.by, announced) && view.runs_without_ips(uid, announced)
                    })
            }
        };
        if holds {
            findings.held();
        }
    }
}

/// An endpoint that one replica marked loses its finalizer through another replica.
#[derive(Default)]
pub(crate) struct AMarkedEndpointIsFinishedByAnother {
    marked: FxHashMap<Arc<str>, ProcessId>,
}

impl IpamClaim for AMarkedEndpointIsFinishedByAnother {
    fn event_mask(&self) -> EventMask {
        EventMask::ENDPOINT
    }

    fn observe(&mut self, seen: &Seen<'_>, _: &View, findings: &mut Findings) {
        let Seen::Endpoint(change) = seen else { return };
        let Some(what) = ends(change) else {
            if change.before.is_none() {
                self.marked.remove(&change.key);
            }
            return;
        };
        let by = change.said.by;
        if what == "is marked" {
            self.marked.insert(change.key.clone(), by);
        } else if self.marked.remove(&change.key).is_some_and(|marker| marker != by) && change.by_replica {
            findings.held();
        }
    }
}

/// A replica learns of a deletion that its watch missed: it lists the pods again, and a pod that it knew is absent.
#[derive(Default)]
pub(crate) struct ATombstoneIsSeen {
    missed: FxHashSet<(ProcessId, Arc<str>)>,
}

impl IpamClaim for ATombstoneIsSeen {
    fn event_mask(&self) -> EventMask {
        EventMask::RECLAIM.and(EventMask::RELISTED)
    }

    fn observe(&mut self, seen: &Seen<'_>, _: &View, findings: &mut Findings) {
        match seen {
            Seen::Relisted(process, missed) => self.missed.extend(missed.iter().map(|uid| (*process, uid.clone()))),
            Seen::Reclaim(process, ReclaimNote::Entered { uid, tracing: Tracing::Deleted, .. })
                if self.missed.contains(&(*process, uid.clone())) =>
            {
                findings.held();
            }
            _ => {}
        }
    }
}

/// The leader of reclaim changes.
#[derive(Default)]
pub(crate) struct LeadershipOfReclaimChangesHands {
    last: Option<ProcessId>,
}

impl IpamClaim for LeadershipOfReclaimChangesHands {
    fn event_mask(&self) -> EventMask {
        EventMask::RECLAIM
    }

    fn observe(&mut self, seen: &Seen<'_>, _: &View, findings: &mut Findings) {
        let Seen::Reclaim(process, ReclaimNote::Leads(true)) = *seen else { return };
        if self.last.replace(process).is_some_and(|last| last != process) {
            findings.held();
        }
    }
}

/// A scan decides from its caches to release a record, and the API server's state says that it stays.
pub(crate) struct TheApiServerRefusesARelease;

impl IpamClaim for TheApiServerRefusesARelease {
    fn event_mask(&self) -> EventMask {
        EventMask::RECLAIM
    }

    fn observe(&mut self, seen: &Seen<'_>, _: &View, findings: &mut Findings) {
        let Seen::Reclaim(_, ReclaimNote::Judged { address: Some(_), release: false, row, overrules: Some(_), .. }) = seen else { return };
        // A record that stays because a read failed does not count as refused.
        let unread = matches!(
            row,
            Row::NameUnreadable
                | Row::SetOfEndpointUnreadable
                | Row::VmOfEndpointUnreadable
                | Row::NodeUnreadable
                | Row::EndedUnreadable
                | Row::NoIpsUnreadable
                | Row::GraceOverUnreadable
                | Row::GraceNodeUnknown
                | Row::OtherPodUnreadable
                | Row::EndpointOwnerUnreadable
        );
        if !unread {
            findings.held();
        }
    }
}

#[cfg(test)]
mod tests {
    use ipam_spiderpool::reclaim::{ReclaimSettings, Target};

    use super::super::super::testing::{Stage, ip, on_stage, on_stage_with};
    use super::*;

    const FIRST: &[(&str, &str, &str)] = &[("eth0", "p", "10.0.0.1")];

    /// `claim` holds after `then` and not after `first`.
    fn holds(claim: &'static str, first: impl FnOnce(&mut Stage), then: impl FnOnce(&mut Stage)) {
        on_stage(claim, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.pod("ns/a", "a");
            stage.add("ns/a", "a", FIRST);
            first(stage);
            assert!(!stage.held(), "{claim}");
            then(stage);
            assert!(stage.held(), "{claim}");
        });
    }

    fn remove(stage: &mut Stage, by: Releaser, leads: bool) {
        let replica = stage.replicas[0];
        stage.reclaims(replica, ReclaimNote::Leads(leads));
        stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "a");
        let what = [Target { pool: "p".into(), ip: ip("10.0.0.1"), uid: "a".into() }].into();
        stage.reclaims(replica, ReclaimNote::ReleaseBegun { by, key: "ns/a".into(), what, endpoint: false, row: Row::NoPod });
        stage.unrecord(replica, "p", "10.0.0.1");
    }

    #[test]
    fn who_removes_a_record_is_told_apart() {
        holds(
            "an-address-is-reclaimed-by-tracing",
            |stage| {
                remove(stage, Releaser::Scan, true);
                stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "a");
                stage.unrecord(stage.agent, "p", "10.0.0.1");
            },
            |stage| remove(stage, Releaser::Trace, true),
        );
        holds(
            "an-address-is-reclaimed-by-a-scan",
            |stage| remove(stage, Releaser::Trace, true),
            |stage| remove(stage, Releaser::Scan, true),
        );
        holds("a-standby-scans-and-releases", |stage| remove(stage, Releaser::Scan, true), |stage| remove(stage, Releaser::Scan, false));
    }

    #[test]
    fn a_pod_that_runs_without_addresses_is_one_where_the_setting_is_on() {
        for on in [true, false] {
            let set = |settings: &mut ReclaimSettings| settings.running_without_ips = on;
            on_stage_with("a-pod-without-addresses-is-reclaimed", set, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.pod("ns/a", "a");
                stage.pod_is("ns/a", "Running", Some("10.0.0.1"));
                stage.add("ns/a", "a", FIRST);
                stage.reclaim(stage.replicas[0], "ns/a", "a", "p", "10.0.0.1");
                assert!(!stage.held(), "it names one");
                stage.pod_is("ns/a", "Running", None);
                stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "a");
                stage.reclaim(stage.replicas[0], "ns/a", "a", "p", "10.0.0.1");
                assert_eq!(stage.held(), on);
            });
        }
    }

    #[test]
    fn another_replica_finishes_what_one_has_marked() {
        holds(
            "a-marked-endpoint-is-finished-by-another",
            |stage| {
                stage.mark(stage.replicas[0], "ns/a");
                stage.let_go(stage.replicas[0], "ns/a");
                stage.endpoint_gone(stage.kubelet, "ns/a");
                stage.endpoint(stage.agent, "ns/a", "a", FIRST);
                stage.mark(stage.replicas[0], "ns/a");
            },
            |stage| stage.let_go(stage.replicas[1], "ns/a"),
        );
    }

    #[test]
    fn no_room_and_another_leader_are_seen() {
        let full = |stage: &mut Stage| {
            stage.reclaims(stage.replicas[0], ReclaimNote::Full { pod: "ns/a".into(), uid: "a".into(), database: true });
        };
        holds("reclaim-has-no-room", |stage| stage.reclaims(stage.replicas[0], ReclaimNote::Leads(true)), full);
        holds(
            "leadership-of-reclaim-changes-hands",
            |stage| {
                stage.reclaims(stage.replicas[0], ReclaimNote::Leads(true));
                stage.reclaims(stage.replicas[0], ReclaimNote::Leads(false));
                stage.reclaims(stage.replicas[0], ReclaimNote::Leads(true));
            },
            |stage| stage.reclaims(stage.replicas[1], ReclaimNote::Leads(true)),
        );
    }

    #[test]
    fn a_tombstone_is_a_deletion_that_was_missed_and_traced_then() {
        use k8s_openapi::api::core::v1::Pod;
        let entered = |stage: &mut Stage| {
            let stop = jiff::Timestamp::UNIX_EPOCH;
            let (pod, uid, tracing) = ("ns/a".into(), "a".into(), Tracing::Deleted);
            stage.reclaims(stage.replicas[0], ReclaimNote::Entered { pod, uid, tracing, stop });
        };
        holds(
            "a-tombstone-is-seen",
            |stage| {
                stage.deliver::<Pod>(stage.replicas[0]);
                stage.lists::<Pod>(stage.replicas[0]);
                entered(stage);
                stage.deliver::<Pod>(stage.replicas[0]);
                stage.pod_gone("ns/a");
            },
            |stage| {
                stage.lists::<Pod>(stage.replicas[0]);
                entered(stage);
            },
        );
    }

    #[test]
    fn what_the_caches_say_may_be_refused() {
        let judged = |stage: &mut Stage, release: bool, row: Row, overrules: Option<Row>| {
            let (pool, address) = (Some("p".into()), Some(ip("10.0.0.1")));
            let (key, uid) = ("ns/a".into(), "a".into());
            stage.reclaims(stage.replicas[0], ReclaimNote::Judged { pool, address, key, uid, release, row, overrules });
        };
        holds(
            "the-api-server-refuses-a-release",
            |stage| {
                judged(stage, false, Row::GraceWithin, None);
                judged(stage, true, Row::NoPod, None);
                judged(stage, false, Row::NameUnreadable, Some(Row::NoPodNoEndpoint));
            },
            |stage| judged(stage, false, Row::Lives, Some(Row::NoPod)),
        );
    }
}
