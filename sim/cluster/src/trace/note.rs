//! What actors say they did. Each system under test has a vocabulary of its own: types that implement [`Note`].

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::entity::About;
use super::step::Step;

/// Something that an actor says it did. It enters the digest, claims and metrics see it pass, recordings keep it.
///
/// Its [`Display`](fmt::Display) is a line of the trace without time and actor.
pub trait Note: Any + fmt::Debug + fmt::Display + Send + Sync {
    /// What of the note enters the digest. Different notes should have different words.
    fn word(&self) -> u64;

    /// Which addresses, allocations and pods it is about, and whether an operation begins or ends with it.
    fn about(&self) -> About {
        About::passing([])
    }

    /// What it adds to the counters of a run.
    fn counts_as(&self) -> Option<Counted> {
        None
    }

    /// That an operation of the actor begins or ends, for histories that outside checkers read.
    fn step(&self) -> Option<Step> {
        None
    }

    /// A copy that a recording can keep.
    fn to_shared(&self) -> Arc<dyn Note>;
}

impl dyn Note {
    /// The note as one of the vocabulary `T`, if it is one.
    pub fn downcast_ref<T: Note>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

/// The counters of a run that notes add to; see [`ApiCounts`](super::recorder::ApiCounts).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// An operation gave up because its last retry failed, too.
    RetriesExhausted,
    /// A request for addresses was answered with addresses.
    Allocated,
    /// A request for addresses was answered with an error.
    NotAllocated,
}
