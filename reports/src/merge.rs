//! Joins the results of shards into the one that a single machine would have given.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use crate::finding::Failure;
use crate::gate::{GateCase, GateReport, Part};
use crate::run::{RunReport, ScenarioResult};
use crate::shards::{Shards, ShardsError};
use crate::shrink::cause_class;
use crate::{SeedRange, exit, seeds};

/// The reason why results do not fit together. Numbers are positions in the merged list, from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeError {
    /// There are no results to merge.
    Nothing,
    /// One result holds the same scenario twice.
    Twice {
        /// The result that has it twice.
        result: usize,
        /// Name of the scenario, with its file in parentheses.
        scenario: String,
    },
    /// A scenario is in one result, but not in another.
    Missing {
        /// Name of the scenario that is missing, with its file in parentheses.
        scenario: String,
        /// A result that contains it.
        present: usize,
        /// A result that lacks it.
        absent: usize,
    },
    /// Two results come from different builds of the program, whose digests cannot be compared.
    Build {
        /// The two results, each with its build.
        results: [(usize, String); 2],
    },
    /// Two results ran one scenario with different settings, manifests or deviations.
    Config {
        /// Name of the scenario that was configured differently, with its file in parentheses.
        scenario: String,
        /// The two results, each with its configuration.
        results: [(usize, String); 2],
    },
    /// A result is that of a hunt, which cannot be merged.
    Hunt {
        /// The name of the scenario that was searched.
        scenario: String,
        /// The position of the result.
        result: usize,
    },
    /// Two results disagree about the claim that a negative scenario must violate.
    Expect {
        /// Name of the scenario, with its file in parentheses.
        scenario: String,
        /// The two results, each with its expectation.
        results: [(usize, String); 2],
    },
    /// Two results are parts of wholes that were cut differently.
    Cut {
        /// The two results, each with its total number of shards.
        results: [(usize, u32); 2],
    },
    /// Two results are the same shard.
    Shard {
        /// The number of the shard, from 1.
        index: u32,
        /// The two results, the earlier one first.
        results: [usize; 2],
    },
    /// Two results are shards of different seeds.
    Whole {
        /// The scenario whose shards these are.
        scenario: String,
        /// The two results, each with the seeds that all its shards have together.
        results: [(usize, SeedRange); 2],
    },
    /// Two results both ran these seeds.
    Overlap {
        /// Name of the scenario that both ran, with its file in parentheses.
        scenario: String,
        /// The seeds that they share.
        seeds: SeedRange,
        /// The two results, the earlier one first.
        results: [usize; 2],
    },
}

impl MergeError {
    /// The error in a sentence, with results called by `name` (usually their file).
    pub fn explain(&self, name: impl Fn(usize) -> String) -> String {
        let differ = |what: &str, results: &[(usize, String); 2]| {
            let [(a, left), (b, right)] = results;
            format!("{what}: {left} in {}, {right} in {}", name(*a), name(*b))
        };
        match self {
            MergeError::Nothing => "there is no result to merge".to_owned(),
            MergeError::Twice { result, scenario } => format!("{} holds {scenario} twice", name(*result)),
            MergeError::Missing { scenario, present, absent } => {
                format!("{scenario} is in {}, but not in {}; shards must run the same scenarios", name(*present), name(*absent))
            }
            MergeError::Build { results } => differ("the results come from different builds", results),
            MergeError::Config { scenario, results } => differ(&format!("{scenario} ran with different configurations"), results),
            MergeError::Hunt { scenario, result } => {
                format!("{} is a hunt of {scenario}: give `hunt` the corpora of several with --corpus", name(*result))
            }
            MergeError::Expect { scenario, results } => differ(&format!("{scenario} must violate different claims"), results),
            MergeError::Cut { results: [(a, left), (b, right)] } => {
                format!("the whole was cut differently: into {left} shards in {}, into {right} in {}", name(*a), name(*b))
            }
            MergeError::Whole { scenario, results: [(a, left), (b, right)] } => {
                let (a, b) = (name(*a), name(*b));
                format!("the shards of {scenario} divide different seeds: {left} in {a}, {right} in {b}")
            }
            MergeError::Shard { index, results: [a, b] } => format!("{} and {} are both shard {index}", name(*a), name(*b)),
            MergeError::Overlap { scenario, seeds, results: [a, b] } => {
                let seeds = if seeds.count() == 1 { format!("seed {seeds}") } else { format!("seeds {seeds}") };
                format!("{} and {} both ran {seeds} of {scenario}", name(*a), name(*b))
            }
        }
    }
}

