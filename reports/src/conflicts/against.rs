//! Comparison of the points of two reports: points match when their settings agree in all but the compared ones.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::metric::Metric;
use super::point::Point;
use super::searched::{Limit, Searched};
use super::setting::{Setting, System};
use crate::Made;
use crate::against::{Baseline, Compared, Differs, Incomparable, Kind, Pairs, Settings, Unit, of_estimate, told_settings};
use crate::conflicts::answer::time;
use crate::human;
use crate::schema::ConflictsSchema;
use crate::statistics::Estimate;
use crate::statistics::change::{self, Change};

/// An earlier report on points: of `report conflicts`, or of `report capacity` without a scenario.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct OldConflicts {
    /// The way in which it was made.
    pub made: Made,
    /// The points, in the order of its curves.
    pub points: Vec<Point>,
    /// The search of the report, if it was one.
    #[serde(default)]
    pub searched: Option<Searched>,
}

impl Kind for OldConflicts {
    const SCHEMA: &'static str = ConflictsSchema::NAME;
    const VERB: &'static str = "report conflicts";

    fn made(&self) -> &Made {
        &self.made
    }

    fn contradiction(&self) -> Option<String> {
        let of_point = |(number, point): (usize, &Point)| {
            let name = |what: &str| format!("points[{number}].{what}");
            if point.bursts == 0 {
                return Some(format!("`{}` is 0, and a point has bursts", name("bursts")));
            }
            Metric::ALL.into_iter().find_map(|metric| of_estimate(&name(metric.name()), point.get(metric)?, metric.is_share()))
        };
        if self.points.is_empty() {
            return Some("it has no points".to_owned());
        }
        self.points.iter().enumerate().find_map(of_point)
    }
}

/// The figures of a point that are compared, the headline first.
const COMPARED: [Metric; 7] = [
    Metric::ConflictsPerCall,
    Metric::Exhausted,
    Metric::RefusedOtherwise,
    Metric::Unanswered,
    Metric::Lost,
    Metric::AllocateP50,
    Metric::AllocateP99,
];

/// The number of figures in the headline.
const HEADLINE: usize = 2;

/// The setting of a point as `--vary` names it. Settings that follow from others are given in terms of those.
fn settings(setting: &Setting) -> Settings {
    let sharers = match setting.system {
        System::Byom => "instances",
        System::Spiderpool => "nodes",
    };
    let wanted = u64::from(setting.instances) * u64::from(setting.pods);
    let free = u64::from(setting.addresses).saturating_sub(setting.taken.into());
    let seconds = |found: crate::Seconds| time(found.as_f64());
    let width = if setting.width == 0 { "none".to_owned() } else { setting.width.to_string() };
    let retry = if setting.system == System::Byom { "retry" } else { "policy" };
    let mut all = vec![
        ("system", setting.system.name().to_owned()),
        (sharers, setting.instances.to_string()),
        ("pods", setting.pods.to_string()),
        // Unless the user set it, the number of free addresses follows from the number of sharers.
        ("pool", if free == 2 * wanted { "two free addresses for each pod".to_owned() } else { setting.addresses.to_string() }),
        ("fill", format!("{:.1} %", 100.0 * setting.fill())),
        ("spread", seconds(setting.spread)),
        ("latency", seconds(setting.read)),
        ("think", seconds(setting.think)),
        (retry, setting.retry.clone()),
        ("update", setting.update.clone()),
        ("selection", setting.selection.clone()),
        ("throttle", setting.throttle.clone()),
        ("width", width),
        ("start", setting.start.clone()),
        ("faults", if setting.has_faults() { setting.faults.clone() } else { "none".to_owned() }),
    ];
    if setting.pools > 1 {
        all.push(("pools", setting.pools.to_string()));
    }
    if !setting.lock.is_empty() {
        all.push(("lock", setting.lock.clone()));
    }
    if setting.width > 0 {
        all.push(("service", seconds(setting.service)));
    }
    all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The distinct values of a setting at some points, in the order in which they first appear.
fn values<'a>(all: &'a [Settings], name: &str) -> Vec<&'a str> {
    let mut values = Vec::new();
    for value in all.iter().map(|one| one.get(name).map_or("", String::as_str)) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

/// The settings in which two sets of points differ, and those by which points of the two are matched.
struct Fit {
    differs: Vec<Differs>,
    shared: Vec<String>,
}

