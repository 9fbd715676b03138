//! Production logic of Kubernetes IP-address management, and what any Kubernetes client needs.
//!
//! Everything here is generic over a [`Client`] (how to reach an API server) and an [`Env`] (clocks, sleep,
//! spawn, random numbers). Nothing here knows a runtime, reads an ambient clock or draws ambient randomness, so
//! the same code runs against a simulated cluster and against any other implementation of the two traits.
//!
//! Decisions are pure functions over state; thin async drivers around them do the reads, writes and retries.

// Tests in here use the API server of the tests in `tests/`, which knows this crate by its name.
#[cfg(test)]
extern crate self as ipam_core;

pub mod api;
pub mod byom;
pub mod client;
pub mod deviation;
pub mod env;
pub mod informer;
pub mod json_text;
pub mod kubevirt;
pub mod label_selector;
pub mod latest;
pub mod leader;
pub mod race;
pub mod rate_limit;
pub mod retry;
pub mod spiderpool;
#[cfg(test)]
mod testing;
pub mod transparent;
pub mod word_hash;
pub mod workqueue;

pub use api::{ApiError, Object, ObjectKey, Reason, Status};
pub use client::{Client, ClientExt, WatchStream};
pub use env::{Env, Task};
pub use json_text::{InvalidText, JsonText, TextForm};

/// A hash map with a fixed hasher: the same insertion history iterates the same way in every run.
pub use rustc_hash::{FxHashMap, FxHashSet};
pub use word_hash::WordHash;
