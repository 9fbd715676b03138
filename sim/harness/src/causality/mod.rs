//! The meaning of a recording: the subject of each event, and its causes.
//!
//! ```text
//!  records ──► Index ──┬── follow ───► lines of `replay --follow`
//!              calls,  ├── timeline ─► page of `replay --html`
//!              causes,
//!              entities└── data ─────► `replay --format json`, `--perfetto`, `--jepsen`
//! ```
//!
//! Works on typed records after the run is over. Nothing here has any influence on a run.

pub mod data;
pub mod follow;
pub mod history;
pub mod index;
pub mod narrator;
pub mod objects;
pub mod subject;
pub mod timeline;

pub use data::history as data_of;
pub use follow::follow;
pub use index::Index;
pub use narrator::Narrator;
pub use subject::Subject;
pub use timeline::{Wanted, timeline};
