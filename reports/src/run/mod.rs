//! The result of `run`: the results of each scenario over its seeds. The JSON form is `ipam-sim/run/1`.

mod findings;
mod judge;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub use self::findings::Finding;
pub use self::judge::EXCUSED_AT_MOST;
use crate::coverage::{self, PointCount};
use crate::finding::{
    ClaimCount, ExcuseCount, Failure, FaultCount, JudgedCount, Kind, Problem, ProblemKind, Sometimes, Violation, join_counts, tally,
};
use crate::hunt::Hunt;
use crate::metric::{self, MetricSummary};
use crate::placements::Placements;
use crate::pool::{PoolFigures, PoolRun};
use crate::reclaim::{ReclaimFigures, ReclaimRun};
pub use crate::requests::{Allocations, Api};
use crate::schema::{self, ReadError, RunSchema};
use crate::verdict::Verdict;
use crate::{Digest, Seconds, SeedRange, Shards, exit, fold, seeds};

/// The largest number of failures, and of problems, that a scenario lists. The counts beside the lists are complete.
pub const LISTED_MAX: usize = 20;

/// The number of seeds from which an `always` claim that judged nothing makes a sweep vacuous. Fewer prove nothing, and a user who runs a
/// handful of seeds wants to look at them.
pub const ENOUGH: u64 = 20;
/// The number of plans from which a kind of fault that did nothing in any of them makes a sweep vacuous: some hit one request in a
/// thousand.
pub const ENOUGH_PLANS: u64 = 100;

/// The result of one `run`, of one shard of it, or of several merged shards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    /// The mark of the format, always `ipam-sim/run/1`; reading anything else is an error.
    pub schema: RunSchema,
    /// The build of the program that ran. Digests are comparable within one build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
    /// Whether the user stopped the sweep before its end.
    #[serde(default)]
    pub interrupted: bool,
    /// The shards that this result covers; unset = the whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<Shards>,
    /// The scenarios, in the order in which they ran.
    pub scenarios: Vec<ScenarioResult>,
    /// Sentences on what could not be written; then the exit code is [`exit::USAGE`] at least.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unwritten: Vec<String>,
    /// The exit code of the process; see [`exit`].
    pub exit_code: u8,
}

impl RunReport {
    /// A report with the exit code that follows from its scenarios.
    pub fn new(scenarios: Vec<ScenarioResult>, interrupted: bool) -> Self {
        Self::of_shards(scenarios, interrupted, None)
    }

    /// A report of some shards, with the exit code that follows from its scenarios.
    pub fn of_shards(scenarios: Vec<ScenarioResult>, interrupted: bool, shards: Option<Shards>) -> Self {
        let unwritten = Vec::new();
        let mut report = Self { schema: RunSchema, build: None, interrupted, shards, scenarios, unwritten, exit_code: exit::HELD };
        report.exit_code = report.judge();
        report
    }

    /// The exit code that follows from the scenarios: the worst of their verdicts.
    pub fn judge(&self) -> u8 {
        let interrupted = self.interrupted.then_some(exit::INTERRUPTED);
        let nothing_ran = self.scenarios.is_empty().then_some(exit::VACUOUS);
        let verdicts = self.scenarios.iter().map(|scenario| self.verdict(scenario).exit_code());
        let code = exit::worst(verdicts.chain(interrupted).chain(nothing_ran));
        if self.unwritten.is_empty() { code } else { exit::unwritten(code) }
    }

    /// The verdict on a scenario of this report.
    pub fn verdict(&self, scenario: &ScenarioResult) -> Verdict {
        if self.shards.is_some() { scenario.verdict_of_shard() } else { scenario.verdict() }
    }

    /// Reads the JSON form.
    pub fn from_json(text: &str) -> Result<Self, ReadError> {
        schema::read(text, RunSchema::NAME)
    }
}

