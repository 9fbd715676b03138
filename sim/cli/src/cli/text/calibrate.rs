//! `report calibrate`: the headline, then the requests by verb and resource and by load, then what the log does not contain.

use ipam_reports::calibrate::{CalibrateReport, Group, Level};
use ipam_reports::human;
use ipam_reports::spread::Margin;

use super::Paint;
use super::table::{Align, Table};

/// The maximum number of verbs and resources that are shown; the page has all.
const GROUPS_MAX: usize = 12;

/// The printed report: headline, tables, and what the log does not contain.
pub fn calibrate(report: &CalibrateReport, paint: Paint) -> String {
    use Align::{Left, Right};
    let mut lines = report.answers.clone();
    lines.push(String::new());
    let mut table = Table::new([Left, Left, Right, Right, Right, Right, Right, Right, Right]);
    let head = ["verb", "resource", "requests", "409", "p50", "p99", "calm", "p50", "p99"];
    table.painted(head.map(str::to_owned), move |_, text| paint.dim(text));
    report.groups.iter().take(GROUPS_MAX).for_each(|group| table.row(of_group(group)));
    lines.extend(table.lines());
    if let Some(more) = report.groups.len().checked_sub(GROUPS_MAX).filter(|more| *more > 0) {
        lines.push(paint.dim(&format!("and {more} more, which the page has")));
    }
    lines.push(String::new());
    let mut table = Table::new([Left, Right, Right, Right, Right, Right, Right]);
    let head = ["kind", "others in flight", "requests", "arrivals/s", "measured", "fitted", "off by"];
    table.painted(head.map(str::to_owned), move |_, text| paint.dim(text));
    let mut last = None;
    for level in &report.levels {
        table.row(of_level(level, last != Some(level.kind)));
        last = Some(level.kind);
    }
    lines.extend(table.lines());
    lines.extend([String::new(), "Not from this log:".to_owned()]);
    lines.extend(report.unsaid.iter().map(|line| format!("* {line}")));
    lines.join("\n") + "\n"
}

fn time(seconds: f64) -> String {
    Margin::from_micros((seconds * 1e6).round() as i64).to_string()
}

fn of_group(group: &Group) -> [String; 9] {
    let maybe = |seconds: Option<f64>| seconds.map_or_else(|| "-".to_owned(), time);
    [
        group.verb.clone(),
        group.resource.clone(),
        human::count(group.requests),
        human::count(group.conflicts),
        time(group.p50_s),
        time(group.p99_s),
        human::count(group.calm),
        maybe(group.calm_p50_s),
        maybe(group.calm_p99_s),
    ]
}

fn of_level(level: &Level, first: bool) -> [String; 7] {
    let ends = match (level.measured_s.low, level.measured_s.high) {
        (Some(low), Some(high)) => format!(" ({} to {})", time(low), time(high)),
        _ => String::new(),
    };
    [
        if first { level.kind.name().to_owned() } else { String::new() },
        level.others(),
        human::count(level.requests),
        format!("{:.1}", level.arrivals_per_s),
        format!("{}{ends}", time(level.measured_s.value)),
        level.fitted_s.map_or_else(|| "-".to_owned(), time),
        level.error().map_or_else(|| "-".to_owned(), |error| format!("{:+.0} %", 100.0 * error)),
    ]
}
