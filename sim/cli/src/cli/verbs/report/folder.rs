//! The folder of a report, which keeps finished points.
//!
//! ```text
//!  points.csv   one row a finished point; says which report this is
//!  runs.csv     one row a burst, those of a point before its row in points.csv
//! ```
//! Rows are only appended, so an interruption costs only the point in progress.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use ipam_reports::TableError;
use ipam_reports::conflicts::{Point, table};
use ipam_reports::rows::Rows;
use sim_config::{Problem, source};
use sim_harness::engine::{build, output};

use super::bursts::Finished;
use crate::cli::CliError;
use crate::cli::verbs::out_folder::{MADE, OutFolder, table_in, taken};

/// The folder of a report that simulates.
pub(super) struct Folder {
    path: PathBuf,
    config: String,
    points: File,
    runs: File,
    _alone: OutFolder,
}

const POINTS: &str = "points.csv";
const RUNS: &str = "runs.csv";

impl Folder {
    /// Opens `path` for the report `config`, and returns its finished points.
    ///
    /// # Errors
    /// The folder holds other results, or another process uses it, and `force` is not set; or writing fails.
    pub(super) fn open(path: &Path, config: &str, force: bool) -> Result<(Self, Vec<Point>), CliError> {
        let refused = |error: io::Error| CliError::usage(format!("cannot write in {}: {error}", path.display()));
        let alone = OutFolder::lock(path, force)?;
        let finished = if force { Vec::new() } else { finished(path, config)? };
        // A last line that was cut off is removed.
        let kept: Vec<String> = finished.iter().map(|point| table::row(build(), config, point)).collect();
        output::write(&path.join(POINTS), table::head() + &kept.concat()).map_err(refused)?;
        output::write(&path.join(RUNS), runs_of(path, &finished)).map_err(refused)?;
        let append = |name: &str| OpenOptions::new().append(true).open(path.join(name)).map_err(refused);
        let folder = Self { path: path.to_owned(), config: config.to_owned(), points: append(POINTS)?, runs: append(RUNS)?, _alone: alone };
        Ok((folder, finished))
    }

    /// Stores a point and its bursts.
    ///
    /// # Errors
    /// Writing fails.
    pub(super) fn keep(&mut self, finished: &Finished) -> Result<(), CliError> {
        let row = table::row(build(), &self.config, &finished.point);
        let written = output::append(&mut self.runs, &finished.runs).and_then(|()| output::append(&mut self.points, row.as_bytes()));
        written.map_err(|error| CliError::usage(format!("cannot write in {}: {error}", self.path.display())))
    }
}

/// Checks that drawings may be written into `path`: it is new, or empty, or holds a report, or `force` is set.
///
/// # Errors
/// It holds other files, or another process uses it.
pub(super) fn may_draw_in(path: &Path, force: bool) -> Result<(), CliError> {
    if path.is_dir() {
        OutFolder::lock(path, force)?;
    }
    holds_nothing_else(path, force)
}

/// [`may_draw_in`] for a caller that has locked the folder.
pub(super) fn holds_nothing_else(path: &Path, force: bool) -> Result<(), CliError> {
    match fs::read_dir(path).ok().and_then(|mut entries| entries.next()) {
        Some(Ok(entry)) if !force && !path.join(POINTS).exists() && !path.join(MADE).exists() => {
            Err(taken(path, &format!("other files, such as {}", entry.file_name().display())))
        }
        _ => Ok(()),
    }
}

/// A table of an earlier report that is drawn again.
pub(super) struct Again<'a> {
    path: &'a Path,
    /// The text of the table.
    pub(super) text: &'a str,
}

impl<'a> Again<'a> {
    /// Passes the table to `draw`.
    ///
    /// # Errors
    /// The table cannot be read, and the errors of `draw`.
    pub(super) fn read<T>(path: &'a Path, draw: impl FnOnce(Again<'_>) -> Result<T, CliError>) -> Result<T, CliError> {
        let unreadable = |problem: Problem| CliError::usage(problem.to_string());
        let bytes = source::read(path).map_err(unreadable)?;
        let text = source::text(&source::name(path), &bytes).map_err(unreadable)?;
        let again = Again { path, text };
        match cut_off(text) {
            Some(cut) => {
                Err(again.refused(&cut).hint("take the table as the report wrote it; a report that is interrupted leaves whole lines"))
            }
            None => draw(again),
        }
    }

    /// The error if the table cannot be drawn.
    pub(super) fn refused(&self, why: &dyn std::fmt::Display) -> CliError {
        CliError::usage(format!("{}: cannot be drawn again: {why}", self.path.display()))
    }

    /// Like `refused`, with a position in the table.
    pub(super) fn refused_at(&self, line: u64, column: u64, why: &dyn std::fmt::Display) -> CliError {
        CliError::usage(format!("{}:{line}:{column}: cannot be drawn again: {why}", self.path.display()))
    }

    /// The error if its rows cannot be parsed, with their position.
    pub(super) fn misread(&self, why: &TableError) -> CliError {
        match why.position() {
            Some((line, column)) => self.refused_at(line, column, why),
            None => self.refused(why),
        }
    }

    /// The path of the table, for readers of the report.
    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Another table of the same report, if it exists.
    ///
    /// # Errors
    /// The other table is cut off.
    pub(super) fn beside(&self, name: &str) -> Result<Option<String>, CliError> {
        let text = fs::read_to_string(self.path.with_file_name(name)).ok();
        match text.as_deref().and_then(cut_off) {
            Some(cut) => Err(self.refused(&format_args!("{name} beside it: {cut}"))),
            None => Ok(text),
        }
    }

    /// The plan that the report wrote of this seed, if it exists; `beginning` is the start of its name.
    pub(super) fn plan(&self, beginning: &str, seed: u64) -> Option<String> {
        let path = self.path.with_file_name(format!("{beginning}{seed}.toml"));
        path.exists().then(|| path.display().to_string())
    }
}