/// Checks that points can be compared: a setting may differ if it has one value here and one there.
fn fit(old: &[Settings], new: &[Settings]) -> Result<Fit, Incomparable> {
    let names: BTreeSet<&String> = old.iter().chain(new).flat_map(Settings::keys).collect();
    let mut fit = Fit { differs: Vec::new(), shared: Vec::new() };
    for name in names {
        let (before, now) = (values(old, name), values(new, name));
        if before.iter().any(|value| now.contains(value)) {
            fit.shared.push(name.clone());
            continue;
        }
        let list = |values: &[&str]| values.join(", ");
        if before.len() > 1 || now.len() > 1 {
            return Err(Incomparable(format!(
                "no point is in both reports: `{name}` is {} in the earlier one and {} in this one; vary it alike \
                 in both, or give it one value in each",
                list(&before),
                list(&now)
            )));
        }
        fit.differs.push(Differs::new(name, &list(&before), &list(&now)));
    }
    Ok(fit)
}

/// Checks that a report on points with these settings can be compared with an earlier one. `objectives`: those of the search, if it is one.
///
/// # Errors
/// A sentence on what makes the figures incomparable.
pub fn comparable(old: &Baseline<OldConflicts>, new: &[&Setting], objectives: Option<&[String]>) -> Result<(), Incomparable> {
    let (before, now) = (all(old.report.points.iter().map(|point| &point.setting)), all(new.iter().copied()));
    let systems = |all: &[Settings]| values(all, "system").join(", ");
    if systems(&before) != systems(&now) {
        let (before, now) = (systems(&before), systems(&now));
        return Err(Incomparable(format!("`system` was {before} and is {now}: a call of the one is no call of the other")));
    }
    match (&old.report.searched, objectives) {
        (None, None) => fit(&before, &now).map(drop),
        (Some(searched), Some(objectives)) if searched.objectives == objectives => Ok(()),
        (Some(searched), Some(objectives)) => Err(Incomparable(format!(
            "`objective` was {} and is {}: the largest number that meets one says nothing of the other",
            searched.objectives.join(" and "),
            objectives.join(" and ")
        ))),
        (Some(_), None) => {
            Err(Incomparable("it is a result of `report capacity`, and only one of `report conflicts` can be compared".to_owned()))
        }
        (None, Some(_)) => {
            Err(Incomparable("it is a result of `report conflicts`, and only one of `report capacity` can be compared".to_owned()))
        }
    }
}

fn all<'a>(settings_of: impl Iterator<Item = &'a Setting>) -> Vec<Settings> {
    settings_of.map(settings).collect()
}

/// Compares points and the results of searches.
///
/// # Errors
/// The errors of [`comparable`].
pub fn compare(old: &Baseline<OldConflicts>, new: &[Point], searched: Option<&Searched>) -> Result<Pairs, Incomparable> {
    let settings_of: Vec<&Setting> = new.iter().map(|point| &point.setting).collect();
    comparable(old, &settings_of, searched.map(|searched| &*searched.objectives))?;
    let (before, now) = (all(old.report.points.iter().map(|point| &point.setting)), all(settings_of.into_iter()));
    let mut pairs = Pairs::default();
    let limits = match (&old.report.searched, searched) {
        (Some(before), Some(now)) => compare_limits(before, now, new, &mut pairs),
        _ => Vec::new(),
    };
    // A search tries other numbers each time; that these differ is its result.
    let along = if searched.is_some() { &["instances", "nodes"][..] } else { &[] };
    let fit = fit_without(&before, &now, along)?;
    pairs.differs = fit.differs;
    let key = |one: &Settings| fit.shared.iter().map(|name| one.get(name).cloned()).collect::<Vec<_>>();
    let varied: Vec<&String> = fit.shared.iter().filter(|name| values(&now, name).len() > 1 || values(&before, name).len() > 1).collect();
    let mut found: Vec<(u32, Vec<Compared>)> = Vec::new();
    let mut met = BTreeSet::new();
    let mut only_new = 0;
    for (point, setting) in new.iter().zip(&now) {
        match before.iter().position(|other| key(other) == key(setting)) {
            Some(at) => {
                met.insert(at);
                found.push((point.setting.instances, figures(&place(point, setting, &varied), &old.report.points[at], point)));
            }
            None => only_new += 1,
        }
    }
    // The headline is that of the most writers, where policies differ most.
    if searched.is_none()
        && let Some(most) = found.iter().map(|(instances, _)| *instances).max()
    {
        let at = found.iter().position(|(instances, _)| *instances == most).unwrap_or_default();
        let headline = found.remove(at);
        found.insert(0, headline);
        pairs.headline = HEADLINE;
    }
    if searched.is_some() {
        pairs.headline = limits.len().min(1);
    }
    pairs.changes = limits.into_iter().chain(found.into_iter().flat_map(|(_, figures)| figures)).collect();
    let only_old = before.len() - met.len();
    let points = |count: usize| human::plural(count as u64, "point", "points");
    if only_old > 0 {
        pairs.apart.push(format!(
            "{} of the earlier report {} not in this one.",
            points(only_old),
            if only_old == 1 { "is" } else { "are" }
        ));
    }
    if only_new > 0 {
        pairs.apart.push(format!(
            "{} of this report {} not in the earlier one.",
            points(only_new),
            if only_new == 1 { "is" } else { "are" }
        ));
    }
    if pairs.changes.is_empty() {
        return Err(Incomparable(format!(
            "no point is in both reports{}",
            match pairs.differs.as_slice() {
                [] => String::new(),
                differs => format!("; {}", told_settings(differs)),
            }
        )));
    }
    Ok(pairs)
}

