//! Claims about Spiderpool's reclaim.

use ipam_reports::finding::Kind;
use sim_harness::claim::{ClaimDef, Make};

use crate::claim;

/// The claims, in the order in which they are listed.
pub(super) const CLAIMS: &[ClaimDef] = &[
    ClaimDef {
        name: "live-sandboxes-keep-their-records",
        kind: Kind::Always,
        about: "while a sandbox answers on an address, its pool records it for the sandbox's pod",
        reference: Some("G GS2"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::LiveSandboxesKeepTheirRecords)),
    },
    ClaimDef {
        name: "live-pods-are-not-reclaimed",
        kind: Kind::Always,
        about: "no replica of the controller removes a record of a pod that exists, has not ended and is within its grace",
        reference: Some("G GS3"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::LivePodsAreNotReclaimed)),
    },
    ClaimDef {
        name: "places-keep-their-records",
        kind: Kind::Always,
        about: "no replica of the controller takes the addresses of a place of a StatefulSet or a VM while the place exists",
        reference: Some("G GS4, GS5"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::PlacesKeepTheirRecords)),
    },
    ClaimDef {
        name: "endpoints-of-live-pods-are-left-alone",
        kind: Kind::Always,
        about: "no replica of the controller deletes an endpoint of a live pod or removes its finalizer",
        reference: Some("G GS6"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::EndpointsOfLivePodsAreLeftAlone)),
    },
    ClaimDef {
        name: "reclaim-removes-what-it-announced",
        kind: Kind::Always,
        about: "a replica of the controller removes only records whose address and UID it announced, and creates none",
        reference: Some("G GS8"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::ReclaimRemovesWhatItAnnounced)),
    },
    ClaimDef {
        name: "switched-off-nodes-are-left-alone",
        kind: Kind::Always,
        about: "no existing pod that is terminating or has ended loses its record on a node whose switch is off",
        reference: Some("G GS9"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::SwitchedOffNodesAreLeftAlone)),
    },
    ClaimDef {
        name: "switched-off-reclaim-stands-still",
        kind: Kind::Always,
        about: "no replica of the controller that started while reclaim was switched off removes a record or ends an endpoint",
        reference: Some("G §2.1"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::SwitchedOffReclaimStandsStill)),
    },
    ClaimDef {
        name: "repeated-reclaim-changes-nothing",
        kind: Kind::Always,
        about: "a release that is repeated, or made by two replicas, affects no later pod and writes nothing more",
        reference: Some("G GS10"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::RepeatedReclaimChangesNothing)),
    },
    ClaimDef {
        name: "vanished-pods-are-reclaimed-in-time",
        kind: Kind::Always,
        about: "the addresses of a pod whose object is gone are reclaimed in time by tracing",
        reference: Some("G GL1"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::ReclaimedInTime::on(claim::ReclaimCase::VanishedPodsAreReclaimedInTime))),
    },
    ClaimDef {
        name: "stuck-pods-are-reclaimed-in-time",
        kind: Kind::Always,
        about: "the addresses of a terminating pod whose grace is over are reclaimed in time by tracing",
        reference: Some("G GL2"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::ReclaimedInTime::on(claim::ReclaimCase::StuckPodsAreReclaimedInTime))),
    },
    ClaimDef {
        name: "ended-pods-are-reclaimed-in-time",
        kind: Kind::Always,
        about: "the addresses of a pod that has ended are reclaimed in time by tracing",
        reference: Some("G GL3"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::ReclaimedInTime::on(claim::ReclaimCase::EndedPodsAreReclaimedInTime))),
    },
    ClaimDef {
        name: "leaks-are-found-by-scans",
        kind: Kind::Always,
        about: "an address to which a pod is no longer entitled is reclaimed once a scan must have found it",
        reference: Some("G GL4"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::ReclaimedInTime::on(claim::ReclaimCase::LeaksAreFoundByScans))),
    },
    ClaimDef {
        name: "given-up-places-are-reclaimed-in-time",
        kind: Kind::Always,
        about: "the addresses of a place that was given up before its pod began to end are reclaimed in time by tracing",
        reference: Some("G GL5"),
        make: Make::Grouped(&claim::GROUP, || {
            claim::boxed(claim::ReclaimedInTime::on(claim::ReclaimCase::GivenUpPlacesAreReclaimedInTime))
        }),
    },
    ClaimDef {
        name: "abandoned-places-are-reclaimed-by-scans",
        kind: Kind::Always,
        about: "the addresses of a place that was given up after its pod are reclaimed once a scan must have found them",
        reference: Some("G GL6"),
        make: Make::Grouped(&claim::GROUP, || {
            claim::boxed(claim::ReclaimedInTime::on(claim::ReclaimCase::AbandonedPlacesAreReclaimedByScans))
        }),
    },
    ClaimDef {
        name: "records-without-endpoints-are-reclaimed-by-scans",
        kind: Kind::Always,
        about: "a record without an endpoint, of a pod that is gone, is removed once a scan must have found it",
        reference: Some("G GL7"),
        make: Make::Grouped(&claim::GROUP, || {
            claim::boxed(claim::ReclaimedInTime::on(claim::ReclaimCase::RecordsWithoutEndpointsAreReclaimedByScans))
        }),
    },
    ClaimDef {
        name: "orphan-endpoints-are-swept",
        kind: Kind::Always,
        about: "an endpoint of a gone pod to which no record leads is removed once a scan must have found it",
        reference: Some("G GL8"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::EndpointsGoInTime::of(claim::EndpointCase::OrphanEndpointsAreSwept))),
    },
    ClaimDef {
        name: "endpoints-of-vanished-pods-go-in-time",
        kind: Kind::Always,
        about: "an endpoint of a gone pod loses its finalizer in time",
        reference: Some("G GL9"),
        make: Make::Grouped(&claim::GROUP, || {
            claim::boxed(claim::EndpointsGoInTime::of(claim::EndpointCase::EndpointsOfVanishedPodsGoInTime))
        }),
    },
    ClaimDef {
        name: "reclaim-goes-on",
        kind: Kind::Always,
        about: "scans and releases that begin also end, executors handle what is due, and the leader keeps scanning",
        reference: Some("G GL10"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::ReclaimGoesOn::default())),
    },
    ClaimDef {
        name: "leaders-begin-at-once",
        kind: Kind::Always,
        about: "a replica that has taken the lease leads reclaim within 10 s",
        reference: Some("G §8"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::LeadersBeginAtOnce::default())),
    },
    ClaimDef {
        name: "ex-leaders-stop",
        kind: Kind::Always,
        about: "a replica that no longer leads changes nothing because of a pod that it traced",
        reference: Some("G §8"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::ExLeadersStop::default())),
    },
    ClaimDef {
        name: "only-leaders-trace",
        kind: Kind::Always,
        about: "a replica that does not lead traces no pod",
        reference: Some("G §1.6"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::OnlyLeadersTrace::default())),
    },
    ClaimDef {
        name: "emptied-pools-go-in-time",
        kind: Kind::Always,
        about: "a terminating pool without records is gone soon after",
        reference: Some("G GL11"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::EmptiedPoolsGoInTime::default())),
    },
    ClaimDef {
        name: "records-of-gone-pods-disappear",
        kind: Kind::Eventually,
        about: "no record is left of a pod that is gone and whose place no StatefulSet or VM keeps",
        reference: Some("A L2"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::RecordsOfGonePodsDisappear)),
    },
    ClaimDef {
        name: "no-endpoint-outlives-its-pod",
        kind: Kind::Eventually,
        about: "no endpoint is left of a pod that is gone and whose place no StatefulSet or VM keeps, with or without a DEL",
        reference: Some("A L8"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::NoEndpointOutlivesItsPod)),
    },
    ClaimDef {
        name: "all-addresses-are-accounted-for",
        kind: Kind::Eventually,
        about: "records, endpoints, pods, counts and live sandboxes agree",
        reference: Some("G §11"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::AllAddressesAreAccountedFor)),
    },
    ClaimDef {
        name: "an-address-is-reclaimed-by-tracing",
        kind: Kind::Sometimes,
        about: "an executor removes the record of a pod whose deadline has passed",
        reference: Some("G §3.2"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::ReclaimCoverage::AnAddressIsReclaimedByTracing)),
    },
    ClaimDef {
        name: "an-address-is-reclaimed-by-a-scan",
        kind: Kind::Sometimes,
        about: "a scan removes a record",
        reference: Some("G §3.3"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::ReclaimCoverage::AnAddressIsReclaimedByAScan)),
    },
    ClaimDef {
        name: "a-standby-scans-and-releases",
        kind: Kind::Reachable,
        about: "a replica that does not lead removes a record because of a scan",
        reference: Some("G §1.6"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::ReclaimCoverage::AStandbyScansAndReleases)),
    },
    ClaimDef {
        name: "a-marked-endpoint-is-finished-by-another",
        kind: Kind::Reachable,
        about: "an endpoint that one replica marked loses its finalizer through another",
        reference: Some("G §4.4"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::AMarkedEndpointIsFinishedByAnother::default())),
    },
    ClaimDef {
        name: "a-tombstone-is-seen",
        kind: Kind::Reachable,
        about: "a replica learns from a list that a pod is gone, and traces it",
        reference: Some("G R13"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::ATombstoneIsSeen::default())),
    },
    ClaimDef {
        name: "reclaim-has-no-room",
        kind: Kind::Reachable,
        about: "the database of traced pods, or the queue to the executors, is full",
        reference: Some("G §1.2"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::ReclaimCoverage::ReclaimHasNoRoom)),
    },
    ClaimDef {
        name: "a-pod-without-addresses-is-reclaimed",
        kind: Kind::Reachable,
        about: "a scan reclaims from a running pod an address that its status does not name, as a setting allows",
        reference: Some("G EX3"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::ReclaimCoverage::APodWithoutAddressesIsReclaimed)),
    },
    ClaimDef {
        name: "leadership-of-reclaim-changes-hands",
        kind: Kind::Sometimes,
        about: "another replica leads than before",
        reference: Some("G §8"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::LeadershipOfReclaimChangesHands::default())),
    },
    ClaimDef {
        name: "the-api-server-refuses-a-release",
        kind: Kind::Reachable,
        about: "a scan decides from its caches to remove a record, and the API server shows that it must stay",
        reference: Some("G §7"),
        make: Make::Grouped(&claim::GROUP, || claim::boxed(claim::TheApiServerRefusesARelease)),
    },
];
