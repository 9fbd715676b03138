//! A file of the placements that were tried: an interrupted search resumes from there.
//!
//! ```text
//!  placements-SCENARIO.jsonl   whose they are; then a line for each part of a level: what each of its placements gave, and their result
//! ```
//! The search itself is not saved: with the same runs it reaches the same placements in the same order.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use ipam_reports::{Digest, ScenarioResult, SeedRange};
use serde::{Deserialize, Serialize};

use super::disturbance::Disturbance;
use crate::engine::seeds::Shard;
use crate::engine::{Error, output};

/// The result of a placement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Tried {
    pub digest: Digest,
    pub failed: bool,
    /// The disturbances that can follow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<Disturbance>,
}

/// The first line: identifies the search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Whose {
    /// The build of the runs.
    build: String,
    /// Identifies the scenario with all its settings, and the number of disturbances of a placement.
    config: Option<String>,
    seeds: SeedRange,
    /// The shard of the placements, and the number of shards.
    shard: Option<(u32, u32)>,
}

impl Whose {
    pub(super) fn new(build: &str, config: Option<String>, seeds: SeedRange, shard: Option<Shard>) -> Self {
        Self { build: build.to_owned(), config, seeds, shard: shard.map(|shard| (shard.index, shard.total)) }
    }
}

/// Any other line: a part of a level.
#[derive(Serialize, Deserialize)]
struct Part {
    /// The result of each placement, by its number in the search.
    tried: Vec<(usize, Tried)>,
    result: ScenarioResult,
}

/// The journal of a search in progress.
pub(super) struct Journal {
    path: PathBuf,
    /// `None` = the file cannot be written any more.
    file: Option<fs::File>,
}

/// The results of an earlier search.
#[derive(Default)]
pub(super) struct Earlier {
    /// The result of each placement, by its number in the search.
    pub tried: BTreeMap<usize, Tried>,
    /// The results of each of its parts.
    pub results: Vec<ScenarioResult>,
}

impl Journal {
    /// Opens the journal of a scenario in this folder, and with `resume` reads its content. An incomplete last line is ignored.
    ///
    /// # Errors
    /// Fails if the journal is of other runs, or the operating system refuses.
    pub(super) fn open(folder: &Path, scenario: &str, whose: &Whose, resume: bool) -> Result<(Self, Earlier), Error> {
        let shard = whose.shard.map(|(index, total)| format!("-{index}of{total}")).unwrap_or_default();
        let path = folder.join(format!("placements-{scenario}{shard}.jsonl"));
        let text = if resume && path.exists() {
            fs::read_to_string(&path).map_err(|error| Error::io(format!("read {}", path.display()), error))?
        } else {
            String::new()
        };
        let mut lines = text.lines();
        if let Some(first) = lines.next()
            && serde_json::from_str::<Whose>(first).ok().as_ref() != Some(whose)
        {
            let message = format!("{} is of other runs than these: another build, scenario, setting, seed, K or part", path.display());
            let hint = Some("give the same arguments as then, or begin anew without --resume".to_owned());
            return Err(Error::Usage { message, hint });
        }
        let parts: Vec<Part> = lines.map_while(|line| serde_json::from_str(line).ok()).collect();
        // An incomplete line is dropped, so that appended lines are complete.
        let mut whole = line_of(whose);
        parts.iter().for_each(|part| whole.push_str(&line_of(part)));
        let unwritable = |error| Error::io(format!("write {}", path.display()), error);
        output::write(&path, whole).map_err(unwritable)?;
        let file = Some(OpenOptions::new().append(true).open(&path).map_err(unwritable)?);
        let mut earlier = Earlier::default();
        for Part { tried, result } in parts {
            earlier.tried.extend(tried);
            earlier.results.push(result);
        }
        Ok((Self { path, file }, earlier))
    }

    /// Appends a part. If that fails, nothing more is written, and a resumed search tries the placements again.
    pub(super) fn keep(&mut self, tried: Vec<(usize, Tried)>, result: ScenarioResult) {
        let line = line_of(&Part { tried, result });
        if let Some(file) = &mut self.file
            && output::append(file, line.as_bytes()).is_err()
        {
            self.file = None;
        }
    }

    /// Ends the journal when all is tried: the next search begins anew.
    pub(super) fn done(self) {
        // If the file cannot be removed, only a search with `resume` reads it.
        let _ = fs::remove_file(self.path);
    }
}

fn line_of(row: &impl Serialize) -> String {
    serde_json::to_string(row).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whose(config: &str) -> Whose {
        Whose::new("a build", Some(config.to_owned()), SeedRange { first: 0, last: 0 }, None)
    }

    fn tried(number: usize) -> (usize, Tried) {
        (number, Tried { digest: Digest::default(), failed: number == 3, next: Vec::new() })
    }

    fn result(seeds: u64) -> ScenarioResult {
        ScenarioResult { seeds, ..ScenarioResult::new("s", "s.toml", []) }
    }

    #[test]
    fn a_search_goes_on_where_it_was_cut_off_and_one_that_ended_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let open = |resume| Journal::open(folder.path(), "s", &whose("c"), resume).unwrap();
        let (mut first, earlier) = open(true);
        assert!(earlier.tried.is_empty(), "nothing there");
        first.keep(vec![tried(0), tried(3)], result(2));
        first.keep(vec![tried(4)], result(1));
        let path = first.path.clone();
        drop(first);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() - 5]).unwrap();

        let (mut second, earlier) = open(true);
        assert_eq!(earlier.tried, BTreeMap::from([tried(0), tried(3)]));
        assert_eq!(earlier.results, [result(2)], "the line that is cut off is absent");
        second.keep(vec![tried(4)], result(1));
        drop(second);
        let (third, earlier) = open(true);
        assert_eq!((earlier.tried.len(), earlier.results.len()), (3, 2));
        drop(third);
        let (fourth, earlier) = open(false);
        assert!(earlier.tried.is_empty(), "begun anew");
        fourth.done();
        assert!(!path.exists());
    }

    #[test]
    fn what_is_of_other_runs_is_refused_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, _) = Journal::open(folder.path(), "s", &whose("c"), false).unwrap();
        journal.keep(vec![tried(0)], result(1));
        let text = fs::read_to_string(&journal.path).unwrap();
        let Err(error) = Journal::open(folder.path(), "s", &whose("d"), true) else { panic!("it is of another scenario") };
        assert!(error.to_string().contains("is of other runs than these"), "{error}");
        assert_eq!(fs::read_to_string(&journal.path).unwrap(), text);
    }
}
