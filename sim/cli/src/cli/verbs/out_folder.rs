//! The folder that `--out` names, or the usual one: nobody else writes in it meanwhile, and what another sweep left in one that was named
//! stays.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use ipam_reports::Made;
use sim_harness::engine::output;

use super::OUT;
use crate::cli::CliError;

/// The file that says whose tables a folder holds.
pub(super) const MADE: &str = "made.json";

/// The tables that sweeps and reports leave.
const TABLES: [&str; 11] = [
    "runs.csv",
    "resamples.csv",
    "calls.csv",
    "reclaims.csv",
    "points.csv",
    "paths.csv",
    "sizes.csv",
    "usage.csv",
    "values.csv",
    "metrics.csv",
    "kill-matrix.csv",
];

/// A folder in which this process alone writes, as long as this lives.
#[derive(Debug)]
pub(super) struct OutFolder {
    /// The folder itself, locked: nothing is left in it when the process dies. `None` where the file system has no locks.
    _lock: Option<File>,
}

impl OutFolder {
    /// Makes the folder, if it is not there, and locks it.
    ///
    /// # Errors
    /// Another process works in it and `force` is not set, or the disk says no.
    pub(super) fn lock(path: &Path, force: bool) -> Result<Self, CliError> {
        let refused = |error: io::Error| CliError::usage(format!("cannot write in {}: {error}", path.display()));
        fs::create_dir_all(path).map_err(refused)?;
        let folder = File::open(path).map_err(refused)?;
        match folder.try_lock() {
            Ok(()) => {
                output::remove_abandoned(path);
                Ok(Self { _lock: Some(folder) })
            }
            Err(TryLockError::WouldBlock) if !force => Err(CliError::usage(format!("{} is in use by another process", path.display()))
                .hint("wait for its end, give another folder with --out, or --force to write there all the same")),
            // Some network file systems lock no folders.
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => Ok(Self { _lock: None }),
        }
    }

    /// Locks the folder for the sweep that `made` describes, and marks it; `None` = what is written there has names of its own, and is no
    /// table.
    ///
    /// # Errors
    /// Those of [`OutFolder::lock`], and: it holds the tables of another sweep and `force` is not set.
    pub(super) fn claim(path: &Path, made: Option<&Made>, force: bool) -> Result<Self, CliError> {
        let folder = Self::lock(path, force)?;
        if let Some(table) = table_in(path).filter(|_| !force) {
            let known = fs::read_to_string(path.join(MADE)).ok().and_then(|text| serde_json::from_str::<Made>(&text).ok());
            match (&known, made) {
                (Some(known), Some(made)) if (&known.build, &known.config) == (&made.build, &made.config) => {}
                (Some(known), _) => return Err(taken(path, &format!("{table} of another sweep, `{}`", known.command))),
                (None, _) => return Err(taken(path, &format!("{table} of another sweep"))),
            }
        }
        if let Some(made) = made {
            mark(path, made).map_err(|error| CliError::usage(format!("cannot write in {}: {error}", path.display())))?;
        }
        Ok(folder)
    }
}

/// The folder for plans where nobody named one. Each process of a working directory has its own as long as it runs, so that the plan that
/// one names is not overwritten by another one.
#[derive(Debug)]
pub(super) struct UsualFolder {
    /// The folder. It need not be there yet: what does not fail writes nothing.
    pub(super) path: PathBuf,
    /// The working directory, locked: nothing has to be made for it, and nothing is left.
    _lock: Option<File>,
}

impl UsualFolder {
    /// [`OUT`], or beside it a folder with the number of this process while another one has that.
    pub(super) fn take() -> Self {
        Self::take_in(Path::new("."))
    }

    fn take_in(working_directory: &Path) -> Self {
        let folder = File::open(working_directory);
        match folder.map(|folder| (folder.try_lock(), folder)) {
            Ok((Ok(()), folder)) => Self { path: PathBuf::from(OUT), _lock: Some(folder) },
            Ok((Err(TryLockError::WouldBlock), _)) => Self { path: PathBuf::from(format!("{OUT}-{}", std::process::id())), _lock: None },
            // Where there are no locks all share it, as nothing better is known.
            Ok((Err(TryLockError::Error(_)), _)) | Err(_) => Self { path: PathBuf::from(OUT), _lock: None },
        }
    }
}