/// The results of one scenario over its seeds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScenarioResult {
    /// The scenario's name, which together with `file` identifies it.
    pub name: String,
    /// The file it was read from, as given on the command line.
    pub file: String,
    /// The claim that a negative scenario must violate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<String>,
    /// A hash of everything but the seeds that went into the runs: scenario, manifests, settings, deviations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// Whether it ran on the user's cluster, which need not contain what claims and faults are about: then nothing that was never seen
    /// makes a sweep vacuous.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub brought: bool,
    /// Number of seeds that ran.
    pub seeds: u64,
    /// These seeds: ascending, neighbours joined.
    #[serde(default)]
    pub seed_ranges: Vec<SeedRange>,
    /// The seeds of the whole of which this is a shard; unset = it is no shard, or all shards are present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard_of: Option<SeedRange>,
    /// Number of seeds with a violation that has no excuse.
    pub violated: u64,
    /// Number of seeds with an excused violation.
    pub excused: u64,
    /// Model time, summed over the seeds.
    #[serde(rename = "simulated_s")]
    pub simulated: Seconds,
    /// Real time of the sweep; summed over merged shards, as if one machine had run them one after the other.
    #[serde(rename = "wall_s")]
    pub wall: Seconds,
    /// Requests to the API servers.
    pub api: Api,
    /// Requests for addresses, by outcome.
    pub allocations: Allocations,
    /// Whether no address was given in the whole sweep, though some were asked for, or should have been: held claims then prove little.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_address_given: bool,
    /// Whether the user brought a cluster to this scenario so that its pods get addresses: a sweep in which none asks proves nothing about
    /// it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wants_addresses: bool,
    /// Sentences on parts of the scenario's input that were left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Figures of the instances of a BYOM pool; unset = the scenario has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolFigures>,
    /// Figures of the addresses that Spiderpool's controller reclaimed; unset = nothing is reclaimed in the scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaim: Option<ReclaimFigures>,
    /// The values of the system's metrics, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricSummary>,
    /// Number of trace events.
    pub events: u64,
    /// Sum of [`fold`] over the seeds.
    pub digest: Digest,
    /// The first [`LISTED_MAX`] failures by seed, each claim once per seed; and the first of each claim that has none among these.
    pub failures: Vec<Failure>,
    /// Every claim that was violated without an excuse, with the number of seeds; by name.
    #[serde(default)]
    pub claims: Vec<ClaimCount>,
    /// The violations grouped by cause: see [`ScenarioResult::tell_findings`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// Every excuse that was used; by name.
    #[serde(default)]
    pub excuses: Vec<ExcuseCount>,
    /// The reason why more than one seed of ten may be excused, if the scenario states one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_excused: Option<String>,
    /// Every `sometimes` and `reachable` claim with the number of seeds in which it held; by name.
    pub sometimes: Vec<Sometimes>,
    /// Every kind of fault that was drawn; by name.
    #[serde(default)]
    pub faults: Vec<FaultCount>,
    /// Every `always` claim with the number of seeds in which it judged something; by name.
    #[serde(default)]
    pub always: Vec<JudgedCount>,
    /// Every `eventually` claim with the number of seeds in which it had something to wait for at one of the samples that a run takes now
    /// and then; by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub eventually: Vec<JudgedCount>,
    /// The points of the system under test that its runs reached; sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub coverage: Vec<PointCount>,
    /// The coverage of `--every-crash-point`. Then each crash is a run, and `seeds` counts runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crash_points: Option<CrashPoints>,
    /// The coverage of `--exhaustive`. Then each placement is a run, and `seeds` counts runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placements: Option<Placements>,
    /// The result of a `hunt`. Then each of its plans is a run, and `seeds` counts runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hunt: Option<Hunt>,
    /// Number of seeds with a plan that gave two digests.
    #[serde(default)]
    pub nondeterministic: u64,
    /// Number of seeds in which the harness itself failed.
    #[serde(default)]
    pub broken: u64,
    /// The first [`LISTED_MAX`] by seed of those that are nondeterministic or broken.
    #[serde(default)]
    pub problems: Vec<Problem>,
}

