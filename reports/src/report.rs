//! What every report to a planner has, whatever it is about: its page begins with that; and the columns of its table.

use crate::Made;
use crate::against::{Against, Compared};
use crate::column::Column;

/// A report to a planner.
pub trait Report {
    /// How it was made.
    fn made(&self) -> &Made;

    /// One number, how sure it is and what it rests on, in a sentence; unset = the answers begin with it.
    fn headline(&self) -> Option<&str>;

    /// The answers, a sentence each.
    fn answers(&self) -> &[String];

    /// What changed since an earlier report; unset = there is none to compare with.
    fn against(&self) -> Option<&Against> {
        None
    }

    /// What would change, if something was asked about that.
    fn what_if(&self) -> &[Compared] {
        &[]
    }

    /// Whether the user stopped it before its end.
    fn interrupted(&self) -> bool {
        false
    }
}

/// A report whose table is told by its columns, in its CSV file, on the console and in the documents.
pub trait Tabular: Report {
    /// What a row of its table is made of.
    type Row<'a>
    where
        Self: 'a;

    /// The columns that are shown on the console, by their names, in this order. What stands in the first and repeats that of the row above
    /// is left out.
    const CONSOLE: &'static [&'static str];

    /// The columns of its table, in the order of its CSV file.
    fn columns<'a>() -> Vec<Column<Self::Row<'a>>>
    where
        Self: 'a;

    /// The rows of its table.
    fn rows(&self) -> Vec<Self::Row<'_>>;
}
