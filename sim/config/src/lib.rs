//! Input files of users: scenario, plan and settings files in TOML, cluster manifests in YAML or JSON.
//!
//! ```text
//!   TOML ──► toml ─┐                     ┌──► a Rust type, with `Choice`s ──(seed)──► values
//!                  ├──► node ──► decode ─┤
//!   YAML ──► yaml ─┘    places           └──► Problems: file, line, column, what was found, what would be right
//! ```
//! Both languages are read into one tree of values with positions ([`node`]), and one decoder ([`decode`]) turns such a tree into a Rust
//! type. It finds all problems of a file at once and reports for each its place, the finding and the correction. The types themselves
//! are ordinary [`serde::Deserialize`] types, whose meaning is not known here: the faults of `kube-sim`, the scenarios and plans of
//! `sim-harness` and the workloads of each system are declared with the items of this crate.
//!
//! | items | subject |
//! |---|---|
//! | [`Source`], [`Setting`] | a file, its variants, and the values that the command line replaces |
//! | [`Problem`], [`Problems`], [`Position`], [`advice`] | problems of a file, and their places |
//! | [`Choice`], [`Probability`], [`time`] | values that a scenario leaves open; model time |
//! | [`draw`] | the streams of random numbers from which a seed draws them |
//! | [`kinds!`](macro@kinds), [`With`] | tables whose key `kind` decides their other keys |
//! | [`manifest`] | the objects of a cluster, as `kubectl get -o yaml` prints them |
//!
//! # Examples
//!
//! A file with open values, the draws of two seeds, and the report on a wrong file:
//!
//! ```
//! use serde::Deserialize;
//! use sim_config::draw::{Concern, Draw};
//! use sim_config::time::Span;
//! use sim_config::{Choice, Source};
//!
//! #[derive(Debug, Deserialize)]
//! #[serde(deny_unknown_fields)]
//! struct Load {
//!     clients: Choice<u32>,
//!     think: Choice<Span>,
//! }
//!
//! let load: Load = Source::new("load.toml", "clients = '2..4'\nthink = ['10ms', '1s']\n").decode()?;
//! let drawn = |seed| {
//!     let mut draw = Draw::new(seed, Concern::Workload, 0);
//!     (load.clients.draw(&mut draw), load.think.draw(&mut draw))
//! };
//! assert_eq!(drawn(7), drawn(7));
//! assert!((0..100).any(|seed| drawn(seed) == (4, Span::secs(1))));
//!
//! let problems = Source::new("load.toml", "clients = '4..2'\nthnk = '1s'\n").decode::<Load>().unwrap_err();
//! assert_eq!(
//!     problems.to_string().lines().collect::<Vec<_>>(),
//!     [
//!         "load.toml:1:11: `clients`: `4..2`: the range is reversed; write `2..4`",
//!         "load.toml:2:1: unknown key `thnk`; did you mean `think`?",
//!     ]
//! );
//! # Ok::<(), sim_config::Problems>(())
//! ```

pub mod choice;
pub mod decode;
pub mod draw;
pub mod expected;
pub mod kinds;
mod locate;
pub mod manifest;
mod merge;
pub mod node;
pub mod phase_time;
pub mod probability;
pub mod problem;
pub mod source;
pub mod time;
pub mod toml;
pub mod yaml;

pub use choice::{Choice, Open};
pub use expected::{advice, nearest};
pub use kinds::{With, kinds};
pub use locate::{Setting, Source};
pub use probability::Probability;
pub use problem::{Position, Problem, Problems};
