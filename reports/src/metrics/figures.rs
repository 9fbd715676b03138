//! The figures of a report on metrics: the distribution of each metric over runs, one curve for each point.

use super::summary::{Numbers, sorted};
use super::value::{Source, Value};
use crate::figure::{Axis, Curve, Figure, INKS, Kind, Scale};
use crate::leaks::distribution;

/// A figure and its caption.
#[derive(Clone, Debug, PartialEq)]
pub struct Plate {
    /// The curves and axes to draw.
    pub figure: Figure,
    /// The caption, in a sentence or two.
    pub caption: &'static str,
}

/// The number of the harness's metrics that are drawn where the system has none and the user names none.
const OF_RUNS: usize = 6;

const CAPTION: &str = "The share of the runs in which it was not more. Where there are more points than colours, the table has the others.";

/// Returns a figure for each of the `wanted` metrics; if none is named, for those of the system, or else for the first ones of the harness.
pub fn plates(values: &[Value], wanted: &[String]) -> Vec<Plate> {
    let all = sorted(values, wanted);
    let metrics: Vec<&[Numbers<'_>]> = all.chunk_by(|one, next| (one.source, one.metric) == (next.source, next.metric)).collect();
    let own = metrics.iter().filter(|points| points[0].source == Source::System).count();
    let drawn = match (wanted.is_empty(), own) {
        (true, 0) => OF_RUNS,
        (true, own) => own,
        (false, _) => metrics.len(),
    };
    metrics.into_iter().take(drawn).map(plate).collect()
}

fn plate(points: &[Numbers<'_>]) -> Plate {
    let curve = |(ink, point): (usize, &Numbers<'_>)| {
        let runs: Vec<Vec<f64>> = point.by_seed.iter().map(|(_, value)| vec![*value]).collect();
        Curve { name: point.scenario.to_owned(), ink, points: distribution(&runs), ..Curve::default() }
    };
    let metric = points[0].metric;
    let kind = if metric.ends_with("_s") { Kind::Seconds } else { Kind::Count };
    Plate {
        figure: Figure {
            id: format!("{}-{}", points[0].source.name(), file_name(metric)),
            title: format!("{metric} in a run"),
            x: Axis { label: metric.to_owned(), kind, scale: Scale::Linear },
            y: Axis { label: "share of the runs".to_owned(), kind: Kind::Share, scale: Scale::Linear },
            curves: points.iter().take(INKS).enumerate().map(curve).collect(),
            dotted: "",
        },
        caption: CAPTION,
    }
}

/// A metric's name as part of a file name, with unsafe characters replaced.
fn file_name(metric: &str) -> String {
    metric.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' }).take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::tests::values;

    #[test]
    fn metrics_of_the_system_are_drawn_and_others_where_they_are_named_or_alone() {
        let ids = |values: &[Value], wanted: &[String]| plates(values, wanted).into_iter().map(|plate| plate.figure.id).collect::<Vec<_>>();
        let all = values(20);
        assert_eq!(ids(&all, &[]), ["system-given"]);
        assert_eq!(ids(&all, &["requests".to_owned()]), ["run-requests"]);
        let of_runs: Vec<Value> = all.iter().filter(|value| value.source == Source::Run).cloned().collect();
        assert_eq!(ids(&of_runs, &[]), ["run-requests"]);
        let given = plates(&all, &[]).remove(0).figure;
        assert_eq!(given.curves.iter().map(|curve| &*curve.name).collect::<Vec<_>>(), ["swarm, nodes 2", "swarm, nodes 4"]);
        assert_eq!(given.curves[0].points.last().map(|(at, share)| (*at, share.value)), Some((7.0, 1.0)));
    }
}
