//! The provenance that the file of a plan records.

use std::path::Path;

use ipam_reports::Provenance;
use ipam_reports::command::replay_command;

use super::build;
use crate::deviation::{self, DeviationName, Profile};
use crate::fault_text;
use crate::plan::Plan;

/// The version of the program, as `--version` says it.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The provenance of a plan that is run, with the command that runs it again. `profile`: the requested one; `None` = the one that the
/// plan's deviations amount to.
pub fn of_run(plan: &Plan, profile: Option<Profile>, replay: String) -> Provenance {
    let profile = profile.unwrap_or_else(|| profile_of(plan));
    let of_profile: Vec<DeviationName> = if profile == Profile::Upstream { deviation::upstream().collect() } else { Vec::new() };
    let but_for =
        |all: &[DeviationName], those: &[DeviationName]| all.iter().filter(|name| !those.contains(name)).map(ToString::to_string).collect();
    Provenance {
        version: VERSION.to_owned(),
        build: build().to_owned(),
        replay,
        profile: profile.name().to_owned(),
        mutations: but_for(&plan.deviations, &of_profile),
        without: but_for(&of_profile, &plan.deviations),
        faults: plan.fault.iter().map(fault_text::text).collect(),
        shrunk_from: None,
    }
}

/// The provenance of a plan that was shrunk from another one, which is in `from_file`.
pub fn of_smaller(smaller: &Plan, from: &Plan, from_file: Option<String>, replay: String) -> Provenance {
    let known = from.recorded.as_ref().and_then(|recorded| recorded.provenance.clone());
    let Provenance { profile, mutations, without, .. } = known.unwrap_or_else(|| of_run(from, None, String::new()));
    Provenance { profile, mutations, without, shrunk_from: from_file, ..of_run(smaller, None, replay) }
}

/// The recorded provenance of a plan, as long as the plan was not edited since; else a new one. Version, build, command and faults are
/// always those of now.
pub fn of_replay(plan: &Plan, replay: String) -> Provenance {
    let kept = plan.recorded.as_ref().filter(|recorded| recorded.plan.is_empty() || recorded.plan == plan.fingerprint());
    let now = of_run(plan, None, replay);
    match kept.and_then(|recorded| recorded.provenance.clone()) {
        Some(Provenance { profile, mutations, without, shrunk_from, .. }) => Provenance { profile, mutations, without, shrunk_from, ..now },
        None => now,
    }
}

/// The command that replays the plan in this file.
pub fn replay_of(file: &Path) -> String {
    replay_command(Some(&file.display().to_string()), "", 0)
}

/// The profile of a plan: `upstream` if it has every mutation of upstream.
fn profile_of(plan: &Plan) -> Profile {
    let mut upstream = deviation::upstream().peekable();
    let is_there = upstream.peek().is_some();
    if is_there && upstream.all(|name| plan.deviations.contains(&name)) { Profile::Upstream } else { Profile::Hardened }
}
