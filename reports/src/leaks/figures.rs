//! The figures of a report on reclaim: distributions, one curve for each way.

use crate::figure::{Axis, Curve, Figure, Kind, Scale};
use crate::reclaim::{ReclaimPath, Reclaimed};
use crate::statistics::{self, Estimate};

use super::Found;
use super::group::{self, Runs};

/// A figure and its caption.
#[derive(Clone, Debug, PartialEq)]
pub struct Plate {
    /// The scenario that it shows.
    pub scenario: String,
    /// The curves and axes to draw.
    pub figure: Figure,
    /// The caption, in a sentence or two.
    pub caption: &'static str,
}

/// The number of points with which a distribution is drawn.
const POINTS: usize = 60;

/// The time at which shorter ones are drawn: a logarithmic axis cannot show zero.
const LEAST_S: f64 = 0.001;

/// A figure of each address, and how its distribution is drawn.
struct Kindred {
    id: &'static str,
    title: &'static str,
    axis: (&'static str, Kind, Scale),
    of: fn(&Reclaimed) -> Option<f64>,
    /// The position of a vertical line for a way.
    limit: fn(&Runs<'_>) -> Option<f64>,
    dotted: &'static str,
    caption: &'static str,
}

const DRAWN: [Kindred; 3] = [
    Kindred {
        id: "delay",
        title: "Time from the end of the entitlement to the removal",
        axis: ("time since the pod's entitlement to the address ended", Kind::Seconds, Scale::Log),
        of: |one| group::delay(one).map(|seconds| seconds.max(LEAST_S)),
        limit: |runs| runs.values().flatten().filter_map(|one| one.bound).max().map(|bound| bound.as_f64()),
        dotted: "longest bound",
        caption: "How many of the addresses were not recorded any more so long after their pod was gone, had ended, or had its \
                  grace over. Dotted: the longest bound of the way (G §10.2), which holds while everything is healthy. What \
                  took less than 1 ms stands at 1 ms.",
    },
    Kindred {
        id: "bound",
        title: "Part of its bound that each removal took",
        axis: ("time to the removal, as a part of the bound of the address", Kind::Share, Scale::Linear),
        of: group::part_of_bound,
        limit: |runs| runs.values().flatten().any(|one| one.bound.is_some()).then_some(1.0),
        dotted: "the bound",
        caption: "The same, each address measured by its own bound of G §10.2: what lies on the right of the dotted line \
                  came too late for a healthy cluster.",
    },
    Kindred {
        id: "margin",
        title: "Time from the last answer on an address to its removal",
        axis: ("safety margin: below 0, a sandbox still answered", Kind::Seconds, Scale::Linear),
        of: group::margin,
        limit: |_| Some(0.0),
        dotted: "no margin",
        caption: "How long the last sandbox of the pod had been silent when the record went. On the left of the dotted line it still \
                  answered on an address that was free for others.",
    },
];

/// The figures of all scenarios.
pub fn plates(found: &[Found]) -> Vec<Plate> {
    let sorted = group::sorted(found);
    let mut scenarios: Vec<&str> = sorted.iter().map(|(scenario, ..)| *scenario).collect();
    scenarios.dedup();
    let of_scenario = |scenario: &str| {
        let ways: Vec<(ReclaimPath, &Runs<'_>)> =
            sorted.iter().filter(|(name, ..)| *name == scenario).map(|(_, path, runs)| (*path, runs)).collect();
        DRAWN.iter().filter_map(move |drawn| plate(scenario, drawn, &ways)).collect::<Vec<_>>()
    };
    scenarios.into_iter().flat_map(of_scenario).collect()
}

fn plate(scenario: &str, drawn: &Kindred, ways: &[(ReclaimPath, &Runs<'_>)]) -> Option<Plate> {
    let (label, kind, scale) = drawn.axis;
    let curves: Vec<Curve> = ways
        .iter()
        .filter_map(|(path, runs)| {
            let points = distribution(&group::numbers(runs, drawn.of));
            let limit = (drawn.limit)(runs).map(|at| vec![(at, 0.0), (at, 1.0)]).unwrap_or_default();
            let ink = ReclaimPath::ALL.iter().position(|one| one == path)?;
            (!points.is_empty()).then(|| Curve { name: name(*path).to_owned(), ink, points, formula: limit, ..Curve::default() })
        })
        .collect();
    (!curves.is_empty()).then(|| Plate {
        scenario: scenario.to_owned(),
        figure: Figure {
            id: format!("{}-{}", file_name(scenario), drawn.id),
            title: format!("{}: {scenario}", drawn.title),
            x: Axis { label: label.to_owned(), kind, scale },
            y: Axis { label: "share of the addresses".to_owned(), kind: Kind::Share, scale: Scale::Linear },
            curves,
            dotted: drawn.dotted,
        },
        caption: drawn.caption,
    })
}

/// A scenario's name as part of a file name, with unsafe characters replaced.
fn file_name(scenario: &str) -> String {
    scenario.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' }).take(80).collect()
}

fn name(path: ReclaimPath) -> &'static str {
    match path {
        ReclaimPath::Trace => "traced",
        ReclaimPath::Scan => "found by a scan",
        ReclaimPath::Sweep => "swept with endpoints",
    }
}

/// The share of numbers up to some of them, with its interval over runs.
pub(crate) fn distribution(runs: &[Vec<f64>]) -> Vec<(f64, Estimate)> {
    let mut all: Vec<f64> = runs.iter().flatten().copied().collect();
    all.sort_by(f64::total_cmp);
    let Some(last) = all.len().checked_sub(1) else { return Vec::new() };
    let mut at: Vec<f64> = (0..=POINTS).map(|number| all[last * number / POINTS]).collect();
    at.dedup();
    let up_to = |x: f64| {
        let pairs = runs.iter().map(|run| (run.iter().filter(|number| **number <= x).count() as f64, run.len() as f64));
        Some((x, statistics::share(pairs)?))
    };
    at.into_iter().filter_map(up_to).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leaks::tests::found;

    #[test]
    fn each_scenario_has_its_distributions_with_their_limits() {
        let mut all = found(20);
        all[0].scenario = "../else".to_owned();
        let plates = plates(&all);
        let ids: Vec<&str> = plates.iter().map(|plate| plate.figure.id.as_str()).collect();
        assert_eq!(ids, ["---else-delay", "---else-bound", "---else-margin", "leaks-delay", "leaks-bound", "leaks-margin"]);
        let delay = &plates[3].figure;
        assert_eq!(delay.curves.iter().map(|curve| &*curve.name).collect::<Vec<_>>(), ["traced", "found by a scan"]);
        assert_eq!(delay.curves[1].formula, [(72.0, 0.0), (72.0, 1.0)]);
        for curve in &delay.curves {
            assert!(curve.points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1.value <= pair[1].1.value));
            assert_eq!(curve.points.last().map(|(_, share)| share.value), Some(1.0));
        }
    }

    #[test]
    fn a_distribution_counts_what_is_not_larger() {
        let points = distribution(&[vec![1.0, 3.0], vec![2.0, 3.0]]);
        assert_eq!(points.iter().map(|(x, share)| (*x, share.value)).collect::<Vec<_>>(), [(1.0, 0.25), (2.0, 0.5), (3.0, 1.0)]);
        assert!(distribution(&[]).is_empty());
    }
}
