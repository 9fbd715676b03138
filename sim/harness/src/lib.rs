//! Finds out whether a system under test keeps its promises: scenarios, plans, runs, claims, sweeps, replay, shrinking.
//!
//! ```text
//!   scenario ──(seed)──► plan ──► world ──► trace ──► claims ──► verdict ──► engine: sweep, replay, shrink
//!    checked config   every draw   a run    events    judge
//! ```
//! It names no system: each comes as a [`system::System`] and is registered by [`system::install`].

pub mod causality;
pub mod check;
pub mod claim;
pub mod deviation;
pub mod engine;
mod fault_text;
pub mod feature;
pub mod note_counts;
pub mod occurrence;
pub mod operation;
pub mod plan;
pub mod prelude;
mod records;
mod registered;
pub mod scenario;
pub mod served;
pub mod swarm;
pub mod system;
pub mod upgrade;
pub mod workload;
pub mod world;
