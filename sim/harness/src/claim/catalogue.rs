//! Claims about any run.

use ipam_reports::finding::Kind;

use super::Make::Events;
use super::{ClaimDef, basic};

/// The name of the claim that no run spends its budget of events.
pub const SPEND: &str = "runs-end-within-their-events";

/// The claims, in the order in which they are listed.
pub const COMMON: &[ClaimDef] = &[
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
        name: SPEND,
        kind: Kind::Eventually,
        about: "the run ends before it has spent its events (`max_events`): no process spins; belongs to every run",
        reference: None,
        // Judged where the run is carried through.
        make: Events(|_| Box::new(basic::Nothing)),
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
        name: "a-request-is-throttled",
        kind: Kind::Sometimes,
        about: "a server answers 429: it takes on no more",
        reference: Some("K113"),
        make: Events(|_| Box::new(basic::Seen(basic::Sight::Throttled))),
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
];
