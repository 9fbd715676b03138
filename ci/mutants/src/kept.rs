//! Verdicts in a file, written one by one: an interrupted run can be resumed.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::site::Site;
use crate::sweep::Verdict;

/// One line of the file.
#[derive(Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    site: Site,
    #[serde(flatten)]
    verdict: Verdict,
}

/// The verdicts of the current run.
pub(crate) struct Kept {
    path: PathBuf,
    file: Mutex<File>,
    /// The verdicts of the interrupted run, by the [rank](Site::rank) of the mutant.
    earlier: BTreeMap<u64, Verdict>,
}

impl Kept {
    /// Opens the verdicts in this folder: with `resume` those of an earlier run, without it none. An incomplete last line is ignored.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub(crate) fn open(folder: &Path, resume: bool) -> Result<Self, Box<dyn Error>> {
        let path = folder.join("judged.jsonl");
        let text = if resume && path.exists() { fs::read_to_string(&path)? } else { String::new() };
        let lines: Vec<Line> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let mut file = OpenOptions::new().create(true).write(true).truncate(true).open(&path)?;
        for line in &lines {
            writeln!(file, "{}", serde_json::to_string(line)?)?;
        }
        let earlier = lines.into_iter().map(|line| (line.site.rank(), line.verdict)).collect();
        Ok(Self { path, file: Mutex::new(file), earlier })
    }

    /// The verdict of an earlier run on a mutant.
    pub(crate) fn of(&self, site: &Site) -> Option<Verdict> {
        self.earlier.get(&site.rank()).cloned()
    }

    /// Writes a verdict to the file. If that fails, the mutant is only judged again.
    pub(crate) fn keep(&self, site: &Site, verdict: &Verdict) {
        if self.earlier.contains_key(&site.rank()) {
            return;
        }
        let line = Line { site: site.clone(), verdict: verdict.clone() };
        let Ok(line) = serde_json::to_string(&line) else { return };
        let _ = writeln!(self.file.lock().expect("no writer panics"), "{line}");
    }

    /// Removes the file, because every mutant is judged: the next run starts over.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub(crate) fn done(self) -> Result<(), std::io::Error> {
        fs::remove_file(self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(line: usize, function: &str) -> Site {
        let text = |text: &str| text.to_owned();
        Site { file: text("f.rs"), line, function: text(function), code: text("a < b"), instead: text("a <= b"), repeated: 0 }
    }

    #[test]
    fn a_run_goes_on_where_it_was_cut_off_and_one_that_ended_leaves_nothing() {
        let folder = std::env::temp_dir().join(format!("core-mutants-kept-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let noticed = Verdict::Noticed { scenario: "s".to_owned(), by: "c".to_owned(), seeds: 3 };
        let survives = Verdict::Survives { scenarios: 3, differ: vec!["a".to_owned()] };
        let first = Kept::open(&folder, false).expect("nothing there");
        first.keep(&site(7, "f"), &noticed);
        first.keep(&site(9, "g"), &survives);
        drop(first);
        let cut = fs::read_to_string(folder.join("judged.jsonl")).expect("two lines");
        fs::write(folder.join("judged.jsonl"), &cut[..cut.len() - 5]).expect("cut off");

        let second = Kept::open(&folder, true).expect("one line and a half");
        assert_eq!(second.of(&site(70, "f")), Some(noticed), "the function moved in its file");
        assert_eq!(second.of(&site(9, "g")), None);
        second.keep(&site(70, "f"), &survives);
        second.keep(&site(9, "g"), &survives);
        drop(second);
        let third = Kept::open(&folder, true).expect("two lines");
        assert_eq!(third.of(&site(9, "g")), Some(survives));
        assert!(Kept::open(&folder, false).expect("begun anew").earlier.is_empty());
        third.done().expect("removed");
        assert!(!folder.join("judged.jsonl").exists());
        fs::remove_dir(&folder).expect("empty");
    }
}
