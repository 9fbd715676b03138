//! The same seeds twice: here with two workers, and in a fresh process with one.

use std::process::Command;
use std::time::Instant;

use ipam_reports::finding::{Problem, ProblemKind};
use ipam_reports::{Digest, GateCase, RunReport, ScenarioResult, Seconds, SeedRange};
use sim_harness::deviation::Profile;
use sim_harness::engine::Progress;
use sim_harness::engine::load::Ready;
use sim_harness::engine::sweep::sweep;

use super::cases::DETERMINISM_SEEDS;
use crate::cli::args::GateArgs;

/// How many workers run the seeds here.
const JOBS: usize = 2;

/// Compares the digests of the first seeds of a scenario. What they violate is judged elsewhere.
pub(super) fn compare(case: &mut GateCase, ready: &Ready, args: &GateArgs, progress: &dyn Progress) {
    let began = Instant::now();
    let Some(range) = SeedRange::new(0, DETERMINISM_SEEDS) else { return };
    let here = sweep(ready, Some(range), JOBS, None, progress, None);
    if progress.stop_requested() {
        return;
    }
    let result = &mut case.result;
    (result.seeds, result.digest, result.events, result.simulated) = (here.seeds, here.digest, here.events, here.simulated);
    result.seed_ranges = here.seed_ranges;
    let there = in_fresh_process(ready, args);
    // Ctrl-C reaches both processes, and half a sweep has another digest.
    if progress.stop_requested() {
        let result = &mut case.result;
        *result = ScenarioResult { config: result.config.take(), ..ScenarioResult::new(&*result.name, &*result.file, []) };
        return;
    }
    let wrong = match there {
        Ok((digest, count)) if digest == here.digest && count == here.seeds => None,
        Ok((digest, count)) => Some((
            ProblemKind::Nondeterminism,
            format!(
                "{} seeds sum up to digest {} with {JOBS} workers, {count} to {digest} in a fresh process with 1 worker",
                here.seeds, here.digest
            ),
        )),
        Err(message) => Some((ProblemKind::Harness, message)),
    };
    if let Some((kind, message)) = wrong {
        match kind {
            ProblemKind::Nondeterminism => result.nondeterministic = 1,
            ProblemKind::Harness => result.broken = 1,
        }
        result.problems = vec![Problem { seed: range.first, kind, message, plan: None }];
    }
    result.wall = Seconds::from(began.elapsed());
}

/// The digest and the number of seeds that a process of its own gives.
fn in_fresh_process(ready: &Ready, args: &GateArgs) -> Result<(Digest, u64), String> {
    let program = std::env::current_exe().map_err(|error| format!("this program does not know its own file: {error}"))?;
    let mut command = Command::new(program);
    command.args(["run", &ready.file, "--variant", &ready.scenario.name, "--seeds", &DETERMINISM_SEEDS.to_string()]);
    command.args(["--jobs", "1", "--format", "json", "--no-plans"]);
    // Only what must hold takes the flags; a negative scenario runs as it is.
    if ready.scenario.expect.is_none() {
        command.args(args.mutation.iter().flat_map(|name| ["--mutation", name]));
        let profile = args.profile.map(Profile::name);
        command.args(profile.into_iter().flat_map(|profile| ["--profile", profile]));
    }
    // The gate is sharded, not its sample.
    let output = command.env_remove("CI_NODE_INDEX").env_remove("CI_NODE_TOTAL").output();
    let output = output.map_err(|error| format!("failed to start a fresh process: {error}"))?;
    let report = RunReport::from_json(&String::from_utf8_lossy(&output.stdout)).map_err(|error| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("a fresh process gave no result ({}): {error}; it says: {}", output.status, said.lines().collect::<Vec<_>>().join(" "))
    })?;
    if report.interrupted {
        return Err("a fresh process was stopped before its end".to_owned());
    }
    match report.scenarios.as_slice() {
        [scenario] => Ok((scenario.digest, scenario.seeds)),
        scenarios => Err(format!("a fresh process ran {} scenarios instead of one", scenarios.len())),
    }
}
