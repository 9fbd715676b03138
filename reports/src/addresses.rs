//! How many addresses of Spiderpool's pools one run held, and for whom.

use serde::{Deserialize, Serialize};

use crate::Seconds;

/// Recorded addresses by what became of their pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Of pods that live.
    pub living: u64,
    /// Of pods that are terminating or have ended.
    pub ending: u64,
    /// Of pods that are gone: leaks, until reclaim takes them back.
    pub leaked: u64,
}

impl Held {
    /// All recorded addresses, whatever became of their pods.
    pub fn total(&self) -> u64 {
        self.living + self.ending + self.leaked
    }
}

/// The most that was held at a time from `at` on, until the next sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Since the beginning of the run.
    pub at: Seconds,
    /// What was held when the total was largest.
    pub held: Held,
}

/// What one run held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressRun {
    /// How many addresses the pools have in total.
    pub capacity: u64,
    /// The most that were recorded at a time.
    pub peak: u64,
    /// The most of living pods.
    pub peak_living: u64,
    /// The most of pods that were terminating or had ended.
    pub peak_ending: u64,
    /// The most of pods that were gone.
    pub peak_leaked: u64,
    /// Pods that asked for an address.
    pub asked: u64,
    /// Those of them that were refused one at least once because none was free.
    pub refused: u64,
    /// How long each pod that got an address waited for it, from its first request on.
    pub waited: Vec<Seconds>,
    /// Over time, equally far apart.
    pub samples: Vec<Sample>,
}
