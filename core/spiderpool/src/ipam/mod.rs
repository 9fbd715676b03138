//! The agent of a node: allocates addresses to pods and releases them (A §5 to §7).
//!
//! ```text
//!   plugin ── ADD, DEL, batch release ──► Agent ──► pools (status, guarded by resourceVersion), endpoints
//!                                           ▲
//!                                           └────── Caches: what its watches show
//! ```
//!
//! The write order is always: records in pools, endpoint, answer. A crash in between leaves a record that the next try of the same pod
//! finds, or that reclaim releases once the pod is gone. Decisions are functions over the state that was read; the drivers around them
//! read, write and retry.

mod add;
mod agent;
mod allocated_ip;
mod answer;
mod batch;
mod caches;
mod del;
mod del_upstream;
mod endpoints;
mod error;
mod failure_cache;
mod informer_caches;
mod neighbours;
mod observer;
mod op;
mod plugin;
mod pool_addresses;
mod pool_decide;
mod pools;
mod request;
mod settings;

pub use agent::Agent;
pub use allocated_ip::AllocatedIp;
pub use answer::{AddAnswer, DelOutcome, How, NicAddress, NicRoute};
pub use caches::Caches;
pub use error::{Failure, Failures, IpamError, PoolError};
pub use informer_caches::{InformerCaches, LastRead, LateKind};
pub use neighbours::withheld;
pub use observer::{Cause, Effort, Observer, Step};
pub use plugin::{Call, Connection, PATIENCE, Plugin, PluginError, Probe, Unanswered};
pub use request::{AddRequest, BatchRequest, DelRequest};
pub use settings::{AgentConfig, AgentSettings};

// The operations on endpoints and records that reclaim needs, too.
pub(super) use endpoints::{entries_of, goes_with_pod, has_finalizer, is_terminating, uid_of};
pub(super) use op::recorded;
pub(super) use pool_decide::release as release_records;
