//! The values of metrics, in sentences.

use super::summary::Summary;
use super::value::Source;
use crate::human;
use crate::spread::Margin;
use crate::statistics::Estimate;
use crate::statistics::change;

/// Formats a value of one run.
pub(super) fn number(summary: &Summary, value: f64) -> String {
    match value {
        _ if summary.is_time() => Margin::from_micros((value * 1e6).round() as i64).to_string(),
        value if value.fract() == 0.0 && value >= 0.0 && value < u64::MAX as f64 => human::count(value as u64),
        value => format!("{value:.2}"),
    }
}

/// Formats a mean, with two decimals unless it is a time.
pub(super) fn mean(summary: &Summary, value: f64) -> String {
    if summary.is_time() { number(summary, value) } else { format!("{value:.2}") }
}

/// A number and its interval: `4.10 (3.75 to 4.45)`.
pub(super) fn with_ends(found: Estimate, show: impl Fn(f64) -> String) -> String {
    match (found.low, found.high) {
        (None, None) => show(found.value),
        (low, high) => {
            let end = |end: Option<f64>| end.map_or_else(|| "?".to_owned(), &show);
            format!("{} ({} to {})", show(found.value), end(low), end(high))
        }
    }
}

/// Groups the summaries by metric, each with all its points.
fn by_metric(summaries: &[Summary]) -> impl Iterator<Item = &[Summary]> {
    summaries.chunk_by(|one, next| (one.source, &one.metric) == (next.source, &next.metric))
}

/// The source whose metrics get sentences: the system, or the harness where the system has none.
fn told(summaries: &[Summary]) -> Source {
    summaries.first().map_or(Source::Run, |first| first.source)
}

/// A sentence for each metric of the system, or of the harness where the system has none.
pub(super) fn sentences(summaries: &[Summary]) -> Vec<String> {
    let source = told(summaries);
    by_metric(summaries).filter(|points| points[0].source == source && !is_nothing(points)).map(sentence).collect()
}

/// Whether all values of a metric are 0, so that there is nothing to report.
fn is_nothing(points: &[Summary]) -> bool {
    points.iter().all(|one| one.min == 0.0 && one.max == 0.0)
}

fn sentence(points: &[Summary]) -> String {
    let [one] = points else { return of_points(points) };
    format!(
        "{}, {}: {} a run, nine of ten runs at most {}, from {} to {} in all; {} in {}.",
        one.metric,
        one.scenario,
        with_ends(one.mean, |value| mean(one, value)),
        number(one, one.p90.value),
        number(one, one.min),
        number(one, one.max),
        number(one, one.sum),
        human::plural(one.runs, "run", "runs"),
    )
}

/// The points with the least and with the largest mean; the first of equal ones.
fn extremes(points: &[Summary]) -> (&Summary, &Summary) {
    let first = &points[0];
    points.iter().fold((first, first), |(least, most), one| {
        let less = if one.mean.value < least.mean.value { one } else { least };
        let more = if one.mean.value > most.mean.value { one } else { most };
        (less, more)
    })
}

fn of_points(points: &[Summary]) -> String {
    let (least, most) = extremes(points);
    if least.mean.value == most.mean.value {
        return format!("{}: {} a run at all points.", least.metric, mean(least, least.mean.value));
    }
    // Of several points the two that are furthest apart differ more than two that are chosen beforehand.
    let judged = match points {
        [one, other] => {
            let change = change::means((one.mean, one.runs), (other.mean, other.runs));
            match change.p {
                Some(_) if change.is_significant() => ", significant",
                Some(_) => ", not significant",
                None => ", too few runs to say more",
            }
        }
        _ => "",
    };
    format!(
        "{}: from {} a run ({}) to {} ({}){judged}.",
        least.metric,
        with_ends(least.mean, |value| mean(least, value)),
        least.scenario,
        with_ends(most.mean, |value| mean(most, value)),
        most.scenario,
    )
}

/// A sentence on the first metric that counted anything, at the point where its mean is largest.
pub(super) fn headline(summaries: &[Summary], assumed: &str) -> String {
    let mut all = by_metric(summaries).filter(|points| !is_nothing(points));
    let Some(points) = all.next() else { return "No metric gave a number.".to_owned() };
    let (_, most) = extremes(points);
    let sure = match (most.mean.low, most.mean.high) {
        (Some(low), Some(high)) => format!("{} to {} with 95 % confidence", mean(most, low), mean(most, high)),
        _ => "which one run cannot be sure of".to_owned(),
    };
    let assumed = if assumed.is_empty() { String::new() } else { format!(", {assumed}") };
    let at_most = if points.len() > 1 { " at the most" } else { "" };
    format!("{} is {} a run{at_most}, {sure} ({}{assumed}).", most.metric, mean(most, most.mean.value), most.scenario)
}