impl ScenarioResult {
    /// A result without seeds. `sometimes` names the claims that must hold in some seed.
    pub fn new(name: impl Into<String>, file: impl Into<String>, sometimes: impl IntoIterator<Item = (String, Kind)>) -> Self {
        let mut sometimes: Vec<_> = sometimes.into_iter().map(|(claim, kind)| Sometimes { claim, kind, held_in: 0 }).collect();
        sometimes.sort();
        Self { name: name.into(), file: file.into(), sometimes, ..Self::default() }
    }

    /// Counts one run. The order of seeds does not matter. The caller fills in `wall` and the plans of `failures`.
    pub fn add(&mut self, record: SeedRecord<'_>) {
        let SeedRecord { seed, digest, simulated, api, allocations, pool, reclaim, metrics, events, .. } = record;
        let SeedRecord { mut violations, held, faults, judged, awaited, coverage, problems, .. } = record;
        self.seeds += 1;
        seeds::insert(&mut self.seed_ranges, seed);
        self.simulated += simulated;
        self.api = self.api.plus(api);
        self.allocations = self.allocations.plus(allocations);
        self.no_address_given = self.gave_no_address();
        if let Some(run) = &pool {
            self.pool.get_or_insert_default().add(run);
        }
        if let Some(run) = &reclaim {
            self.reclaim.get_or_insert_default().add(run);
        }
        metric::join(&mut self.metrics, metrics.iter().filter_map(|&(name, value)| MetricSummary::of_seed(name, value)));
        self.events += events;
        self.digest = self.digest.plus(fold(seed, digest));
        for claim in held {
            match self.sometimes.iter_mut().find(|known| known.claim == *claim) {
                Some(known) => known.held_in += 1,
                None => panic!("`{claim}` held in seed {seed}, but it is not among the `sometimes` claims of {}", self.name),
            }
        }

        for &(fault, fired) in faults {
            let fired_in = u64::from(fired);
            match self.faults.iter_mut().find(|known| known.fault == fault) {
                Some(known) => (known.drawn_in, known.fired_in) = (known.drawn_in + 1, known.fired_in + fired_in),
                None => join_counts(&mut self.faults, [FaultCount { fault: fault.to_owned(), drawn_in: 1, fired_in }]),
            }
        }
        for (counts, claims) in [(&mut self.always, judged), (&mut self.eventually, awaited)] {
            for &(claim, judged) in claims {
                let judged_in = u64::from(judged);
                match counts.iter_mut().find(|known| known.claim == claim) {
                    Some(known) => known.judged_in += judged_in,
                    None => join_counts(counts, [JudgedCount { claim: claim.to_owned(), judged_in }]),
                }
            }
        }
        coverage::add(&mut self.coverage, coverage);

        // One entry per claim (and excuse), the earliest: later violations of one claim are mostly consequences of the first.
        violations.sort_by(|a, b| (&a.excuse, &a.claim, a.at).cmp(&(&b.excuse, &b.claim, b.at)));
        violations.dedup_by(|later, first| later.excuse == first.excuse && later.claim == first.claim);
        self.violated += u64::from(violations.iter().any(|violation| violation.excuse.is_none()));
        self.excused += u64::from(violations.iter().any(|violation| violation.excuse.is_some()));
        for Violation { claim, kind, at, excuse, detail, needs, .. } in violations {
            match excuse {
                Some(excuse) => join_counts(&mut self.excuses, [ExcuseCount { excuse, claim, seeds: 1, first_seed: seed }]),
                None => {
                    join_counts(
                        &mut self.claims,
                        [ClaimCount { seed_ranges: vec![SeedRange { first: seed, last: seed }], ..ClaimCount::of(claim.clone(), kind) }],
                    );
                    let (plan, cause, shrunk) = (None, None, None);
                    self.failures.push(Failure { seed, claim, kind, at, plan, digest: Some(digest), detail, needs, cause, shrunk });
                }
            }
        }
        self.nondeterministic += u64::from(problems.iter().any(|problem| problem.kind == ProblemKind::Nondeterminism));
        self.broken += u64::from(problems.iter().any(|problem| problem.kind == ProblemKind::Harness));
        self.problems.extend(problems);
        self.keep_first();
    }

