//! The format of answers on a console: colour, if there is any, and aligned columns.
//!
//! Nothing here prints.

mod paint;
mod table;

pub use paint::Paint;
pub use table::{Align, Rows, Table};
