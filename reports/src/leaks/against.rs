//! Comparison of two reports on reclaim, way by way.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::{Group, LeaksReport};
use crate::Made;
use crate::against::{Compared, Differs, Incomparable, Kind, Pairs, Settings, Unit, differences, of_estimate};
use crate::human;
use crate::schema::ReclaimReportSchema;
use crate::statistics::Estimate;
use crate::statistics::change::{self, Change};

/// An earlier report on reclaim.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct OldLeaks {
    /// The way in which it was made.
    pub made: Made,
    /// The groups of addresses, by scenario and way.
    pub groups: Vec<Group>,
    /// The settings of each scenario, if the report has them.
    #[serde(default)]
    pub settings: BTreeMap<String, Settings>,
}

/// A figure of a group.
struct Figure {
    name: &'static str,
    field: &'static str,
    unit: Unit,
    of: fn(&Group) -> Option<Estimate>,
    change: fn(Estimate, Estimate) -> Change,
    test: &'static str,
}

const QUANTILES: &str = "intervals of quantiles";
const SHARES: &str = "two proportions";

/// The figures of a group that are compared, the headline first.
const FIGURES: [Figure; 5] = [
    Figure {
        name: "reclaim delay, p50",
        field: "delay_p50_s",
        unit: Unit::Seconds,
        of: |group| group.delay_p50_s,
        change: change::quantiles,
        test: QUANTILES,
    },
    Figure {
        name: "reclaim delay, p99",
        field: "delay_p99_s",
        unit: Unit::Seconds,
        of: |group| group.delay_p99_s,
        change: change::quantiles,
        test: QUANTILES,
    },
    Figure {
        name: "addresses later than their bound",
        field: "late_share",
        unit: Unit::Share,
        of: |group| group.late_share,
        change: change::shares,
        test: SHARES,
    },
    Figure {
        name: "safety margin, p1",
        field: "margin_p01_s",
        unit: Unit::Seconds,
        of: |group| group.margin_p01_s,
        change: change::quantiles,
        test: QUANTILES,
    },
    Figure {
        name: "addresses answered on",
        field: "answered_share",
        unit: Unit::Share,
        of: |group| group.answered_share,
        change: change::shares,
        test: SHARES,
    },
];

/// The number of figures in the headline.
const HEADLINE: usize = 2;

impl Kind for OldLeaks {
    const SCHEMA: &'static str = ReclaimReportSchema::NAME;
    const VERB: &'static str = "report reclaim";

    fn made(&self) -> &Made {
        &self.made
    }

    fn contradiction(&self) -> Option<String> {
        self.groups.iter().enumerate().find_map(|(number, group)| contradiction_of_group(&format!("groups[{number}]"), group))
    }
}

/// The first contradiction in the figures of a group.
pub(crate) fn contradiction_of_group(name: &str, group: &Group) -> Option<String> {
    FIGURES.iter().find_map(|figure| of_estimate(&format!("{name}.{}", figure.field), (figure.of)(group)?, figure.unit == Unit::Share))
}

/// The figures that two groups have.
pub(crate) fn figures_of(place: &str, old: &Group, new: &Group) -> Vec<Compared> {
    let figure = |figure: &Figure| {
        let both = ((figure.of)(old)?, (figure.of)(new)?);
        Some(Compared::new(place, figure.name, figure.unit, both, (figure.change)(both.0, both.1), figure.test))
    };
    FIGURES.iter().filter_map(figure).collect()
}

/// The names of the scenarios.
fn scenarios(groups: &[Group]) -> BTreeSet<&str> {
    groups.iter().map(|group| &*group.scenario).collect()
}

/// Checks that a report on these scenarios can be compared with an earlier one: they have one in common, or each has only one.
///
/// # Errors
/// They have none in common.
pub fn comparable(old: &OldLeaks, new: &BTreeSet<&str>) -> Result<(), Incomparable> {
    let before = scenarios(&old.groups);
    if before.is_empty() || new.is_empty() || !before.is_disjoint(new) || (before.len() == 1 && new.len() == 1) {
        return Ok(());
    }
    let list = |names: &BTreeSet<&str>| names.iter().copied().collect::<Vec<_>>().join(", ");
    Err(Incomparable(format!("no scenario is in both reports: the earlier one has {}, this one {}", list(&before), list(new))))
}

