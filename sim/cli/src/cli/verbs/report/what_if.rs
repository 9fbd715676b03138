//! `--vary` of a scenario: the changes that are examined, each combination separately.

use std::path::Path;

use sim_config::Setting;
use sim_harness::scenario::Scenario;

use crate::cli::CliError;
use crate::cli::report::vary::{Values, Vary};

/// The maximum number of combinations: nobody reads a larger table.
const CHANGES_MAX: usize = 24;

/// The number of seeds by which it is determined whether a change has any effect.
const LOOKED_AT: u64 = 4;

/// A change to a scenario.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Change {
    /// The name in a table, such as `grace 5`.
    pub(super) name: String,
    set: Vec<Setting>,
}

/// Every combination of the varied values.
///
/// # Errors
/// A varied key is no key of a scenario, or occurs twice; or there are too many combinations.
pub(super) fn changes(vary: &[Vary]) -> Result<Vec<Change>, CliError> {
    let mut changes = vec![Change { name: String::new(), set: Vec::new() }];
    for (number, one) in vary.iter().enumerate() {
        let key = one.key();
        let Values::Setting(values) = &one.values else {
            return Err(CliError::usage(format!("`{key}` is varied of bursts at one pool, and here are the pods of a scenario"))
                .hint("name a key of the scenario's file with its table, e.g. workload.nodes=6,12"));
        };
        if vary[..number].iter().any(|earlier| earlier.key() == key) {
            return Err(CliError::usage(format!("`{key}` is varied twice; give all its values at once")));
        }
        if changes.len() * values.len() > CHANGES_MAX {
            return Err(CliError::usage(format!(
                "{} combinations are more than the {CHANGES_MAX} that a table is good for; vary less at a time",
                changes.len() * values.len()
            )));
        }
        let called = key.rsplit('.').next().unwrap_or(key);
        let extended = changes.iter().flat_map(|Change { name, set }| {
            values.iter().map(move |value| {
                let comma = if name.is_empty() { "" } else { ", " };
                let more = Setting { key: key.to_owned(), value: written(key, value) };
                Change { name: format!("{name}{comma}{called} {value}"), set: set.iter().cloned().chain([more]).collect() }
            })
        });
        changes = extended.collect();
    }
    changes.retain(|change| !change.set.is_empty());
    Ok(changes)
}

/// The prefix of Spiderpool's settings, which are environment variables: their values are text, even if they look like numbers.
const ENVIRONMENT: &str = "workload.settings.";

/// A value as it would be written in the file.
fn written(key: &str, value: &str) -> String {
    let plain = !value.starts_with(['"', '\'', '[']);
    if key.starts_with(ENVIRONMENT) && plain { toml::Value::String(value.to_owned()).to_string() } else { value.to_owned() }
}

impl Change {
    /// The settings `set` with this change, which replaces other values of the same keys.
    pub(super) fn with(&self, set: &[Setting]) -> Vec<Setting> {
        let kept = set.iter().filter(|one| self.set.iter().all(|own| own.key != one.key));
        kept.chain(&self.set).cloned().collect()
    }

    /// The settings, as `KEY=VALUE`.
    pub(super) fn settings(&self) -> String {
        self.set.iter().map(|one| format!("{}={}", one.key, one.value)).collect::<Vec<_>>().join(", ")
    }

    /// The error in the changed scenario, with the flag that the user gave.
    pub(super) fn told(&self, mut error: CliError) -> CliError {
        for Setting { key, value } in &self.set {
            error.message = error.message.replace(&format!("--set {key}={value}"), &format!("--vary {key}={value}"));
        }
        error
    }

    /// Whether the change has no effect: the runs are the same as those of the unchanged scenario.
    fn is_none(&self, base: &Scenario, changed: &Scenario) -> bool {
        let plan = |scenario: &Scenario, seed| {
            let mut plan = scenario.draw(seed);
            plan.scenario = String::new();
            toml::to_string(&plan).unwrap_or_default()
        };
        (0..LOOKED_AT).all(|seed| plan(base, seed) == plan(changed, seed))
    }
}

/// Removes changes that have no effect.
///
/// # Errors
/// No varied value has an effect: probably another key was meant.
pub(super) fn effective<T>(
    file: &Path,
    base: &Scenario,
    changed: Vec<(Change, T)>,
    scenario: impl Fn(&T) -> &Scenario,
) -> Result<Vec<(Change, T)>, CliError> {
    let Some((first, _)) = changed.first() else { return Ok(changed) };
    let keys: Vec<String> = first.set.iter().map(|setting| format!("`{}`", setting.key)).collect();
    let left: Vec<(Change, T)> = changed.into_iter().filter(|(change, one)| !change.is_none(base, scenario(one))).collect();
    if left.is_empty() {
        let wrong = format!("{}: no value of {} changes anything in the runs of `{}`", file.display(), keys.join(" and "), base.name);
        return Err(CliError::usage(wrong).hint("name a key that this scenario uses, and a value that it has not"));
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(all: &[&str]) -> Result<Vec<Change>, CliError> {
        changes(&all.iter().map(|one| one.parse().unwrap()).collect::<Vec<_>>())
    }

    #[test]
    fn every_combination_is_named_and_replaces_what_was_set() {
        let all = of(&["workload.nodes=6,12", "cluster.capacity.width=1,2"]).unwrap();
        let names: Vec<&str> = all.iter().map(|change| &*change.name).collect();
        assert_eq!(names, ["nodes 6, width 1", "nodes 6, width 2", "nodes 12, width 1", "nodes 12, width 2"]);
        let set = |key: &str, value: &str| Setting { key: key.to_owned(), value: value.to_owned() };
        let given = [set("workload.nodes", "3"), set("workload.pools", "2")];
        let expected = [set("workload.pools", "2"), set("workload.nodes", "12"), set("cluster.capacity.width", "2")];
        assert_eq!(all[3].with(&given), expected);
        let environment = of(&["workload.settings.A=0,\"1\""]).unwrap();
        assert_eq!(environment.iter().map(|change| &*change.set[0].value).collect::<Vec<_>>(), ["\"0\"", "\"1\""]);
        assert_eq!(of(&[]).unwrap(), []);
    }

    #[test]
    fn what_is_no_key_of_a_scenario_and_too_much_is_refused() {
        for (all, expected) in [
            (&["nodes=2..4"][..], "`nodes` is varied of bursts at one pool"),
            (&["workload.nodes=1,2", "workload.nodes=3"], "`workload.nodes` is varied twice"),
            (&["workload.nodes=1,2,3,4,5", "workload.pools=1,2,3,4,5"], "25 combinations are more than the 24"),
        ] {
            let error = of(all).unwrap_err();
            assert!(error.message.contains(expected) && error.exit_code == 2, "{}", error.message);
        }
    }
}
