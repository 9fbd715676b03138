//! All cases, and their shared values.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::case::Case;
use crate::json::Json;
use crate::problem::{Problem, document};
use crate::shared::Shared;

/// The name of the file with the values that the cases share.
const SHARED: &str = "_shared.json";

/// All cases of a folder, in the order of its files.
#[derive(Clone, Debug)]
pub struct Kit {
    /// The values that all cases share.
    pub shared: Shared,
    /// The cases; their ids differ.
    pub cases: Vec<Case>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ThemeForm {
    theme: String,
    cases: Vec<Json>,
}

impl Kit {
    /// Reads `_shared.json` and all other files of the folder whose names end in `.json` and do not begin with `_`.
    ///
    /// # Errors
    ///
    /// Returns the first problem of a file, with the case and the step if it is in one.
    pub fn read(folder: &Path) -> Result<Self, Problem> {
        let shared = Shared::read(&folder.join(SHARED))?;
        let (mut cases, mut seen) = (Vec::new(), BTreeSet::new());
        for file in files(folder)? {
            let theme: ThemeForm = document(&file)?;
            for (index, value) in theme.cases.iter().enumerate() {
                let id = value.get("id").and_then(Json::as_str).map_or_else(|| (index + 1).to_string(), str::to_owned);
                let case = Case::read(value, &theme.theme, &shared).map_err(|(step, wrong)| match step {
                    Some(step) => Problem::step(&file, &id, step, wrong),
                    None => Problem::case(&file, &id, wrong),
                })?;
                if !seen.insert(id.clone()) {
                    return Err(Problem::case(&file, &id, "another case has this id"));
                }
                cases.push(case);
            }
        }
        if cases.is_empty() {
            return Err(Problem::file(folder, "the folder has no cases"));
        }
        Ok(Self { shared, cases })
    }

    /// Keeps only the cases whose id passes.
    pub fn only(&mut self, passes: impl Fn(&str) -> bool) {
        self.cases.retain(|case| passes(&case.id));
    }
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, Problem> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let entries = entries.map_err(|error| Problem::file(folder, format!("cannot be read: {error}")))?;
    let is_theme = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".json") && !name.starts_with('_')
    };
    let mut files: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).filter(is_theme).collect();
    files.sort();
    Ok(files)
}
