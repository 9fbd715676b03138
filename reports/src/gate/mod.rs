//! The result of `gate`: all checks of a change, case by case. The JSON form is `ipam-sim/gate/1`.
//!
//! Each case is judged by its [`ScenarioResult`], even if it is not a scenario: a kept plan is a sweep over one seed. [`junit()`],
//! [`markdown()`] and [`annotations()`] report the same to a CI system.

mod cause;
mod coverage;
mod github;
mod junit;
mod markdown;
mod score;

pub use cause::Told;
pub use github::annotations;
pub use junit::junit;
pub use markdown::markdown;
pub use score::SCORE_RUNS;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::command::replay_command;
use crate::coverage::Expected;
use crate::finding::Failure;
use crate::schema::{self, GateSchema, ReadError};
use crate::{RunReport, ScenarioResult, Seconds, Shards, Verdict, exit, human};

/// Renders a case at length: its failure blocks, as `run` prints them. The caller defines their layout.
pub type Story<'a> = &'a dyn Fn(&GateCase, Verdict) -> Vec<String>;

/// The result of one `gate`, of one shard of it, or of several merged shards.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GateReport {
    /// The mark of the format, always `ipam-sim/gate/1`; reading anything else is an error.
    pub schema: GateSchema,
    /// The build of the program that ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
    /// Whether the user stopped the gate before its end.
    #[serde(default)]
    pub interrupted: bool,
    /// The shards that this result covers; unset = the whole gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<Shards>,
    /// The budget of real time; summed over merged shards.
    #[serde(rename = "budget_s")]
    pub budget: Seconds,
    /// The real time used; summed over merged shards.
    #[serde(rename = "wall_s")]
    pub wall: Seconds,
    /// The cases by part, and within a part in the order of files.
    pub cases: Vec<GateCase>,
    /// The points that runs which must hold have to reach; unset = not specified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Expected>,
    /// Further remarks for the reader, a sentence each.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// The exit code of the process; see [`exit`].
    pub exit_code: u8,
}

/// One check of a gate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GateCase {
    /// The part of the gate to which it belongs.
    pub part: Part,
    /// Its place in its part, from 0, the same in every shard.
    pub number: u32,
    /// The name of the scenario, plan or deviation.
    pub name: String,
    /// The number of seeds to run, at most; those of the shard if the part is cut by seeds.
    pub planned: u64,
    /// The number of seeds that must run before it is judged; those of the shard if the part is cut by seeds. 0 = any.
    #[serde(default)]
    pub required: u64,
    /// The reason why it was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
    /// The result of the case.
    pub result: ScenarioResult,
}

/// The parts of a gate, in the order in which they are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Plans that once failed hold now.
    Regressions,
    /// Plans give the digests that are kept with them.
    Digests,
    /// Seeds give the same digest in a fresh process with another number of workers.
    Determinism,
    /// Scenarios that hold, mostly without faults.
    Smoke,
    /// Scenarios that hold although much goes wrong.
    Chaos,
    /// Scenarios that must violate their claim.
    Negative,
    /// The negative scenarios without the mutations that make them fail: they must hold.
    Control,
    /// Deviations that must be found, each on its own seeds.
    KillMatrix,
    /// Deviations, a share of which must be noticed by scenarios that must hold and were not written for them.
    MutationScore,
    /// Points that runs of smoke and chaos scenarios have to reach.
    Coverage,
    /// A plain `run`, shown as a gate that has just this part.
    #[default]
    Sweep,
}