pub(super) fn compare(old: &OldLeaks, new: &LeaksReport) -> Result<Pairs, Incomparable> {
    let now = scenarios(&new.groups);
    comparable(old, &now)?;
    let before = scenarios(&old.groups);
    let alone = before.len() == 1 && now.len() == 1;
    let mut pairs = Pairs { headline: HEADLINE, ..Pairs::default() };
    if let (true, Some(before), Some(now)) = (alone, before.first(), now.first())
        && before != now
    {
        pairs.differs.push(Differs::new("scenario", before, now));
    }
    for (name, settings) in &new.settings {
        let known = old.settings.get(name).or_else(|| old.settings.values().next().filter(|_| alone));
        for differs in known.map(|known| differences(known, settings)).unwrap_or_default() {
            if !pairs.differs.contains(&differs) && differs.setting != "name" {
                pairs.differs.push(differs);
            }
        }
    }
    let mut met = 0;
    for group in &new.groups {
        let like = |other: &&Group| other.path == group.path && (alone || other.scenario == group.scenario);
        if let Some(other) = old.groups.iter().find(like) {
            met += 1;
            pairs.changes.extend(figures_of(&format!("{}, {}", group.scenario, group.path.name()), other, group));
        }
    }
    let groups = |count: usize| human::plural(count as u64, "way", "ways");
    for (count, which) in [(old.groups.len() - met, "the earlier report"), (new.groups.len() - met, "this report")] {
        if count > 0 {
            let verb = if count == 1 { "was" } else { "were" };
            pairs.apart.push(format!("{} of reclaim {verb} taken in {which} only.", groups(count)));
        }
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::against::Baseline;
    use crate::leaks::tests::found;
    use crate::spread::Margin;

    fn report(slower: i64, scenario: &str) -> LeaksReport {
        let mut all = found(60);
        for one in &mut all {
            one.scenario = scenario.to_owned();
            one.reclaimed.delay = one.reclaimed.delay.map(|delay| Margin::from_micros(delay.as_micros() + slower));
        }
        let mut report = LeaksReport::new(Made::default(), &all, Some(60), false);
        report.settings.insert(scenario.to_owned(), Settings::from([("delay".to_owned(), slower.to_string())]));
        report
    }

    fn read_back(report: &LeaksReport) -> Baseline<OldLeaks> {
        Baseline::read("old", &serde_json::to_string_pretty(report).unwrap()).unwrap()
    }

    #[test]
    fn a_report_beside_itself_did_not_change_and_a_slower_one_did() {
        let old = read_back(&report(0, "leaks"));
        assert_eq!(old.report.groups, report(0, "leaks").groups, "it reads back to the last digit");
        let mut same = report(0, "leaks");
        same.compare(&old).unwrap();
        let against = same.against.unwrap();
        assert!(
            !against.changes.is_empty() && against.changes.iter().all(|change| change.p == Some(1.0) && !change.significant),
            "{against:?}"
        );
        let mut slower = report(5_000_000, "leaks");
        slower.compare(&old).unwrap();
        let against = slower.against.unwrap();
        assert_eq!(against.differs, [Differs::new("delay", "0", "5000000")]);
        assert!(
            against.changes[0].significant && against.changes[0].change_percent.unwrap().low.unwrap() > 0.0,
            "{:?}",
            against.changes[0]
        );
        insta::assert_snapshot!(against.answers.join("\n"));
    }

    #[test]
    fn scenarios_that_have_nothing_in_common_are_refused_unless_there_is_one_of_each() {
        let old = read_back(&report(0, "leaks"));
        let mut other = report(0, "others");
        other.compare(&old).unwrap();
        assert_eq!(other.against.unwrap().differs, [Differs::new("scenario", "leaks", "others")]);
        let refused = comparable(&old.report, &["a", "b"].into()).unwrap_err().0;
        assert_eq!(refused, "no scenario is in both reports: the earlier one has leaks, this one a, b");
    }
}