/// The error in a table whose last line does not end with a line break: a number in it may have been cut in two.
fn cut_off(table: &str) -> Option<String> {
    let whole = table.is_empty() || table.ends_with('\n');
    (!whole).then(|| format!("line {} is cut off: it does not end with a line break", table.lines().count()))
}

/// The finished points in a folder.
fn finished(path: &Path, config: &str) -> Result<Vec<Point>, CliError> {
    let other = |what: String| taken(path, &what);
    let text = match fs::read_to_string(path.join(POINTS)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return match table_in(path) {
                Some(table) => Err(other(format!("{table} of another sweep"))),
                None => holds_nothing_else(path, false).map(|()| Vec::new()),
            };
        }
        Err(error) => return Err(other(format!("a {POINTS} that cannot be read: {error}"))),
    };
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    match table::read(whole) {
        Ok(table) if table.config == config && table.build == build() => Ok(table.points),
        Ok(table) if table.build == build() => Err(other("a report on other points".to_owned())),
        Ok(_) => Err(other("a report of another build".to_owned())),
        Err(table::TableError::Empty(_)) if whole == table::head() => Ok(Vec::new()),
        Err(error) => Err(other(format!("a {POINTS} of something else: {error}"))),
    }
}

/// The rows of `runs.csv` whose points are finished, without the header.
fn runs_of(path: &Path, finished: &[Point]) -> Vec<u8> {
    let mut kept = Rows::heads().runs;
    let text = fs::read(path.join(RUNS)).unwrap_or_default();
    let keys: Vec<String> = finished.iter().map(|point| point.setting.key()).collect();
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(&text[..]);
    let mut writer = csv::Writer::from_writer(&mut kept);
    let columns = reader.headers().map_or(0, csv::StringRecord::len);
    for record in reader.records().flatten() {
        if record.len() == columns && record.get(1).is_some_and(|key| keys.iter().any(|known| known == key)) {
            // Writing to memory cannot fail.
            let _ = writer.write_record(&record);
        }
    }
    drop(writer);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_is_cut_is_not_drawn() {
        let folder = testkit::Folder::missing("cut");
        let path = folder.0.clone();
        fs::create_dir_all(&path).unwrap();
        let (table, other) = (path.join("points.csv"), path.join("usage.csv"));
        fs::write(&table, "a,b\n1,22").unwrap();
        let error = Again::read(&table, |_| Ok(())).unwrap_err();
        assert_eq!(error.exit_code, 2);
        assert!(
            error.message.ends_with("points.csv: cannot be drawn again: line 2 is cut off: it does not end with a line break"),
            "{}",
            error.message
        );
        fs::write(&table, "a,b\n1,22\n").unwrap();
        fs::write(&other, "a,b\n1").unwrap();
        let error = Again::read(&table, |again| again.beside("usage.csv")).unwrap_err();
        assert!(error.message.contains("usage.csv beside it: line 2 is cut off"), "{}", error.message);
    }

    #[test]
    fn a_folder_of_something_else_is_left_alone() {
        let folder = testkit::Folder::missing("else");
        let path = folder.0.clone();
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("thesis.tex"), "mine").unwrap();
        let error = Folder::open(&path, "c", false).err().unwrap();
        assert_eq!(error.exit_code, 2);
        assert!(error.message.ends_with("holds other files, such as thesis.tex"), "{}", error.message);
        fs::write(path.join(POINTS), "a,b\n1,2\n").unwrap();
        let error = Folder::open(&path, "c", false).err().unwrap();
        assert!(error.message.contains("a points.csv of something else"), "{}", error.message);
        assert_eq!(fs::read_to_string(path.join("thesis.tex")).unwrap(), "mine");
        assert!(Folder::open(&path, "c", true).is_ok(), "--force overwrites it");
        assert!(Folder::open(&path, "other", false).is_ok(), "nothing is finished yet");
    }
}
