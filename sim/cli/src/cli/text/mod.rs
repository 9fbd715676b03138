//! Records as text for people. This module only takes records, and prints nothing itself.

mod against;
mod calibrate;
mod capacity;
mod conflicts;
mod conformance;
mod demand;
mod failure;
mod gate;
mod hunt;
mod leaks;
mod listing;
mod metric;
mod metrics;
mod paint;
mod pool;
mod reclaim;
mod replay;
mod run;
mod selftest;
mod shrink;
mod tabular;
mod width;

use sim_harness::text as table;
pub use sim_harness::text::Paint;

pub use calibrate::calibrate;
pub use capacity::capacity;
pub use conflicts::conflicts;
pub use conformance::conformance;
pub use demand::demand;
pub use gate::gate;
pub use leaks::leaks;
pub use listing::{check, list, names};
pub use metrics::metrics;
pub(super) use paint::choose;
pub use replay::{replay, trace_line};
pub use run::run;
pub(super) use run::{Told, findings};
pub use selftest::selftest;
pub use shrink::shrink;
pub use width::fit;
