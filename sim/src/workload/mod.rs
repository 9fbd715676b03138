//! What the clients of a run do, and what they say of it.

/// What an actor says it did: one vocabulary per workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// A counter was incremented, as its client believes.
    Counted {
        /// The value it wrote.
        value: u64,
    },
}

impl Note {
    pub(crate) fn word(&self) -> u64 {
        match self {
            Note::Counted { value } => *value,
        }
    }
}
