//! What a recording tells: what each event is about, and what it came of.
//!
//! ```text
//!  records ──► Index ──┬── follow ───► lines of `replay --follow`
//!              calls,  └── timeline ─► page of `replay --html`
//!              causes,
//!              things
//! ```
//!
//! It works on typed records after the run is over. Nothing here has any influence on a run.

mod follow;
mod history;
mod index;
mod objects;
mod spiderpool;
mod subject;
#[cfg(test)]
mod tests;
mod thing;
mod timeline;

pub use follow::follow;
pub use index::Index;
pub use subject::Subject;
pub use thing::{About, Stage, Thing, Touch};
pub use timeline::{Wanted, timeline};
