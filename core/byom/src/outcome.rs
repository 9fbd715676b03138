//! The context, the effort and the outcome of an operation on the pool.

use std::time::Duration;

use super::address::Address;
use super::error::PoolError;
use kube_machinery::env::Env;

/// The limits that a caller sets for an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// The time at which the caller gives up, by the monotonic clock of the process; `None` = never.
    pub deadline: Option<Duration>,
}

impl Context {
    /// The context of a caller without a deadline.
    pub const BACKGROUND: Self = Self { deadline: None };
}

/// The requests and waits of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Effort {
    /// Gets of the ConfigMap.
    pub reads: u32,
    /// Puts and creates of the ConfigMap.
    pub writes: u32,
    /// Writes that failed with a conflict.
    pub conflicts: u32,
    /// Creates that failed with AlreadyExists.
    pub create_races: u32,
    /// Whether a write was given up after all attempts that the retry policy grants.
    pub exhausted: bool,
    /// VMs that were probed.
    pub probes: u32,
    /// The time spent waiting for the mutex of the process.
    pub mutex_wait: Duration,
}

impl Effort {
    /// The effort since `before`, an earlier effort of the same operation.
    pub(super) fn since(&self, before: &Self) -> Self {
        Self {
            reads: self.reads - before.reads,
            writes: self.writes - before.writes,
            conflicts: self.conflicts - before.conflicts,
            create_races: self.create_races - before.create_races,
            exhausted: self.exhausted && !before.exhausted,
            probes: self.probes - before.probes,
            mutex_wait: self.mutex_wait - before.mutex_wait,
        }
    }
}

/// The start time of a release or a recovery, and the effort of the surrounding operation up to then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    pub(super) at: Duration,
    pub(super) effort: Effort,
}

/// The result of an operation, and its effort.
#[derive(Clone, Debug)]
pub struct Outcome<T> {
    /// The answer, or the reason why there is none.
    pub result: Result<T, PoolError>,
    /// The requests, conflicts and waits of the operation.
    pub effort: Effort,
}

impl<T> Outcome<T> {
    /// The result, unless the process crashes: where upstream's stores into a nil map, Go ends the process (B W18).
    #[track_caller]
    pub(super) fn or_crash(self, env: &impl Env) -> Result<T, PoolError> {
        if let Err(PoolError::Panic) = self.result {
            env.crash("assignment to entry in nil map");
        }
        self.result
    }
}

/// The result of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Released {
    /// The record is gone, and unless the configuration has changed the address is available.
    Freed(Address),
    /// There was no record: it was released before.
    NotHeld,
    /// There was no instance to delete. Nothing was released; with `byom-empty-id-counts-as-deleted` the caller continues as after a
    /// release.
    NoInstance,
}
