//! The differences between two recordings.

use std::collections::BTreeSet;

use indexmap::IndexMap;

use crate::allowed::{Allowance, Allowed};
use crate::case::Case;
use crate::focus::{Ignored, focus};
use crate::json::Json;
use crate::kit::Kit;
use crate::pick::ABSENT;
use crate::place::Place;
use crate::record::{Outcome, Record, Recording};
use crate::shared::Shared;

/// The result of comparing the cases of a kit.
#[derive(Clone, Debug)]
pub struct Comparison<'a> {
    /// The results of the cases, in the order of the kit.
    pub cases: Vec<CaseResult<'a>>,
    /// Allowances without a difference. Those for cases that were not compared are not among them.
    pub unneeded: Vec<&'a Allowance>,
}

/// The result of comparing one case.
#[derive(Clone, Debug)]
pub struct CaseResult<'a> {
    /// The case that was compared.
    pub case: &'a Case,
    /// The result of the comparison.
    pub verdict: Verdict,
}

/// The result of comparing a case.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// No compared place differs.
    Agrees,
    /// Only allowed places differ.
    Allowed,
    /// These places differ; allowed ones are not among them.
    Differs(Vec<Difference>),
    /// One of the two has no answers, with the reason.
    NotCompared(String),
}

/// A place where two records differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The step, from 1; 0 for the record as a whole.
    pub step: usize,
    /// The path in the record of the step: names and numbers with dots between them.
    pub path: String,
    /// The recorded value; `<absent>` if there is none.
    pub recorded: Json,
    /// The value of the other recording.
    pub actual: Json,
}

/// The number of cases of a theme by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Cases in which nothing differs.
    pub agreed: usize,
    /// Cases with differences that are not allowed.
    pub differing: usize,
    /// Cases with allowed differences only.
    pub allowed: usize,
    /// Cases without answers on one of the two sides.
    pub not_compared: usize,
}

impl Counts {
    /// The number of cases that were compared.
    pub fn compared(&self) -> usize {
        self.agreed + self.differing + self.allowed
    }

    fn add(&mut self, verdict: &Verdict) {
        *match verdict {
            Verdict::Agrees => &mut self.agreed,
            Verdict::Allowed => &mut self.allowed,
            Verdict::Differs(_) => &mut self.differing,
            Verdict::NotCompared(_) => &mut self.not_compared,
        } += 1;
    }
}

impl<'a> Comparison<'a> {
    /// The counts of each theme, in the order of the kit.
    pub fn themes(&self) -> IndexMap<&'a str, Counts> {
        let mut themes: IndexMap<&str, Counts> = IndexMap::new();
        for CaseResult { case, verdict } in &self.cases {
            themes.entry(case.theme.as_str()).or_default().add(verdict);
        }
        themes
    }

    /// The counts of all cases.
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        self.cases.iter().for_each(|case| total.add(&case.verdict));
        total
    }
}

/// Compares the recorded answers of a real server with those of another one, for all cases of a kit.
pub fn compare<'a>(kit: &'a Kit, recorded: &Recording, actual: &Recording, allowed: &'a Allowed) -> Comparison<'a> {
    // Allowances that a difference used, and allowances for a case that was compared, by their index.
    let (mut needed, mut judged) = (BTreeSet::new(), BTreeSet::new());
    let mut cases = Vec::new();
    for case in &kit.cases {
        let verdict = match both(case, recorded.get(&case.id), actual.get(&case.id), &kit.shared) {
            Err(why) => Verdict::NotCompared(why),
            Ok(found) => {
                judged.extend((0..allowed.lines.len()).filter(|line| allowed.lines[*line].is_about(&case.id)));
                let differs = !found.is_empty();
                let left: Vec<Difference> = found
                    .into_iter()
                    .filter(|difference| {
                        let line = allowed.lines.iter().position(|line| line.covers(&case.id, difference.step, &difference.path));
                        needed.extend(line);
                        line.is_none()
                    })
                    .collect();
                match (differs, left.is_empty()) {
                    (false, _) => Verdict::Agrees,
                    (true, true) => Verdict::Allowed,
                    (true, false) => Verdict::Differs(left),
                }
            }
        };
        cases.push(CaseResult { case, verdict });
    }
    let unneeded = judged.difference(&needed).map(|line| &allowed.lines[*line]).collect();
    Comparison { cases, unneeded }
}

