//! Claims: what must be true of a run, checked at the event that could break it.
//!
//! A claim observes typed events and never reaches into an actor. To add one: a row in [`ALL`] and a type that
//! implements [`Claim`] in its own file. Claims about the BYOM pool share a view of it: see `pool`.

mod basic;
mod claims;
mod counter;
mod findings;
mod pool;

use std::fmt;

use ipam_reports::finding::Kind;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::plan::Plan;
use crate::rt::Rt;
use crate::trace::{Event, Interest};
use pool::PoolClaim;

pub use claims::Claims;
pub use findings::Findings;

/// What a claim can do.
pub trait Claim: Send {
    /// Which events it wants to see.
    fn interest(&self) -> Interest;

    /// Something happened.
    fn observe(&mut self, event: &Event<'_>, findings: &mut Findings);

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

use Make::{Events, Pool};

/// How a claim is made.
enum Make {
    /// One that sees events.
    Events(fn(&Context<'_>) -> Box<dyn Claim>),
    /// One that sees what they mean for a pool.
    Pool(fn() -> Box<dyn PoolClaim>),
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
