//! What people write: scenario, plan and settings files in TOML, cluster manifests in YAML or JSON.
//!
//! Both languages are read into one tree of values with positions (`node`), and one decoder (`decode`) turns such a tree into a
//! Rust type. It finds every problem of a file in one go and says for each where it is, what was found and what would be right.
//! The types themselves are ordinary [`serde::Deserialize`] types.

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