/// Does as [`fit`] does, but counts the settings `along` which a search went as shared.
fn fit_without(old: &[Settings], new: &[Settings], along: &[&str]) -> Result<Fit, Incomparable> {
    let without = |all: &[Settings]| -> Vec<Settings> {
        all.iter()
            .map(|one| {
                one.iter().filter(|(name, _)| !along.contains(&name.as_str())).map(|(name, value)| (name.clone(), value.clone())).collect()
            })
            .collect()
    };
    let mut fit = fit(&without(old), &without(new))?;
    fit.shared.extend(along.iter().map(|name| (*name).to_owned()));
    Ok(fit)
}

/// The name of a point's place: the number of sharers of the pool, and what else is varied.
fn place(point: &Point, setting: &Settings, varied: &[&String]) -> String {
    let (one, several) = point.setting.system.sharers();
    let mut told = human::plural(point.setting.instances.into(), one, several);
    for name in varied.iter().filter(|name| !["instances", "nodes"].contains(&name.as_str())) {
        told += &format!(", {name} {}", setting.get(*name).map_or("none", String::as_str));
    }
    told
}

fn figures(place: &str, old: &Point, new: &Point) -> Vec<Compared> {
    COMPARED.into_iter().filter_map(|metric| figure(place, metric, old, new)).collect()
}

fn figure(place: &str, metric: Metric, old: &Point, new: &Point) -> Option<Compared> {
    let both = (old.get(metric)?, new.get(metric)?);
    let unit = if metric.is_share() {
        Unit::Share
    } else if metric.is_time() {
        Unit::Seconds
    } else {
        Unit::Number
    };
    let (change, test) = match metric {
        Metric::AllocateP50 | Metric::AllocateP90 | Metric::AllocateP99 | Metric::AllocateP999 => {
            (change::quantiles(both.0, both.1), "intervals of quantiles")
        }
        Metric::Exhausted | Metric::RefusedOtherwise | Metric::Unanswered => (change::shares(both.0, both.1), "two proportions"),
        _ => (change::means((both.0, old.bursts), (both.1, new.bursts)), "Welch"),
    };
    Some(Compared::new(place, name(metric), unit, both, change, test))
}

/// The name of a metric in a sentence.
fn name(metric: Metric) -> &'static str {
    match metric {
        Metric::ConflictsPerCall => "conflicts per call",
        Metric::Exhausted => "calls that give up",
        Metric::RefusedOtherwise => "calls refused for another reason",
        Metric::Unanswered => "calls without an answer",
        Metric::Lost => "lost records per burst",
        Metric::AllocateP50 => "time to allocate, p50",
        Metric::AllocateP99 => "time to allocate, p99",
        other => other.title(),
    }
}

