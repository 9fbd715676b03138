//! The `ipam-sim` command as a library: a program with systems of its own has every verb by one call of [`cli::main_with`].
//!
//! ```text
//!  arguments ──► cli: a verb ──► sim-harness: load, sweep, replay, shrink ──► a record of ipam-reports ──► text, JSON, files, exit code
//! ```
//! `main.rs` of this package is that call for the systems that are shipped ([`systems`]). How to bring a system is told in
//! `docs/own-system.md`.

pub mod cli;
pub mod simulated_server;
pub mod systems;

/// Registers the systems before any test runs.
#[cfg(test)]
#[ctor::ctor(unsafe)]
fn install() {
    systems::install();
}