    /// Adds the seeds of `other`, the result of the same scenario on other seeds: the part of another worker or shard.
    ///
    /// # Panics
    ///
    /// When `other` is another scenario.
    pub fn join(&mut self, other: ScenarioResult) {
        assert_eq!((&self.name, &self.file), (&other.name, &other.file), "only results of one scenario can be joined");
        let told = !self.findings.is_empty() || !other.findings.is_empty();
        self.config = self.config.take().or(other.config);
        self.why_excused = self.why_excused.take().or(other.why_excused);
        self.brought |= other.brought;
        self.shard_of = self.shard_of.or(other.shard_of);
        tally(&mut self.seeds, other.seeds);
        self.seed_ranges.extend(other.seed_ranges);
        seeds::normalize(&mut self.seed_ranges);
        tally(&mut self.violated, other.violated);
        tally(&mut self.excused, other.excused);
        self.simulated += other.simulated;
        self.wall += other.wall;
        self.api = self.api.plus(other.api);
        self.allocations = self.allocations.plus(other.allocations);
        self.wants_addresses |= other.wants_addresses;
        self.no_address_given = self.gave_no_address();
        for sentence in other.left_out {
            if !self.left_out.contains(&sentence) {
                self.left_out.push(sentence);
            }
        }
        if let Some(pool) = &other.pool {
            self.pool.get_or_insert_default().join(pool);
        }
        if let Some(reclaim) = &other.reclaim {
            self.reclaim.get_or_insert_default().join(reclaim);
        }
        metric::join(&mut self.metrics, other.metrics);
        tally(&mut self.events, other.events);
        self.digest = self.digest.plus(other.digest);
        self.failures.extend(other.failures);
        join_counts(&mut self.claims, other.claims);
        join_counts(&mut self.excuses, other.excuses);
        join_counts(&mut self.sometimes, other.sometimes);
        join_counts(&mut self.faults, other.faults);
        join_counts(&mut self.always, other.always);
        join_counts(&mut self.eventually, other.eventually);
        coverage::join(&mut self.coverage, &other.coverage);
        Placements::join_parts(&mut self.placements, other.placements);
        tally(&mut self.nondeterministic, other.nondeterministic);
        tally(&mut self.broken, other.broken);
        self.problems.extend(other.problems);
        self.keep_first();
        if told {
            self.tell_findings();
        }
    }

    fn keep_first(&mut self) {
        self.failures.sort_by(Failure::by_seed_and_time);
        let mut told = BTreeSet::new();
        let mut listed = 0;
        self.failures.retain(|failure| {
            listed += 1;
            // Claims that break seldom must not be lost behind those that break in every seed.
            told.insert(failure.claim.clone()) || listed <= LISTED_MAX
        });
        self.problems.sort();
        self.problems.truncate(LISTED_MAX);
    }

    /// Whether no address was given, though some were asked for, or should have been.
    fn gave_no_address(&self) -> bool {
        let Allocations { attempted, succeeded, .. } = self.allocations;
        self.seeds > 0 && succeeded == 0 && (attempted > 0 || self.wants_addresses)
    }

    /// Seeds per second of real time; `None` when no time was measured.
    pub fn seeds_per_second(&self) -> Option<f64> {
        (self.wall > Seconds::ZERO).then(|| self.seeds as f64 / self.wall.as_f64())
    }

    /// The `sometimes` and `reachable` claims that held in no seed.
    pub fn never_held(&self) -> impl Iterator<Item = &Sometimes> {
        self.sometimes.iter().filter(|claim| claim.held_in == 0)
    }

    /// The kinds of faults that were in [`ENOUGH_PLANS`] plans and did nothing in any of them.
    pub fn never_fired(&self) -> impl Iterator<Item = &FaultCount> {
        self.faults.iter().filter(|fault| fault.fired_in == 0 && fault.drawn_in >= ENOUGH_PLANS)
    }

