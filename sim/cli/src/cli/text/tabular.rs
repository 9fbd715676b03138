//! A report with a table: the headline, a line per row, then the answers.

use ipam_reports::column::Column;
use ipam_reports::{Tabular, reference};

use super::Paint;
use super::against::{against, what_if};
use super::table::{Align, Rows};

/// A line for each row, between the headline and the answers.
pub(super) fn tabular(report: &impl Tabular, paint: Paint) -> String {
    let mut lines = against(report.against(), paint);
    lines.extend(report.headline().map(str::to_owned));
    lines.push(String::new());
    lines.extend(table(report, paint));
    lines.extend(what_if(report.what_if(), paint));
    lines.push(String::new());
    lines.extend(report.answers().iter().cloned());
    lines.extend(reference::legend(report.answers().iter().map(String::as_str)).iter().map(|line| paint.dim(line)));
    if report.interrupted() {
        lines.push(format!("{} the same command continues where this one stopped", paint.warn("interrupted:")));
    }
    lines.join("\n") + "\n"
}

/// The rows below their column heads; nothing if there are none. In the first column a text appears once for all rows that share it.
fn table<'a, R: Tabular>(report: &'a R, paint: Paint) -> Vec<String> {
    let rows = report.rows();
    if rows.is_empty() {
        return Vec::new();
    }
    let all: Vec<Column<R::Row<'a>>> = R::columns();
    let shown: Vec<&Column<R::Row<'a>>> = R::CONSOLE.iter().filter_map(|name| all.iter().find(|column| column.name == *name)).collect();
    let align = |column: &&Column<R::Row<'a>>| if column.unit.is_number() { Align::Right } else { Align::Left };
    let mut table = Rows::new(shown.iter().map(align).collect());
    let head = shown.iter().map(|column| column.head_on_console().unwrap_or(column.name).to_owned()).collect();
    table.painted(head, move |_, text| paint.dim(text));
    let mut last = String::new();
    for row in &rows {
        let mut cells: Vec<String> = shown.iter().map(|column| column.on_console(row)).collect();
        if let Some(first) = cells.first_mut() {
            if *first == last {
                first.clear();
            } else {
                last.clone_from(first);
            }
        }
        table.row(cells);
    }
    table.lines()
}
