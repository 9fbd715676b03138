//! The claims that hold for any system.

use ipam_reports::finding::Kind;

use super::{ClaimDef, basic, budget, deleted_pods_go, foreign_finalizers, lease};

/// The name of the claim that no run exhausts its budget of events.
pub const SPEND: &str = "runs-end-within-their-events";

/// The name of the claim that counts requests.
pub const BUDGET: &str = "requests-stay-within-budget";

/// The claims, in the order in which they are listed.
pub const COMMON: &[ClaimDef] = &[
    ClaimDef::always("no-process-panics", "no process of the system under test panics", basic::no_process_panics),
    ClaimDef::always(
        "revisions-only-grow",
        "every committed write takes a revision greater than all before it",
        basic::revisions_only_grow,
    )
    .citing("K004"),
    ClaimDef::always("leases-last", "no process takes a lease before it can have expired or has been released", lease::leases_last)
        .citing("K143"),
    ClaimDef::always(
        "foreign-finalizers-stay",
        "only the controller that owns a finalizer removes it from an object",
        foreign_finalizers::foreign_finalizers_stay,
    )
    .citing("K012"),
    ClaimDef::always(
        BUDGET,
        "no process sends more requests than `check.budget` permits; part of every run that sets one",
        budget::requests_stay_within_budget,
    ),
    // Judged by the loop that executes the run.
    ClaimDef::eventually(SPEND, "the run ends within its event budget (`max_events`): no process spins; part of every run", basic::nothing),
    ClaimDef::eventually(
        "deleted-pods-go",
        "no pod that was deleted is left whose grace is over, that no finalizer holds, and whose node is not lost for good",
        deleted_pods_go::deleted_pods_go,
    )
    .citing("K127"),
    ClaimDef::sometimes("clients-conflict", "a write is refused because the object changed since it was read", basic::conflict)
        .citing("K069"),
    ClaimDef::sometimes("an-answer-is-lost", "a caller gets no answer or an ambiguous error", basic::ambiguous_answer).citing("K114"),
    ClaimDef::sometimes("a-request-is-throttled", "an API server answers 429: it accepts no more requests", basic::throttled)
        .citing("K113"),
    ClaimDef::new(Kind::Reachable, "a-process-restarts", "a process crashes and starts again", basic::restarted),
    ClaimDef::new(Kind::Reachable, "a-fault-takes-hold", "a fault of the plan begins", basic::fault_began),
];