impl fmt::Display for MergeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.explain(|index| format!("result {}", index + 1)))
    }
}

impl std::error::Error for MergeError {}

impl From<ShardsError> for MergeError {
    fn from(error: ShardsError) -> Self {
        match error {
            ShardsError::Totals(results) => MergeError::Cut { results },
            ShardsError::Twice { index, results } => MergeError::Shard { index, results },
        }
    }
}

/// Joins shards: results of the same scenarios on different seeds. The order of the results does not matter, and merged results can be
/// merged again.
///
/// Scenarios keep their order if all results agree on it, else they are sorted by name.
///
/// Where shards are missing, verdicts that need the whole stay open, and the report exits with [`exit::VACUOUS`] at least: it proves
/// nothing about the missing shards.
pub fn merge(results: Vec<RunReport>) -> Result<RunReport, MergeError> {
    let Some(first) = results.first() else { return Err(MergeError::Nothing) };
    let keys = |report: &RunReport| report.scenarios.iter().map(key).collect::<Vec<_>>();
    let mut order = keys(first);
    if results.iter().any(|result| keys(result) != order) {
        order.sort();
    }
    let build = agreed(results.iter().map(|result| result.build.as_ref())).map_err(|results| MergeError::Build { results })?;
    let interrupted = results.iter().any(|result| result.interrupted);
    let ended = interruption(results.iter().map(|result| result.exit_code));
    let mut unwritten: Vec<String> = results.iter().flat_map(|result| result.unwritten.iter().cloned()).collect();
    unwritten.sort();
    unwritten.dedup();
    let shards = Shards::join(results.iter().map(|result| result.shards.as_ref()))?;

    let mut by_scenario: BTreeMap<Key, Vec<(usize, ScenarioResult)>> = BTreeMap::new();
    let results_total = results.len();
    for (index, result) in results.into_iter().enumerate() {
        for scenario in result.scenarios {
            let parts = by_scenario.entry(key(&scenario)).or_default();
            if parts.last().is_some_and(|&(last, _)| last == index) {
                return Err(MergeError::Twice { result: index, scenario: title(&scenario) });
            }
            parts.push((index, scenario));
        }
    }
    let mut joined = BTreeMap::new();
    for (key, parts) in by_scenario {
        everybody_has(&parts, results_total)?;
        joined.insert(key, join_parts(parts, shards.as_ref())?);
    }
    let scenarios = order.iter().filter_map(|key| joined.remove(key)).collect();
    let mut report = RunReport { build, unwritten, ..RunReport::of_shards(scenarios, interrupted, shards) };
    report.exit_code = of_what_there_is(report.judge(), ended, report.shards.as_ref());
    Ok(report)
}

