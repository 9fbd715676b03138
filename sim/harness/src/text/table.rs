//! Tables with aligned columns.

/// The alignment of a column's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// The padding comes after it.
    Left,
    /// The padding comes before it: for numbers.
    Right,
}

/// A table with `N` columns.
pub struct Table<const N: usize>(Rows);

impl<const N: usize> Table<N> {
    /// A table without rows.
    pub fn new(columns: [Align; N]) -> Self {
        Self(Rows::new(columns.to_vec()))
    }

    /// Adds a row as it is.
    pub fn row(&mut self, cells: [String; N]) {
        self.0.row(cells.into());
    }

    /// Adds a row whose padded cells go through `paint`, with the number of their column.
    pub fn painted(&mut self, cells: [String; N], paint: impl Fn(usize, &str) -> String + 'static) {
        self.0.painted(cells.into(), paint);
    }

    /// The rows as lines: see [`Rows::lines`].
    pub fn lines(&self) -> Vec<String> {
        self.0.lines()
    }
}

/// A table whose number of columns is known at run time. Colour is applied to padded cells, so that it does not disturb the widths.
pub struct Rows {
    columns: Vec<Align>,
    rows: Vec<(Vec<String>, Painter)>,
}

/// Paints the cell of a column.
type Painter = Box<dyn Fn(usize, &str) -> String>;

impl Rows {
    /// No rows yet.
    pub fn new(columns: Vec<Align>) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row as it is.
    pub fn row(&mut self, cells: Vec<String>) {
        self.painted(cells, |_, text| text.to_owned());
    }

    /// Adds a row whose padded cells go through `paint`, with the number of their column.
    pub fn painted(&mut self, cells: Vec<String>, paint: impl Fn(usize, &str) -> String + 'static) {
        self.rows.push((cells, Box::new(paint)));
    }

    /// The rows as lines, two spaces between columns, no space at the end of a line. An empty column takes no room.
    pub fn lines(&self) -> Vec<String> {
        let width = |column: usize| self.rows.iter().map(|(cells, _)| cells[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let last_used = |cells: &[String]| cells.iter().rposition(|cell| !cell.is_empty());
        self.rows
            .iter()
            .map(|(cells, paint)| {
                let last = last_used(cells);
                let padded =
                    cells.iter().enumerate().filter(|&(column, _)| widths[column] > 0 && Some(column) <= last).map(|(column, cell)| {
                        let padding = " ".repeat(widths[column] - cell.chars().count());
                        match self.columns[column] {
                            Align::Right => format!("{padding}{}", paint(column, cell)),
                            Align::Left if Some(column) == last => paint(column, cell),
                            Align::Left => format!("{}{padding}", paint(column, cell)),
                        }
                    });
                padded.collect::<Vec<_>>().join("  ")
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_end_with_text() {
        let mut table = Table::new([Align::Left, Align::Right, Align::Left, Align::Left]);
        table.row(["µ".into(), "1".into(), String::new(), "end".into()]);
        table.row(["long".into(), "1,000".into(), String::new(), String::new()]);
        assert_eq!(table.lines(), ["µ         1  end", "long  1,000"]);
    }
}
