//! The settings of a report, as names and values.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

/// The settings of a scenario by their names, such as `workload.nodes`; values as TOML has them.
pub type Settings = BTreeMap<String, String>;

/// A setting whose value differs between two reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Differs {
    /// Its name on the command line or in a scenario.
    pub setting: String,
    /// The earlier value; empty = it was not set.
    pub old: String,
    /// The value now; empty = it is not set.
    pub new: String,
}

impl Differs {
    /// A setting with its two values.
    pub fn new(setting: &str, old: &str, new: &str) -> Self {
        Self { setting: setting.to_owned(), old: old.to_owned(), new: new.to_owned() }
    }
}

impl fmt::Display for Differs {
    /// Writes `latency was 4 ms and is 8 ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { setting, old, new } = self;
        match (old.is_empty(), new.is_empty()) {
            (true, _) => write!(f, "{setting} was not set and is {new}"),
            (_, true) => write!(f, "{setting} was {old} and is not set"),
            _ => write!(f, "{setting} was {old} and is {new}"),
        }
    }
}

/// The settings whose values differ.
pub fn differences(old: &Settings, new: &Settings) -> Vec<Differs> {
    let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let value = |settings: &Settings, name: &String| settings.get(name).cloned().unwrap_or_default();
    let each = names.into_iter().map(|name| Differs { setting: name.clone(), old: value(old, name), new: value(new, name) });
    each.filter(|one| one.old != one.new).collect()
}

/// The differences in words: `latency was 4 ms and is 8 ms; …`.
pub fn told(differs: &[Differs]) -> String {
    differs.iter().map(Differs::to_string).collect::<Vec<_>>().join("; ")
}
