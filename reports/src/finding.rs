//! The findings of a run: violated claims with and without an excuse, claims that were seen, problems outside the model.
//!
//! The simulator fills these in per seed; [`ScenarioResult`](crate::ScenarioResult) lists the first and counts all of them.

use std::cmp::Ordering;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::claim_kind::Kind;
use crate::shrink::Shrunk;
use crate::{Digest, Seconds, SeedRange, seeds};

/// A claim that was false in one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Violation {
    /// Name of the claim, as in `ipam-sim list claims`.
    pub claim: String,
    /// `always` or `eventually`: a single run violates no claim of another kind.
    pub kind: Kind,
    /// Time of the violation, in model time.
    #[serde(rename = "at_s")]
    #[schemars(with = "f64")]
    pub at: Seconds,
    /// The number of the event that broke it, in the trace of the run; unset = a deadline passed without the event that was due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<u64>,
    /// The documented case that excuses it.
    pub excuse: Option<String>,
    /// The details, such as who holds what since when: one sentence a line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub detail: Vec<String>,
    /// The faults without which the run passes, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<String>,
}

/// A violation without an excuse, with all that is needed to reproduce it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Failure {
    /// The seed that found it.
    pub seed: u64,
    /// The name of the violated claim, as in `list claims`.
    pub claim: String,
    /// The kind of the claim: `always` or `eventually`.
    pub kind: Kind,
    /// The time of the violation, in model time.
    #[serde(rename = "at_s")]
    pub at: Seconds,
    /// The plan file; null when it could not be written.
    #[serde(default)]
    pub plan: Option<String>,
    /// The digest of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// The details, such as who holds what since when: one sentence a line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub detail: Vec<String>,
    /// The faults without which the run passes, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<String>,
    /// The cause, as far as it tells this failure from others: [`Needs::cause`](crate::shrink::Needs::cause).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The plan without everything that the failure does not need; only of the first failure of each claim, and only if the plan kept for
    /// its cause shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shrunk: Option<Shrunk>,
}

impl Failure {
    /// Compares by seed, then by time; further fields only break ties, so that the first ones are the same in any order of merging.
    pub(crate) fn by_seed_and_time(&self, other: &Self) -> Ordering {
        (self.seed, self.at).cmp(&(other.seed, other.at)).then_with(|| self.cmp(other))
    }
}

/// The number of seeds in which a claim was violated without an excuse.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ClaimCount {
    /// The name of the violated claim, as in `list claims`.
    pub claim: String,
    /// The kind of the claim: `always` or `eventually`.
    pub kind: Kind,
    /// Number of seeds that violated it without an excuse.
    pub seeds: u64,
    /// These seeds, the first [`SEEDS_KEPT`] of them: ascending, neighbours joined. Of crash points, which share seeds, none are named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seed_ranges: Vec<SeedRange>,
    /// Whether its violation hurts users: an address has two owners, is lost, or is refused to a pod that needs it. Such findings are
    /// reported first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hurts: bool,
    /// The rank among the claims of its system that hurt users, the worst first, from 0 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
}

impl ClaimCount {
    /// A count of one seed, which is not named.
    pub fn of(claim: String, kind: Kind) -> Self {
        Self { claim, kind, seeds: 1, seed_ranges: Vec::new(), hurts: false, rank: None }
    }
}

/// The largest number of seeds that are named for a violated claim. The rest are only counted.
pub const SEEDS_KEPT: usize = 1_000;

/// The number of seeds in which a violation was excused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ExcuseCount {
    /// The name of the documented case, as in `excuses` of a scenario.
    pub excuse: String,
    /// The claim that it excuses.
    pub claim: String,
    /// Number of seeds in which it excused a violation of the claim.
    pub seeds: u64,
    /// The smallest of them.
    pub first_seed: u64,
}

