//! Runs the same seeds twice: here with two workers or more, and in a fresh process with one worker.

use std::collections::{BTreeMap, VecDeque};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use ipam_reports::finding::{Problem, ProblemKind};
use ipam_reports::gate::Part;
use ipam_reports::{Digest, GateCase, RunReport, ScenarioResult, Seconds, SeedRange};
use sim_harness::deviation::Profile;
use sim_harness::engine::load::Ready;
use sim_harness::engine::sweep::sweep;

use super::cases::{Case, DETERMINISM_SEEDS, Job};
use super::{Gate, Rates, rates};
use crate::cli::args::GateArgs;

/// The minimum number of workers that run the seeds here: one more than in a fresh process.
const WORKERS: usize = 2;
/// The time that a fresh process takes in addition to its seeds.
const START: Duration = Duration::from_millis(100);

/// The results of the first seeds of scenarios, if they ran for another part of the gate, by the file and the name of the scenario.
type Known = BTreeMap<(String, String), ScenarioResult>;

/// A fresh process that runs the seeds of a case.
struct Fresh<'a> {
    case: &'a mut GateCase,
    /// The result of the seeds in this process.
    here: ScenarioResult,
    process: Result<Child, String>,
}

impl Gate<'_> {
    /// Compares the digests of the first seeds of scenarios with those of fresh processes, as many at a time as there are workers, for at
    /// most `time`. Violations of these seeds are judged elsewhere. `only` selects by index among these cases; finished ones are skipped.
    pub(super) fn compare_with_fresh_processes(&self, cases: &mut [Case], time: Duration, only: impl Fn(usize) -> bool) {
        let until = Instant::now() + time;
        let (rates, known) = (rates(cases), known(cases));
        let mut running = VecDeque::new();
        // The processes overlap: the time of each counts from the end of the previous one.
        let mut began = Instant::now();
        let fresh = cases.iter_mut().filter(|case| matches!(case.job, Job::Fresh(_)));
        for (_, case) in fresh.enumerate().filter(|(place, case)| only(*place) && case.is.result.seeds == 0) {
            let Job::Fresh(ready) = &case.job else { continue };
            if self.is_over() || Instant::now() >= until {
                break;
            }
            if self.takes(ready, &rates) > self.clock.work_left() {
                continue;
            }
            if running.len() >= self.jobs {
                running.pop_front().into_iter().for_each(|fresh| self.end(fresh, &mut began));
            }
            let process = spawn(ready, self.args);
            if let Some(here) = self.here(ready, &known) {
                running.push_back(Fresh { case: &mut case.is, here, process });
            } else if let Ok(mut process) = process {
                // This fails if the process has already ended.
                let _ = process.kill();
                let _ = process.wait();
            }
        }
        running.into_iter().for_each(|fresh| self.end(fresh, &mut began));
    }

    /// The time that the comparison of a scenario takes: about that of its seeds on all workers.
    fn takes(&self, ready: &Ready, rates: &Rates) -> Duration {
        let rate = rates.get(&(ready.file.to_string(), ready.scenario.name.to_string()));
        rate.map_or(Duration::ZERO, |rate| START + Duration::from_secs_f64(self.jobs as f64 * DETERMINISM_SEEDS as f64 / rate))
    }

    /// The result of the seeds in this process; `None` = they were stopped.
    fn here(&self, ready: &Ready, known: &Known) -> Option<ScenarioResult> {
        let known = known.get(&(ready.file.to_string(), ready.scenario.name.to_string()));
        if let Some(known) = known.filter(|_| self.jobs >= WORKERS) {
            return Some(known.clone());
        }
        let range = SeedRange::new(0, DETERMINISM_SEEDS)?;
        let here = sweep(ready, Some(range), WORKERS, None, self.progress, None);
        (!self.progress.stop_requested()).then_some(here)
    }

    /// Waits for a fresh process to end, and compares its result.
    fn end(&self, Fresh { case, here, process }: Fresh<'_>, began: &mut Instant) {
        let there = process.and_then(output).and_then(|output| answer(&output));
        // Ctrl-C reaches all processes, and an incomplete sweep has another digest.
        if self.progress.stop_requested() {
            return;
        }
        let wrong = difference(&here, self.jobs.max(WORKERS), there);
        let result = &mut case.result;
        (result.seeds, result.digest, result.events, result.simulated) = (here.seeds, here.digest, here.events, here.simulated);
        let first = here.seed_ranges.first().map_or(0, |range| range.first);
        result.seed_ranges = here.seed_ranges;
        if let Some((kind, message)) = wrong {
            match kind {
                ProblemKind::Nondeterminism => result.nondeterministic = 1,
                ProblemKind::Harness => result.broken = 1,
            }
            result.problems = vec![Problem { seed: first, kind, message, plan: None }];
        }
        result.wall = Seconds::from(began.elapsed());
        *began = Instant::now();
    }
}

