//! What a caller grants an operation on the pool, what it took, and how it ended.

use std::time::Duration;

use super::address::Address;
use super::error::PoolError;
use kube_machinery::env::Env;

/// What a caller grants an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// When the caller gives up, by the monotonic clock of the process; `None` = never.
    pub deadline: Option<Duration>,
}

impl Context {
    /// The context of somebody who waits for as long as it takes.
    pub const BACKGROUND: Self = Self { deadline: None };
}

/// What an operation took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Effort {
    /// Gets of the ConfigMap.
    pub reads: u32,
    /// Puts and creates of the ConfigMap.
    pub writes: u32,
    /// Writes that met a conflict.
    pub conflicts: u32,
    /// Creates that came second.
    pub create_races: u32,
    /// Whether a write was given up after all attempts that the retry policy grants.
    pub exhausted: bool,
    /// VMs that were probed.
    pub probes: u32,
    /// How long it waited for the mutex of the process.
    pub mutex_wait: Duration,
}

impl Effort {
    /// What it took since `before`, which was the same operation's effort.
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

/// When a release or a recovery began, and what the operation that it is part of had taken until then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    pub(super) at: Duration,
    pub(super) effort: Effort,
}

/// How an operation ended, and what it took.
#[derive(Clone, Debug)]
pub struct Outcome<T> {
    /// The answer, or why there is none.
    pub result: Result<T, PoolError>,
    /// The requests, conflicts and waits that it took.
    pub effort: Effort,
}

impl<T> Outcome<T> {
    /// The result, for a process that survives it: where upstream's stores into a nil map, Go ends the process (B W18).
    #[track_caller]
    pub(super) fn or_crash(self, env: &impl Env) -> Result<T, PoolError> {
        if let Err(PoolError::Panic) = self.result {
            env.crash("assignment to entry in nil map");
        }
        self.result
    }
}

/// What a release found and did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Released {
    /// The record is gone, and unless the configuration has changed the address is available.
    Freed(Address),
    /// There was no record: it was released before.
    NotHeld,
    /// There was no instance to delete. Nothing was released; with `byom-empty-id-counts-as-deleted` the caller goes on as
    /// if something had been.
    NoInstance,
}