/// A claim that must hold in at least one seed of the sweep.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sometimes {
    /// The name of the claim, as in `list claims`.
    pub claim: String,
    /// The kind of the claim: `sometimes` must be true once, `reachable` is a point that must be passed.
    pub kind: Kind,
    /// Number of seeds in which it held.
    pub held_in: u64,
}

/// A kind of fault that was drawn, and the number of seeds in which it had an effect.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FaultCount {
    /// The kind of fault, as in `kind` of a plan.
    pub fault: String,
    /// Number of seeds whose plans have it.
    pub drawn_in: u64,
    /// Number of those in which it took hold of something: a message, a request, a process.
    pub fired_in: u64,
}

/// The number of seeds in which a claim had something to judge: an `always` claim looked at something that could have been false, an
/// `eventually` claim had something to wait for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct JudgedCount {
    /// The name of the claim, as in `list claims`.
    pub claim: String,
    /// Number of seeds in which it had something to judge or to wait for.
    pub judged_in: u64,
}

/// A problem outside the model, in one seed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Problem {
    /// The seed of the run; of seeds that were compared as a whole, the first.
    pub seed: u64,
    /// The kind of problem: a run that could not be repeated, or a failure of the harness itself.
    pub kind: ProblemKind,
    /// A description in a sentence.
    pub message: String,
    /// The plan file, if one was written.
    #[serde(default)]
    pub plan: Option<String>,
}

/// The kinds of problems outside the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProblemKind {
    /// The same plan gave a different digest.
    Nondeterminism,
    /// A bug of the harness.
    Harness,
}

/// Adds without overflow, because counts are read from files.
pub(crate) fn tally(into: &mut u64, count: u64) {
    *into = into.saturating_add(count);
}

/// Entries that are counted by name.
pub(crate) trait Counted: Ord {
    /// Adds the counts of `other` if it has the same name; gives it back otherwise.
    fn absorb(&mut self, other: Self) -> Result<(), Self>
    where
        Self: Sized;
}

macro_rules! counted {
    ($record:ty, [$($key:ident),+], $count:ident $(, $min:ident)?) => {
        impl Counted for $record {
            fn absorb(&mut self, other: Self) -> Result<(), Self> {
                if $(self.$key != other.$key)||+ {
                    return Err(other);
                }
                tally(&mut self.$count, other.$count);
                $(self.$min = self.$min.min(other.$min);)?
                Ok(())
            }
        }
    };
}

impl Counted for ClaimCount {
    fn absorb(&mut self, other: Self) -> Result<(), Self> {
        if (&self.claim, self.kind) != (&other.claim, other.kind) {
            return Err(other);
        }
        tally(&mut self.seeds, other.seeds);
        for range in other.seed_ranges {
            seeds::insert_range(&mut self.seed_ranges, range);
        }
        seeds::keep_first(&mut self.seed_ranges, SEEDS_KEPT);
        self.hurts |= other.hurts;
        self.rank = self.rank.or(other.rank);
        Ok(())
    }
}

counted!(ExcuseCount, [excuse, claim], seeds, first_seed);
counted!(Sometimes, [claim, kind], held_in);
counted!(JudgedCount, [claim], judged_in);

impl Counted for FaultCount {
    fn absorb(&mut self, other: Self) -> Result<(), Self> {
        if self.fault != other.fault {
            return Err(other);
        }
        tally(&mut self.drawn_in, other.drawn_in);
        tally(&mut self.fired_in, other.fired_in);
        Ok(())
    }
}

/// Adds counts by name; the result is sorted, so that it does not depend on the order of entries.
pub(crate) fn join_counts<T: Counted>(into: &mut Vec<T>, entries: impl IntoIterator<Item = T>) {
    for entry in entries {
        let left = into.iter_mut().try_fold(entry, |entry, known| match known.absorb(entry) {
            Ok(()) => Err(()),
            Err(entry) => Ok(entry),
        });
        into.extend(left.ok());
    }
    into.sort();
}
