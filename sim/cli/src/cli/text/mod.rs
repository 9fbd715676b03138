//! Records as text for people. Takes records only, prints nothing itself.

mod capacity;
mod conflicts;
mod conformance;
mod demand;
mod explain;
mod explain_reclaim;
mod failure;
mod gate;
mod leaks;
mod listing;
mod metric;
mod paint;
mod pool;
mod reclaim;
mod replay;
mod run;
mod selftest;
mod shrink;
mod table;
mod width;

pub use capacity::capacity;
pub use conflicts::conflicts;
pub use conformance::conformance;
pub use demand::demand;
pub use explain::explain;
pub use explain_reclaim::explain_reclaim;
pub use gate::gate;
pub use leaks::leaks;
pub use listing::{check, list, names};
pub use paint::Paint;
pub use replay::{replay, trace_line};
pub use run::run;
pub(super) use run::{Told, findings};
pub use selftest::selftest;
pub use shrink::shrink;
pub use width::fit;