/// Joins gates: shards of one gate into the result that the gate would have had on one machine. See [`merge()`].
///
/// # Errors
/// They do not fit together.
pub fn merge_gates(results: Vec<GateReport>) -> Result<GateReport, MergeError> {
    if results.is_empty() {
        return Err(MergeError::Nothing);
    }
    let build = agreed(results.iter().map(|result| result.build.as_ref())).map_err(|results| MergeError::Build { results })?;
    let shards = Shards::join(results.iter().map(|result| result.shards.as_ref()))?;
    let ended = interruption(results.iter().map(|result| result.exit_code));
    let expected = results.iter().find_map(|result| result.expected.clone());
    let mut whole = GateReport { build, shards, expected, ..GateReport::default() };
    let results_total = results.len();
    // By part and number, which is the order on one machine; the rest of the key only keeps apart cases that must not be joined.
    let mut by_case: BTreeMap<_, Vec<(usize, GateCase)>> = BTreeMap::new();
    for (index, result) in results.into_iter().enumerate() {
        whole.interrupted |= result.interrupted;
        whole.budget += result.budget;
        whole.wall += result.wall;
        whole.remarks.extend(result.remarks);
        for case in result.cases.into_iter().filter(|case| case.part != Part::Coverage) {
            let parts = by_case.entry((case.part, case.number, case.name.clone(), key(&case.result))).or_default();
            if parts.last().is_some_and(|&(last, _)| last == index) {
                return Err(MergeError::Twice { result: index, scenario: title(&case.result) });
            }
            parts.push((index, case));
        }
    }
    whole.remarks.sort();
    whole.remarks.dedup();
    for ((part, number, name, _), cases) in by_case {
        let planned = cases.iter().fold(0u64, |sum, (_, case)| sum.saturating_add(case.planned));
        let required = cases.iter().fold(0u64, |sum, (_, case)| sum.saturating_add(case.required));
        let skipped = cases.iter().find_map(|(_, case)| case.skipped.clone());
        let results: Vec<_> = cases.into_iter().map(|(index, case)| (index, case.result)).collect();
        if part.is_cut_by_seeds() {
            everybody_has(&results, results_total)?;
        }
        let result = join_parts(results, whole.shards.as_ref())?;
        whole.cases.push(GateCase { part, number, name, planned, required, skipped, result });
    }
    whole.judge_coverage();
    whole.exit_code = of_what_there_is(whole.judge(), ended, whole.shards.as_ref());
    Ok(whole)
}

/// The exit code of the shards that were interrupted: where their signals differ, that of Ctrl-C.
fn interruption(exit_codes: impl Iterator<Item = u8>) -> Option<u8> {
    exit_codes.filter(|&code| exit::is_interruption(code)).min()
}

/// The exit code of a merged result: missing shards prove nothing, and only a shard's own exit code says which signal ended it.
fn of_what_there_is(judged: u8, ended: Option<u8>, shards: Option<&Shards>) -> u8 {
    let code = exit::worst([judged].into_iter().chain(shards.map(|_| exit::VACUOUS)));
    ended.filter(|_| exit::is_interruption(code)).unwrap_or(code)
}

/// The seeds that no shard of this scenario ran, although others ran seeds on both sides of them: a shard may be missing.
pub fn missing_seeds(scenario: &ScenarioResult) -> Vec<SeedRange> {
    seeds::gaps(&scenario.seed_ranges)
}

type Key = (String, String);

fn key(scenario: &ScenarioResult) -> Key {
    (scenario.name.clone(), scenario.file.clone())
}

fn title(scenario: &ScenarioResult) -> String {
    format!("{} ({})", scenario.name, scenario.file)
}

/// Checks that each of `results_total` results contains a scenario.
fn everybody_has(parts: &[(usize, ScenarioResult)], results_total: usize) -> Result<(), MergeError> {
    match (0..results_total).find(|index| parts.iter().all(|(part, _)| part != index)) {
        Some(absent) => Err(MergeError::Missing { scenario: title(&parts[0].1), present: parts[0].0, absent }),
        None => Ok(()),
    }
}

