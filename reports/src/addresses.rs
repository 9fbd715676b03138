//! Addresses of Spiderpool's pools that one run held, by the state of their pods.

use serde::{Deserialize, Serialize};

use crate::Seconds;

/// Numbers of recorded addresses, by the state of their pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Addresses of pods that live.
    pub living: u64,
    /// Addresses of pods that are terminating or have ended.
    pub ending: u64,
    /// Addresses of pods that are gone: leaks, until reclaim frees them.
    pub leaked: u64,
}

impl Held {
    /// All recorded addresses, whatever the state of their pods.
    pub fn total(&self) -> u64 {
        self.living + self.ending + self.leaked
    }
}

/// The most addresses held at the same time from `at` until the next sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The time since the beginning of the run.
    pub at: Seconds,
    /// The addresses held when the total was largest.
    pub held: Held,
}

/// The addresses that one run held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressRun {
    /// The total number of addresses in the pools.
    pub capacity: u64,
    /// The most addresses recorded at the same time.
    pub peak: u64,
    /// The most addresses of living pods.
    pub peak_living: u64,
    /// The most addresses of pods that were terminating or had ended.
    pub peak_ending: u64,
    /// The most addresses of pods that were gone.
    pub peak_leaked: u64,
    /// The number of pods that asked for an address.
    pub asked: u64,
    /// The number of them that were refused one at least once because none was free.
    pub refused: u64,
    /// The time that each pod that got an address waited for it, from its first request on.
    pub waited: Vec<Seconds>,
    /// Samples over time, at equal intervals.
    pub samples: Vec<Sample>,
}
