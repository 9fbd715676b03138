//! Answers as human-readable text.

mod add;
mod reclaim;

pub use add::explain;
pub use reclaim::explain_reclaim;
