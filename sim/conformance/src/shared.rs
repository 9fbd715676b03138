//! The values that the cases of a folder share.

use std::collections::BTreeMap;
use std::path::Path;

use indexmap::IndexMap;

use crate::forms::REFERENCE;
use crate::json::Json;
use crate::place::Place;
use crate::problem::{Problem, document};

/// The values that the cases of a folder share.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    /// Paths by the name under which cases use them.
    pub paths: IndexMap<String, String>,
    /// Bodies by name, to which cases add.
    pub templates: IndexMap<String, Json>,
    /// The fields that are not compared, by kind: names from the object on.
    pub ignore: BTreeMap<String, Vec<Vec<String>>>,
    /// Places of any case where another value of the same type does not count as a difference.
    pub loose: Vec<Place>,
    /// Definitions of custom resources that are created before the first case.
    pub crds: Vec<Json>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct SharedForm {
    paths: IndexMap<String, String>,
    templates: IndexMap<String, Json>,
    ignore: BTreeMap<String, Vec<String>>,
    loose: Vec<String>,
    crds: Vec<Json>,
}

impl Shared {
    pub(crate) fn read(file: &Path) -> Result<Self, Problem> {
        let form: SharedForm = document(file)?;
        let loose =
            form.loose.iter().map(|text| Place::read(text)).collect::<Result<_, _>>().map_err(|wrong| Problem::file(file, wrong))?;
        if let Some(crd) = form.crds.iter().find(|crd| crd_name(crd).is_none()) {
            let wrong = format!("a definition has to have `metadata.name` as PLURAL.GROUP; found {}", crd.compact());
            return Err(Problem::file(file, wrong));
        }
        let foreign = |text: &str| {
            REFERENCE.captures_iter(text).map(|found| found[1].to_owned()).find(|name| !matches!(name.as_str(), "ns" | "prefix"))
        };
        if let Some((name, other)) = form.paths.iter().find_map(|(name, path)| Some((name, foreign(path)?))) {
            return Err(Problem::file(file, format!("the path `{name}` has `{other}` in it; it can only have `ns` and `prefix`")));
        }
        // Otherwise one could use itself.
        if let Some(name) = form.templates.iter().find_map(|(name, template)| template.compact().contains("\"$use\"").then_some(name)) {
            return Err(Problem::file(file, format!("the template `{name}` uses another one; only cases use templates")));
        }
        let path = |path: &String| path.split('/').map(str::to_owned).collect();
        let ignore = form.ignore.into_iter().map(|(kind, paths)| (kind, paths.iter().map(path).collect())).collect();
        Ok(Self { paths: form.paths, templates: form.templates, ignore, loose, crds: form.crds })
    }
}

/// Plural and group of a definition.
pub(crate) fn crd_name(crd: &Json) -> Option<(&str, &str)> {
    crd.get("metadata")?.get("name")?.as_str()?.split_once('.')
}
