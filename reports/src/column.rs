//! Columns of the tables of reports, in a spreadsheet, on a console and in the documents.
//!
//! ```text
//!                 ┌─► head and rows of a CSV file
//!  Vec<Column<T>> ┼─► head and rows on a console, of the columns that are shown there
//!                 └─► what the documents say of each: unit and meaning
//! ```

use crate::cells::{heads_of_estimate, line, of_estimate};
use crate::statistics::Estimate;

/// The documentation of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// The heads in a CSV file: one, or those of a value and the ends of its interval.
    pub heads: Vec<String>,
    /// The head on a console; unset = the column is not shown there.
    pub console: Option<&'static str>,
    /// The unit of the column.
    pub unit: Unit,
    /// The contents of the column, in a sentence.
    pub meaning: &'static str,
}

impl Explained {
    /// The documentation of a column of one cell.
    pub(crate) fn new(name: &str, unit: Unit, meaning: &'static str) -> Self {
        Self { heads: vec![name.to_owned()], console: None, unit, meaning }
    }
}

/// The documentation of these columns.
pub(crate) fn explained<T>(columns: &[Column<T>]) -> Vec<Explained> {
    let explain = |column: &Column<T>| Explained {
        heads: column.heads(),
        console: column.head_on_console(),
        unit: column.unit,
        meaning: column.meaning,
    };
    columns.iter().map(explain).collect()
}

/// The unit of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A name, or another text.
    Text,
    /// One of `true` and `false`.
    Flag,
    /// A whole number of things.
    Count,
    /// A number that need not be whole.
    Number,
    /// A part of a whole, from 0 to 1.
    Share,
    /// A time in seconds.
    Seconds,
    /// A rate per second.
    PerSecond,
}

impl Unit {
    /// The name of the unit in the documents.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Text => "text",
            Unit::Flag => "true or false",
            Unit::Count => "whole number",
            Unit::Number => "number",
            Unit::Share => "share, 0 to 1",
            Unit::Seconds => "s",
            Unit::PerSecond => "1/s",
        }
    }

    /// Whether the column is aligned as numbers, digit below digit.
    pub fn is_number(self) -> bool {
        !matches!(self, Unit::Text | Unit::Flag)
    }
}

/// A column of a table whose rows are made of a `T`.
pub struct Column<T> {
    /// The name of the column, which is its head in the CSV file.
    pub name: &'static str,
    /// The unit of the column.
    pub unit: Unit,
    /// The contents of the column, in a sentence.
    pub meaning: &'static str,
    content: Content<T>,
    shown: Option<Shown<T>>,
}

/// The contents of a row in a CSV file.
enum Content<T> {
    /// The text of its only cell.
    Cell(fn(&T) -> String),
    /// A value and the ends of its interval, in three cells: see [`of_estimate`].
    Estimate(fn(&T) -> Option<Estimate>),
}

/// A column on a console: its head, and the text of a row.
type Shown<T> = (&'static str, fn(&T) -> String);

impl<T> Column<T> {
    /// A column of one cell in each row.
    pub(crate) const fn cell(name: &'static str, unit: Unit, meaning: &'static str, cell: fn(&T) -> String) -> Self {
        Self { name, unit, meaning, content: Content::Cell(cell), shown: None }
    }

    /// A column of a value and the ends of its interval of 95 %.
    pub(crate) const fn estimate(name: &'static str, unit: Unit, meaning: &'static str, estimate: fn(&T) -> Option<Estimate>) -> Self {
        Self { name, unit, meaning, content: Content::Estimate(estimate), shown: None }
    }

    /// Shows the column on a console, with this head and this cell.
    pub(crate) const fn shown(mut self, head: &'static str, cell: fn(&T) -> String) -> Self {
        self.shown = Some((head, cell));
        self
    }

    /// The heads in a CSV file: one, or those of an estimate.
    pub fn heads(&self) -> Vec<String> {
        match self.content {
            Content::Cell(_) => vec![self.name.to_owned()],
            Content::Estimate(_) => heads_of_estimate(self.name).into(),
        }
    }

    /// The head on a console; `None` = the column is not shown there.
    pub fn head_on_console(&self) -> Option<&'static str> {
        self.shown.map(|(head, _)| head)
    }

    /// The text on a console in the row of `of`.
    pub fn on_console(&self, of: &T) -> String {
        self.shown.map_or_else(String::new, |(_, cell)| cell(of))
    }

    fn cells(&self, of: &T) -> Vec<String> {
        match self.content {
            Content::Cell(cell) => vec![cell(of)],
            Content::Estimate(estimate) => of_estimate(estimate(of)).into(),
        }
    }
}

/// The head of a CSV file of these columns.
pub fn head<T>(columns: &[Column<T>]) -> String {
    line(columns.iter().flat_map(Column::heads))
}

/// The row of `of` in a CSV file of these columns.
pub fn row<T>(columns: &[Column<T>], of: &T) -> String {
    line(columns.iter().flat_map(|column| column.cells(of)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells;

    #[test]
    fn a_row_stands_below_its_head_and_an_estimate_reads_back() {
        let columns: [Column<Option<Estimate>>; 2] = [
            Column::cell("schema", Unit::Text, "The format.", |_| "s/1".to_owned()),
            Column::estimate("a", Unit::Number, "A figure.", |found| *found).shown("A", |found| cells::maybe(found.map(|one| one.value))),
        ];
        assert_eq!(head(&columns), "schema,a,a_low,a_high\n");
        let all = [Some(Estimate { value: 0.1, low: Some(-2.0), high: None }), None];
        let text = head(&columns) + &all.iter().map(|found| row(&columns, found)).collect::<String>();
        assert_eq!(text.lines().last(), Some("s/1,,,"));
        assert_eq!(cells::read(&text, "things", "s/1", |row| row.estimate("a")).unwrap(), all);
        assert_eq!((columns[0].head_on_console(), columns[1].head_on_console()), (None, Some("A")));
        assert_eq!(columns[1].on_console(&all[0]), "0.1");
    }
}
