//! Comparison of two reports on metrics, point by point.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::{MetricsReport, Summary};
use crate::Made;
use crate::against::{Compared, Differs, Incomparable, Kind, Pairs, Settings, Unit, differences, of_estimate};
use crate::human;
use crate::schema::MetricsReportSchema;
use crate::statistics::change;

/// An earlier report on metrics.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct OldMetrics {
    /// The way in which it was made.
    pub made: Made,
    /// The metrics, point by point.
    pub summaries: Vec<Summary>,
    /// The settings of each point, if the report has them.
    #[serde(default)]
    pub settings: BTreeMap<String, Settings>,
}

impl Kind for OldMetrics {
    const SCHEMA: &'static str = MetricsReportSchema::NAME;
    const VERB: &'static str = "report metrics";

    fn made(&self) -> &Made {
        &self.made
    }

    fn contradiction(&self) -> Option<String> {
        let of = |(number, one): (usize, &Summary)| {
            let figures = [("mean", one.mean), ("p50", one.p50), ("p90", one.p90), ("p99", one.p99)];
            figures.into_iter().find_map(|(name, found)| of_estimate(&format!("summaries[{number}].{name}"), found, false))
        };
        self.summaries.iter().enumerate().find_map(of)
    }
}

/// The names of the points.
fn points(summaries: &[Summary]) -> BTreeSet<&str> {
    summaries.iter().map(|one| &*one.scenario).collect()
}

/// Checks that a report on these points can be compared with an earlier one: they have one in common, or each has only one.
///
/// # Errors
/// They have none in common.
pub fn comparable(old: &OldMetrics, new: &BTreeSet<&str>) -> Result<(), Incomparable> {
    let before = points(&old.summaries);
    if before.is_empty() || new.is_empty() || !before.is_disjoint(new) || (before.len() == 1 && new.len() == 1) {
        return Ok(());
    }
    let list = |names: &BTreeSet<&str>| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    Err(Incomparable(format!("no point is in both reports: the earlier one has {}, this one {}", list(&before), list(new))))
}

/// The figures that both summaries have.
fn figures_of(place: &str, old: &Summary, new: &Summary) -> [Compared; 2] {
    let unit = if new.is_time() { Unit::Seconds } else { Unit::Number };
    let [mean, half] = ["mean", "p50"].map(|figure| format!("{}, {figure}", new.metric));
    let means = change::means((old.mean, old.runs), (new.mean, new.runs));
    [
        Compared::new(place, &mean, unit, (old.mean, new.mean), means, "Welch\u{2019}s t"),
        Compared::new(place, &half, unit, (old.p50, new.p50), change::quantiles(old.p50, new.p50), "intervals of quantiles"),
    ]
}

pub(super) fn compare(old: &OldMetrics, new: &MetricsReport) -> Result<Pairs, Incomparable> {
    let (before, now) = (points(&old.summaries), points(&new.summaries));
    comparable(old, &now)?;
    let alone = before.len() == 1 && now.len() == 1;
    let mut pairs = Pairs { headline: 1, ..Pairs::default() };
    if let (true, Some(before), Some(now)) = (alone, before.first(), now.first())
        && before != now
    {
        pairs.differs.push(Differs::new("point", before, now));
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
    for one in &new.summaries {
        let like =
            |other: &&Summary| (other.source, &other.metric) == (one.source, &one.metric) && (alone || other.scenario == one.scenario);
        if let Some(other) = old.summaries.iter().find(like) {
            met += 1;
            pairs.changes.extend(figures_of(&one.scenario, other, one));
        }
    }
    let metrics = |count: usize| human::plural(count as u64, "metric", "metrics");
    for (count, which) in [(old.summaries.len() - met, "the earlier report"), (new.summaries.len() - met, "this report")] {
        if count > 0 {
            let verb = if count == 1 { "was" } else { "were" };
            pairs.apart.push(format!("{} of a point {verb} counted in {which} only.", metrics(count)));
        }
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::against::Baseline;
    use crate::metrics::tests::values;

    fn report(more: f64) -> MetricsReport {
        let mut all = values(40);
        all.iter_mut().for_each(|value| value.value += more);
        MetricsReport::new(Made::default(), &all, &["given".to_owned()], Some(80), false)
    }

    fn read_back(report: &MetricsReport) -> Baseline<OldMetrics> {
        Baseline::read("old", &serde_json::to_string_pretty(report).unwrap()).unwrap()
    }

    #[test]
    fn a_report_beside_itself_did_not_change_and_one_that_counts_more_did() {
        let old = read_back(&report(0.0));
        assert_eq!(old.report.summaries, report(0.0).summaries, "it reads back to the last digit");
        let mut same = report(0.0);
        same.compare(&old).unwrap();
        let against = same.against.unwrap();
        assert!(against.changes.len() == 4 && against.changes.iter().all(|change| !change.significant), "{against:?}");
        let mut more = report(5.0);
        more.compare(&old).unwrap();
        let against = more.against.unwrap();
        let mean = &against.changes[0];
        assert_eq!((&*mean.place, &*mean.figure), ("swarm, nodes 2", "given, mean"));
        assert!(mean.significant && mean.change_percent.unwrap().low.unwrap() > 0.0, "{mean:?}");
    }

    #[test]
    fn points_that_have_nothing_in_common_are_refused() {
        let old = read_back(&report(0.0));
        let refused = comparable(&old.report, &["a", "b"].into()).unwrap_err().0;
        assert_eq!(refused, "no point is in both reports: the earlier one has `swarm, nodes 2`, `swarm, nodes 4`, this one `a`, `b`");
    }
}
