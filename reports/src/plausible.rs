//! Plausibility checks of results: files of shards come from other machines, and somebody may have edited one.
//!
//! Sums that include impossible values would look like any others.

use crate::exit;
use crate::gate::GateReport;
use crate::run::{Api, RunReport, ScenarioResult};
use crate::schema::{GateSchema, ReadError, RunSchema, read_known};
use crate::shards::Shards;

/// A count above that of any sweep; the sum of two thousand such results still fits into a `u64`.
const COUNT_MAX: u64 = 1 << 53;

impl RunReport {
    /// Reads the JSON form of a result that is to be joined with others.
    ///
    /// # Errors
    /// It is no such result, has a key that this version does not know and would lose, or contradicts itself.
    pub fn from_shard(text: &str) -> Result<Self, ReadError> {
        let report: Self = read_known(text, RunSchema::NAME)?;
        contradiction_of_shards(report.shards.as_ref()).map_or(Ok(()), refuse)?;
        report.scenarios.iter().find_map(of_scenario).map_or(Ok(()), refuse)?;
        unexplained(report.exit_code, report.judge(), report.interrupted, report.shards.as_ref()).map_or(Ok(report), refuse)
    }
}

impl GateReport {
    /// Reads the JSON form of a result that is to be joined with others; see [`RunReport::from_shard`].
    ///
    /// # Errors
    /// The errors of [`RunReport::from_shard`].
    pub fn from_shard(text: &str) -> Result<Self, ReadError> {
        let report: Self = read_known(text, GateSchema::NAME)?;
        contradiction_of_shards(report.shards.as_ref()).map_or(Ok(()), refuse)?;
        let too_many = report.cases.iter().find(|case| case.result.seeds > case.planned);
        let too_many =
            too_many.map(|case| format!("{} {} ran {} of {} planned seeds", case.part, case.name, case.result.seeds, case.planned));
        too_many.or_else(|| report.cases.iter().find_map(|case| of_scenario(&case.result))).map_or(Ok(()), refuse)?;
        unexplained(report.exit_code, report.judge(), report.interrupted, report.shards.as_ref()).map_or(Ok(report), refuse)
    }
}

fn refuse<T>(contradiction: String) -> Result<T, ReadError> {
    Err(ReadError { line: 0, column: 0, reason: contradiction })
}

/// The contradiction in an exit code, if nothing else in the result explains it; shards, merged or not, may have further codes.
fn unexplained(code: u8, judged: u8, interrupted: bool, shards: Option<&Shards>) -> Option<String> {
    let explained = code == judged
        || code == exit::unwritten(judged)
        || shards.is_some() && code == exit::worst([judged, exit::VACUOUS])
        || interrupted && exit::is_interruption(code);
    (!explained).then(|| format!("its `exit_code` is {code}, but what it holds comes to {judged}"))
}

fn of_scenario(scenario: &ScenarioResult) -> Option<String> {
    scenario.contradiction().map(|contradiction| format!("{} ({}) contradicts itself: {contradiction}", scenario.name, scenario.file))
}

/// The contradiction in the mark of a shard, if any.
fn contradiction_of_shards(shards: Option<&Shards>) -> Option<String> {
    let Shards { total, present } = shards?;
    let known = |index: &u32| (1..=*total).contains(index);
    match present.iter().find(|index| !known(index)) {
        Some(index) => Some(format!("it says that it is shard {index} of {total}: expected 1 to {total}")),
        None if present.is_empty() => Some(format!("it says that it is none of the {total} shards")),
        None => (!present.is_sorted_by(|a, b| a < b)).then(|| "the numbers of its shards do not ascend".to_owned()),
    }
}

