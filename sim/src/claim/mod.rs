//! Claims: what must be true of a run, checked at the event that could break it.
//!
//! A claim observes typed events and never reaches into an actor. To add one: a row in [`ALL`] and a type that
//! implements [`Claim`] in its own file. Claims about the BYOM pool share a view of it: see `pool`; so do those about Spiderpool.

mod basic;
mod claims;
mod counter;
mod findings;
mod pool;
mod spiderpool;

use std::fmt;

use ipam_reports::finding::Kind;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::kinds::Registry;
use crate::plan::Plan;
use crate::rt::Rt;
use crate::time::SimTime;
use crate::trace::{Event, Interest};
use pool::PoolClaim;
use spiderpool::IpamClaim;

pub use claims::Claims;
pub use findings::Findings;
pub use spiderpool::oracle;

/// What a claim can do.
pub trait Claim: Send {
    /// Which events it wants to see.
    fn interest(&self) -> Interest;

    /// Something happened.
    fn observe(&mut self, event: &Event<'_>, findings: &mut Findings);

    /// The time has come by which something must have happened, as the claim had said by [`Findings::expect_by`]. What happened until
    /// then was observed.
    fn overdue(&mut self, _at: SimTime, _findings: &mut Findings) {}

    /// Only for `eventually`: what is still missing; `None` = it holds now.
    fn pending(&self) -> Option<String> {
        None
    }
}

/// What a claim may know when it is made.
pub struct Context<'a> {
    /// The runtime, for names and clocks.
    pub rt: &'a Rt,
    /// The plan.
    pub plan: &'a Plan,
    /// The types that the cluster serves.
    pub registry: &'a Registry,
}

/// A claim of the catalogue.
pub struct ClaimDef {
    /// Its name, in the present tense.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// What it says, in a sentence.
    pub about: &'static str,
    /// The property of the reference that it stands for.
    pub reference: Option<&'static str>,
    make: Make,
}

use Make::{Events, Ipam, Pool};