/// The differences of a case, or the reason why it cannot be compared.
fn both(case: &Case, recorded: Option<&Record>, actual: Option<&Record>, shared: &Shared) -> Result<Vec<Difference>, String> {
    let recorded = match recorded.map(|record| &record.outcome) {
        None => return Err("not recorded".to_owned()),
        Some(Outcome::Skipped(why)) => return Err(format!("not recorded: {why}")),
        Some(Outcome::Failed(why)) => return Err(format!("not recorded: it failed, {why}")),
        Some(Outcome::Steps(steps)) => steps,
    };
    match actual.map(|record| &record.outcome) {
        None => Err("not run".to_owned()),
        Some(Outcome::Skipped(why)) => Err(format!("not run: {why}")),
        Some(Outcome::Failed(why)) => {
            let whole = |recorded: &str, actual: &str| (String::new(), recorded.into(), actual.into());
            Ok(vec![difference(0, whole("a recording", why))])
        }
        Some(Outcome::Steps(actual)) => Ok(steps(case, shared, recorded, actual)),
    }
}

fn steps(case: &Case, shared: &Shared, recorded: &[Json], actual: &[Json]) -> Vec<Difference> {
    let nothing = Ignored::new();
    let ignored = if case.strict { &nothing } else { &shared.ignore };
    let absent = Json::from(ABSENT);
    let mut found = Vec::new();
    for index in 0..recorded.len().max(actual.len()) {
        let step = index + 1;
        let side = |steps: &[Json]| steps.get(index).cloned().unwrap_or(absent.clone());
        let (left, right) = (side(recorded), side(actual));
        let mut places = Vec::new();
        if let (Json::Object(_), Json::Object(_)) = (&left, &right) {
            let side = |value: Json| focus(&without_charset(value), ignored, None);
            differences(&side(left), &side(right), "", &mut places);
        } else {
            differences(&left, &right, "", &mut places);
        }
        let covered = |places: &[Place], path: &str| places.iter().any(|place| place.covers(step, path));
        found.extend(
            places
                .into_iter()
                .filter(|(path, was, now)| {
                    let loose = || covered(&shared.loose, path) || covered(&case.loose, path);
                    let is_loose = *was != absent && *now != absent && is_same_type(was, now) && loose();
                    !is_loose && !covered(&case.ignore, path)
                })
                .map(|place| difference(step, place)),
        );
    }
    found
}

fn difference(step: usize, (path, recorded, actual): (String, Json, Json)) -> Difference {
    Difference { step, path, recorded, actual }
}

/// A content type without spaces and charset, in lower case: these do not count as differences.
fn without_charset(mut step: Json) -> Json {
    if let Json::Object(members) = &mut step
        && let Some(Json::Object(headers)) = members.get_mut("headers")
        && let Some(Json::String(kind)) = headers.get_mut("content-type")
    {
        let parts = kind.split(';').map(|part| part.trim().to_lowercase()).filter(|part| !part.starts_with("charset="));
        *kind = parts.collect::<Vec<_>>().join(";");
    }
    step
}

/// Every place where the two differ, in the order of the paths' names.
fn differences(recorded: &Json, actual: &Json, path: &str, found: &mut Vec<(String, Json, Json)>) {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    let absent = Json::from(ABSENT);
    match (recorded, actual) {
        (Json::Object(left), Json::Object(right)) => {
            let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for name in names {
                let side = |members: &crate::json::Map| members.get(name).cloned().unwrap_or(absent.clone());
                differences(&side(left), &side(right), &below(name), found);
            }
        }
        (Json::Array(left), Json::Array(right)) => {
            for index in 0..left.len().max(right.len()) {
                let side = |items: &[Json]| items.get(index).cloned().unwrap_or(absent.clone());
                differences(&side(left), &side(right), &format!("{path}.{index}"), found);
            }
        }
        (left, right) if left == right => {}
        (left, right) => found.push((path.to_owned(), left.clone(), right.clone())),
    }
}

/// Whether two values have the same type. Integers and floats are distinct types.
fn is_same_type(one: &Json, other: &Json) -> bool {
    match (one, other) {
        (Json::Number(one), Json::Number(other)) => one.is_f64() == other.is_f64(),
        _ => std::mem::discriminant(one) == std::mem::discriminant(other),
    }
}
