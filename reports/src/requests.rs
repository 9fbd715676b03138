//! Counts of requests of runs: to the API servers, and for addresses.

use serde::{Deserialize, Serialize};

/// Requests to the API servers of the simulated cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Api {
    /// The number of all requests, failed ones included.
    pub requests: u64,
    /// The number of requests that change an object.
    pub writes: u64,
    /// The number of writes refused because the resource version was old.
    pub conflicts: u64,
    /// The number of operations given up because their last retry failed, too.
    pub retries_exhausted: u64,
}

impl Api {
    /// The sum, count by count; saturating.
    #[must_use]
    pub fn plus(self, other: Api) -> Api {
        Api {
            requests: self.requests.saturating_add(other.requests),
            writes: self.writes.saturating_add(other.writes),
            conflicts: self.conflicts.saturating_add(other.conflicts),
            retries_exhausted: self.retries_exhausted.saturating_add(other.retries_exhausted),
        }
    }
}

/// Requests for addresses, to adaptors and to agents, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocations {
    /// The number of all attempts, with or without success.
    pub attempted: u64,
    /// The number of attempts that got an address.
    pub succeeded: u64,
    /// The number of attempts that got none.
    pub failed: u64,
}

impl Allocations {
    /// The sum, count by count; saturating.
    #[must_use]
    pub fn plus(self, other: Allocations) -> Allocations {
        Allocations {
            attempted: self.attempted.saturating_add(other.attempted),
            succeeded: self.succeeded.saturating_add(other.succeeded),
            failed: self.failed.saturating_add(other.failed),
        }
    }
}
