//! A corpus on disk: a folder for each scenario, with a plan file for each kept plan, and an index.
//!
//! ```text
//!  DIR/SCENARIO/corpus.json   what was reached, how often, and what each plan was kept for
//!  DIR/SCENARIO/000017.toml   the plan of run 17, for `ipam-sim replay`
//! ```
//! Plans are written before the index that names them: a process that is killed leaves a correct index, and perhaps plans that the next
//! search writes again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use ipam_reports::hunt::{CurvePoint, Find};
use serde::{Deserialize, Serialize};

use super::corpus::{Corpus, Entry, Known};
use super::edit::Individual;
use crate::engine::{Error, output, provenance};
use crate::plan::Plan;
use crate::scenario::FaultSource;

/// The schema name of an index.
const SCHEMA: &str = "ipam-sim/corpus/1";
/// The file name of the index.
const INDEX: &str = "corpus.json";

/// The state of a search that can be continued.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Saved {
    /// The build that made the runs.
    pub build: String,
    /// Identifies the scenario with all its settings.
    pub config: String,
    /// The first seed of the search.
    pub seed: u64,
    /// The number of runs so far.
    pub runs: u64,
    /// The kept plans and reached features.
    pub corpus: Corpus,
    /// Plans that were taken over and have not run yet.
    pub waiting: Vec<Individual>,
    /// The number of features that were reached, by number of runs.
    pub curve: Vec<CurvePoint>,
    /// The claims that were violated, each with its first violation.
    pub finds: Vec<Find>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Index {
    schema: String,
    scenario: String,
    build: String,
    config: String,
    seed: u64,
    runs: u64,
    curve: Vec<CurvePoint>,
    finds: Vec<Find>,
    /// The features, each with the number of runs that had it.
    features: Vec<(String, u32)>,
    plans: Vec<Row>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    number: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    edits: Vec<String>,
    chosen: u32,
    /// Empty = the plan was taken over, and has not run.
    features: Vec<u32>,
    kept_for: Vec<u32>,
    sources: Vec<FaultSource>,
    /// Identifies the plan, so that an edited one is noticed.
    plan: String,
}

/// The folder of one scenario's corpus.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// The numbers of the plans that are written already.
    written: BTreeSet<u64>,
}

fn file_of(number: u64) -> String {
    format!("{number:06}.toml")
}