/// Joins the results of one scenario; `shards`: those that are present, if some are missing.
fn join_parts(parts: Vec<(usize, ScenarioResult)>, shards: Option<&Shards>) -> Result<ScenarioResult, MergeError> {
    let scenario = || title(&parts[0].1);
    if let Some((result, _)) = parts.iter().find(|(_, part)| part.hunt.is_some()) {
        return Err(MergeError::Hunt { scenario: scenario(), result: *result });
    }
    agreed(parts.iter().map(|(_, part)| part.config.as_ref())).map_err(|results| MergeError::Config { scenario: scenario(), results })?;
    let expectations: Vec<_> = parts.iter().map(|(_, part)| part.expect.clone().unwrap_or_else(|| "no claim".to_owned())).collect();
    agreed(expectations.iter().map(Some)).map_err(|results| MergeError::Expect { scenario: scenario(), results })?;
    agreed(parts.iter().map(|(_, part)| part.shard_of.as_ref()))
        .map_err(|results| MergeError::Whole { scenario: scenario(), results: results.map(|(part, whole)| (parts[part].0, whole)) })?;

    let mut ranges: Vec<_> = parts.iter().flat_map(|(index, part)| part.seed_ranges.iter().map(|&range| (range, *index))).collect();
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        let [(left, a), (right, b)] = [pair[0], pair[1]];
        let of = |result: usize| parts.iter().find(|(index, _)| *index == result).and_then(|(_, part)| part.placements.as_ref());
        let apart = of(a).zip(of(b)).is_some_and(|(a, b)| a.is_apart_from(b));
        if right.first <= left.last && !apart {
            let seeds = SeedRange { first: right.first, last: right.last.min(left.last) };
            return Err(MergeError::Overlap { scenario: scenario(), seeds, results: [a.min(b), a.max(b)] });
        }
    }
    let joined = parts.into_iter().map(|(_, part)| part).reduce(|mut joined, part| {
        joined.join(part);
        joined
    });
    let mut joined = joined.expect("a scenario is listed because a result has it");
    joined.shard_of = joined.shard_of.filter(|_| shards.is_some());
    tell_causes_once(&mut joined.failures, joined.expect.is_some());
    if !joined.findings.is_empty() {
        joined.tell_findings();
    }
    Ok(joined)
}

/// Each shard explains the first failure of each cause that it sees. One machine would have explained only the first of all, and named the
/// cause of the others after it; of a scenario that must fail, only the first failure is explained.
fn tell_causes_once(failures: &mut [Failure], must_fail: bool) {
    let mut causes: BTreeMap<(String, Option<String>), Option<String>> = BTreeMap::new();
    for failure in failures {
        let class = failure.cause.as_deref().filter(|_| !must_fail).map(cause_class);
        match causes.entry((failure.claim.clone(), class)) {
            Entry::Vacant(new) => drop(new.insert(failure.cause.clone())),
            Entry::Occupied(known) => {
                let cause = known.get().clone().filter(|_| !must_fail);
                (failure.needs, failure.cause, failure.shrunk) = (None, cause, None);
            }
        }
    }
}