/// Compares the largest numbers that meet the objectives.
fn compare_limits(old: &Searched, new: &Searched, points: &[Point], pairs: &mut Pairs) -> Vec<Compared> {
    let only = old.curves.len() == 1 && new.curves.len() == 1;
    let like = |limit: &Limit| old.curves.iter().find(|other| only || other.series == limit.series);
    let sharers = points.first().map_or("writers", |point| point.setting.system.sharers().1);
    let compared = |limit: &Limit| {
        let both = (of_limit(like(limit)?), of_limit(limit));
        let (change, apart) = decided(both.0, both.1);
        let compared =
            Compared::new(&limit.series, &format!("{sharers} that can share one pool"), Unit::Count, both, change, "intervals apart");
        Some(compared.judged(apart))
    };
    let found: Vec<Compared> = new.curves.iter().filter_map(compared).collect();
    let missing = new.curves.len() - found.len();
    if missing > 0 {
        pairs.apart.push(format!(
            "{} of this report {} not in the earlier one.",
            human::plural(missing as u64, "curve", "curves"),
            if missing == 1 { "is" } else { "are" }
        ));
    }
    found
}

/// The largest number for which the objectives hold, as an estimate up to the one above which they do not.
fn of_limit(limit: &Limit) -> Estimate {
    let value = f64::from(limit.holds_for);
    Estimate { value, low: Some(value), high: limit.at_most.map(|most| f64::from(most).max(value)) }
}

