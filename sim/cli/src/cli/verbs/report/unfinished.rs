//! Runs of a size that is not finished: they are stored one by one, so that an interruption costs only the runs in progress.
//!
//! `unfinished.jsonl` has a line per run. It is emptied once the rows of the size are in the tables, and removed when the search ends.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ipam_reports::addresses::AddressRun;
use ipam_reports::rows::Rows;
use serde::{Deserialize, Serialize};
use sim_harness::engine::output;

use crate::cli::CliError;

const FILE: &str = "unfinished.jsonl";

/// The result of one run: its usage of addresses, and its rows.
pub(super) type Ran = (AddressRun, Rows);

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Line {
    /// The name of the size in the tables.
    size: String,
    seed: u64,
    held: AddressRun,
    runs: String,
    reclaims: String,
}

/// The finished runs of a size that is in progress.
pub(super) struct Unfinished {
    path: PathBuf,
    file: Mutex<File>,
    known: BTreeMap<(String, u64), Ran>,
}

impl Unfinished {
    /// Opens the file in a folder that is known to belong to this search; with `force` it starts empty.
    ///
    /// # Errors
    /// Writing fails.
    pub(super) fn open(folder: &Path, force: bool) -> Result<Self, CliError> {
        let path = folder.join(FILE);
        let text = if force { String::new() } else { fs::read_to_string(&path).unwrap_or_default() };
        let mut known = BTreeMap::new();
        let mut whole = String::new();
        // A line that was cut off cannot be parsed, and is skipped.
        for line in text.lines() {
            let Ok(Line { size, seed, held, runs, reclaims }) = serde_json::from_str(line) else { continue };
            whole.push_str(line);
            whole.push('\n');
            known.insert((size, seed), (held, Rows { runs: runs.into(), reclaims: reclaims.into(), ..Rows::default() }));
        }
        let opened = output::write(&path, whole).and_then(|()| OpenOptions::new().append(true).open(&path));
        let file = Mutex::new(opened.map_err(|error| refused(&path, &error))?);
        Ok(Self { path, file, known })
    }

    /// A run that an earlier search finished.
    pub(super) fn find(&self, size: &str, seed: u64) -> Option<Ran> {
        self.known.get(&(size.to_owned(), seed)).cloned()
    }

    /// Stores a run.
    ///
    /// # Errors
    /// Writing fails.
    pub(super) fn keep(&self, size: &str, seed: u64, (held, rows): &Ran) -> Result<(), String> {
        let text = |rows: &[u8]| String::from_utf8_lossy(rows).into_owned();
        let line = Line { size: size.to_owned(), seed, held: held.clone(), runs: text(&rows.runs), reclaims: text(&rows.reclaims) };
        let line = serde_json::to_string(&line).map_err(|error| error.to_string())? + "\n";
        output::append(&mut self.file(), line.as_bytes()).map_err(|error| refused(&self.path, &error).message)
    }

    /// Removes all runs: their results are in the tables.
    ///
    /// # Errors
    /// Writing fails.
    pub(super) fn clear(&mut self) -> Result<(), CliError> {
        self.known.clear();
        self.file().set_len(0).map_err(|error| refused(&self.path, &error))
    }

    /// Deletes the file at the end of the search. If that fails, the file is empty.
    pub(super) fn end(self) {
        let _ = fs::remove_file(self.path);
    }

    fn file(&self) -> MutexGuard<'_, File> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refused(path: &Path, error: &io::Error) -> CliError {
    CliError::usage(format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_come_back_but_for_one_that_was_cut_off() {
        let folder = testkit::Folder::new("unfinished");
        let open = |force| Unfinished::open(&folder.0, force).unwrap();
        let run = |peak: u64| {
            let rows = Rows { runs: b"a,\"b\"\n".to_vec(), reclaims: b"c\n".to_vec(), ..Rows::default() };
            (AddressRun { peak, ..AddressRun::default() }, rows)
        };
        let first = open(true);
        for seed in 0..3 {
            first.keep("as it is/9", seed, &run(seed)).unwrap();
        }
        let text = folder.text(FILE);
        folder.file(FILE, &text[..text.len() - 5]);
        let again = open(false);
        assert_eq!(again.find("as it is/9", 1), Some(run(1)));
        assert_eq!((again.find("as it is/9", 2), again.find("as it is/8", 1)), (None, None));
        again.keep("as it is/9", 2, &run(2)).unwrap();
        let mut again = open(false);
        assert_eq!(again.find("as it is/9", 2), Some(run(2)), "the cut line does not spoil the next");
        again.clear().unwrap();
        assert_eq!(open(false).find("as it is/9", 1), None);
        again.end();
        assert!(!folder.0.join(FILE).exists());
    }
}
