//! The `ipam-sim` command as a library: a program with its own systems gets every verb from one call of [`cli::main_with`].
//!
//! ```text
//!  arguments ──► cli: a verb ──► sim-harness: load, sweep, replay, shrink ──► a record of ipam-reports ──► text, JSON, files, exit code
//! ```
//! `main.rs` of this package makes that call for the systems of this repository ([`systems`]). `docs/own-system.md` explains how to add a
//! system.
//!
//! | items | subject |
//! |---|---|
//! | [`cli::main_with`], [`cli::main`] | the process of a program: its arguments, streams and environment |
//! | [`cli::dispatch`], [`cli::Console`] | one command line with the caller's streams, and the properties of terminals and signals |
//! | [`cli::Verbs`], [`cli::Simulator`] | the interface of the verbs, and its implementation |
//! | [`cli::args`], [`cli::text`] | the arguments, and records as text for people |
//! | [`simulated_server`] | the simulated API server, for the cases of `api-conformance` |
//!
//! # Examples
//!
//! The work of [`cli::main_with`], with the caller's command lines and streams:
//!
//! ```
//! use std::ffi::OsString;
//!
//! use ipam_reports::exit;
//! use ipam_sim::cli::{self, Console, Simulator};
//! use sim_counter::Counter;
//!
//! const SCENARIO: &str = r#"
//!     name = "calm"
//!     why = "Does no increment get lost as long as nothing fails?"
//!     workload = { kind = "counter" }
//!     check.always = ["counter/*"]
//! "#;
//!
//! sim_harness::system::install(&[&Counter], env!("CARGO_PKG_VERSION"));
//! let call = |words: &[&str]| {
//!     let (mut out, mut err) = (Vec::new(), Vec::new());
//!     let line = ["ipam-sim"].iter().chain(words).map(OsString::from);
//!     let code = cli::dispatch(line, &Simulator, &mut Console::plain(&mut out, &mut err));
//!     (code, String::from_utf8_lossy(&out).into_owned())
//! };
//!
//! let folder = tempfile::tempdir()?;
//! let path = |name: &str| folder.path().join(name).display().to_string();
//! let (file, plans) = (path("calm.toml"), path("plans"));
//! std::fs::write(&file, SCENARIO)?;
//!
//! assert_eq!(call(&["check", &file]), (exit::HELD, "1 file: no problem\n".to_owned()));
//! assert_eq!(call(&["run", &file, "--seeds", "20"]).0, exit::HELD);
//!
//! let (code, text) = call(&["run", &file, "--seeds", "20", "--mutation", "counter-decides-once", "--no-shrink", "--out", &plans]);
//! assert_eq!(code, exit::VIOLATED);
//! assert!(text.contains("FAIL  no-increment-is-lost"), "{text}");
//! # Ok::<(), std::io::Error>(())
//! ```

pub mod cli;
pub mod simulated_server;
pub mod systems;

/// Registers the systems before any test runs.
#[cfg(test)]
#[ctor::ctor(unsafe)]
fn install() {
    systems::install();
}