/// The change of a number that bursts decided, and whether it is significant: when the intervals are disjoint. Then some number between
/// them misses an objective in one report and meets it in the other, each with the confidence of its interval.
fn decided(old: Estimate, new: Estimate) -> (Change, bool) {
    let low = new.low.zip(old.high);
    let high = new.high.zip(old.low);
    let apart = low.is_some_and(|(new, old)| new > old) || high.is_some_and(|(new, old)| new < old);
    let part = |(new, old): (f64, f64)| (old > 0.0).then(|| new / old - 1.0);
    let ratio = part((new.value, old.value)).map(|value| Estimate { value, low: low.and_then(part), high: high.and_then(part) });
    (Change { part: ratio, p: None }, apart)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seconds;
    use crate::conflicts::ConflictsReport;
    use crate::conflicts::tests::{bursts, point, setting};

    fn report(points: Vec<Point>) -> ConflictsReport {
        ConflictsReport::new(Made { config: "c".to_owned(), build: "b".to_owned(), ..Made::default() }, points, false)
    }

    fn read_back(report: &ConflictsReport) -> Baseline<OldConflicts> {
        Baseline::read("old", &serde_json::to_string_pretty(report).unwrap()).unwrap()
    }

    fn slower(instances: u32, runs: u64) -> Point {
        let slow = Setting { read: Seconds::from_micros(8_000), series: "slow".to_owned(), ..setting(instances, 0) };
        let mut runs = bursts(instances, runs);
        for run in &mut runs {
            run.counts.conflicts += 3;
            run.counts.attempts += 3;
            run.took.iter_mut().for_each(|took| *took = Seconds::from_micros(2 * took.as_micros()));
        }
        Point::of(slow, 0, &runs)
    }

    #[test]
    fn points_read_back_to_the_last_digit() {
        let points = vec![point(2, 0), point(8, 50), slower(8, 30)];
        assert_eq!(read_back(&report(points.clone())).report.points, points);
    }

    #[test]
    fn points_with_faults_have_all_figures_compared() {
        let hostile = Setting { faults: "hostile".to_owned(), ..point(8, 0).setting };
        let mut new = report(vec![Point::of(hostile, 0, &crate::conflicts::tests::bursts(8, 100))]);
        new.compare(&read_back(&new)).unwrap();
        assert_eq!(new.against.unwrap().changes.len(), COMPARED.len());
    }

    #[test]
    fn a_report_beside_itself_did_not_change() {
        let mut new = report(vec![point(4, 0), point(8, 0)]);
        new.compare(&read_back(&new)).unwrap();
        let against = new.against.unwrap();
        let of_faults = COMPARED.iter().filter(|metric| Metric::OF_FAULTS.contains(metric)).count();
        assert_eq!(against.changes.len(), 2 * (COMPARED.len() - of_faults));
        for change in &against.changes {
            assert_eq!((change.p, change.significant, change.verdict()), (Some(1.0), false, "no change, not significant"), "{change:?}");
        }
        insta::assert_snapshot!(against.answers.join("\n"));
    }

    #[test]
    fn another_setting_is_told_and_its_change_is_significant() {
        let mut new = report(vec![slower(4, 1_000), slower(8, 1_000), slower(16, 1_000)]);
        new.compare(&read_back(&report(vec![point(2, 0), point(4, 0), point(8, 0)]))).unwrap();
        let against = new.against.unwrap();
        assert_eq!(against.differs, [Differs::new("latency", "4 ms", "8 ms")]);
        let conflicts = &against.changes[0];
        assert_eq!((&*conflicts.place, &*conflicts.figure, conflicts.significant), ("8 adaptors", "conflicts per call", true));
        let change = conflicts.change_percent.unwrap();
        // 22.5 conflicts per burst, and 3 more.
        assert!(
            (change.value - 100.0 * 3.0 / 22.5).abs() < 1e-9 && change.low.unwrap() > 12.0 && change.high.unwrap() < 15.0,
            "{change:?}"
        );
        insta::assert_snapshot!(against.answers.join("\n"));
    }

    #[test]
    fn what_cannot_be_compared_gets_one_sentence() {
        let byom = read_back(&report(vec![point(2, 0), point(4, 0)]));
        let refused = |old: &Baseline<OldConflicts>, points: Vec<Point>| report(points).compare(old).unwrap_err().0;
        let agents = Setting { system: System::Spiderpool, ..setting(2, 0) };
        let told = [refused(&byom, vec![Point::of(agents, 0, &bursts(2, 10))]), refused(&byom, vec![point(8, 0), point(16, 0)])];
        insta::assert_snapshot!(told.join("\n"));
        assert_eq!(report(vec![point(8, 0), point(16, 0)]).compare(&read_back(&report(vec![point(8, 0)]))), Ok(()));
    }

    #[test]
    fn what_is_no_earlier_report_gets_its_place() {
        let whole = serde_json::to_string_pretty(&report(vec![point(2, 0)])).unwrap();
        let cut = &whole[..whole.len() / 2];
        let refused = |text: &str| Baseline::<OldConflicts>::read("old", text).unwrap_err();
        assert_eq!(refused(cut).line, cut.lines().count());
        let line = 1 + whole.lines().position(|line| line.contains("\"bursts\"")).unwrap();
        let error = refused(&whole.replace("\"bursts\": 1000", "\"bursts\": \"many\""));
        assert_eq!((error.line, error.reason.contains("expected u64")), (line, true), "{error}");
        for (text, expected) in [
            ("{}".to_owned(), "there is no field `schema`"),
            (whole.replace("report-conflicts", "report-reclaim"), "it is a result of `report reclaim`"),
            (whole.replace("\"bursts\": 1000", "\"bursts\": 0"), "`points[0].bursts` is 0"),
            (whole.replace("\"conflicts_per_call\": {", "\"conflicts_per_call\": {\n\"low\": 9, \"unknown\": 1,"), "duplicate field `low`"),
            (whole.replace("0.75", "0.25"), "`points[0].conflicts_per_call` is 0.25, which is not within"),
            (whole.replace("\"instances\": 2,", ""), "missing field `instances`"),
        ] {
            let error = refused(&text).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_largest_number_changed_when_the_intervals_of_both_are_apart() {
        let limit = |holds_for, at_most| Searched {
            objectives: vec!["exhausted < 1 %".to_owned()],
            curves: vec![Limit { series: "as asked".to_owned(), holds_for, at_most }],
        };
        let searched = |found: Searched| ConflictsReport { searched: Some(found), ..report(vec![point(4, 0), point(5, 0)]) };
        let compared = |old: Searched, new: Searched| {
            let mut new = searched(new);
            new.compare(&read_back(&searched(old))).unwrap();
            new.against.unwrap()
        };
        let more = compared(limit(4, Some(4)), limit(8, None));
        let change = &more.changes[0];
        assert_eq!((change.significant, change.change_percent), (true, Some(Estimate { value: 100.0, low: Some(100.0), high: None })));
        let expected =
            "as asked: adaptors that can share one pool rose by 100.0 %, from 4 to 8 (95 % interval +100.0 to ? %), significant.";
        assert_eq!(more.answers[0], expected);
        // Four to six may be as many as five to nine.
        assert!(!compared(limit(4, Some(6)), limit(5, Some(9))).changes[0].significant);
        assert!(compared(limit(8, Some(9)), limit(5, Some(7))).changes[0].significant);
        let other = Searched { objectives: vec!["exhausted < 5 %".to_owned()], ..limit(4, None) };
        let refused = searched(other).compare(&read_back(&searched(limit(4, None)))).unwrap_err();
        assert!(refused.0.starts_with("`objective` was exhausted < 1 % and is exhausted < 5 %"), "{refused}");
        let refused = report(vec![point(4, 0)]).compare(&read_back(&searched(limit(4, None)))).unwrap_err();
        assert!(refused.0.contains("it is a result of `report capacity`"), "{refused}");
    }
}
