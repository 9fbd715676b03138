//! The effects of Spiderpool's mutations, and the ways they are found.

pub mod allocation;
pub mod reclaim;
