//! Answers as text for people.

mod add;
mod reclaim;

pub use add::explain;
pub use reclaim::explain_reclaim;
