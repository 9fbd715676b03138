//! Figures of a run: who listens to its events as claims do, and counts instead of judging.
//!
//! A meter works from notes and commits alone and never reaches into an actor. Only workloads that have something to count
//! pay for one.

mod addresses;
mod agents;
mod calls;
mod pool;
mod reclaim;
mod right;
mod silence;

pub use addresses::AddressMeter;
pub use agents::AgentsMeter;
pub use pool::PoolMeter;
pub use reclaim::ReclaimMeter;
