//! The common parts of all reports to a planner, with which their pages begin; and the columns of their tables.

use crate::Made;
use crate::against::{Against, Compared};
use crate::column::Column;

/// A report to a planner.
pub trait Report {
    /// The way in which it was made.
    fn made(&self) -> &Made;

    /// The headline: one number, its confidence and its assumptions, in a sentence; unset = the answers begin with it.
    fn headline(&self) -> Option<&str>;

    /// The answers, a sentence each.
    fn answers(&self) -> &[String];

    /// The changes since an earlier report; unset = there is none to compare with.
    fn against(&self) -> Option<&Against> {
        None
    }

    /// The changes under what-if questions, if any.
    fn what_if(&self) -> &[Compared] {
        &[]
    }

    /// Whether the user stopped it before its end.
    fn interrupted(&self) -> bool {
        false
    }
}

/// A report whose table is defined by columns, in its CSV file, on the console and in the documents.
pub trait Tabular: Report {
    /// The data of a row of its table.
    type Row<'a>
    where
        Self: 'a;

    /// The names of the columns that are shown on the console, in this order. A cell of the first one that repeats the cell above is left
    /// out.
    const CONSOLE: &'static [&'static str];

    /// The columns of its table, in the order of its CSV file.
    fn columns<'a>() -> Vec<Column<Self::Row<'a>>>
    where
        Self: 'a;

    /// The rows of its table.
    fn rows(&self) -> Vec<Self::Row<'_>>;
}
