//! The harness without a command line: loads, sweeps, shrinks and replays scenarios.
//!
//! ```text
//!  files ── load ──► Ready ── sweep ──► verdict, plans of failing seeds ─┬─ replay ──► events, causes, objects
//!                                                                       └─ shrink ──► a smaller plan, and what it needs
//! ```
//! Each module takes plain options ([`LoadOptions`], [`SweepOptions`], [`HuntOptions`], [`ShrinkOptions`], [`ReplayOptions`]), reports to a
//! [`Progress`], returns records of `ipam_reports`, and fails with an [`Error`]. Nothing here prints or ends the process.

pub mod crash_points;
mod disturbed;
pub mod hunt;
pub mod load;
pub mod output;
mod placements;
pub mod progress;
pub mod provenance;
pub mod replay;
pub mod run;
pub mod seeds;
pub mod shrink;
pub mod sweep;
pub mod tables;
pub mod thread_pool;

pub use hunt::HuntOptions;
pub use load::LoadOptions;
pub use progress::Progress;
pub use replay::ReplayOptions;
pub use seeds::{Seeds, Shard};
pub use shrink::ShrinkOptions;
pub use sweep::SweepOptions;
pub use thread_pool::STACK_BYTES;

pub use crate::error::{Error, HarnessBug};

/// The build of the program: digests are comparable within one build, whatever its profile or machine.
pub fn build() -> &'static str {
    crate::system::systems().build()
}