impl Part {
    /// Its name in JSON and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Part::Regressions => "regressions",
            Part::Digests => "digests",
            Part::Determinism => "determinism",
            Part::Smoke => "smoke",
            Part::Chaos => "chaos",
            Part::Negative => "negative",
            Part::Control => "control",
            Part::KillMatrix => "kill-matrix",
            Part::MutationScore => "mutation-score",
            Part::Coverage => "coverage",
            Part::Sweep => "sweep",
        }
    }

    /// Whether its cases are scenarios that must hold.
    pub const fn must_hold(self) -> bool {
        matches!(self, Part::Smoke | Part::Chaos)
    }

    /// Whether its cases are a sample: a tenth of them suffices where time is short.
    pub const fn is_sample(self) -> bool {
        matches!(self, Part::Determinism | Part::Control | Part::KillMatrix)
    }

    /// Whether each shard runs some seeds of every case. Of the other parts each shard runs some cases.
    pub const fn is_cut_by_seeds(self) -> bool {
        matches!(self, Part::Smoke | Part::Chaos | Part::Control | Part::Sweep)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The cases of one part, summed up.
#[derive(Clone, Debug, PartialEq)]
pub struct PartSum {
    /// The part whose cases are summed up.
    pub part: Part,
    /// The number of its cases.
    pub cases: u64,
    /// The number of seeds that ran.
    pub seeds: u64,
    /// The real time that they took.
    pub wall: Seconds,
    /// The number of cases with each verdict, the worst first.
    pub verdicts: Vec<(Verdict, u64)>,
}

impl PartSum {
    /// Seeds per second of real time; `None` when no time was measured.
    pub fn seeds_per_second(&self) -> Option<f64> {
        (self.wall > Seconds::ZERO).then(|| self.seeds as f64 / self.wall.as_f64())
    }

    /// The verdict of the part: that of its worst case.
    pub fn verdict(&self) -> Verdict {
        self.verdicts.first().map_or(Verdict::NotRun, |&(verdict, _)| verdict)
    }
}

impl GateReport {
    /// The exit code that follows from the cases: the worst of their verdicts.
    pub fn judge(&self) -> u8 {
        let interrupted = self.interrupted.then_some(exit::INTERRUPTED);
        // A shard may well have no cases.
        let nothing_ran = (self.cases.is_empty() && self.shards.is_none()).then_some(exit::VACUOUS);
        exit::worst(self.cases.iter().map(|case| self.verdict(case).exit_code()).chain(interrupted).chain(nothing_ran))
    }

    /// The verdict of a case of this gate.
    ///
    /// A case that the budget cut off did not run: it neither held, nor was it vacuous. A case that ran all required seeds is judged by
    /// these, but a claim that was to be seen, and was not, is not judged before all of its seeds ran: on a faster machine it might be
    /// seen. Of a sample some cases suffice.
    pub fn verdict(&self, case: &GateCase) -> Verdict {
        let cut = case.skipped.is_none() && case.result.seeds < case.planned;
        let covered = case.result.seeds >= case.required;
        let elsewhere = self.shards.is_some() && case.part.is_cut_by_seeds();
        let undecided = || if case.part.is_sample() && self.sample_suffices(case.part) { Verdict::LeftOut } else { Verdict::Incomplete };
        let of_score = case.part == Part::MutationScore;
        match case.result.verdict() {
            Verdict::NotRun | Verdict::NotFound if of_score && cut => Verdict::LeftOut,
            // The score is that of the whole gate.
            Verdict::NotFound if of_score && self.shards.is_some() => Verdict::Open,
            Verdict::NotFound if of_score && self.notices_enough() => Verdict::NotNoticed,
            Verdict::NotRun if case.skipped.is_some() || case.planned == 0 => Verdict::Open,
            Verdict::NotRun => undecided(),
            Verdict::NotFound if cut => undecided(),
            Verdict::NotFound if elsewhere => Verdict::Open,
            Verdict::Vacuous if cut => undecided(),
            Verdict::Vacuous | Verdict::ExcusedTooOften if elsewhere => Verdict::Open,
            Verdict::Held if cut && !covered => undecided(),
            Verdict::Held if cut => Verdict::CutShort,
            verdict => verdict,
        }
    }

    /// Whether enough cases of a sample ran to the end.
    fn sample_suffices(&self, part: Part) -> bool {
        let of_part = self.cases.iter().filter(|case| case.part == part && case.skipped.is_none() && case.planned > 0);
        let (cases, ended) = of_part.fold((0, 0), |(cases, ended), case| {
            let verdict = case.result.verdict();
            let undecided = matches!(verdict, Verdict::NotRun | Verdict::NotFound | Verdict::Vacuous) || case.result.seeds < case.required;
            (cases + 1, ended + u64::from(!undecided || case.result.seeds >= case.planned))
        });
        ended >= sample_of(cases)
    }

    /// The number of seeds of a case that should have run and did not: the budget was too small.
    pub fn left_out(&self, case: &GateCase) -> u64 {
        if case.skipped.is_some() || self.verdict(case) == Verdict::Found { 0 } else { case.planned.saturating_sub(case.result.seeds) }
    }

    /// Sentences on what was left out and need not have run, for each part and each way. The rest is in [`GateReport::incomplete`].
    pub fn left_out_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for case in &self.cases {
            if let Some(why) = &case.skipped {
                lines.push(format!("{} {}: {why}", case.part, case.name));
            }
        }
        for part in self.parts() {
            if part.part == Part::Coverage {
                continue;
            }
            let of_part: Vec<&GateCase> = self.cases.iter().filter(|case| case.part == part.part).collect();
            let is_short = |case: &&GateCase| self.left_out(case) > 0 && self.verdict(case) != Verdict::Incomplete;
            let short: Vec<&GateCase> = of_part.iter().copied().filter(is_short).collect();
            let (none, some): (Vec<&GateCase>, Vec<&GateCase>) = short.into_iter().partition(|case| case.result.seeds == 0);
            let (name, total) = (part.part, human::plural(of_part.len() as u64, "case", "cases"));
            if !none.is_empty() {
                lines.push(format!("{name}: {} of {total} did not run: {}", human::count(none.len() as u64), named(&none)));
            }
            if !some.is_empty() {
                let left: u64 = some.iter().map(|case| self.left_out(case)).fold(0, u64::saturating_add);
                let planned = some.iter().map(|case| case.planned).fold(0, u64::saturating_add);
                let (left, planned) = (human::count(left), human::plural(planned, "seed", "seeds"));
                let cases = human::plural(some.len() as u64, "case", "cases");
                lines.push(format!("{name}: {left} of {planned} of {cases} did not run: {}", named(&some)));
            }
        }
        if let Some(shards) = self.shards.as_ref().filter(|shards| shards.missing_total() > 0) {
            let named: Vec<_> = shards.missing().take(SHARDS_NAMED_MAX).map(|index| index.to_string()).collect();
            let more = if shards.missing_total() as usize > named.len() { ", ..." } else { "" };
            let what = if named.len() == 1 { "shard" } else { "shards" };
            lines.push(format!("{what} {}{more} of {}", named.join(", "), shards.total));
        }
        lines
    }

    /// The parts that had to run and did not, for want of time, each with a sentence about it.
    pub fn incomplete(&self) -> Vec<(Part, String)> {
        let mut found = Vec::new();
        for PartSum { part, verdicts, cases, .. } in self.parts() {
            let count = verdicts.iter().find(|(verdict, _)| *verdict == Verdict::Incomplete).map_or(0, |&(_, count)| count);
            if count == 0 {
                continue;
            }
            let short: Vec<&GateCase> =
                self.cases.iter().filter(|case| case.part == part && self.verdict(case) == Verdict::Incomplete).collect();
            let (ran, asked) = short.iter().fold((0u64, 0u64), |(ran, asked), case| {
                (ran.saturating_add(case.result.seeds), asked.saturating_add(case.required.max(1)))
            });
            let of = format!("{} of {}", human::count(count), human::plural(cases, "case", "cases"));
            let must = if part.is_sample() {
                format!("{} must come to an end", human::count(sample_of(cases)))
            } else if asked > ran {
                format!("{} of the {} that they must run are missing", human::count(asked - ran), human::plural(asked, "seed", "seeds"))
            } else {
                "what they must see was not seen yet".to_owned()
            };
            found.push((part, format!("{of} could not be judged, {must}: {}", named(&short))));
        }
        found
    }

    /// The parts that there are, in order.
    pub fn parts(&self) -> Vec<PartSum> {
        let mut parts: Vec<PartSum> = Vec::new();
        let mut cases: Vec<&GateCase> = self.cases.iter().collect();
        cases.sort_by_key(|case| case.part);
        for case in cases {
            if parts.last().is_none_or(|last| last.part != case.part) {
                parts.push(PartSum { part: case.part, cases: 0, seeds: 0, wall: Seconds::ZERO, verdicts: Vec::new() });
            }
            let sum = parts.last_mut().expect("one was just pushed");
            sum.cases += 1;
            sum.seeds = sum.seeds.saturating_add(case.result.seeds);
            sum.wall += case.result.wall;
            let verdict = self.verdict(case);
            match sum.verdicts.iter_mut().find(|(known, _)| *known == verdict) {
                Some((_, count)) => *count += 1,
                None => sum.verdicts.push((verdict, 1)),
            }
        }
        for sum in &mut parts {
            sum.verdicts.sort_by_key(|&(verdict, _)| badness(verdict));
        }
        parts
    }

    /// The failing cases. Those that could not be judged are in [`GateReport::incomplete`].
    pub fn failures(&self) -> impl Iterator<Item = (&GateCase, Verdict)> {
        let judged = self.cases.iter().map(|case| (case, self.verdict(case)));
        judged.filter(|(_, verdict)| verdict.exit_code() != exit::HELD && *verdict != Verdict::Incomplete)
    }

    /// The number of seeds that ran in all parts.
    pub fn seeds(&self) -> u64 {
        // The seeds of the coverage are counted where they ran.
        let ran = self.cases.iter().filter(|case| case.part != Part::Coverage);
        ran.fold(0, |sum, case| sum.saturating_add(case.result.seeds))
    }

    /// A sentence about the whole gate: the numbers of cases that failed and that could not be judged, and what ran in which time.
    pub fn summary(&self) -> String {
        let failed = self.failures().count() as u64;
        let unjudged = self.cases.iter().filter(|case| self.verdict(case) == Verdict::Incomplete).count() as u64;
        let cases = human::plural(self.cases.len() as u64, "case", "cases");
        let seeds = human::plural(self.seeds(), "seed", "seeds");
        let rate = if self.wall > Seconds::ZERO { human::rate(self.seeds() as f64 / self.wall.as_f64()) } else { "0".to_owned() };
        let of = match (failed, unjudged) {
            (0, 0) => format!("{cases},"),
            (0, unjudged) => format!("{} of {cases} could not be judged;", human::count(unjudged)),
            (failed, 0) => format!("{} of {cases} failed;", human::count(failed)),
            (failed, unjudged) => {
                format!("{} of {cases} failed and {} could not be judged;", human::count(failed), human::count(unjudged))
            }
        };
        format!("{of} {seeds} in {} ({rate} seeds/s) of {}", human::duration(self.wall), human::duration(self.budget))
    }

    /// The word before [`GateReport::summary`].
    pub fn headline(&self) -> &'static str {
        match self.exit_code {
            exit::HELD => "Passed",
            exit::VIOLATED | exit::NOT_EVENTUALLY => "Failed",
            exit::VACUOUS => "Vacuous",
            exit::INCOMPLETE => "Incomplete",
            exit::NONDETERMINISTIC => "Nondeterministic",
            exit::USAGE => "Not written",
            code if exit::is_interruption(code) => "Interrupted",
            _ => "Harness bug",
        }
    }

    /// Reads the JSON form.
    pub fn from_json(text: &str) -> Result<Self, ReadError> {
        schema::read(text, GateSchema::NAME)
    }
}

