//! Subnets and the pools that are cut from them: their settings and operations (A §8).
//!
//! The controller and the agents that make such pools are production code; `controller.rs` beside this folder runs it.

pub(super) mod admission;
pub(super) mod drawn;
pub(super) mod ops;
