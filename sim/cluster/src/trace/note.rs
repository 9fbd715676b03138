//! Notes of actors on their actions. Each system under test has a separate vocabulary: types that implement [`Note`].

use std::any::Any;
use std::fmt::{self, Write};
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use kube_machinery::word_hash::Measure;

use super::entity::About;
use super::step::Step;

/// A note of an actor on an action. It enters the digest, claims and metrics see it pass, recordings keep it.
///
/// Its [`Display`](fmt::Display) is a line of the trace without time and actor.
pub trait Note: Any + fmt::Debug + fmt::Display + ToShared + Send + Sync {
    /// The part of the note that enters the digest. Different notes should have different words:
    /// [`word_hash::of`](kube_machinery::word_hash::of) makes one from the whole note. The default is a hash of its text, which takes as
    /// long as writing the text: for vocabularies with few notes per run.
    fn word(&self) -> u64 {
        let mut text = Measure::default();
        // A note that cannot be written as text makes a recording fail, too; it counts as far as it was written.
        let _ = write!(text, "{self}");
        text.hash()
    }

    /// The addresses, allocations and pods that it is about, and whether an operation begins or ends with it.
    fn about(&self) -> About {
        About::passing([])
    }

    /// The counter of a run to which it adds.
    fn counts_as(&self) -> Option<Counted> {
        None
    }

    /// The beginning or end of an operation of the actor, for histories that external checkers read.
    fn step(&self) -> Option<Step> {
        None
    }
}

/// A part of a note for claims that is not in its [word](Note::word): it follows from the rest of the note, or has no hash.
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

/// A trait of every [`Note`] that can be cloned: it is implemented automatically.
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
    /// A request for the resource that the system under test allocates, such as an address, was answered with one.
    Succeeded,
    /// Such a request was answered with an error.
    Failed,
}
