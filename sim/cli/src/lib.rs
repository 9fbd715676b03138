//! The `ipam-sim` command as a library: a program with systems of its own has every verb by one call of [`cli::main_with`].

pub mod cli;
pub mod simulated_server;
pub mod systems;

/// Registers the systems before any test runs.
#[cfg(test)]
#[ctor::ctor(unsafe)]
fn install() {
    systems::install();
}