/// The inverse of the share of a sample's cases that must run to the end.
const SAMPLE: u64 = 10;
/// The largest number of cases that a sentence names.
const CASES_NAMED_MAX: usize = 8;

/// The largest number of missing shards that are named.
const SHARDS_NAMED_MAX: usize = 10;

/// A `run` as a gate with one part, so that it can be shown in the same ways.
impl From<RunReport> for GateReport {
    fn from(run: RunReport) -> Self {
        let RunReport { build, interrupted, shards, scenarios, exit_code, .. } = run;
        let wall: Seconds = scenarios.iter().map(|scenario| scenario.wall).sum();
        let case = |(number, result): (u32, ScenarioResult)| GateCase {
            part: Part::Sweep,
            number,
            name: result.name.clone(),
            planned: result.seeds,
            required: 0,
            skipped: None,
            result,
        };
        let cases = (0..).zip(scenarios).map(case).collect();
        Self { build, interrupted, shards, budget: wall, wall, cases, exit_code, ..Self::default() }
    }
}

impl GateCase {
    /// A description of the result, in a line.
    pub fn message(&self, verdict: Verdict) -> String {
        let result = &self.result;
        let seeds = human::plural(result.seeds, "seed", "seeds");
        match verdict {
            Verdict::Held => format!("held in {seeds}"),
            Verdict::Found => format!("fails as it must, after {seeds}"),
            Verdict::Open => self.skipped.clone().unwrap_or_else(|| format!("open after {seeds}")),
            Verdict::NotRun => "no seed ran: nothing is proved".to_owned(),
            Verdict::CutShort => format!("held in {seeds}; {} more did not run", human::count(self.planned.saturating_sub(result.seeds))),
            Verdict::Incomplete | Verdict::LeftOut => {
                format!("only {seeds} of {} ran: nothing is known", human::count(self.planned))
            }
            Verdict::NotFound | Verdict::NotNoticed if self.part == Part::MutationScore => {
                format!("no scenario that must hold noticed it in {}", human::plural(result.seeds, "run", "runs"))
            }
            Verdict::NotFound | Verdict::NotNoticed => {
                let claim = result.expect.as_deref().unwrap_or("its claim");
                let excused = if result.excused > 0 { format!(", and excused in {}", human::count(result.excused)) } else { String::new() };
                format!("{claim} is not violated in {seeds}{excused}")
            }
            Verdict::ExcusedTooOften => {
                format!("{} of {seeds} are excused, and the scenario does not say why", human::count(result.excused))
            }
            Verdict::Vacuous => {
                let never: Vec<_> = result.never_held().map(|claim| claim.claim.as_str()).collect();
                if never.is_empty() {
                    format!("vacuous in {seeds}")
                } else if self.part == Part::Coverage {
                    format!("not reached in {seeds}: {}", never.join(", "))
                } else {
                    format!("vacuous: {} held in none of {seeds}", never.join(", "))
                }
            }
            Verdict::Nondeterministic | Verdict::Broken => {
                let problem = result.problems.iter().min_by_key(|problem| std::cmp::Reverse(problem.kind));
                let told = |problem: &crate::finding::Problem| format!("seed {}: {}", problem.seed, problem.message.replace('\n', " "));
                problem.map_or_else(|| "no details".to_owned(), told)
            }
            Verdict::Violated | Verdict::NotEventually => match self.leading_failure() {
                Some(failure) => {
                    let violated = human::count(result.violated);
                    format!("{} is violated in seed {} at {}; {violated} of {seeds} fail", failure.claim, failure.seed, failure.at)
                }
                None => format!("violated in {}", human::plural(result.violated, "seed", "seeds")),
            },
        }
    }

