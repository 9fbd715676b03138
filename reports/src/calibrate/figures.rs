//! The figure of the fit: measured latency against load, beside the latency that the fitted settings give.

use super::{CalibrateReport, Kind, Level};
use crate::figure::{Axis, Curve, Figure, Kind as Written, Scale};

/// The figures of a report.
pub fn figures(report: &CalibrateReport) -> Vec<Figure> {
    let curves: Vec<Curve> = Kind::ALL
        .into_iter()
        .enumerate()
        .filter_map(|(ink, kind)| {
            let of_kind: Vec<&Level> = report.levels.iter().filter(|level| level.kind == kind).collect();
            let at = |level: &Level| level.load + 1.0;
            let points = of_kind.iter().map(|level| (at(level), level.measured_s)).collect::<Vec<_>>();
            let formula = of_kind.iter().filter_map(|level| Some((at(level), level.fitted_s?))).collect();
            (!points.is_empty()).then(|| Curve { name: kind.name().to_owned(), ink, points, formula, ..Curve::default() })
        })
        .collect();
    vec![Figure {
        id: "latency".to_owned(),
        title: "Mean latency at the server by load".to_owned(),
        x: Axis { label: "requests in flight, the one that comes among them".to_owned(), kind: Written::Count, scale: Scale::Log },
        y: Axis { label: "from the arrival of a request to its answer".to_owned(), kind: Written::Seconds, scale: Scale::Log },
        curves,
        dotted: "fitted settings",
    }]
}
