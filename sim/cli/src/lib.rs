//! The `ipam-sim` command as a library: a program with systems of its own has every verb by one call of [`cli::main_with`].
//!
//! ```text
//!  arguments ──► cli: a verb ──► sim-harness: load, sweep, replay, shrink ──► a record of ipam-reports ──► text, JSON, files, exit code
//! ```
//! `main.rs` of this package is that call for the systems that are shipped ([`systems`]). How to bring a system is told in
//! `docs/own-system.md`.
//!
//! | items | are about |
//! |---|---|
//! | [`cli::main_with`], [`cli::main`] | the process of a program: its arguments, streams and environment |
//! | [`cli::dispatch`], [`cli::Console`] | one command line with streams of the caller's; what is known of terminals and signals |
//! | [`cli::Verbs`], [`cli::Simulator`] | what the verbs do, and who does it |
//! | [`cli::args`], [`cli::text`] | what can be said; how records are told to people |
//! | [`simulated_server`] | the simulated API server, for the cases of `api-conformance` |
//!
//! # Examples
//!
//! What [`cli::main_with`] does, with command lines and streams of the caller's:
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