/// How a claim is made.
enum Make {
    /// One that sees events.
    Events(fn(&Context<'_>) -> Box<dyn Claim>),
    /// One that sees what they mean for a pool.
    Pool(fn() -> Box<dyn PoolClaim>),
    /// One that sees what they mean for Spiderpool's allocation.
    Ipam(fn() -> Box<dyn IpamClaim>),
}

/// The catalogue.
pub const ALL: &[ClaimDef] = &[
    ClaimDef {
        name: "no-process-panics",
        kind: Kind::Always,
        about: "no process of the system under test panics",
        reference: None,
        make: Events(|context| Box::new(basic::NoProcessPanics::new(context))),
    },
    ClaimDef {
        name: "revisions-only-grow",
        kind: Kind::Always,
        about: "every committed write takes a revision greater than all before it",
        reference: Some("K004"),
        make: Events(|_| Box::new(basic::RevisionsOnlyGrow::default())),
    },
    ClaimDef {
        name: "no-increment-is-lost",
        kind: Kind::Always,
        about: "no two increments are acknowledged with the same value",
        reference: Some("K070"),
        make: Events(|context| Box::new(counter::NoIncrementIsLost::new(context))),
    },
    ClaimDef {
        name: "counter-never-goes-back",
        kind: Kind::Always,
        about: "no committed write of the counter lowers its value",
        reference: Some("K070"),
        make: Events(|context| Box::new(counter::CounterNeverGoesBack::new(context))),
    },
    ClaimDef {
        name: "every-increment-ends",
        kind: Kind::Eventually,
        about: "every increment of the plan has come to an end: acknowledged, or left open by a crash or a lost answer",
        reference: None,
        make: Events(|context| Box::new(counter::EveryIncrementEnds::new(context))),
    },
    ClaimDef {
        name: "clients-conflict",
        kind: Kind::Sometimes,
        about: "a write is refused because the object changed since it was read",
        reference: Some("K069"),
        make: Events(|_| Box::new(basic::Seen(basic::Sight::Conflict))),
    },
    ClaimDef {
        name: "an-answer-is-lost",
        kind: Kind::Sometimes,
        about: "a caller gets no answer or an ambiguous error",
        reference: Some("K114"),
        make: Events(|_| Box::new(basic::Seen(basic::Sight::AmbiguousAnswer))),
    },
    ClaimDef {
        name: "a-process-restarts",
        kind: Kind::Reachable,
        about: "a process crashes and starts again",
        reference: None,
        make: Events(|_| Box::new(basic::Restarted::default())),
    },
    ClaimDef {
        name: "a-fault-takes-hold",
        kind: Kind::Reachable,
        about: "a fault of the plan begins",
        reference: None,
        make: Events(|_| Box::new(basic::Seen(basic::Sight::FaultBegan))),
    },
    ClaimDef {
        name: "no-address-has-two-holders",
        kind: Kind::Always,
        about: "no address is told to a sandbox while another live sandbox holds it",
        reference: Some("B I1"),
        make: Pool(|| Box::new(pool::OneHolder)),
    },
    ClaimDef {
        name: "pool-document-is-a-partition",
        kind: Kind::Always,
        about: "in every document that the pool commits, each address is at most once in the list and the records together",
        reference: Some("B I2"),
        make: Pool(|| Box::new(pool::Partition)),
    },
    ClaimDef {
        name: "pool-addresses-are-conserved",
        kind: Kind::Always,
        about: "a commit that adds or removes records leaves the addresses in list and records together as they were",
        reference: Some("B I3"),
        make: Pool(|| Box::new(pool::NothingAppears)),
    },
    ClaimDef {
        name: "pool-document-is-well-formed",
        kind: Kind::Always,
        about: "the pool writes records under their IDs, with a node, and addresses in canonical spelling; nothing is null",
        reference: Some("B I4"),
        make: Pool(|| Box::new(pool::WellFormed)),
    },
    ClaimDef {
        name: "pool-version-counts-writes",
        kind: Kind::Always,
        about: "each commit of the pool raises the version of the document by one",
        reference: Some("B I5"),
        make: Pool(|| Box::new(pool::CountsWrites)),
    },
    ClaimDef {
        name: "acknowledged-records-persist",
        kind: Kind::Always,
        about: "an acknowledged allocation stays recorded until its release begins, and what was released does not come back",
        reference: Some("B I6"),
        make: Pool(|| Box::new(pool::RecordsPersist)),
    },
    ClaimDef {
        name: "asking-again-changes-nothing",
        kind: Kind::Always,
        about: "whoever asks again for an ID that holds an address gets the same one, and writes nothing",
        reference: Some("B I7"),
        make: Pool(|| Box::new(pool::SameAnswer::default())),
    },
    ClaimDef {
        name: "releases-touch-nobody-else",
        kind: Kind::Always,
        about: "no record is removed and no VM boots while its sandbox lives and no release of it has begun",
        reference: Some("B I8"),
        make: Pool(|| Box::new(pool::OwnRecordsOnly)),
    },
    ClaimDef {
        name: "no-record-is-left-behind",
        kind: Kind::Eventually,
        about: "every record belongs to a live sandbox, or to a PeerPod that still has its finalizer",
        reference: Some("B I9"),
        make: Pool(|| Box::new(pool::EveryRecordIsOwned)),
    },
    ClaimDef {
        name: "recovery-keeps-records",
        kind: Kind::Always,
        about: "a process that recovers removes and alters no record of a live sandbox",
        reference: Some("B I10"),
        make: Pool(|| Box::new(pool::RecoveryKeepsRecords)),
    },
    ClaimDef {
        name: "recovery-lists-what-is-configured",
        kind: Kind::Always,
        about: "after an undisturbed recovery the list is what the setting means without what is recorded, in order",
        reference: Some("B I11"),
        make: Pool(|| Box::new(pool::ListAsConfigured::default())),
    },
    ClaimDef {
        name: "addresses-that-left-are-drained",
        kind: Kind::Always,
        about: "an address that no process is configured with any more is not granted once another process has recovered",
        reference: Some("B I12"),
        make: Pool(|| Box::new(pool::Drained::default())),
    },
    ClaimDef {
        name: "vms-are-clean-when-given",
        kind: Kind::Always,
        about: "no VM is handed out that has the user data of somebody else or is about to boot",
        reference: Some("B I13"),
        make: Pool(|| Box::new(pool::CleanVms)),
    },
    ClaimDef {
        name: "wanted-pods-run",
        kind: Kind::Eventually,
        about: "as many wanted pods run as there are VMs that answer; without pods, each call is given an address if there are any",
        reference: Some("B I14"),
        make: Pool(|| Box::new(pool::PodsGetVms)),
    },
    ClaimDef {
        name: "no-race-fails-an-operation",
        kind: Kind::Always,
        about: "no allocation or release fails because all of its writes came second",
        reference: Some("B I14"),
        make: Pool(|| Box::new(pool::RacesAreRetried)),
    },
    ClaimDef {
        name: "free-vms-are-found",
        kind: Kind::Always,
        about: "no call is refused because a VM does not answer while another one is available that does",
        reference: Some("B I14"),
        make: Pool(|| Box::new(pool::FreeVmsAreFound)),
    },
    ClaimDef {
        name: "addresses-are-selected-by-hash",
        kind: Kind::Always,
        about: "which address an ID is given follows from the list and the hash of the ID",
        reference: Some("B I15"),
        make: Pool(|| Box::new(pool::ByHash::default())),
    },
    ClaimDef {
        name: "pool-operations-end-in-time",
        kind: Kind::Always,
        about: "an allocation or a release ends within 30 s by the clock of its process",
        reference: Some("B I16"),
        make: Pool(|| Box::new(pool::InTime)),
    },
    ClaimDef {
        name: "one-setting-means-one-set",
        kind: Kind::Always,
        about: "processes that run with the same setting make the same set of addresses of it",
        reference: Some("B I17"),
        make: Pool(|| Box::new(pool::OneMeaning)),
    },
    ClaimDef {
        name: "pool-writers-conflict",
        kind: Kind::Sometimes,
        about: "a process writes the pool and is refused because it changed since it was read",
        reference: Some("B L2"),
        make: Pool(|| Box::new(pool::Sight::Conflict)),
    },
    ClaimDef {
        name: "a-create-race-happens",
        kind: Kind::Sometimes,
        about: "a process creates the ConfigMap of the pool and comes second",
        reference: Some("B W2"),
        make: Pool(|| Box::new(pool::Sight::CreateRace)),
    },
    ClaimDef {
        name: "a-vm-refuses",
        kind: Kind::Reachable,
        about: "a VM does not boot because it serves another allocation",
        reference: Some("B W8"),
        make: Pool(|| Box::new(pool::Sight::VmRefuses)),
    },
    ClaimDef {
        name: "a-leak-is-reclaimed",
        kind: Kind::Reachable,
        about: "a record without a live owner is released",
        reference: Some("B W5"),
        make: Pool(|| Box::new(pool::Sight::LeakReclaimed)),
    },
    ClaimDef {
        name: "a-successor-releases",
        kind: Kind::Reachable,
        about: "the pool is full, and the next sandbox of a pod has the previous one released",
        reference: Some("B W14"),
        make: Pool(|| Box::new(pool::Sight::SuccessorReleases)),
    },
    ClaimDef {
        name: "a-document-is-rebuilt",
        kind: Kind::Reachable,
        about: "the ConfigMap of the pool is deleted, and a process makes it anew",
        reference: Some("B W19"),
        make: Pool(|| Box::new(pool::DocumentRebuilt::default())),
    },
    ClaimDef {
        name: "somebody-asks-again",
        kind: Kind::Reachable,
        about: "a call under an ID that has an address is answered without a write",
        reference: Some("B I7"),
        make: Pool(|| Box::new(pool::Sight::AsksAgain)),
    },
    ClaimDef {
        name: "a-dead-vm-is-skipped",
        kind: Kind::Reachable,
        about: "an address is given after more than one VM was tried while one does not answer",
        reference: Some("B W15"),
        make: Pool(|| Box::new(pool::Sight::DeadVmSkipped)),
    },
    ClaimDef {
        name: "no-address-has-two-live-sandboxes",
        kind: Kind::Always,
        about: "no sandbox is attached with an address on which another live sandbox answers",
        reference: Some("A S1"),
        make: Ipam(|| Box::new(spiderpool::OneSandbox)),
    },
    ClaimDef {
        name: "no-address-is-recorded-twice",
        kind: Kind::Always,
        about: "no pool records an address that another pool has a record of",
        reference: Some("A S2"),
        make: Ipam(|| Box::new(spiderpool::RecordedOnce)),
    },
    ClaimDef {
        name: "answered-addresses-are-recorded",
        kind: Kind::Always,
        about: "each address of an answer is recorded in its pool under the pod's name and UID",
        reference: Some("A S3"),
        make: Ipam(|| Box::new(spiderpool::AnswersAreRecorded)),
    },
    ClaimDef {
        name: "answer-endpoint-and-record-agree",
        kind: Kind::Always,
        about: "when a request is answered, sandbox, record and endpoint have the same UID, and the endpoint names the address",
        reference: Some("A S4"),
        make: Ipam(|| Box::new(spiderpool::ThreeAgree)),
    },
    ClaimDef {
        name: "addresses-come-from-their-pool",
        kind: Kind::Always,
        about: "an address that is recorded is in the pool's ips and not in its excludeIPs",
        reference: Some("A S5"),
        make: Ipam(|| Box::new(spiderpool::FromItsPool)),
    },
    ClaimDef {
        name: "reserved-addresses-are-not-given",
        kind: Kind::Always,
        about: "no agent records an address that it had been told is reserved before it read the pool",
        reference: Some("A S6"),
        make: Ipam(|| Box::new(spiderpool::NotReserved)),
    },
    ClaimDef {
        name: "selection-follows-the-rules",
        kind: Kind::Always,
        about: "which pools an agent selects is what an independent reading of the rules says",
        reference: Some("A S7"),
        make: Ipam(|| Box::new(spiderpool::AsTheRulesSay)),
    },
    ClaimDef {
        name: "reused-addresses-are-permitted",
        kind: Kind::Always,
        about: "a pod is given its predecessor's address only if the rules would still give it that one",
        reference: Some("A S7"),
        make: Ipam(|| Box::new(spiderpool::Permitted::default())),
    },
    ClaimDef {
        name: "better-pools-come-first",
        kind: Kind::Always,
        about: "pools are ranked as the rules say, and nothing is taken from one while a better one has not failed",
        reference: Some("A S8"),
        make: Ipam(|| Box::new(spiderpool::BestPoolFirst)),
    },
    ClaimDef {
        name: "records-leave-only-for-their-own-uid",
        kind: Kind::Always,
        about: "an agent removes a record only for the UID in it, of a pod that is not alive or lost its claim",
        reference: Some("A S9"),
        make: Ipam(|| Box::new(spiderpool::OwnUidOnly)),
    },
    ClaimDef {
        name: "static-pods-keep-their-addresses",
        kind: Kind::Always,
        about: "a pod of a StatefulSet or a VM has the addresses of its predecessor while its place and its pools stay",
        reference: Some("A S10"),
        make: Ipam(|| Box::new(spiderpool::KeptAddresses)),
    },
    ClaimDef {
        name: "gateways-are-decided",
        kind: Kind::Always,
        about: "an endpoint that names a gateway says whether it is left out, and no other does",
        reference: Some("A §14.31"),
        make: Ipam(|| Box::new(spiderpool::GatewaysAreDecided)),
    },
    ClaimDef {
        name: "counts-equal-records",
        kind: Kind::Always,
        about: "an agent that adds or removes records leaves allocatedIPCount as their number",
        reference: Some("A S11"),
        make: Ipam(|| Box::new(spiderpool::CountsAreRight)),
    },
    ClaimDef {
        name: "total-counts-come-right",
        kind: Kind::Eventually,
        about: "totalIPCount of every pool is the number of its addresses",
        reference: Some("A S11"),
        make: Ipam(|| Box::new(spiderpool::TotalsComeRight)),
    },
    ClaimDef {
        name: "pools-and-endpoints-outlive-their-records",
        kind: Kind::Always,
        about: "no pool vanishes while it has records, and no endpoint while its addresses are recorded for it",
        reference: Some("A S14"),
        make: Ipam(|| Box::new(spiderpool::RecordsComeFirst)),
    },
    ClaimDef {
        name: "nics-have-distinct-addresses",
        kind: Kind::Always,
        about: "no two NICs of a pod are given, or answer on, one address",
        reference: Some("A S15"),
        make: Ipam(|| Box::new(spiderpool::DistinctAddresses)),
    },
    ClaimDef {
        name: "asking-again-gives-the-same-address",
        kind: Kind::Always,
        about: "whoever asks again for a NIC is given the same addresses unless they were released",
        reference: Some("A S16"),
        make: Ipam(|| Box::new(spiderpool::SameAnswer)),
    },
    ClaimDef {
        name: "deletes-touch-nobody-else",
        kind: Kind::Always,
        about: "a DEL releases addresses of the UID that it names and of no other",
        reference: Some("A S17"),
        make: Ipam(|| Box::new(spiderpool::OwnAddressesOnly::default())),
    },
    ClaimDef {
        name: "dead-pods-get-no-address",
        kind: Kind::Always,
        about: "no agent records an address for a pod that it had been shown to be dead before it was asked",
        reference: Some("A S18"),
        make: Ipam(|| Box::new(spiderpool::OnlyTheLiving)),
    },
    ClaimDef {
        name: "late-requests-get-nothing",
        kind: Kind::Always,
        about: "no request is answered with new addresses more than 40 s after its caller gave up",
        reference: Some("A W22"),
        make: Ipam(|| Box::new(spiderpool::TooLate)),
    },
    ClaimDef {
        name: "pods-get-addresses",
        kind: Kind::Eventually,
        about: "every pod that is alive, bound and can be served has a live sandbox with an address",
        reference: Some("A L1"),
        make: Ipam(|| Box::new(spiderpool::PodsGetAddresses)),
    },
    ClaimDef {
        name: "records-equal-endpoints",
        kind: Kind::Eventually,
        about: "the records of every pod that exists are the addresses of its endpoint",
        reference: Some("A L3"),
        make: Ipam(|| Box::new(spiderpool::EndpointsNameAll)),
    },
    ClaimDef {
        name: "empty-terminating-pools-disappear",
        kind: Kind::Eventually,
        about: "no pool is terminating that has no record",
        reference: Some("A L4"),
        make: Ipam(|| Box::new(spiderpool::EmptyPoolsGo)),
    },
    ClaimDef {
        name: "waiting-requests-get-their-turn",
        kind: Kind::Eventually,
        about: "no request waits for its pools for more than 30 s",
        reference: Some("A L7"),
        make: Ipam(|| Box::new(spiderpool::EverybodysTurn)),
    },
    ClaimDef {
        name: "endpoints-of-gone-pods-disappear",
        kind: Kind::Eventually,
        about: "no endpoint is left of a pod that is gone and was released, unless it waits for the next pod of its place",
        reference: Some("A L8"),
        make: Ipam(|| Box::new(spiderpool::EndpointsGo::default())),
    },
    ClaimDef {
        name: "live-sandboxes-keep-their-records",
        kind: Kind::Always,
        about: "while a sandbox answers on an address, its pool records it for the sandbox's pod",
        reference: Some("G GS2"),
        make: Ipam(|| Box::new(spiderpool::LiveSandboxesKeepRecords)),
    },
    ClaimDef {
        name: "live-pods-are-not-reclaimed",
        kind: Kind::Always,
        about: "no replica of the controller removes a record of a pod that exists, has not ended and is within its grace",
        reference: Some("G GS3"),
        make: Ipam(|| Box::new(spiderpool::LivingKeepRecords)),
    },
    ClaimDef {
        name: "places-keep-their-records",
        kind: Kind::Always,
        about: "no replica of the controller takes what a place of a StatefulSet or a VM has while the place is there",
        reference: Some("G GS4"),
        make: Ipam(|| Box::new(spiderpool::PlacesKeepRecords)),
    },
    ClaimDef {
        name: "endpoints-of-live-pods-are-left-alone",
        kind: Kind::Always,
        about: "no replica of the controller deletes an endpoint of a live pod or takes its finalizer",
        reference: Some("G GS6"),
        make: Ipam(|| Box::new(spiderpool::LiveEndpointsStay)),
    },
    ClaimDef {
        name: "reclaim-removes-what-it-announced",
        kind: Kind::Always,
        about: "a replica of the controller removes only records whose address and UID it announced, and makes none",
        reference: Some("G GS8"),
        make: Ipam(|| Box::new(spiderpool::AnnouncedOnly)),
    },
    ClaimDef {
        name: "switched-off-nodes-are-left-alone",
        kind: Kind::Always,
        about: "no pod that is there and on its way loses its record on a node whose switch is off",
        reference: Some("G GS9"),
        make: Ipam(|| Box::new(spiderpool::SwitchesAreObeyed)),
    },
    ClaimDef {
        name: "repeated-reclaim-changes-nothing",
        kind: Kind::Always,
        about: "a release that is repeated, or done by two replicas, touches no later pod and writes nothing more",
        reference: Some("G GS10"),
        make: Ipam(|| Box::new(spiderpool::RepetitionChangesNothing)),
    },
    ClaimDef {
        name: "vanished-pods-are-reclaimed-in-time",
        kind: Kind::Always,
        about: "the addresses of a pod whose object is gone come back by tracing in time",
        reference: Some("G GL1"),
        make: Ipam(|| Box::new(spiderpool::InTime::on(spiderpool::Way::Vanished))),
    },
    ClaimDef {
        name: "stuck-pods-are-reclaimed-in-time",
        kind: Kind::Always,
        about: "the addresses of a terminating pod whose grace is over come back by tracing in time",
        reference: Some("G GL2"),
        make: Ipam(|| Box::new(spiderpool::InTime::on(spiderpool::Way::Stuck))),
    },
    ClaimDef {
        name: "ended-pods-are-reclaimed-in-time",
        kind: Kind::Always,
        about: "the addresses of a pod that has ended come back by tracing in time",
        reference: Some("G GL3"),
        make: Ipam(|| Box::new(spiderpool::InTime::on(spiderpool::Way::Ended))),
    },
    ClaimDef {
        name: "leaks-are-found-by-scans",
        kind: Kind::Always,
        about: "whatever a pod has no right to any more is back once a scan must have found it",
        reference: Some("G GL4"),
        make: Ipam(|| Box::new(spiderpool::InTime::on(spiderpool::Way::Missed))),
    },
    ClaimDef {
        name: "given-up-places-are-reclaimed-in-time",
        kind: Kind::Always,
        about: "the addresses of a place that was given up before its pod began to end come back by tracing in time",
        reference: Some("G GL5"),
        make: Ipam(|| Box::new(spiderpool::InTime::on(spiderpool::Way::GivenUp))),
    },
    ClaimDef {
        name: "abandoned-places-are-reclaimed-by-scans",
        kind: Kind::Always,
        about: "the addresses of a place that was given up after its pod are back once a scan must have found them",
        reference: Some("G GL6"),
        make: Ipam(|| Box::new(spiderpool::InTime::on(spiderpool::Way::Abandoned))),
    },
    ClaimDef {
        name: "records-without-endpoints-are-reclaimed-by-scans",
        kind: Kind::Always,
        about: "a record without an endpoint, of a pod that is gone, is back once a scan must have found it",
        reference: Some("G GL7"),
        make: Ipam(|| Box::new(spiderpool::InTime::on(spiderpool::Way::Bare))),
    },
    ClaimDef {
        name: "orphan-endpoints-are-swept",
        kind: Kind::Always,
        about: "an endpoint of a gone pod to which no record leads is gone once a scan must have found it",
        reference: Some("G GL8"),
        make: Ipam(|| Box::new(spiderpool::EndpointsGoInTime::of(spiderpool::Of::NoRecord))),
    },
    ClaimDef {
        name: "endpoints-of-vanished-pods-go-in-time",
        kind: Kind::Always,
        about: "an endpoint of a gone pod loses its finalizer in time",
        reference: Some("G GL9"),
        make: Ipam(|| Box::new(spiderpool::EndpointsGoInTime::of(spiderpool::Of::Vanished))),
    },
    ClaimDef {
        name: "reclaim-goes-on",
        kind: Kind::Always,
        about: "scans and releases that begin end, executors see to what is due, and the leader scans again",
        reference: Some("G GL10"),
        make: Ipam(|| Box::new(spiderpool::GoesOn::default())),
    },
    ClaimDef {
        name: "leaders-begin-at-once",
        kind: Kind::Always,
        about: "a replica that has taken the lease leads reclaim within 10 s",
        reference: Some("G §8"),
        make: Ipam(|| Box::new(spiderpool::LeadersBegin::default())),
    },
    ClaimDef {
        name: "ex-leaders-stop",
        kind: Kind::Always,
        about: "a replica that leads no more changes nothing on account of a pod that it traced",
        reference: Some("G §8"),
        make: Ipam(|| Box::new(spiderpool::ExLeadersStop::default())),
    },
    ClaimDef {
        name: "emptied-pools-go-in-time",
        kind: Kind::Always,
        about: "a terminating pool without records is gone soon after",
        reference: Some("G GL11"),
        make: Ipam(|| Box::new(spiderpool::PoolsGoInTime::default())),
    },
    ClaimDef {
        name: "records-of-gone-pods-disappear",
        kind: Kind::Eventually,
        about: "no record is left of a pod that is gone and whose place nobody keeps",
        reference: Some("A L2"),
        make: Ipam(|| Box::new(spiderpool::RecordsGo)),
    },
    ClaimDef {
        name: "no-endpoint-outlives-its-pod",
        kind: Kind::Eventually,
        about: "no endpoint is left of a pod that is gone and whose place nobody keeps, whether a DEL came or not",
        reference: Some("A L8"),
        make: Ipam(|| Box::new(spiderpool::EndpointsGoAtLast)),
    },
    ClaimDef {
        name: "all-addresses-are-accounted-for",
        kind: Kind::Eventually,
        about: "records, endpoints, pods, counts and live sandboxes tell one story",
        reference: Some("G §11"),
        make: Ipam(|| Box::new(spiderpool::AllIsAccountedFor)),
    },
    ClaimDef {
        name: "an-address-is-reclaimed-by-tracing",
        kind: Kind::Sometimes,
        about: "an executor removes the record of a pod whose deadline has passed",
        reference: Some("G §3.2"),
        make: Ipam(|| Box::new(spiderpool::Removal::Traced)),
    },
    ClaimDef {
        name: "an-address-is-reclaimed-by-a-scan",
        kind: Kind::Sometimes,
        about: "a scan removes a record",
        reference: Some("G §3.3"),
        make: Ipam(|| Box::new(spiderpool::Removal::Scanned)),
    },
    ClaimDef {
        name: "a-standby-scans-and-releases",
        kind: Kind::Reachable,
        about: "a replica that does not lead removes a record on account of a scan",
        reference: Some("G §1.6"),
        make: Ipam(|| Box::new(spiderpool::Removal::Standby)),
    },
    ClaimDef {
        name: "a-marked-endpoint-is-finished-by-another",
        kind: Kind::Reachable,
        about: "an endpoint that one replica marked loses its finalizer by another",
        reference: Some("G §4.4"),
        make: Ipam(|| Box::new(spiderpool::FinishedByAnother::default())),
    },
    ClaimDef {
        name: "a-tombstone-is-seen",
        kind: Kind::Reachable,
        about: "a replica learns by a list that a pod is gone, and traces it",
        reference: Some("G R13"),
        make: Ipam(|| Box::new(spiderpool::TombstoneSeen::default())),
    },
    ClaimDef {
        name: "reclaim-has-no-room",
        kind: Kind::Reachable,
        about: "the database of traced pods, or the way to the executors, is full",
        reference: Some("G §1.2"),
        make: Ipam(|| Box::new(spiderpool::Removal::Full)),
    },
    ClaimDef {
        name: "leadership-of-reclaim-changes-hands",
        kind: Kind::Sometimes,
        about: "another replica leads than before",
        reference: Some("G §8"),
        make: Ipam(|| Box::new(spiderpool::AnotherLeads::default())),
    },
    ClaimDef {
        name: "the-api-server-refuses-a-release",
        kind: Kind::Reachable,
        about: "a scan finds in its caches that a record is to go, and the API server says that it stays",
        reference: Some("G §7"),
        make: Ipam(|| Box::new(spiderpool::RefusedByApi::default())),
    },
    ClaimDef {
        name: "an-address-changes-hands",
        kind: Kind::Sometimes,
        about: "an address that one pod had is recorded for another",
        reference: Some("A S9"),
        make: Ipam(|| Box::new(spiderpool::ChangesHands::default())),
    },
    ClaimDef {
        name: "a-static-address-is-kept",
        kind: Kind::Sometimes,
        about: "a pod is given the address of its predecessor of the same place",
        reference: Some("A S10"),
        make: Ipam(|| Box::new(spiderpool::Sight::KeptOverRestart)),
    },
    ClaimDef {
        name: "agents-conflict",
        kind: Kind::Sometimes,
        about: "an agent writes a pool and is refused because it changed since it was read",
        reference: Some("A §5.4"),
        make: Ipam(|| Box::new(spiderpool::Sight::PoolConflict)),
    },
    ClaimDef {
        name: "a-later-pool-serves",
        kind: Kind::Sometimes,
        about: "a pool has no address to give, and another one gives one",
        reference: Some("A §5.4"),
        make: Ipam(|| Box::new(spiderpool::Sight::LaterPoolServes)),
    },
    ClaimDef {
        name: "a-delete-comes-late",
        kind: Kind::Reachable,
        about: "a DEL for a pod comes after its successor of the same name was given an address",
        reference: Some("A W7"),
        make: Ipam(|| Box::new(spiderpool::Sight::LateDelete)),
    },
    ClaimDef {
        name: "an-add-is-rolled-back",
        kind: Kind::Reachable,
        about: "a request that fails takes back what it recorded",
        reference: Some("A W3"),
        make: Ipam(|| Box::new(spiderpool::Sight::RolledBack)),
    },
    ClaimDef {
        name: "an-endpoint-answers",
        kind: Kind::Reachable,
        about: "a request is answered with what the pod has already",
        reference: Some("A §5.3"),
        make: Ipam(|| Box::new(spiderpool::Sight::Existing)),
    },
    ClaimDef {
        name: "an-answer-has-both-families",
        kind: Kind::Reachable,
        about: "a NIC is given an IPv4 and an IPv6 address",
        reference: Some("A §2.5"),
        make: Ipam(|| Box::new(spiderpool::Sight::DualStack)),
    },
    ClaimDef {
        name: "an-answer-has-several-nics",
        kind: Kind::Reachable,
        about: "a request is answered with the addresses of several NICs",
        reference: Some("A §2.4"),
        make: Ipam(|| Box::new(spiderpool::Sight::SeveralNics)),
    },
    ClaimDef {
        name: "an-outside-conflict-is-found",
        kind: Kind::Reachable,
        about: "an address is given up because somebody outside uses it",
        reference: Some("A W17"),
        make: Ipam(|| Box::new(spiderpool::Sight::OutsideConflict)),
    },
];

/// The claim called `name`.
pub fn find(name: &str) -> Option<&'static ClaimDef> {
    ALL.iter().find(|def| def.name == name)
}

/// The name of a claim that exists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct ClaimName(String);

impl ClaimName {
    /// The claim called `name`, if there is one.
    pub fn new(name: &str) -> Option<Self> {
        find(name).map(|_| Self(name.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The claim.
    pub fn def(&self) -> &'static ClaimDef {
        find(&self.0).unwrap_or_else(|| unreachable!("the name was checked when it was read"))
    }
}

impl fmt::Display for ClaimName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ClaimName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::new(&name).ok_or_else(|| {
            let nearest = ALL.iter().map(|def| def.name).min_by_key(|known| strsim::levenshtein(known, &name)).unwrap_or("");
            serde::de::Error::custom(format!(
                "there is no claim `{name}`; the nearest is `{nearest}`, and `ipam-sim list claims` shows all"
            ))
        })
    }
}
