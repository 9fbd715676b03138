//! How one scenario ended.

use crate::exit;

/// How a scenario ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Every claim held, and every `sometimes` claim was seen.
    Held,
    /// A negative scenario violated the claim that it must violate.
    Found,
    /// An `always` claim was violated.
    Violated,
    /// A negative scenario did not violate its claim.
    NotFound,
    /// Of a gate: no scenario that must hold noticed a mutation, but enough of the others were noticed.
    NotNoticed,
    /// An `eventually` claim was violated.
    NotEventually,
    /// Nothing was violated, but more than one seed of ten is excused, and the scenario does not say why.
    ExcusedTooOften,
    /// A `sometimes` or `reachable` claim held in no seed, a kind of fault did nothing, or an `always` claim judged nothing (not on the
    /// user's own cluster, which need not hold what they are about); or no address was given though some were asked for.
    Vacuous,
    /// No seed ran, which proves nothing.
    NotRun,
    /// Of a gate, and of placements of disturbances: the budget ended before what had to run did, so that nothing can be said.
    Incomplete,
    /// Of a gate: what ran is right and is as much as had to run, but the budget ended before all did.
    CutShort,
    /// Of a gate: the budget had no time for it, and it is one of a sample of which enough ran.
    LeftOut,
    /// Judged elsewhere or later: where the other shards are, or where the build is that recorded the digest.
    Open,
    /// One plan gave two digests.
    Nondeterministic,
    /// The harness itself failed in a run, which proves nothing about the claims.
    Broken,
}

impl Verdict {
    /// What this verdict makes the process exit with.
    pub const fn exit_code(self) -> u8 {
        match self {
            Verdict::Held | Verdict::Found | Verdict::NotNoticed | Verdict::Open | Verdict::CutShort | Verdict::LeftOut => exit::HELD,
            Verdict::Incomplete => exit::INCOMPLETE,
            Verdict::Violated | Verdict::NotFound | Verdict::ExcusedTooOften => exit::VIOLATED,
            Verdict::NotEventually => exit::NOT_EVENTUALLY,
            Verdict::Vacuous | Verdict::NotRun => exit::VACUOUS,
            Verdict::Nondeterministic => exit::NONDETERMINISTIC,
            Verdict::Broken => exit::HARNESS,
        }
    }
}