/// A table that some sweep or report left in a folder.
pub(super) fn table_in(path: &Path) -> Option<&'static str> {
    TABLES.into_iter().find(|name| path.join(name).exists())
}

/// Says in a folder whose tables are there.
///
/// # Errors
/// The disk says no.
pub(super) fn mark(path: &Path, made: &Made) -> io::Result<()> {
    output::write(&path.join(MADE), serde_json::to_string_pretty(made).unwrap_or_default() + "\n")
}

/// A folder that holds something else, and what to do about it.
pub(super) fn taken(path: &Path, what: &str) -> CliError {
    CliError::usage(format!("{} holds {what}", path.display())).hint("give another folder with --out, or --force to overwrite it")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(config: &str) -> Made {
        Made { build: "b".to_owned(), config: config.to_owned(), command: format!("ipam-sim run {config}"), ..Made::default() }
    }

    #[test]
    fn a_folder_is_for_one_process_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let first = OutFolder::lock(&path, false).unwrap();
        let error = OutFolder::lock(&path, false).unwrap_err();
        assert!(error.exit_code == 2 && error.message.ends_with("out is in use by another process"), "{}", error.message);
        assert!(OutFolder::lock(&path, true).is_ok(), "who insists may");
        drop(first);
        assert!(OutFolder::lock(&path, false).is_ok());
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0, "a lock leaves nothing behind");
    }

    #[test]
    fn what_a_process_that_was_killed_left_goes_and_what_may_be_in_the_making_stays() {
        let folder = tempfile::tempdir().unwrap();
        let [old, young, other] = [".ipam-sim-a.part", ".ipam-sim-b.part", "notes.part"].map(|name| folder.path().join(name));
        for (path, hours) in [(&old, 2), (&young, 0), (&other, 2)] {
            let file = File::create(path).unwrap();
            let made = file.metadata().unwrap().modified().unwrap();
            file.set_modified(made - std::time::Duration::from_secs(hours * 3_600)).unwrap();
        }
        OutFolder::lock(folder.path(), false).unwrap();
        assert_eq!([old, young, other].map(|path| path.exists()), [false, true, true]);
    }

    #[test]
    fn the_usual_folder_is_for_one_process_at_a_time_and_the_next_has_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let take = || UsualFolder::take_in(folder.path());
        let first = take();
        assert_eq!(first.path, Path::new(OUT));
        assert_eq!(take().path, PathBuf::from(format!("{OUT}-{}", std::process::id())));
        drop(first);
        assert_eq!(take().path, Path::new(OUT));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "a lock leaves nothing behind");
        assert_eq!(UsualFolder::take_in(&folder.path().join("none")).path, Path::new(OUT));
    }

    #[test]
    fn the_tables_of_another_sweep_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let claim = |config: Option<&str>, force| OutFolder::claim(path, config.map(made).as_ref(), force).map(drop);
        assert_eq!(claim(Some("a"), false), Ok(()));
        assert_eq!(claim(Some("b"), false), Ok(()), "no table was written yet");
        fs::write(path.join("runs.csv"), "seed\n").unwrap();
        assert_eq!(claim(Some("b"), false), Ok(()), "the same sweep again");
        let error = claim(Some("a"), false).unwrap_err();
        assert!(error.message.ends_with("holds runs.csv of another sweep, `ipam-sim run b`"), "{}", error.message);
        assert_eq!(claim(None, false).unwrap_err().exit_code, 2);
        assert_eq!(claim(Some("a"), true), Ok(()));
        fs::remove_file(path.join(MADE)).unwrap();
        assert_eq!(claim(Some("a"), false).unwrap_err().exit_code, 2, "nobody knows whose they are");
    }
}
