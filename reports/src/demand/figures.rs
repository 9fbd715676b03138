//! The figures of a report on pods that come and go.

use crate::figure::{Axis, Curve, Figure, INKS, Kind, Scale};
use crate::leaks::{self, Found};
use crate::statistics::Estimate;

use super::need::Need;
use super::trial::{Instant, Trial};
use super::{DemandReport, EVERY_DEL_ARRIVES, Form};

/// A figure and its caption.
#[derive(Clone, Debug, PartialEq)]
pub struct Plate {
    /// The curves and axes to draw.
    pub figure: Figure,
    /// The caption, in a sentence or two.
    pub caption: &'static str,
}

/// The figures of a report; `found` holds the addresses reclaimed with the given pools.
pub fn plates(report: &DemandReport, found: &[Found]) -> Vec<Plate> {
    // Other forms look much the same: a table is enough for them.
    let own = |number: usize, form: &Form| number == 0 || form.name == EVERY_DEL_ARRIVES;
    let used = report.forms.iter().enumerate().filter(|(number, form)| own(*number, form) && !form.usage.0.is_empty());
    let mut plates: Vec<Plate> = used.map(|(number, form)| usage(number, form)).collect();
    plates.extend(headroom(&report.forms));
    plates.extend(sizes(report));
    let recorded = report.forms.first().and_then(|form| form.smallest);
    plates.extend(report.resampled.iter().map(|resampled| resampled.plate(recorded)));
    let delays = leaks::plates(found).into_iter().filter(|plate| plate.figure.id.ends_with("-delay"));
    plates.extend(delays.map(|plate| Plate { figure: plate.figure, caption: plate.caption }));
    plates
}

fn time() -> Axis {
    Axis { label: "time since the beginning of the run".to_owned(), kind: Kind::Seconds, scale: Scale::Linear }
}

fn curve(name: &str, ink: usize, form: &Form, of: impl Fn(&Instant) -> Estimate) -> Curve {
    let points = form.usage.0.iter().map(|instant| (instant.at_s, of(instant))).collect();
    Curve { name: name.to_owned(), ink, points, ..Curve::default() }
}

fn usage(number: usize, form: &Form) -> Plate {
    let mut all = curve("recorded in all", 0, form, |at| at.total);
    if let (Some(smallest), Some(first), Some(last)) = (form.smallest, form.usage.0.first(), form.usage.0.last()) {
        all.formula = vec![(first.at_s, smallest as f64), (last.at_s, smallest as f64)];
    }
    let curves = vec![
        all,
        curve("of living pods", 2, form, |at| at.living),
        curve("of pods on their way out", 1, form, |at| at.ending),
        curve("of pods that are gone", 3, form, |at| at.leaked),
    ];
    Plate {
        figure: Figure {
            id: format!("usage-{}", number + 1),
            title: format!("Addresses over time: {}", form.name),
            x: time(),
            y: Axis { label: "addresses".to_owned(), kind: Kind::Count, scale: Scale::Linear },
            curves,
            dotted: "smallest pool that is enough",
        },
        caption: "How many addresses are recorded with the given pool, and for whom; means over runs. Dotted: the \
                  smallest pool that meets what is asked.",
    }
}

fn headroom(forms: &[Form]) -> Option<Plate> {
    let free = |form: &Form, total: Estimate| {
        let pool = form.given.addresses as f64;
        let free = |used: f64| (pool - used).max(0.0);
        Estimate { value: free(total.value), low: total.high.map(free), high: total.low.map(free) }
    };
    let used = forms.iter().enumerate().take(INKS).filter(|(_, form)| !form.usage.0.is_empty());
    let curves: Vec<Curve> = used.map(|(ink, form)| curve(&form.name, ink, form, |at| free(form, at.total))).collect();
    (!curves.is_empty()).then(|| Plate {
        figure: Figure {
            id: "head-room".to_owned(),
            title: "Head-room of the given pool over time".to_owned(),
            x: time(),
            y: Axis { label: "free addresses".to_owned(), kind: Kind::Count, scale: Scale::Linear },
            curves,
            dotted: "",
        },
        caption: "How many addresses of the given pool are free; means over runs.",
    })
}

/// The factor by which a given pool may exceed all other sizes before it is left out, as it would hide how they differ.
const FAR: f64 = 1.5;

fn sizes(report: &DemandReport) -> Option<Plate> {
    let is_given = |trial: &Trial| report.forms.iter().any(|form| form.name == trial.form && form.given.addresses == trial.addresses);
    let tried = report.trials.iter().filter(|trial| !is_given(trial)).map(|trial| trial.addresses).max();
    let is_near = |trial: &&Trial| tried.is_none_or(|tried| trial.addresses as f64 <= FAR * tried as f64);
    let below = report.needs.iter().filter_map(|need| need.parse::<Need>().ok()?.refused_below()).reduce(f64::min);
    let of = |(ink, form): (usize, &Form)| {
        let of_form = report.trials.iter().filter(|trial| trial.form == form.name).filter(is_near);
        let mut points: Vec<(f64, Estimate)> = of_form
            // The figures of the worst run are not estimates.
            .map(|trial| (trial.addresses as f64, Estimate { value: trial.refused, low: Some(trial.refused), high: Some(trial.refused) }))
            .collect();
        points.sort_by(|left, right| left.0.total_cmp(&right.0));
        Curve { name: form.name.clone(), ink, points, ..Curve::default() }
    };
    let mut curves: Vec<Curve> = report.forms.iter().enumerate().take(INKS).map(of).filter(|curve| curve.points.len() > 1).collect();
    let places = || curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.0));
    if let (Some(first), Some(last), Some(below)) = (places().reduce(f64::min), places().reduce(f64::max), below) {
        curves[0].formula = vec![(first, below), (last, below)];
    }
    (!curves.is_empty()).then(|| Plate {
        figure: Figure {
            id: "sizes".to_owned(),
            title: "Pods that are refused an address, in the worst run".to_owned(),
            x: Axis { label: "addresses in the pool".to_owned(), kind: Kind::Count, scale: Scale::Close },
            y: Axis { label: "share of pods refused at least once".to_owned(), kind: Kind::Share, scale: Scale::Linear },
            curves,
            dotted: "what it has to stay below",
        },
        caption: "How many pods were refused an address at least once because none was free, with each size that was tried, in the run in \
                  which that were most. A given pool that is far larger than the others is left out.",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demand::tests::report;

    #[test]
    fn each_form_has_its_use_and_all_share_the_rest() {
        let plates = plates(&report(), &leaks::tests::found(20));
        let ids: Vec<&str> = plates.iter().map(|plate| plate.figure.id.as_str()).collect();
        assert_eq!(ids, ["usage-1", "usage-2", "head-room", "sizes", "leaks-delay"]);
        assert_eq!(plates[0].figure.curves[0].formula, [(0.0, 40.0), (990.0, 40.0)]);
        let tried: Vec<f64> = plates[3].figure.curves[0].points.iter().map(|point| point.0).collect();
        assert_eq!(tried, [38.0, 39.0, 40.0], "the pool of 100 that was given would leave them no room");
        assert_eq!(plates[3].figure.curves[0].formula, [(38.0, 0.01), (40.0, 0.01)]);
        let free = &plates[2].figure.curves[0].points[0].1;
        assert!(free.low.unwrap() <= free.value && free.value <= free.high.unwrap());
    }
}
