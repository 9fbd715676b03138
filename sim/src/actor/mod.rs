//! Parts of a cluster that are no API server and no client under test: controllers that workloads need around them.
//!
//! Each is a process that whoever builds the world installs; it lives through its crashes by itself.

mod crew;
pub mod garbage_collector;
pub mod kubelet;
pub mod scheduler;