    /// The `always` claims that were never evaluated on a state that could break them, in [`ENOUGH`] seeds or more.
    pub fn never_judged(&self) -> impl Iterator<Item = &JudgedCount> {
        self.always.iter().filter(|claim| claim.judged_in == 0 && self.seeds >= ENOUGH)
    }
}

/// The crash points of a sweep, and how many were tried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrashPoints {
    /// The number of crash points: two for each write of each process.
    pub points: u64,
    /// The number of crash points that were tried: fewer when time was up.
    pub tried: u64,
    /// The number of runs in which the crash took place. Writes of the liveness phase, in which nothing crashes any more, are not reached.
    pub reached: u64,
    /// Each process in which crashes were to be tried.
    pub processes: Vec<ProcessPoints>,
}

/// The crash points of one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessPoints {
    /// The name of the process, as in faults of a plan.
    pub process: String,
    /// The number of writes that it sent in the dry run.
    pub writes: u64,
    /// The number of its crash points that were reached.
    pub reached: u64,
    /// The number of their runs in which a claim was violated without an excuse.
    pub failed: u64,
}

/// The results of one run, to be added to its scenario's.
#[derive(Clone, Debug, Default)]
pub struct SeedRecord<'a> {
    /// The seed of the run; where one seed gives several runs, the number of the run.
    pub seed: u64,
    /// The digest of the run.
    pub digest: Digest,
    /// Model time at the end of the run.
    pub simulated: Seconds,
    /// Requests to the API servers.
    pub api: Api,
    /// Requests for addresses, by outcome.
    pub allocations: Allocations,
    /// The events at its BYOM pool, if it has one.
    pub pool: Option<PoolRun>,
    /// The addresses that it reclaimed, if it reclaims.
    pub reclaim: Option<ReclaimRun>,
    /// The values of the system's metrics, each with its name.
    pub metrics: &'a [(&'static str, f64)],
    /// Number of trace events.
    pub events: u64,
    /// The violations, excused or not, in any order.
    pub violations: Vec<Violation>,
    /// The `sometimes` and `reachable` claims that held, each once.
    pub held: &'a [String],
    /// The kinds of faults of the plan, each once, with whether one of the kind did something.
    pub faults: &'a [(&'a str, bool)],
    /// The `always` claims of the run, with whether each looked at something that could have been false.
    pub judged: &'a [(&'a str, bool)],
    /// The `eventually` claims of the run, with whether each had something to wait for.
    pub awaited: &'a [(&'a str, bool)],
    /// The points of the system under test that the run reached, each with its group; sorted.
    pub coverage: &'a [(&'a str, &'a str)],
    /// The problems outside the model.
    pub problems: Vec<Problem>,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Verdict;
    use serde_json::{Value, json};

    /// A run that violated `claim` (if any), with fixed numbers.
    pub(crate) fn record(seed: u64, claim: Option<(&str, Kind)>) -> SeedRecord<'static> {
        SeedRecord {
            seed,
            digest: Digest(u128::from(seed) << 64 | 1),
            simulated: Seconds::from_micros(30_000_001),
            api: Api { requests: 10, writes: 4, conflicts: 1, retries_exhausted: 0 },
            allocations: Allocations { attempted: 3, succeeded: 2, failed: 1 },
            events: 100,
            violations: claim.into_iter().map(|(claim, kind)| violation(claim, kind, None)).collect(),
            ..SeedRecord::default()
        }
    }

    pub(crate) fn violation(claim: &str, kind: Kind, excuse: Option<&str>) -> Violation {
        let at = Seconds::from_micros(41_207_000);
        Violation { claim: claim.into(), kind, at, event: None, excuse: excuse.map(str::to_owned), detail: vec![], needs: None }
    }

    /// The contract of the design, section 6: names and types of the stable fields.
    #[test]
    fn the_json_has_the_documented_fields() {
        let mut scenario = ScenarioResult::new("s", "scenarios/smoke/s.toml", [("point-is-passed".to_owned(), Kind::Reachable)]);
        scenario.add(record(1, Some(("no-address-has-two-owners", Kind::Always))));
        scenario.failures[0].plan = Some("target/ipam-sim/s-1.toml".into());
        scenario.wall = Seconds::from_micros(500_000);
        let value = serde_json::to_value(RunReport::new(vec![scenario], false)).unwrap();
        let documented = json!({"schema":"ipam-sim/run/1",
            "scenarios":[{"name":"s","file":"scenarios/smoke/s.toml","seeds":1,"violated":1,"excused":0,
                "simulated_s":30.000001,"wall_s":0.5,
                "api":{"requests":10,"writes":4,"conflicts":1,"retries_exhausted":0},
                "allocations":{"attempted":3,"succeeded":2,"failed":1},
                "events":100,"digest": fold(1, Digest((1 << 64) | 1)).to_string(),
                "failures":[{"seed":1,"claim":"no-address-has-two-owners","kind":"always","at_s":41.207,"plan":"target/ipam-sim/s-1.toml"}],
                "sometimes":[{"claim":"point-is-passed","kind":"reachable","held_in":0}]}],
            "exit_code":1});
        assert_contains(&value, &documented, "$");
    }

    /// Checks that everything in `part` is in `whole`, with the same value.
    fn assert_contains(whole: &Value, part: &Value, path: &str) {
        match (whole, part) {
            (Value::Object(whole), Value::Object(part)) => {
                for (key, part) in part {
                    let path = format!("{path}.{key}");
                    assert_contains(whole.get(key).unwrap_or_else(|| panic!("{path} is missing")), part, &path);
                }
            }
            (Value::Array(whole), Value::Array(part)) => {
                assert_eq!(whole.len(), part.len(), "{path}");
                whole.iter().zip(part).for_each(|(whole, part)| assert_contains(whole, part, path));
            }
            _ => assert_eq!(whole, part, "{path}"),
        }
    }

    #[test]
    fn a_reader_skips_unknown_fields_and_does_without_later_ones() {
        let documented_only = r#"{"schema":"ipam-sim/run/1","weather":"fair",
            "scenarios":[{"name":"s","file":"f","seeds":2,"violated":1,"excused":0,"simulated_s":1,"wall_s":0.5,
              "api":{"requests":0,"writes":0,"conflicts":0,"retries_exhausted":0,"throttled":7},
              "allocations":{"attempted":0,"succeeded":0,"failed":0},
              "events":0,"digest":"0000000000000000000000000000000a",
              "failures":[{"seed":1,"claim":"c","kind":"eventually","at_s":2.5,"plan":"p"}],
              "sometimes":[]}],
            "exit_code":3}"#;
        let report = RunReport::from_json(documented_only).unwrap();
        assert_eq!(report.scenarios[0].simulated, Seconds::from_micros(1_000_000));
        assert_eq!(report.judge(), exit::NOT_EVENTUALLY);
    }

    #[test]
    fn what_is_written_reads_back() {
        let mut scenario = ScenarioResult::new("s", "f", [("c".to_owned(), Kind::Sometimes)]);
        scenario.add(SeedRecord { held: &["c".to_owned()], ..record(u64::MAX, Some(("a", Kind::Always))) });
        let report = RunReport::new(vec![scenario], true);
        assert_eq!(RunReport::from_json(&serde_json::to_string(&report).unwrap()).unwrap(), report);
    }

    #[test]
    fn another_schema_is_named() {
        let error = RunReport::from_json(r#"{"schema":"ipam-sim/replay/1"}"#).unwrap_err();
        assert_eq!(error.reason, "the schema is `ipam-sim/replay/1`, expected `ipam-sim/run/1`");
        let error = RunReport::from_json("{}").unwrap_err();
        assert_eq!(error.reason, "there is no field `schema`, expected `ipam-sim/run/1`");
        let error = RunReport::from_json("{\n  oops").unwrap_err();
        assert_eq!((error.line, error.column, error.reason.as_str()), (2, 3, "key must be a string"));
    }

    #[test]
    fn one_claim_counts_once_per_seed_at_its_earliest_time() {
        let mut scenario = ScenarioResult::new("s", "f", []);
        let mut late = violation("c", Kind::Always, None);
        late.at = Seconds::from_micros(99_000_000);
        let violations = vec![late, violation("c", Kind::Always, None), violation("c", Kind::Always, Some("partition"))];
        scenario.add(SeedRecord { violations, ..record(3, None) });
        assert_eq!((scenario.violated, scenario.excused, scenario.failures.len()), (1, 1, 1));
        assert_eq!(scenario.failures[0].at, Seconds::from_micros(41_207_000));
        assert_eq!(
            scenario.claims,
            [ClaimCount { seed_ranges: vec![SeedRange { first: 3, last: 3 }], ..ClaimCount::of("c".into(), Kind::Always) }]
        );
        assert_eq!(scenario.excuses, [ExcuseCount { excuse: "partition".into(), claim: "c".into(), seeds: 1, first_seed: 3 }]);
    }

    #[test]
    fn the_first_twenty_failures_are_listed_and_all_are_counted() {
        let mut scenario = ScenarioResult::new("s", "f", []);
        for seed in (0..50).rev() {
            scenario.add(record(seed, Some(("c", Kind::Always))));
        }
        assert_eq!(scenario.failures.iter().map(|failure| failure.seed).collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
        assert_eq!((scenario.violated, scenario.claims[0].seeds), (50, 50));
    }

    #[test]
    fn a_fault_that_never_fires_and_a_claim_that_judges_nothing_make_a_sweep_vacuous() {
        let sweep = |seeds: u64, fires_in: Option<u64>, judges_in: Option<u64>| {
            let mut shards = [ScenarioResult::new("s", "f", []), ScenarioResult::new("s", "f", [])];
            for seed in 0..seeds {
                let (faults, judged) = ([("hold", fires_in == Some(seed))], [("c", judges_in == Some(seed))]);
                shards[(seed % 2) as usize].add(SeedRecord { faults: &faults, judged: &judged, ..record(seed, None) });
            }
            let [mut whole, other] = shards;
            whole.join(other);
            whole
        };
        assert_eq!(sweep(ENOUGH, Some(3), Some(4)).verdict(), Verdict::Held);
        let idle = sweep(ENOUGH_PLANS, None, Some(4));
        assert_eq!(idle.verdict(), Verdict::Vacuous);
        assert_eq!(idle.never_fired().collect::<Vec<_>>(), [&FaultCount { fault: "hold".into(), drawn_in: ENOUGH_PLANS, fired_in: 0 }]);
        assert_eq!(sweep(ENOUGH_PLANS - 1, None, Some(4)).verdict(), Verdict::Held, "a rare fault may miss");
        let blind = sweep(ENOUGH, Some(3), None);
        assert_eq!(blind.verdict(), Verdict::Vacuous);
        let brought = ScenarioResult { brought: true, ..blind.clone() };
        assert_eq!(brought.verdict(), Verdict::Held, "the user's cluster need not show it");
        assert_eq!(blind.never_judged().count(), 1);
        assert_eq!(sweep(ENOUGH - 1, None, None).verdict(), Verdict::Held, "a handful of seeds proves nothing");
    }

    #[test]
    fn what_eventually_claims_waited_for_is_counted_and_makes_no_sweep_vacuous() {
        let mut shards = [ScenarioResult::new("s", "f", []), ScenarioResult::new("s", "f", [])];
        for seed in 0..ENOUGH {
            let awaited = [("b", seed < 3), ("a", false)];
            shards[(seed % 2) as usize].add(SeedRecord { awaited: &awaited, ..record(seed, None) });
        }
        let [mut whole, other] = shards;
        whole.join(other);
        let count = |claim: &str, judged_in| JudgedCount { claim: claim.to_owned(), judged_in };
        assert_eq!((&*whole.eventually, whole.verdict()), (&[count("a", 0), count("b", 3)][..], Verdict::Held));
        assert!(whole.always.is_empty());
    }
}
