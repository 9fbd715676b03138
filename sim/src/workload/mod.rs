//! What the clients of a run do, and what they say of it.

pub mod counter;

/// What an actor says it did: one vocabulary for all workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// A counter was incremented, and the increment acknowledged.
    Counted {
        /// The value that was written.
        value: u64,
    },
    /// Nobody knows whether an increment took place: its answer was lost, or its client crashed.
    LeftOpen,
    /// An operation gave up because its last retry failed, too.
    RetriesExhausted,
}

impl Note {
    pub(crate) fn word(&self) -> u64 {
        match self {
            Note::Counted { value } => value << 2,
            Note::LeftOpen => 1,
            Note::RetriesExhausted => 2,
        }
    }
}
