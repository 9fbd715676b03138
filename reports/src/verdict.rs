//! The verdict on one scenario.

use crate::exit;

/// The verdict on a scenario.
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
    /// No scenario that must hold noticed this mutation, but enough of the others were noticed (gates only).
    NotNoticed,
    /// An `eventually` claim was violated.
    NotEventually,
    /// Nothing was violated, but more than one seed of ten is excused, and the scenario does not say why.
    ExcusedTooOften,
    /// A `sometimes` or `reachable` claim held in no seed, a kind of fault did nothing, or an `always` claim judged nothing (not on the
    /// user's cluster, which need not contain what they are about); or no address was given though some were asked for.
    Vacuous,
    /// No seed ran, which proves nothing.
    NotRun,
    /// The budget ended before all required runs, so that nothing can be said (gates and placements of disturbances only).
    Incomplete,
    /// All runs are right and as many as required, but the budget ended before all planned ones (gates only).
    CutShort,
    /// The budget left no time for this case of a sample, of which enough cases ran (gates only).
    LeftOut,
    /// Judged elsewhere or later: with the other shards, or by the build that recorded the digest.
    Open,
    /// One plan gave two digests.
    Nondeterministic,
    /// The harness itself failed in a run, which proves nothing about the claims.
    Broken,
}

impl Verdict {
    /// The exit code of a process with this verdict.
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