/// The difference between the seeds' result `here`, with this many workers, and `there`, in a fresh process; `None` = no difference.
fn difference(here: &ScenarioResult, workers: usize, there: Result<(Digest, u64), String>) -> Option<(ProblemKind, String)> {
    match there {
        Ok((digest, count)) if digest == here.digest && count == here.seeds => None,
        Ok((digest, count)) => Some((
            ProblemKind::Nondeterminism,
            format!(
                "{} seeds sum up to digest {} with {workers} workers, {count} to {digest} in a fresh process with 1 worker",
                here.seeds, here.digest
            ),
        )),
        Err(message) => Some((ProblemKind::Harness, message)),
    }
}

/// The results of first seeds that ran as the compared ones do: exactly these seeds.
fn known(cases: &[Case]) -> Known {
    let first = |case: &Case| {
        let Job::Sweep(sweep) = &case.job else { return None };
        let first = sweep.first.as_ref().filter(|first| first.seed_ranges.as_slice() == SeedRange::new(0, DETERMINISM_SEEDS).as_slice())?;
        Some(((case.is.result.file.clone(), case.is.result.name.clone()), ScenarioResult::clone(first)))
    };
    cases.iter().filter(|case| matches!(case.is.part, Part::Smoke | Part::Chaos | Part::Negative)).filter_map(first).collect()
}

/// Starts a process that runs the seeds with one worker.
fn spawn(ready: &Ready, args: &GateArgs) -> Result<Child, String> {
    let program = std::env::current_exe().map_err(|error| format!("this program does not know its own file: {error}"))?;
    let mut command = Command::new(program);
    command.args(["run", &ready.file, "--variant", &ready.scenario.name, "--seeds", &DETERMINISM_SEEDS.to_string()]);
    command.args(["--jobs", "1", "--format", "json", "--no-plans"]);
    // The flags apply only to scenarios that must hold; a negative scenario runs unchanged.
    if ready.scenario.expect.is_none() {
        command.args(args.mutation.iter().flat_map(|name| ["--mutation", name]));
        let profile = args.profile.map(Profile::name);
        command.args(profile.into_iter().flat_map(|profile| ["--profile", profile]));
    }
    // The gate is sharded, but not its sample.
    command.env_remove("CI_NODE_INDEX").env_remove("CI_NODE_TOTAL").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().map_err(|error| format!("failed to start a fresh process: {error}"))
}

/// The output of a process, once it has ended.
fn output(process: Child) -> Result<Output, String> {
    process.wait_with_output().map_err(|error| format!("failed to read what a fresh process says: {error}"))
}

/// The digest and the number of seeds in the output of a process.
fn answer(output: &Output) -> Result<(Digest, u64), String> {
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

#[cfg(test)]
mod tests {
    use std::process::ExitStatus;

    use super::*;

    /// The answer of a process that prints this text and succeeds. No process is started: its start would hold the locks of other tests for
    /// a moment.
    fn said(text: &str) -> Result<(Digest, u64), String> {
        answer(&Output { status: ExitStatus::default(), stdout: text.into(), stderr: Vec::new() })
    }

    fn reported(result: &ScenarioResult, interrupted: bool) -> String {
        serde_json::to_string(&RunReport::new(vec![result.clone()], interrupted)).unwrap()
    }

    #[test]
    fn another_digest_in_a_fresh_process_is_nondeterminism_and_no_answer_is_a_bug_of_the_harness() {
        let here = ScenarioResult { seeds: DETERMINISM_SEEDS, digest: Digest(1), ..ScenarioResult::default() };
        assert_eq!(difference(&here, 2, said(&reported(&here, false))), None);

        let other = ScenarioResult { digest: Digest(2), ..here.clone() };
        let (kind, message) = difference(&here, 2, said(&reported(&other, false))).unwrap();
        assert_eq!(kind, ProblemKind::Nondeterminism);
        assert!(message.contains(&format!("{} with 2 workers", Digest(1))) && message.contains(&Digest(2).to_string()), "{message}");
        let fewer = ScenarioResult { seeds: 1, ..here.clone() };
        assert_eq!(difference(&here, 2, said(&reported(&fewer, false))).unwrap().0, ProblemKind::Nondeterminism);

        let (kind, message) = difference(&here, 2, said("killed")).unwrap();
        assert_eq!(kind, ProblemKind::Harness);
        assert!(message.starts_with("a fresh process gave no result"), "{message}");
        assert_eq!(difference(&here, 2, said(&reported(&here, true))).unwrap().0, ProblemKind::Harness);
    }
}
