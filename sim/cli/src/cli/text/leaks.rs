//! `report reclaim`: a line a way, then what they say.

use ipam_reports::LeaksReport;
use ipam_reports::human;
use ipam_reports::leaks::Group;
use ipam_reports::reference;
use ipam_reports::spread::Margin;
use ipam_reports::statistics::Estimate;

use super::Paint;
use super::against::{against, what_if};
use super::table::{Align, Table};

/// A line for each scenario and way, between the headline and the answers.
pub fn leaks(report: &LeaksReport, paint: Paint) -> String {
    use Align::{Left, Right};
    let mut table = Table::new([Left, Left, Right, Right, Right, Right, Right, Right, Right, Right, Right, Right]);
    let head = ["scenario", "way", "addresses", "runs", "delay p50", "p99", "max", "bound", "late", "margin min", "p50", "answered on"];
    table.painted(head.map(str::to_owned), move |_, text| paint.dim(text));
    let mut last = "";
    for group in &report.groups {
        let name = if group.scenario == last { "" } else { &group.scenario };
        table.row(cells(name, group));
        last = &group.scenario;
    }
    let mut lines = against(report.against.as_ref(), paint);
    lines.extend([report.headline.clone(), String::new()]);
    if !report.groups.is_empty() {
        lines.extend(table.lines());
    }
    lines.extend(what_if(&report.what_if, paint));
    lines.push(String::new());
    lines.extend(report.answers.iter().cloned());
    lines.extend(reference::legend(report.answers.iter().map(String::as_str)).iter().map(|line| paint.dim(line)));
    if report.interrupted {
        lines.push(format!("{} the same command continues where this one stopped", paint.warn("interrupted:")));
    }
    lines.join("\n") + "\n"
}

fn cells(name: &str, group: &Group) -> [String; 12] {
    let time = |seconds: f64| Margin::from_micros((seconds * 1e6).round() as i64).to_string();
    let plain = |seconds: Option<f64>| seconds.map_or_else(|| "-".to_owned(), time);
    let value = |found: Option<Estimate>| plain(found.map(|found| found.value));
    [
        name.to_owned(),
        group.path.name().to_owned(),
        human::count(group.addresses),
        human::count(group.runs),
        value(group.delay_p50_s),
        value(group.delay_p99_s),
        plain(group.delay_max_s),
        plain(group.bound_max_s),
        human::count(group.late),
        plain(group.margin_min_s),
        value(group.margin_p50_s),
        human::count(group.answered),
    ]
}