impl ScenarioResult {
    /// The first contradiction in the result, in words.
    pub fn contradiction(&self) -> Option<String> {
        let ranges = &self.seed_ranges;
        if ranges.iter().any(|range| range.first > range.last) || ranges.windows(2).any(|pair| pair[1].first <= pair[0].last) {
            return Some("its `seed_ranges` do not ascend".to_owned());
        }
        let in_ranges: u128 = ranges.iter().map(|range| range.count()).sum();
        // With `--every-crash-point` and `--exhaustive`, and in a hunt, seeds are runs, many for each seed of a plan.
        let are_seeds = self.crash_points.is_none() && self.placements.is_none() && self.hunt.is_none();
        if are_seeds && in_ranges != u128::from(self.seeds) {
            return Some(format!("`seeds` is {}, but `seed_ranges` hold {in_ranges}", self.seeds));
        }
        let outside = self.failures.iter().find(|failure| !ranges.iter().any(|range| (range.first..=range.last).contains(&failure.seed)));
        if let Some(failure) = outside {
            return Some(format!("{} is violated in seed {}, which did not run", failure.claim, failure.seed));
        }
        if self.violated == 0
            && let Some(claim) =
                self.failures.iter().map(|failure| &failure.claim).chain(self.claims.iter().map(|count| &count.claim)).next()
        {
            return Some(format!("`violated` is 0, but {claim} is violated"));
        }
        if self.excused > 0 && self.excuses.is_empty() {
            return Some(format!("`excused` is {}, but `excuses` is empty", self.excused));
        }
        let Api { requests, writes, conflicts, .. } = self.api;
        let totals = [("events", self.events), ("requests", requests), ("attempted", self.allocations.attempted)];
        if let Some((what, count)) = totals.into_iter().find(|(_, count)| *count > COUNT_MAX) {
            return Some(format!("`{what}` is {count}, but no sweep comes to more than {COUNT_MAX}"));
        }
        let more =
            |what: String, count: u64, most: u64, of: &str| (count > most).then(|| format!("{what} is {count}, but `{of}` is {most}"));
        let seeds = self.seeds;
        let counts =
            [("`violated`", self.violated), ("`excused`", self.excused)].map(|(what, count)| more(what.to_owned(), count, seeds, "seeds"));
        let claims = self.claims.iter().map(|one| more(format!("`seeds` of {}", one.claim), one.seeds, self.violated, "violated"));
        let excuses = self.excuses.iter().map(|one| more(format!("`seeds` of {}", one.excuse), one.seeds, self.excused, "excused"));
        let seen = self.sometimes.iter().map(|one| more(format!("`held_in` of {}", one.claim), one.held_in, seeds, "seeds"));
        let judged = self.always.iter().chain(&self.eventually);
        let judged = judged.map(|one| more(format!("`judged_in` of {}", one.claim), one.judged_in, seeds, "seeds"));
        let faults = self.faults.iter().flat_map(|one| {
            let name = &one.fault;
            [
                more(format!("`drawn_in` of {name}"), one.drawn_in, seeds, "seeds"),
                more(format!("`fired_in` of {name}"), one.fired_in, one.drawn_in, "drawn_in"),
            ]
        });
        let answered = self.allocations.succeeded.saturating_add(self.allocations.failed);
        let answers = more("`succeeded` and `failed` of `allocations`".to_owned(), answered, self.allocations.attempted, "attempted");
        let writes =
            [more("`writes`".to_owned(), writes, requests, "requests"), more("`conflicts`".to_owned(), conflicts, requests, "requests")];
        counts
            .into_iter()
            .chain(writes)
            .chain(claims)
            .chain(excuses)
            .chain(seen)
            .chain(judged)
            .chain(faults)
            .chain([answers])
            .flatten()
            .next()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::finding::Kind;
    use crate::run::Allocations;
    use crate::run::tests::record;
    use crate::{GateCase, SeedRecord};

    /// Four seeds, one of which violates a claim.
    fn scenario() -> ScenarioResult {
        let mut scenario = ScenarioResult::new("s", "s.toml", [("seen".to_owned(), Kind::Sometimes)]);
        for seed in 0..4 {
            let claim = (seed == 2).then_some(("a", Kind::Always));
            let (faults, judged, awaited, held) = ([("crash", true)], [("a", true)], [("b", true)], ["seen".to_owned()]);
            let allocations = Allocations { attempted: 1, succeeded: 1, failed: 0 };
            let record = record(seed, claim);
            scenario.add(SeedRecord { allocations, faults: &faults, judged: &judged, awaited: &awaited, held: &held, ..record });
        }
        scenario
    }

    /// The error for a result in which one value is replaced.
    fn refused(path: &str, value: Value) -> String {
        let mut report = serde_json::to_value(RunReport::new(vec![scenario()], false)).unwrap();
        let (parent, key) = path.rsplit_once('/').unwrap();
        report.pointer_mut(parent).unwrap_or_else(|| panic!("{parent}"))[key] = value;
        RunReport::from_shard(&report.to_string()).map_or_else(|error| error.reason, |_| "accepted".to_owned())
    }

    #[test]
    fn what_a_sweep_gives_is_accepted() {
        let report = RunReport::new(vec![scenario()], false);
        assert_eq!(RunReport::from_shard(&serde_json::to_string(&report).unwrap()).unwrap(), report);
    }

    #[test]
    fn counts_that_cannot_be_are_refused() {
        let of = "/scenarios/0";
        for (path, value, expected) in [
            ("seeds", json!(18_446_744_073_709_551_615u64), "`seeds` is 18446744073709551615, but `seed_ranges` hold 4"),
            ("seed_ranges", json!([]), "`seeds` is 4, but `seed_ranges` hold 0"),
            ("seed_ranges", json!([{"first": 2, "last": 3}, {"first": 0, "last": 1}]), "its `seed_ranges` do not ascend"),
            ("violated", json!(5), "`violated` is 5, but `seeds` is 4"),
            ("excused", json!(1), "`excused` is 1, but `excuses` is empty"),
            ("api/writes", json!(9_999), "`writes` is 9999, but `requests` is "),
            ("api/conflicts", json!(9_999), "`conflicts` is 9999, but `requests` is "),
            ("events", json!(u64::MAX), "`events` is 18446744073709551615, but no sweep comes to more than 9007199254740992"),
            ("violated", json!(0), "`violated` is 0, but a is violated"),
            ("excused", json!(5), "`excused` is 5, but `excuses` is empty"),
            ("failures/0/seed", json!(9), "a is violated in seed 9, which did not run"),
            ("claims/0/seeds", json!(2), "`seeds` of a is 2, but `violated` is 1"),
            ("always/0/judged_in", json!(5), "`judged_in` of a is 5, but `seeds` is 4"),
            ("eventually/0/judged_in", json!(5), "`judged_in` of b is 5, but `seeds` is 4"),
            ("sometimes/0/held_in", json!(5), "`held_in` of seen is 5, but `seeds` is 4"),
            ("faults/0/drawn_in", json!(5), "`drawn_in` of crash is 5, but `seeds` is 4"),
            ("faults/0/fired_in", json!(5), "`fired_in` of crash is 5, but `drawn_in` is 4"),
            ("allocations/failed", json!(1), "`succeeded` and `failed` of `allocations` is 5, but `attempted` is 4"),
        ] {
            let said = refused(&format!("{of}/{path}"), value);
            assert!(said.starts_with(&format!("s (s.toml) contradicts itself: {expected}")), "{path}: {said}");
        }
        let said = refused("/shards", json!({"total": 2, "present": [3]}));
        assert_eq!(said, "it says that it is shard 3 of 2: expected 1 to 2");
        assert_eq!(refused("/shards", json!({"total": 2, "present": []})), "it says that it is none of the 2 shards");
        assert_eq!(refused("/exit_code", json!(0)), "its `exit_code` is 0, but what it holds comes to 1");
        assert_eq!(refused("/exit_code", json!(130)), "its `exit_code` is 130, but what it holds comes to 1");
        assert_eq!(refused("/shards", json!({"total": 2, "present": [2, 1]})), "the numbers of its shards do not ascend");
    }

    #[test]
    fn a_key_that_nobody_knows_is_refused() {
        assert!(refused("/scenarios/0/sedes", json!(4)).starts_with("there is no key `scenarios.0.sedes`"));
        assert!(refused("/verdict", json!("held")).starts_with("there is no key `verdict`"));
    }

    #[test]
    fn a_gate_is_asked_the_same() {
        let case = GateCase { name: "s".to_owned(), planned: 4, result: scenario(), ..GateCase::default() };
        let read = |case: &GateCase| {
            let mut report = GateReport { cases: vec![case.clone()], ..GateReport::default() };
            report.exit_code = report.judge();
            GateReport::from_shard(&serde_json::to_string(&report).unwrap())
        };
        assert!(read(&case).is_ok());
        let error = read(&GateCase { planned: 3, ..case.clone() }).unwrap_err();
        assert_eq!(error.reason, "sweep s ran 4 of 3 planned seeds");
        let result = ScenarioResult { violated: 5, ..scenario() };
        let error = read(&GateCase { result, ..case }).unwrap_err();
        assert!(error.reason.ends_with("`violated` is 5, but `seeds` is 4"), "{}", error.reason);
    }
}
