//! How answers look on a console: colour, if there is any, and rows that line up.
//!
//! Nothing here prints.

mod paint;
mod table;

pub use paint::Paint;
pub use table::{Align, Rows, Table};
