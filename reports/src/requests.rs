//! What runs asked for: of the API servers, and of whoever gives addresses.

use serde::{Deserialize, Serialize};

/// Requests to the API servers of the simulated cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Api {
    /// All requests, those that failed included.
    pub requests: u64,
    /// Those that change an object.
    pub writes: u64,
    /// Writes refused because the resource version was old.
    pub conflicts: u64,
    /// Operations given up because their last retry failed, too.
    pub retries_exhausted: u64,
}

impl Api {
    /// The sum, count by count; none overflows.
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

/// Addresses that were asked for, of adaptors and of agents, and how that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocations {
    /// All attempts: those that got an address, and the others.
    pub attempted: u64,
    /// Attempts that got an address.
    pub succeeded: u64,
    /// Attempts that got none.
    pub failed: u64,
}

impl Allocations {
    /// The sum, count by count; none overflows.
    #[must_use]
    pub fn plus(self, other: Allocations) -> Allocations {
        Allocations {
            attempted: self.attempted.saturating_add(other.attempted),
            succeeded: self.succeeded.saturating_add(other.succeeded),
            failed: self.failed.saturating_add(other.failed),
        }
    }
}
