//! A report as one HTML file: question, answer, plots, tables, how it was made. It loads nothing and runs no scripts.
//!
//! Each report fills a [`Page`] from top to bottom; text that is added cannot become markup.

use std::fmt::Write;

use crate::against::{Against, Compared};
use crate::figure::{DrawError, Figure};
use crate::printable;
use crate::reference;
use crate::statistics::Estimate;
use crate::{Made, Report};

/// The style of all pages, light and dark.
pub(crate) const STYLE: &str = include_str!("page.css");

/// A table with more columns than this uses smaller letters, so that all fit side by side in 1000 pixels.
const MANY: usize = 14;

/// A page that is being written.
pub struct Page(String);

/// A column of a table: its head, and the cell in the row of a `T`. Both are markup.
pub(crate) type Column<T> = (&'static str, fn(&T) -> String);

impl Page {
    /// A page that begins with its question. `title` is the title of the window.
    pub fn new(title: &str, question: &str) -> Self {
        let mut page = String::new();
        // Writing to a string does not fail.
        let _ = write!(
            page,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{} \u{b7} ipam-sim</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{}</h1>\n",
            escape(title),
            escape(question)
        );
        Self(page)
    }

    /// The parts that the pages of all reports share: the question, `rests_on` (the size of the evidence), the answer, comparisons.
    pub(crate) fn of(report: &impl Report, title: &str, rests_on: &str) -> Self {
        let mut page = Self::new(title, &report.made().question);
        page.meta(rests_on);
        if let Some(headline) = report.headline() {
            page.headline(headline);
        }
        page.answer(report.answers());
        page.against(report.against());
        page.what_if(report.what_if());
        page
    }

    /// Adds the size of the evidence behind the answer, in small letters.
    pub fn meta(&mut self, text: &str) {
        let _ = writeln!(self.0, "<p class=\"meta\">{}</p>", reference::html(&escape(text)));
    }

    /// Adds the answer in one sentence, in larger letters.
    pub fn headline(&mut self, sentence: &str) {
        let _ = writeln!(self.0, "<p class=\"headline\">{}</p>", reference::html(&escape(sentence)));
    }

    /// Adds the answer, a sentence each.
    pub fn answer(&mut self, sentences: &[String]) {
        self.answer_of("Answer", sentences);
    }

    fn answer_of(&mut self, title: &str, sentences: &[String]) {
        let _ = writeln!(self.0, "<div class=\"answer\">\n<p>{title}</p>\n<ul>");
        for sentence in sentences {
            let _ = writeln!(self.0, "<li>{}</li>", reference::html(&escape(sentence)));
        }
        self.0.push_str("</ul>\n</div>\n");
    }

    /// Adds sentences, one below the other.
    pub fn list(&mut self, sentences: &[String]) {
        self.0.push_str("<ul>\n");
        for sentence in sentences {
            let _ = writeln!(self.0, "<li>{}</li>", reference::html(&escape(sentence)));
        }
        self.0.push_str("</ul>\n");
    }

    /// Adds the unchanged text of a file.
    pub fn text(&mut self, text: &str) {
        let _ = writeln!(self.0, "<pre>{}</pre>", escape(text));
    }

    /// Adds the heading of a part of the page.
    pub fn part(&mut self, title: &str) {
        let _ = writeln!(self.0, "<h2>{}</h2>", escape(title));
    }

    /// Adds a drawing and its caption.
    ///
    /// # Errors
    /// It could not be drawn.
    pub fn figure(&mut self, figure: &Figure, caption: &str) -> Result<(), DrawError> {
        let (id, title) = (&figure.id, escape(&figure.title));
        let drawn = figure.svg()?;
        // The drawing takes the full width.
        let drawn = drawn
            .split_once(" viewBox")
            .map_or(drawn.clone(), |(_, rest)| format!("<svg role=\"img\" aria-label=\"{title}\" viewBox{rest}"));
        let _ = writeln!(
            self.0,
            "<figure>\n{}\n<figcaption>{} <a href=\"{id}.svg\">SVG</a> <a href=\"{id}.png\">PNG</a></figcaption>\n</figure>",
            drawn.trim(),
            reference::html(&escape(caption))
        );
        Ok(())
    }

    /// Adds a table under the heading "The numbers". Heads and cells are markup; each row says whether it begins a group.
    pub fn numbers<'a>(&mut self, heads: impl IntoIterator<Item = &'a str>, rows: impl IntoIterator<Item = (bool, Vec<String>)>) {
        self.table("The numbers", heads, rows);
    }

    /// Adds a table under another heading.
    pub fn table<'a>(
        &mut self,
        title: &str,
        heads: impl IntoIterator<Item = &'a str>,
        rows: impl IntoIterator<Item = (bool, Vec<String>)>,
    ) {
        let heads: Vec<&str> = heads.into_iter().collect();
        let many = if heads.len() > MANY { " class=\"many\"" } else { "" };
        let _ = write!(self.0, "<h3>{}</h3>\n<div class=\"wide\"><table{many}>\n<tr>", escape(title));
        for head in heads {
            let _ = write!(self.0, "<th>{head}</th>");
        }
        self.0.push_str("</tr>\n");
        for (first, cells) in rows {
            let _ = write!(self.0, "<tr{}>", if first { " class=\"first\"" } else { "" });
            for cell in cells {
                let _ = write!(self.0, "<td>{cell}</td>");
            }
            self.0.push_str("</tr>\n");
        }
        self.0.push_str("</table></div>\n");
    }

    /// Adds a table by its columns. Rows of the same group follow each other; only the first of them has a first cell.
    pub(crate) fn grouped<'a, T: 'a>(
        &mut self,
        title: &str,
        columns: &[Column<T>],
        rows: impl IntoIterator<Item = &'a T>,
        group: fn(&T) -> &str,
    ) {
        let mut last = None;
        let rows = rows.into_iter().map(|row| {
            let first = last.replace(group(row)) != Some(group(row));
            let begin = usize::from(!first);
            let cells = columns[begin..].iter().map(|(_, cell)| cell(row));
            (first, std::iter::repeat_n(String::new(), begin).chain(cells).collect())
        });
        self.table(title, columns.iter().map(|(head, _)| *head), rows);
    }

    /// Adds the changes since an earlier report, if there is one to compare with.
    pub fn against(&mut self, against: Option<&Against>) {
        let Some(against) = against else { return };
        self.part(&format!("Compared with {}", against.from));
        self.answer_of("What changed", &against.answers);
        self.compared("The numbers", ["Before", "Now"], &against.changes);
    }

    /// Adds the changes under what-if questions, if any: figures of the scenario as given, and with something changed.
    pub fn what_if(&mut self, changes: &[Compared]) {
        if !changes.is_empty() {
            self.compared("What if", ["As it is", "Then"], changes);
        }
    }

    fn compared(&mut self, title: &str, [old, new]: [&'static str; 2], changes: &[Compared]) {
        let columns: [Column<Compared>; 7] = [
            ("", |change| escape(&change.place)),
            ("Figure", |change| words(&escape(&change.figure))),
            (old, |change| estimate(Some(change.old), &|value| change.value(value))),
            (new, |change| estimate(Some(change.new), &|value| change.value(value))),
            ("Change", |change| match change.interval() {
                interval if interval.is_empty() => change.change(),
                interval => format!("{} <small>{interval}</small>", change.change()),
            }),
            ("p", |change| maybe(change.p, |p| if p < 0.001 { "&lt; 0.001".to_owned() } else { format!("{p:.3}") })),
            ("Test", |change| words(&format!("{} <small>{}</small>", change.verdict(), change.test))),
        ];
        self.grouped(title, &columns, changes.iter().filter(|change| !change.is_nothing()), |change| &change.place);
    }

    /// Adds a part on how the report was made, with further names and markup in `more`.
    pub fn made(&mut self, made: &Made, more: &[(&str, String)]) {
        self.0.push_str("<h2>How it was made</h2>\n<dl>\n");
        let mut row = |name: &str, text: &str| {
            let _ = writeln!(self.0, "<dt>{name}</dt><dd>{text}</dd>");
        };
        row("command", &format!("<code>{}</code>", escape(&made.command)));
        if let Some(from) = &made.from {
            row("drawn from", &format!("<code>{}</code>", escape(from)));
        }
        row("version", &format!("<code>{}</code>", escape(&made.build)));
        row("scenarios", &format!("<code>{}</code>, a hash of everything but the seeds", escape(&made.config)));
        for (name, text) in more {
            row(name, &reference::html(text));
        }
        self.0.push_str("</dl>\n");
    }

    /// Ends the page, and returns the whole text of its file.
    pub fn end(mut self) -> String {
        self.0.push_str("</body>\n</html>\n");
        self.0
    }
}

/// The note after the size of a report that was interrupted before the `last` of its parts, such as runs; empty = it was not.
pub(crate) fn unfinished(report: &impl Report, last: &str) -> String {
    if report.interrupted() { format!("; interrupted before its last {last}") } else { String::new() }
}

/// Markup that wraps where a column is too narrow for it.
fn words(markup: &str) -> String {
    format!("<span class=\"words\">{markup}</span>")
}

/// Formats an optional value.
pub(crate) fn maybe(value: Option<f64>, show: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), show)
}

/// Formats a value, with its interval in small letters.
pub fn estimate(found: Option<Estimate>, show: &dyn Fn(f64) -> String) -> String {
    let Some(Estimate { value, low, high }) = found else { return "–".to_owned() };
    let end = |end: Option<f64>, open: &str| end.map_or_else(|| open.to_owned(), show);
    format!("{} <small>{} to {}</small>", show(value), end(low, "?"), end(high, "?"))
}

/// Escapes a text, so that it is shown literally in markup.
pub fn escape(text: &str) -> String {
    printable::lines(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}