/// The value on which all that are set agree; else the first two that differ.
fn agreed<'a, T: Clone + PartialEq + 'a>(values: impl Iterator<Item = Option<&'a T>>) -> Result<Option<T>, [(usize, T); 2]> {
    let mut known: Option<(usize, &T)> = None;
    for (index, value) in values.enumerate() {
        match (known, value) {
            (Some((first, expected)), Some(found)) if expected != found => return Err([(first, expected.clone()), (index, found.clone())]),
            (None, Some(found)) => known = Some((index, found)),
            _ => {}
        }
    }
    Ok(known.map(|(_, value)| value.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{Kind, Problem, ProblemKind, Violation};
    use crate::run::{Api, LISTED_MAX, SeedRecord};
    use crate::{Digest, Seconds, exit};
    use proptest::prelude::*;

    const CLAIMS: [(&str, Kind); 3] = [("a", Kind::Always), ("b", Kind::Eventually), ("c", Kind::Always)];

    /// One run with everything that a run can report.
    #[derive(Clone, Debug)]
    struct Run {
        seed: u64,
        digest: u128,
        simulated: u64,
        requests: u32,
        violations: Vec<(usize, u64, bool)>,
        held: Vec<String>,
        problem: Option<bool>,
    }

    impl Run {
        fn record(&self) -> SeedRecord<'_> {
            let violation = |&(claim, at, excused): &(usize, u64, bool)| Violation {
                claim: CLAIMS[claim].0.into(),
                kind: CLAIMS[claim].1,
                at: Seconds::from_micros(at),
                event: None,
                excuse: excused.then(|| "partition".to_owned()),
                detail: vec![],
                needs: None,
            };
            let problem = |&harness: &bool| Problem {
                seed: self.seed,
                kind: if harness { ProblemKind::Harness } else { ProblemKind::Nondeterminism },
                message: "m".into(),
                plan: None,
            };
            SeedRecord {
                seed: self.seed,
                digest: Digest(self.digest),
                simulated: Seconds::from_micros(self.simulated),
                api: Api { requests: self.requests.into(), ..Api::default() },
                violations: self.violations.iter().map(violation).collect(),
                held: &self.held,
                pool: self.requests.is_multiple_of(2).then(|| crate::pool::tests::run(self.seed)),
                reclaim: self.requests.is_multiple_of(3).then(|| crate::reclaim::tests::run(self.seed)),
                problems: self.problem.iter().map(problem).collect(),
                ..SeedRecord::default()
            }
        }
    }

    /// Runs on different seeds.
    fn runs() -> impl Strategy<Value = Vec<Run>> {
        let held = proptest::sample::subsequence(vec!["x".to_owned(), "y".to_owned()], 0..=2);
        let violations = proptest::collection::vec((0..3usize, 0..1_000u64, any::<bool>()), 0..4);
        let run =
            (0..200u64, any::<u128>(), 0..1u64 << 40, any::<u32>(), violations, held, proptest::option::weighted(0.05, any::<bool>()));
        let run = run.prop_map(|(seed, digest, simulated, requests, violations, held, problem)| Run {
            seed,
            digest,
            simulated,
            requests,
            violations,
            held,
            problem,
        });
        proptest::collection::vec(run, 0..80).prop_map(|mut runs| {
            runs.sort_by_key(|run| run.seed);
            runs.dedup_by_key(|run| run.seed);
            runs
        })
    }

    /// Two scenarios with the same runs.
    fn report<'a>(runs: impl Iterator<Item = &'a Run>) -> RunReport {
        let mut scenario = ScenarioResult::new("s", "s.toml", [("x".to_owned(), Kind::Sometimes), ("y".to_owned(), Kind::Reachable)]);
        runs.for_each(|run| scenario.add(run.record()));
        scenario.wall = Seconds::from_micros(scenario.seeds * 1_000);
        let negative = ScenarioResult { name: "n".into(), expect: Some("a".into()), ..scenario.clone() };
        RunReport::new(vec![scenario, negative], false)
    }

    /// The runs dealt to four shards.
    fn shards(runs: &[Run], deal: &[usize]) -> Vec<RunReport> {
        (0..4).map(|shard| report(runs.iter().zip(deal.iter().cycle()).filter(|(_, to)| **to == shard).map(|(run, _)| run))).collect()
    }

    proptest! {
        #[test]
        fn merged_shards_are_what_one_machine_would_give(runs in runs(), deal in proptest::collection::vec(0..4usize, 1..80)) {
            prop_assert_eq!(merge(shards(&runs, &deal)).unwrap(), report(runs.iter()));
        }

        #[test]
        fn merging_commutes(
            runs in runs(),
            deal in proptest::collection::vec(0..4usize, 1..80),
            order in Just([0, 1, 2, 3]).prop_shuffle(),
        ) {
            let shards = shards(&runs, &deal);
            let shuffled = order.iter().map(|&index| shards[index].clone()).collect();
            prop_assert_eq!(merge(shards.clone()), merge(shuffled));
        }

        #[test]
        fn merging_associates(runs in runs(), deal in proptest::collection::vec(0..4usize, 1..80), reversed in 0..4usize) {
            let mut shards = shards(&runs, &deal);
            shards[reversed].scenarios.reverse();
            let [a, b, c, d] = <[RunReport; 4]>::try_from(shards).unwrap();
            let pair = |left: &RunReport, right: &RunReport| merge(vec![left.clone(), right.clone()]).unwrap();
            let all = merge(vec![a.clone(), b.clone(), c.clone(), d.clone()]).unwrap();
            prop_assert_eq!(&pair(&pair(&pair(&a, &b), &c), &d), &all);
            prop_assert_eq!(&pair(&a, &pair(&b, &pair(&c, &d))), &all);
            prop_assert_eq!(&pair(&pair(&a, &b), &pair(&c, &d)), &all);
        }

        #[test]
        fn shards_survive_their_files(runs in runs(), deal in proptest::collection::vec(0..4usize, 1..80)) {
            let shards = shards(&runs, &deal);
            let read = shards.iter().map(|shard| RunReport::from_shard(&serde_json::to_string(shard).unwrap()).unwrap()).collect();
            prop_assert_eq!(merge(read), merge(shards));
        }

        #[test]
        fn lists_stay_short(runs in runs()) {
            // The list may have one more failure for each claim that came after the limit.
            prop_assert!(report(runs.iter()).scenarios[0].failures.len() < LISTED_MAX + CLAIMS.len());
        }
    }

    /// A result of one scenario that ran `seeds`.
    fn result(name: &str, seeds: std::ops::Range<u64>) -> RunReport {
        let mut scenario = ScenarioResult::new(name, format!("{name}.toml"), []);
        seeds.for_each(|seed| scenario.add(crate::run::tests::record(seed, None)));
        RunReport::new(vec![scenario], false)
    }

    fn refusal(results: Vec<RunReport>) -> String {
        merge(results).unwrap_err().to_string()
    }

    #[test]
    fn what_does_not_fit_is_said() {
        assert_eq!(refusal(vec![]), "there is no result to merge");
        assert_eq!(refusal(vec![result("a", 0..9), result("a", 5..7)]), "result 1 and result 2 both ran seeds 5 to 6 of a (a.toml)");
        assert_eq!(
            refusal(vec![result("a", 8..9), result("a", 0..4), result("a", 3..6)]),
            "result 2 and result 3 both ran seed 3 of a (a.toml)"
        );
        assert_eq!(
            refusal(vec![result("a", 0..1), result("b", 1..2)]),
            "a (a.toml) is in result 1, but not in result 2; shards must run the same scenarios"
        );
        let shard = |index, first, last| {
            let mut report = RunReport { shards: Shards::one(index, 2), ..result("a", first..last) };
            report.scenarios[0].shard_of = Some(SeedRange { first, last: last + 4 });
            report
        };
        assert_eq!(
            refusal(vec![shard(1, 0, 5), shard(2, 15, 20)]),
            "the shards of a (a.toml) divide different seeds: 0 to 9 in result 1, 15 to 24 in result 2"
        );
        let mut twice = result("a", 0..1);
        twice.scenarios.push(twice.scenarios[0].clone());
        assert_eq!(refusal(vec![twice]), "result 1 holds a (a.toml) twice");
    }

    #[test]
    fn different_configurations_builds_and_expectations_are_refused() {
        let with = |change: &dyn Fn(&mut RunReport), seeds| {
            let mut result = result("a", seeds);
            change(&mut result);
            result
        };
        let config = |value: &'static str| move |report: &mut RunReport| report.scenarios[0].config = Some(value.into());
        let results = vec![with(&config("x1"), 0..1), result("a", 1..2), with(&config("y2"), 2..3)];
        assert_eq!(refusal(results), "a (a.toml) ran with different configurations: x1 in result 1, y2 in result 3");
        let build = |value: &'static str| move |report: &mut RunReport| report.build = Some(value.into());
        let results = vec![with(&build("x1"), 0..1), with(&build("y2"), 1..2)];
        assert_eq!(refusal(results), "the results come from different builds: x1 in result 1, y2 in result 2");
        let results = vec![result("a", 0..1), with(&|report| report.scenarios[0].expect = Some("c".into()), 1..2)];
        assert_eq!(refusal(results), "a (a.toml) must violate different claims: no claim in result 1, c in result 2");
    }

    #[test]
    fn an_interrupted_shard_interrupts_the_whole() {
        let ended = |exit_code, first| RunReport { interrupted: true, exit_code, ..result("a", first..first + 1) };
        let code = |results| merge(results).unwrap().exit_code;
        assert_eq!(code(vec![ended(exit::HELD, 0), result("a", 1..2)]), exit::INTERRUPTED);
        assert_eq!(code(vec![result("a", 1..2), ended(exit::TERMINATED, 0)]), exit::TERMINATED, "as the shard itself ended");
        assert_eq!(code(vec![ended(exit::TERMINATED, 0), ended(exit::INTERRUPTED, 1)]), exit::INTERRUPTED);
    }

    /// Shard `index` of `total`.
    fn shard(index: u32, total: u32, seeds: std::ops::Range<u64>) -> RunReport {
        let mut report = RunReport { shards: Shards::one(index, total), ..result("a", seeds) };
        report.exit_code = report.judge();
        report
    }

    #[test]
    fn a_missing_shard_proves_nothing_also_at_an_end() {
        let two = merge(vec![shard(1, 3, 0..4), shard(2, 3, 4..8)]).unwrap();
        assert_eq!((two.exit_code, two.shards.as_ref().unwrap().missing().collect::<Vec<_>>()), (exit::VACUOUS, vec![3]));
        let all = merge(vec![two, shard(3, 3, 8..12)]).unwrap();
        assert_eq!(all, result("a", 0..12), "merged results can be merged again, and the whole has no mark");
        assert_eq!(
            refusal(vec![shard(1, 3, 0..4), shard(2, 4, 4..8)]),
            "the whole was cut differently: into 3 shards in result 1, into 4 in result 2"
        );
        assert_eq!(refusal(vec![shard(1, 3, 0..4), shard(1, 3, 4..8)]), "result 1 and result 2 are both shard 1");
    }

    #[test]
    fn what_a_shard_did_not_see_is_judged_for_the_whole() {
        let part = |index, seeds: std::ops::Range<u64>, seen: bool, found: bool| {
            let mut scenario = ScenarioResult::new("s", "s.toml", [("x".to_owned(), Kind::Sometimes)]);
            let mut negative = ScenarioResult { expect: Some("a".into()), ..ScenarioResult::new("n", "n.toml", []) };
            let held = ["x".to_owned()];
            for seed in seeds {
                scenario.add(SeedRecord { held: if seen { &held } else { &[] }, ..crate::run::tests::record(seed, None) });
                negative.add(crate::run::tests::record(seed, found.then_some(("a", Kind::Always))));
            }
            RunReport::of_shards(vec![scenario, negative], false, Shards::one(index, 2))
        };
        for (seen, found, whole) in [(true, true, exit::HELD), (false, true, exit::VACUOUS), (true, false, exit::VIOLATED)] {
            let (one, two) = (part(1, 0..4, false, false), part(2, 4..8, seen, found));
            assert_eq!((one.exit_code, two.exit_code), (exit::HELD, exit::HELD), "a shard alone is not blamed");
            assert_eq!(merge(vec![one, two]).unwrap().exit_code, whole, "{seen} {found}");
        }
    }

    #[test]
    fn only_the_first_failure_of_a_claim_stays_explained() {
        let explained = |seed| {
            let mut scenario = ScenarioResult::new("s", "s.toml", []);
            scenario.add(crate::run::tests::record(seed, Some(("a", Kind::Always))));
            scenario.failures[0].needs = Some("a crash".into());
            RunReport::new(vec![scenario], false)
        };
        let merged = merge(vec![explained(7), explained(3)]).unwrap();
        let needs: Vec<_> = merged.scenarios[0].failures.iter().map(|failure| (failure.seed, failure.needs.is_some())).collect();
        assert_eq!(needs, [(3, true), (7, false)]);
    }

    #[test]
    fn a_hole_between_shards_is_visible() {
        let merged = merge(vec![result("a", 0..2), result("a", 6..9)]).unwrap();
        assert_eq!(missing_seeds(&merged.scenarios[0]), [SeedRange { first: 2, last: 5 }]);
    }
}
