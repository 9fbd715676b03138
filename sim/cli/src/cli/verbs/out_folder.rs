//! The folder of `--out`, or the default one: no other process writes in it meanwhile, and the files of another sweep in a named folder are
//! kept.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use ipam_reports::Made;
use sim_harness::engine::output;

use super::OUT;
use crate::cli::CliError;

/// The file that identifies the sweep or report whose tables a folder holds.
pub(super) const MADE: &str = "made.json";

/// The tables that sweeps and reports write.
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

/// A folder in which only this process writes, as long as this value lives.
#[derive(Debug)]
pub(super) struct OutFolder {
    /// The folder itself, locked: the lock leaves no file if the process dies. `None` if the file system has no locks.
    _lock: Option<File>,
}

impl OutFolder {
    /// Creates the folder if necessary, and locks it.
    ///
    /// # Errors
    /// Another process uses the folder and `force` is not set, or it cannot be created or opened.
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
            // Some network file systems cannot lock folders.
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => Ok(Self { _lock: None }),
        }
    }

    /// Locks the folder for the sweep that `made` describes, and marks it; `None` = the files written there have unique names, and are no
    /// tables.
    ///
    /// # Errors
    /// Those of [`OutFolder::lock`]; also if the folder holds the tables of another sweep and `force` is not set.
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

/// The folder for plans if none was named. Concurrent processes in the same working directory have different ones, so that a plan that one
/// of them names is not overwritten by another one.
#[derive(Debug)]
pub(super) struct UsualFolder {
    /// The path of the folder. It need not exist: without failures nothing is written.
    pub(super) path: PathBuf,
    /// The working directory, locked: the lock needs no new file, and leaves none.
    _lock: Option<File>,
}

impl UsualFolder {
    /// Takes [`OUT`] or, while another process uses that, a folder next to it with the id of this process.
    pub(super) fn take() -> Self {
        Self::take_in(Path::new("."))
    }

    fn take_in(working_directory: &Path) -> Self {
        let folder = File::open(working_directory);
        match folder.map(|folder| (folder.try_lock(), folder)) {
            Ok((Ok(()), folder)) => Self { path: PathBuf::from(OUT), _lock: Some(folder) },
            Ok((Err(TryLockError::WouldBlock), _)) => Self { path: PathBuf::from(format!("{OUT}-{}", std::process::id())), _lock: None },
            // Without locks all processes share it, for lack of an alternative.
            Ok((Err(TryLockError::Error(_)), _)) | Err(_) => Self { path: PathBuf::from(OUT), _lock: None },
        }
    }
}

/// The name of a table in a folder, left by some sweep or report.
pub(super) fn table_in(path: &Path) -> Option<&'static str> {
    TABLES.into_iter().find(|name| path.join(name).exists())
}

/// Marks a folder with the origin of its tables.
///
/// # Errors
/// Writing the file fails.
pub(super) fn mark(path: &Path, made: &Made) -> io::Result<()> {
    output::write(&path.join(MADE), serde_json::to_string_pretty(made).unwrap_or_default() + "\n")
}

/// The error for a folder that holds other results, with a hint.
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
