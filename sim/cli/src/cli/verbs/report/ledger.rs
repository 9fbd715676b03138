//! The folder of a report on runs: tables to which each finished run, or each finished size, adds its rows.
//!
//! ```text
//!  made.json    which report this is
//!  *.csv        tables, one of which says what is finished: its rows come last
//! ```
//! Rows are only appended, so an interruption costs only the work in progress. When a report is continued, rows without a row in the last
//! table are removed.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use csv::StringRecord;
use ipam_reports::Made;

use sim_harness::engine::output;

use super::folder::holds_nothing_else;
use crate::cli::CliError;
use crate::cli::verbs::out_folder::{MADE, OutFolder, mark, taken};

/// A table of a ledger.
pub(super) struct Sheet {
    /// The name of its file in the folder, such as `runs.csv`.
    pub(super) name: &'static str,
    /// The header with the line end; a file with another header is not read.
    pub(super) head: Vec<u8>,
}

/// A folder of tables.
pub(super) struct Ledger {
    path: PathBuf,
    files: Vec<File>,
    _alone: OutFolder,
}

/// The rows of each table that belong to finished work, without the headers.
type Rows = Vec<Vec<StringRecord>>;

impl Ledger {
    /// Opens `path` for the report `made`, and returns the rows of its finished work, table by table. The `columns` of a row identify the
    /// work to which it belongs. The last of the `sheets` lists the finished work.
    ///
    /// # Errors
    /// The folder holds other results, or another process uses it, and `force` is not set; or writing fails.
    pub(super) fn open(path: &Path, made: &Made, sheets: &[Sheet], columns: &[&str], force: bool) -> Result<(Self, Rows), CliError> {
        let refused = |error: io::Error| CliError::usage(format!("cannot write in {}: {error}", path.display()));
        let alone = OutFolder::lock(path, force)?;
        let goes_on = !force && is_known(path, made)?;
        let mut tables: Rows =
            sheets.iter().map(|sheet| if goes_on { rows_of(&path.join(sheet.name), &sheet.head) } else { Vec::new() }).collect();
        let places: Vec<Vec<usize>> = sheets.iter().map(|sheet| places(&sheet.head, columns)).collect();
        let key = |row: &StringRecord, places: &[usize]| places.iter().filter_map(|at| row.get(*at)).map(str::to_owned).collect::<Vec<_>>();
        let finished: Vec<Vec<String>> =
            tables.last().zip(places.last()).map(|(rows, places)| rows.iter().map(|row| key(row, places)).collect()).unwrap_or_default();
        let finished: std::collections::BTreeSet<Vec<String>> = finished.into_iter().collect();
        let mut files = Vec::new();
        for ((sheet, rows), places) in sheets.iter().zip(&mut tables).zip(&places) {
            rows.retain(|row| finished.contains(&key(row, places)));
            let mut text = sheet.head.clone();
            let mut writer = csv::Writer::from_writer(&mut text);
            // Writing to memory cannot fail.
            rows.iter().for_each(|row| drop(writer.write_record(row)));
            drop(writer);
            let file = path.join(sheet.name);
            output::write(&file, text).map_err(refused)?;
            files.push(OpenOptions::new().append(true).open(file).map_err(refused)?);
        }
        mark(path, made).map_err(refused)?;
        Ok((Self { path: path.to_owned(), files, _alone: alone }, tables))
    }

    /// Stores the rows of finished work, table by table.
    ///
    /// # Errors
    /// Writing fails.
    pub(super) fn keep(&mut self, rows: &[&[u8]]) -> Result<(), CliError> {
        let written = self.files.iter_mut().zip(rows).try_for_each(|(file, rows)| output::append(file, rows));
        written.map_err(|error| CliError::usage(format!("cannot write in {}: {error}", self.path.display())))
    }
}

/// Whether the folder holds the beginning of this report; `false` if it holds nothing.
fn is_known(path: &Path, made: &Made) -> Result<bool, CliError> {
    let text = match fs::read_to_string(path.join(MADE)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return holds_nothing_else(path, false).map(|()| false),
        Err(error) => return Err(taken(path, &format!("a {MADE} that cannot be read: {error}"))),
    };
    match serde_json::from_str::<Made>(&text) {
        Ok(known) if known.build != made.build => Err(taken(path, "a report of another build")),
        Ok(known) if known.config != made.config => Err(taken(path, "a report on something else")),
        Ok(_) => Ok(true),
        Err(_) => Err(taken(path, &format!("a {MADE} of something else"))),
    }
}

/// The rows of a table with this header, without a row that was cut off.
fn rows_of(path: &Path, head: &[u8]) -> Vec<StringRecord> {
    let text = fs::read(path).unwrap_or_default();
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let Some(rows) = text[..whole].strip_prefix(head) else { return Vec::new() };
    let columns = csv::Reader::from_reader(head).headers().map_or(0, StringRecord::len);
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(rows);
    reader.records().flatten().filter(|row| row.len() == columns).collect()
}

/// The positions of these columns.
fn places(head: &[u8], columns: &[&str]) -> Vec<usize> {
    let mut reader = csv::Reader::from_reader(head);
    let head = reader.headers().cloned().unwrap_or_default();
    columns.iter().filter_map(|column| head.iter().position(|name| name == *column)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHEETS: [(&str, &str); 2] = [("things.csv", "scenario,seed,thing\n"), ("runs.csv", "schema,scenario,seed\n")];

    fn open(path: &Path, config: &str, force: bool) -> Result<(Ledger, Rows), CliError> {
        let made = Made { build: "b".to_owned(), config: config.to_owned(), ..Made::default() };
        let sheets = SHEETS.map(|(name, head)| Sheet { name, head: head.as_bytes().to_vec() });
        Ledger::open(path, &made, &sheets, &["scenario", "seed"], force)
    }

    #[test]
    fn what_is_not_finished_is_cut_off_and_the_rest_is_kept() {
        let folder = testkit::Folder::missing("kept");
        let path = folder.0.clone();
        let (mut ledger, _) = open(&path, "c", false).unwrap();
        ledger.keep(&[b"s,0,a\ns,0,b\n", b"x,s,0\n"]).unwrap();
        ledger.keep(&[b"s,1,c\ns,1", b""]).unwrap();
        assert!(open(&path, "c", false).is_err(), "two at a time would mix their rows");
        drop(ledger);
        let (_, rows) = open(&path, "c", false).unwrap();
        assert_eq!(rows.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(fs::read_to_string(path.join("things.csv")).unwrap(), "scenario,seed,thing\ns,0,a\ns,0,b\n");
        let error = open(&path, "d", false).err().unwrap();
        assert!(error.exit_code == 2 && error.message.ends_with("holds a report on something else"), "{}", error.message);
        let (_, rows) = open(&path, "d", true).unwrap();
        assert!(rows.iter().all(Vec::is_empty));
    }

    #[test]
    fn a_folder_of_something_else_is_left_alone() {
        let folder = testkit::Folder::missing("else");
        let path = folder.0.clone();
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("thesis.tex"), "mine").unwrap();
        let error = open(&path, "c", false).err().unwrap();
        assert!(error.message.ends_with("holds other files, such as thesis.tex"), "{}", error.message);
        fs::write(path.join(MADE), "{}").unwrap();
        let error = open(&path, "c", false).err().unwrap();
        assert!(error.message.ends_with("a made.json of something else"), "{}", error.message);
    }
}
