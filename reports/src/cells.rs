//! Tables in CSV: writes lines and cells, and reads rows back by the names of their columns, with a sentence for each invalid value.

use std::str::FromStr;

use crate::printable;
use crate::statistics::Estimate;

/// The reason why a text is not the expected table.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// A text that is not CSV.
    #[error("it is no table: {0}")]
    Csv(csv::Error),
    /// A row whose length differs from the first row's.
    #[error("line {line} has {found} columns where the first has {expected}: it is cut off, or of another table")]
    Cut {
        /// The line of the row, from 1.
        line: u64,
        /// The number of columns in this line.
        found: u64,
        /// The number of columns in the first line.
        expected: u64,
    },
    /// A table of another kind.
    #[error("it is no table of {what}: the first column must say `{schema}`")]
    Foreign {
        /// The kind of rows expected.
        what: &'static str,
        /// The expected text of the first column.
        schema: &'static str,
    },
    /// A table without rows.
    #[error("it has no {0}")]
    Empty(&'static str),
    /// A required column that is missing.
    #[error("it has no column `{0}`")]
    Missing(String),
    /// A value that is invalid.
    #[error("line {line}, column `{column}`: `{found}` is no {expected}")]
    Value {
        /// The line of the value, from 1.
        line: u64,
        /// The name of the column, as the first line has it.
        column: String,
        /// The text of the cell, as it was found.
        found: String,
        /// The kind of value expected, such as `whole number`.
        expected: &'static str,
    },
}

impl TableError {
    /// The line and the column at which a reader should look, both from 1, unless the text names them itself.
    pub fn position(&self) -> Option<(u64, u64)> {
        match self {
            TableError::Foreign { .. } | TableError::Missing(_) => Some((1, 1)),
            // Line 2 is the first below the head.
            TableError::Empty(_) => Some((2, 1)),
            TableError::Csv(error) => error.position().map(|position| (position.line(), 1)),
            TableError::Cut { .. } | TableError::Value { .. } => None,
        }
    }
}

impl From<csv::Error> for TableError {
    fn from(error: csv::Error) -> Self {
        match error.kind() {
            csv::ErrorKind::UnequalLengths { pos, expected_len, len } => {
                TableError::Cut { line: pos.as_ref().map_or(0, csv::Position::line), found: *len, expected: *expected_len }
            }
            _ => TableError::Csv(error),
        }
    }
}

/// A row of a table.
pub(crate) struct Cells<'a> {
    head: &'a csv::StringRecord,
    record: &'a csv::StringRecord,
    line: u64,
}

/// Reads the rows of a table of `what`, whose first column says `schema`, each with `row`.
pub(crate) fn read<T>(
    text: &str,
    what: &'static str,
    schema: &'static str,
    mut row: impl FnMut(Cells<'_>) -> Result<T, TableError>,
) -> Result<Vec<T>, TableError> {
    let foreign = TableError::Foreign { what, schema };
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let head = reader.headers()?.clone();
    if head.get(0) != Some("schema") {
        return Err(foreign);
    }
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record?;
        if record.get(0) != Some(schema) {
            return Err(foreign);
        }
        let line = record.position().map_or(0, csv::Position::line);
        if let Some((found, column)) = record.iter().zip(&head).find(|(cell, _)| cell.contains(char::is_control)) {
            return Err(TableError::Value { line, column: column.to_owned(), found: found.to_owned(), expected: "text on one line" });
        }
        rows.push(row(Cells { head: &head, line, record: &record })?);
    }
    if rows.is_empty() { Err(TableError::Empty(what)) } else { Ok(rows) }
}

impl Cells<'_> {
    /// The text of a column; `None` if there is no such column.
    pub(crate) fn get(&self, column: &str) -> Option<&str> {
        self.head.iter().position(|head| head == column).and_then(|at| self.record.get(at)).map(printable::uncell)
    }

    pub(crate) fn text(&self, column: &str) -> Result<&str, TableError> {
        self.get(column).ok_or_else(|| TableError::Missing(column.to_owned()))
    }

    pub(crate) fn value<T: FromStr>(&self, column: &str, expected: &'static str) -> Result<T, TableError> {
        let found = self.text(column)?;
        found.parse().map_err(|_| self.wrong(column, found, expected))
    }

    pub(crate) fn wrong(&self, column: &str, found: &str, expected: &'static str) -> TableError {
        TableError::Value { line: self.line, column: column.to_owned(), found: found.to_owned(), expected }
    }

    pub(crate) fn count(&self, column: &str) -> Result<u64, TableError> {
        self.value(column, "whole number")
    }

    /// A number; `None` if the cell is empty.
    pub(crate) fn number(&self, column: &str) -> Result<Option<f64>, TableError> {
        let found = self.text(column)?;
        if found.is_empty() {
            return Ok(None);
        }
        let number: f64 = self.value(column, "number")?;
        if number.is_finite() { Ok(Some(number)) } else { Err(self.wrong(column, found, "number")) }
    }

    /// An estimate that [`of_estimate`] wrote below [`heads_of_estimate`]; `None` if the value is empty.
    pub(crate) fn estimate(&self, column: &str) -> Result<Option<Estimate>, TableError> {
        let Some(value) = self.number(column)? else { return Ok(None) };
        let [_, low, high] = heads_of_estimate(column);
        Ok(Some(Estimate { value, low: self.number(&low)?, high: self.number(&high)? }))
    }
}

/// The heads of an estimate: the value, and the ends of its interval of 95 %.
pub(crate) fn heads_of_estimate(name: &str) -> [String; 3] {
    ["", "_low", "_high"].map(|end| format!("{name}{end}"))
}

/// The cells of an estimate. Empty = there is no estimate, or nothing bounds that end.
pub(crate) fn of_estimate(found: Option<Estimate>) -> [String; 3] {
    [found.map(|found| found.value), found.and_then(|found| found.low), found.and_then(|found| found.high)].map(maybe)
}

/// The cell of an optional value; empty = there is none.
pub(crate) fn maybe<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// A line of a table.
pub(crate) fn line(cells: impl IntoIterator<Item = String>) -> String {
    let mut text = Vec::new();
    let mut writer = csv::Writer::from_writer(&mut text);
    let cells = cells.into_iter().map(|cell| printable::cell(&cell).into_owned());
    let written = writer.write_record(cells).and_then(|()| writer.flush().map_err(csv::Error::from));
    written.unwrap_or_else(|error| panic!("writing to memory does not fail: {error}"));
    drop(writer);
    String::from_utf8(text).unwrap_or_else(|error| panic!("cells are text: {error}"))
}
