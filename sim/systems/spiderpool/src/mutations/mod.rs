//! What the mutations of Spiderpool do, and how they are found.

pub mod allocation;
pub mod reclaim;