    /// The failure that the terminal reports first, too: the one that hurts users most, of the seed that was examined.
    fn leading_failure(&self) -> Option<&Failure> {
        let findings = self.result.sorted_findings();
        findings.iter().find_map(|finding| finding.failure(&self.result)).or_else(|| self.result.failures.first())
    }

    /// The command that reproduces the failure.
    pub fn replay(&self) -> Option<String> {
        let result = &self.result;
        let problem = result.problems.first().map(|problem| (problem.plan.as_deref(), problem.seed));
        let failure = self.leading_failure().map(|failure| {
            let small = failure.shrunk.as_ref().and_then(|shrunk| shrunk.plan.as_deref());
            (small.or(failure.plan.as_deref()), failure.seed)
        });
        let (plan, seed) = problem.or(failure)?;
        let command = replay_command(plan, &result.file, seed);
        // A file may hold several scenarios.
        Some(if plan.is_none() { command.replacen(" --seed", &format!(" --variant {} --seed", result.name), 1) } else { command })
    }
}

/// The number of cases that must run to the end, of a sample of this size.
fn sample_of(cases: u64) -> u64 {
    cases.div_ceil(SAMPLE)
}

/// The names of some cases.
fn named(cases: &[&GateCase]) -> String {
    let mut names: Vec<&str> = cases.iter().take(CASES_NAMED_MAX).map(|case| case.name.as_str()).collect();
    if cases.len() > names.len() {
        names.push("...");
    }
    names.join(", ")
}

/// The sort key of a verdict, in order of precedence of exit codes; what did not run comes before what is right.
fn badness(verdict: Verdict) -> (usize, u8) {
    let rank = exit::PRECEDENCE.iter().position(|&code| code == verdict.exit_code()).unwrap_or(0);
    let among_right = match verdict {
        Verdict::LeftOut => 0,
        Verdict::Open => 1,
        Verdict::CutShort => 2,
        Verdict::NotNoticed => 4,
        _ => 3,
    };
    (rank, among_right)
}

/// A verdict in a word or two.
pub fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Held => "held",
        Verdict::Found => "found",
        Verdict::Violated => "violated",
        Verdict::NotFound => "not found",
        Verdict::NotNoticed => "not noticed",
        Verdict::NotEventually => "not eventually",
        Verdict::ExcusedTooOften => "excused too often",
        Verdict::Vacuous => "vacuous",
        Verdict::NotRun | Verdict::LeftOut => "not run",
        Verdict::Incomplete => "not judged",
        Verdict::CutShort => "held in fewer seeds",
        Verdict::Open => "open",
        Verdict::Nondeterministic => "nondeterministic",
        Verdict::Broken => "harness bug",
    }
}

#[cfg(test)]
mod tests;
