//! `report conflicts`: a line per point, then the answers.

use ipam_reports::ConflictsReport;
use ipam_reports::conflicts::advice::{Advice, figure_of, told, verdict};
use ipam_reports::conflicts::figures::Along;
use ipam_reports::conflicts::{Metric, Point, answer, series};
use ipam_reports::human;
use ipam_reports::reference;
use ipam_reports::statistics::Estimate;

use super::Paint;
use super::against::against;
use super::table::{Align, Table};

/// A line for each point, grouped by curve, between the headline and the answers; with advice, a line for each policy instead.
pub fn conflicts(report: &ConflictsReport, paint: Paint) -> String {
    if let Some(advice) = &report.advice {
        return advised(report, advice, paint);
    }
    use Align::{Left, Right};
    let mut table = Table::new([Left, Right, Right, Left, Left, Left, Left, Left, Right, Right, Right, Left, Left, Left]);
    let all: Vec<&Point> = report.points.iter().collect();
    let along = Along::of(&all);
    let axis = match along {
        Along::Instances => "adaptors",
        Along::Nodes => "nodes",
        _ => "at",
    };
    let with_faults = all.iter().any(|point| point.setting.has_faults());
    let head = [
        "curve",
        axis,
        "bursts",
        "conflicts/call",
        "formula",
        "model",
        "calls that give up",
        "formula",
        "model",
        "lost/burst",
        "p50 to p99",
        // Without faults these columns are empty, and take no room.
        if with_faults { "refused otherwise" } else { "" },
        if with_faults { "no answer" } else { "" },
        if with_faults { "met a fault" } else { "" },
    ];
    table.painted(head.map(str::to_owned), move |_, text| paint.dim(text));
    for (name, points) in series(all) {
        for (number, point) in points.into_iter().enumerate() {
            let name = if number == 0 { name } else { "" };
            table.row(cells(name, along, point));
        }
    }
    let mut lines = against(report.against.as_ref(), paint);
    lines.extend([report.headline.clone(), String::new()]);
    lines.extend(table.lines());
    if report.points.iter().any(|point| !point.reached) {
        lines.push(format!("{} as many bursts as allowed, whose intervals do not decide yet", paint.warn("*")));
    }
    lines.push(String::new());
    lines.extend(report.answers.iter().cloned());
    lines.extend(reference::legend(report.answers.iter().map(String::as_str)).iter().map(|line| paint.dim(line)));
    if report.interrupted {
        lines.push(format!("{} the same command continues where this one stopped", paint.warn("interrupted:")));
    }
    lines.join("\n") + "\n"
}

/// Advice: the headline, a line for each policy, then the other answers.
fn advised(report: &ConflictsReport, advice: &Advice, paint: Paint) -> String {
    use Align::{Left, Right};
    let mut table = Table::new([Right, Left, Left, Right, Left, Right, Left, Right, Left, Right, Right, Left]);
    let head = ["", "policy", "it takes", "give up", "", "conflicts", "", "lost", "", "p50", "p99", ""];
    table.painted(head.map(str::to_owned), move |_, text| paint.dim(text));
    let loses = advice.ranked.iter().filter_map(|ranked| figure_of(ranked, Metric::Lost)).any(|gain| gain.with.value > 0.0);
    for ranked in &advice.ranked {
        let both = |metric| figure_of(ranked, metric).map_or_else(Default::default, |gain| (told(gain), verdict(ranked, gain)));
        let (gives_up, conflicts, p99) = (both(Metric::Exhausted), both(Metric::ConflictsPerCall), both(Metric::AllocateP99));
        let lost = if loses { both(Metric::Lost) } else { Default::default() };
        let p50 = both(Metric::AllocateP50).0;
        let needs = ranked.needs.told().to_owned();
        table.row([
            ranked.rank.to_string(),
            ranked.policy.clone(),
            needs,
            gives_up.0,
            gives_up.1,
            conflicts.0,
            conflicts.1,
            lost.0,
            lost.1,
            p50,
            p99.0,
            p99.1,
        ]);
    }
    let (headline, rest) = report.answers.split_first().map_or((None, &[][..]), |(first, rest)| (Some(first), rest));
    let mut lines: Vec<String> = headline.cloned().into_iter().collect();
    lines.push(String::new());
    lines.extend(table.lines());
    let beside =
        "Beside each figure: the difference from today, of shares in percentage points, with its interval; n.s. = not significant.";
    lines.push(beside.to_owned());
    lines.push(String::new());
    lines.extend(rest.iter().cloned());
    if report.interrupted {
        lines.push(format!("{} the same command continues where this one stopped", paint.warn("interrupted:")));
    }
    lines.join("\n") + "\n"
}

fn cells(name: &str, along: Along, point: &Point) -> [String; 14] {
    let closed = point.closed_form();
    let model = point.modelled();
    let estimate = |metric, show: fn(Estimate) -> String| point.get(metric).map_or_else(String::new, show);
    let time = |metric| point.get(metric).map_or_else(|| "-".to_owned(), |found| answer::time(found.value));
    [
        name.to_owned(),
        along.told(&point.setting),
        format!("{}{}", human::count(point.bursts), if point.reached { "" } else { "*" }),
        estimate(Metric::ConflictsPerCall, answer::number),
        closed.map_or_else(String::new, |closed| format!("{:.2}", closed.conflicts_per_call)),
        model.map_or_else(String::new, |model| format!("{:.2}", model.conflicts_per_call)),
        estimate(Metric::Exhausted, answer::share),
        closed.map_or_else(String::new, |closed| format!("{:.1} %", 100.0 * closed.exhausted)),
        model.map_or_else(String::new, |model| format!("{:.1} %", 100.0 * model.exhausted)),
        format!("{:.2}", point.value(Metric::Lost)),
        format!("{} to {}", time(Metric::AllocateP50), time(Metric::AllocateP99)),
        estimate(Metric::RefusedOtherwise, answer::share),
        estimate(Metric::Unanswered, answer::share),
        estimate(Metric::MetFault, answer::share),
    ]
}
