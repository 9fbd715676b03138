//! Shell completion of names: the scenarios, claims, faults and mutations that exist.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter};
use kube_sim::fault;
use sim_harness::scenario::{self, Scenario};
use sim_harness::system::systems;

/// The folder in which scenarios are looked for, as by `list`.
const SCENARIOS: &str = "scenarios";

fn offered(name: impl Into<String>, about: impl Into<String>) -> CompletionCandidate {
    let (name, about): (String, String) = (name.into(), about.into());
    CompletionCandidate::new(name).help(Some(about.into()))
}

/// The mutations, each with its description.
pub(super) fn mutations() -> Vec<CompletionCandidate> {
    systems().mutations().iter().map(|mutation| offered(mutation.name, mutation.about)).collect()
}

/// The claims, each with its statement.
pub(super) fn claims() -> Vec<CompletionCandidate> {
    systems().suites().iter().flat_map(|suite| suite.claims).map(|claim| offered(claim.name, claim.about)).collect()
}

/// The scenarios under the folder `scenarios`, each with its question. Files that cannot be read are skipped.
pub(super) fn scenarios() -> Vec<CompletionCandidate> {
    let files = scenario::find(&[PathBuf::from(SCENARIOS)]).unwrap_or_default();
    let read = files.iter().filter_map(|file| Scenario::read_each(file).ok());
    read.flatten().map(|scenario| offered(scenario.name, scenario.why)).collect()
}

/// The paths that complete `typed`; also the scenario files in any folder under `scenarios` whose names begin with it.
pub(super) fn scenario_files(typed: &OsStr) -> Vec<CompletionCandidate> {
    let mut paths = PathCompleter::any().complete(typed);
    let Some(beginning) = typed.to_str().filter(|typed| !typed.is_empty() && !typed.contains('/')) else { return paths };
    for file in scenario::find(&[PathBuf::from(SCENARIOS)]).unwrap_or_default() {
        let is_meant = file.file_stem().is_some_and(|stem| stem.to_string_lossy().starts_with(beginning));
        paths.extend(is_meant.then(|| CompletionCandidate::new(file.into_os_string())));
    }
    paths
}

/// Scenario keys that many users set; and for each kind of fault the swarm that has only this one.
pub(super) fn settings() -> Vec<CompletionCandidate> {
    let keys = [
        ("phases.safety=", "how long faults may begin"),
        ("phases.liveness=", "how long the run goes on after they healed"),
        ("cluster.api_servers=", "how many API servers"),
    ];
    let faults = fault::vocabulary().into_iter().map(|info| offered(format!("swarm.only=[\"{}\"]", info.name), info.about));
    keys.into_iter().map(|(key, about)| offered(key, about)).chain(faults).collect()
}
