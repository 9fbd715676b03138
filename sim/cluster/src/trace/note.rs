//! What actors say they did. Each system under test has a vocabulary of its own: types that implement [`Note`].

use std::any::Any;
use std::fmt::{self, Write};
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use kube_machinery::word_hash::Measure;

use super::entity::About;
use super::step::Step;

/// Something that an actor says it did. It enters the digest, claims and metrics see it pass, recordings keep it.
///
/// Its [`Display`](fmt::Display) is a line of the trace without time and actor.
pub trait Note: Any + fmt::Debug + fmt::Display + ToShared + Send + Sync {
    /// What of the note enters the digest. Different notes should have different words:
    /// [`word_hash::of`](kube_machinery::word_hash::of) makes one of all that the note has. The default is a hash of its text, which takes
    /// as long as to write that: for vocabularies of which a run says little.
    fn word(&self) -> u64 {
        let mut text = Measure::default();
        // A note that cannot be written down fails a recording, too; it counts as far as it comes.
        let _ = write!(text, "{self}");
        text.hash()
    }

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
}

/// What a note has for claims beyond its [word](Note::word): it follows from the rest of the note, or has no hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unhashed<T>(pub T);

impl<T> Hash for Unhashed<T> {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl<T> Deref for Unhashed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// What every [`Note`] that can be cloned has: nobody implements it by hand.
pub trait ToShared {
    /// A copy that a recording can keep.
    fn to_shared(&self) -> Arc<dyn Note>;
}

impl<N: Note + Clone> ToShared for N {
    fn to_shared(&self) -> Arc<dyn Note> {
        Arc::new(self.clone())
    }
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
    /// A request for what the system under test gives out, such as an address, was answered with it.
    Succeeded,
    /// Such a request was answered with an error.
    Failed,
}