impl Folder {
    /// The folder of `scenario` in the corpus `dir`.
    pub fn new(dir: &Path, scenario: &str) -> Self {
        Self { path: dir.join(scenario), written: BTreeSet::new() }
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The state that an earlier search left; `None` = there was none.
    ///
    /// # Errors
    /// Fails if the folder holds other files, a corpus of another scenario or of other settings, or plans that were edited.
    pub fn read(&mut self, scenario: &str, config: &str) -> Result<Option<Saved>, Error> {
        let index = self.path.join(INDEX);
        let shown = index.display();
        if !self.path.exists() {
            return Ok(None);
        }
        let strange = self.strange_file()?;
        if !index.exists() {
            return match strange {
                None => Ok(None),
                Some(name) => Err(no_corpus(&self.path, &name)),
            };
        }
        let text = fs::read_to_string(&index).map_err(|error| Error::io(format!("read {shown}"), error))?;
        let schema =
            serde_json::from_str::<serde_json::Value>(&text).ok().and_then(|value| Some(value.get("schema")?.as_str()?.to_owned()));
        if let Some(found) = schema.filter(|found| found != SCHEMA) {
            return Err(Error::usage(format!("{shown}: the schema is `{found}`, and this version reads `{SCHEMA}`")));
        }
        let parsed: Index = serde_json::from_str(&text).map_err(|error| Error::usage(format!("{shown}: {error}")))?;
        if parsed.scenario != scenario {
            return Err(Error::usage(format!("{shown}: the corpus is of the scenario `{}`, not of `{scenario}`", parsed.scenario)));
        }
        if parsed.config != config {
            let wrong = format!("{shown}: the corpus is of `{scenario}` with other values or mutations");
            return Err(Error::Usage { message: wrong, hint: Some("take another folder for the scenario as it is now".to_owned()) });
        }
        if let Some(name) = strange {
            return Err(no_corpus(&self.path, &name));
        }
        let known = parsed.features.len() as u32;
        let (mut entries, mut waiting) = (Vec::new(), Vec::new());
        for row in parsed.plans {
            let file = self.path.join(file_of(row.number));
            let plan = read_plan(&file, scenario)?;
            if plan.fingerprint() != row.plan || plan.fault.len() != row.sources.len() {
                let wrong = format!("{}: the plan was edited since it was kept", file.display());
                let hint = "it is unknown whether its scenario could have drawn it: replay it where it is, and remove it from the corpus";
                return Err(Error::Usage { message: wrong, hint: Some(hint.to_owned()) });
            }
            if row.features.iter().chain(&row.kept_for).any(|number| *number >= known) {
                return Err(Error::usage(format!("{shown}: run {} has a feature that is not listed", row.number)));
            }
            let individual = Individual { plan, sources: row.sources };
            self.written.insert(row.number);
            if row.features.is_empty() {
                waiting.push(individual);
                continue;
            }
            let Row { number, parent, edits, features, kept_for, chosen, .. } = row;
            entries.push(Entry { number, individual, parent, edits, features, kept_for, chosen });
        }
        let features = parsed.features.into_iter().map(|(text, hits)| Known { text, hits }).collect();
        let Index { build, config, seed, runs, curve, finds, .. } = parsed;
        Ok(Some(Saved { build, config, seed, runs, corpus: Corpus::new(entries, features), waiting, curve, finds }))
    }

    /// The name of a file that does not belong in a corpus.
    fn strange_file(&self) -> Result<Option<String>, Error> {
        let unreadable = |error| Error::io(format!("read {}", self.path.display()), error);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(unreadable)? {
            names.push(entry.map_err(unreadable)?.file_name().to_string_lossy().into_owned());
        }
        names.sort_unstable();
        let is_plan =
            |name: &str| name.strip_suffix(".toml").is_some_and(|stem| stem.len() >= 6 && stem.bytes().all(|b| b.is_ascii_digit()));
        Ok(names.into_iter().find(|name| name != INDEX && !is_plan(name) && !output::is_aside(name)))
    }

    /// Writes the new plans, and the index.
    ///
    /// # Errors
    /// Fails if the operating system refuses.
    pub fn write(&mut self, scenario: &str, saved: &Saved) -> Result<(), Error> {
        let refused = |path: &Path| {
            let action = format!("write {}", path.display());
            move |error| Error::io(action, error)
        };
        let mut plans = Vec::new();
        let Saved { corpus, .. } = saved;
        for entry in &corpus.entries {
            let path = self.path.join(file_of(entry.number));
            if self.written.insert(entry.number) {
                let told = entry.kept_for.iter().map(|&number| format!("#   {}\n", corpus.features[number as usize].text));
                let of = match entry.parent {
                    Some(parent) => format!(", made of run {parent}: {}", entry.edits.join(", ")),
                    None => String::new(),
                };
                let head = format!("# Run {}{of}. It was the first to reach:\n{}\n", entry.number, told.collect::<String>());
                let mut plan = entry.individual.plan.clone();
                let provenance = provenance::of_run(&plan, None, provenance::replay_of(&path));
                plan.recorded.iter_mut().for_each(|recorded| recorded.provenance = Some(provenance.clone()));
                output::write(&path, head + &plan.to_toml_at(&path)).map_err(refused(&path))?;
            }
            plans.push(Row {
                number: entry.number,
                parent: entry.parent,
                edits: entry.edits.clone(),
                chosen: entry.chosen,
                features: entry.features.clone(),
                kept_for: entry.kept_for.clone(),
                sources: entry.individual.sources.clone(),
                plan: entry.individual.plan.fingerprint(),
            });
        }
        let index = Index {
            schema: SCHEMA.to_owned(),
            scenario: scenario.to_owned(),
            build: saved.build.clone(),
            config: saved.config.clone(),
            seed: saved.seed,
            runs: saved.runs,
            curve: saved.curve.clone(),
            finds: saved.finds.clone(),
            features: corpus.features.iter().map(|known| (known.text.clone(), known.hits)).collect(),
            plans,
        };
        let path = self.path.join(INDEX);
        let text = serde_json::to_string(&index).map_err(|error| Error::usage(error.to_string()))?;
        output::write(&path, text + "\n").map_err(refused(&path))
    }
}

/// The plan in a file of a corpus.
fn read_plan(file: &Path, scenario: &str) -> Result<Plan, Error> {
    let plan = Plan::read(file)?;
    if plan.scenario != scenario {
        return Err(Error::usage(format!("{}: the plan is of the scenario `{}`, not of `{scenario}`", file.display(), plan.scenario)));
    }
    Ok(plan)
}

fn no_corpus(folder: &Path, name: &str) -> Error {
    let message = format!("{} is no corpus: it holds `{name}`", folder.display());
    Error::Usage { message, hint: Some("take an empty folder, or one that `hunt` made".to_owned()) }
}

/// Checks that a folder holds corpora of scenarios and nothing else.
///
/// # Errors
/// Fails if the folder holds something else, or cannot be read.
pub fn check(dir: &Path) -> Result<(), Error> {
    if !dir.exists() {
        return Ok(());
    }
    let unreadable = |error| Error::io(format!("read {}", dir.display()), error);
    let mut entries = BTreeMap::new();
    for entry in fs::read_dir(dir).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        entries.insert(entry.file_name().to_string_lossy().into_owned(), entry.path());
    }
    match entries.into_iter().find(|(name, path)| !path.is_dir() && !output::is_aside(name)) {
        Some((name, _)) => Err(no_corpus(dir, &name)),
        None => Ok(()),
    }
}
