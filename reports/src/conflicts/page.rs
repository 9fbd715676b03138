//! The page of a report on points: question, answer, plots, tables, and how it was made.

use crate::figure::DrawError;
use crate::human;
use crate::page::{Column, Page, escape, estimate, unfinished};

use super::figures::{Along, Plate, panel_title};
use super::metric::Metric;
use super::model::Modelled;
use super::point::{DECIDING, Point};
use super::setting::System;
use super::{ConflictsReport, advice, answer, series};

/// The question of `report conflicts`.
pub fn question(system: System) -> &'static str {
    match system {
        System::Byom => "How often do adaptors that share one pool get in each other's way?",
        System::Spiderpool => "How often do the agents of nodes that share one pool get in each other's way?",
    }
}

/// The HTML text of the page, with these figures in it.
///
/// # Errors
/// A figure could not be drawn.
pub fn page(report: &ConflictsReport, plates: &[Plate]) -> Result<String, DrawError> {
    let bursts: u64 = report.points.iter().map(|point| point.bursts).sum();
    let (points, bursts) = (report.points.len() as u64, human::plural(bursts, "burst", "bursts"));
    let unfinished = unfinished(report, "point");
    let rests_on = format!("{}, {bursts}{unfinished}.", human::plural(points, "point", "points"));
    let mut page = Page::of(report, "Capacity of a pool", &rests_on);
    if let Some(advice) = &report.advice {
        page.part("Other ways to try again, best first");
        for plate in plates {
            page.figure(&plate.figure, plate.caption)?;
        }
        advice::page(&mut page, advice);
        made(&mut page, report);
        return Ok(page.end());
    }
    for panel in report.panels() {
        page.part(panel_title(panel));
        for plate in plates.iter().filter(|plate| plate.panel == panel) {
            page.figure(&plate.figure, plate.caption)?;
        }
        let points: Vec<&Point> = report.points.iter().filter(|point| point.setting.is_in(panel)).collect();
        table(&mut page, &points);
    }
    made(&mut page, report);
    Ok(page.end())
}

/// A row of a table: a point, and the setting that varies along the table.
type Row<'a> = (&'a Point, Along);

fn columns<'a>(along: Along, with_faults: bool) -> Vec<Column<Row<'a>>> {
    use Metric::{ConflictsPerCall, Exhausted};
    let mut columns: Vec<Column<Row<'a>>> = vec![
        ("Curve", |(point, _)| escape(&point.setting.series)),
        (along.label(), |(point, along)| along.told(&point.setting)),
        ("Bursts", |(point, _)| {
            let enough = if point.reached { "" } else { " <small class=\"bad\">not enough</small>" };
            format!("{}{enough}", human::count(point.bursts))
        }),
        ("Conflicts per call", |(point, _)| estimate(point.get(ConflictsPerCall), &two)),
        ("formula", |(point, _)| beside(point, ConflictsPerCall, point.closed_form().map(|form| form.conflicts_per_call), &two)),
        ("model", |(point, _)| judged(point, beside(point, ConflictsPerCall, point.modelled().map(|row| row.conflicts_per_call), &two))),
        ("Calls that give up", |(point, _)| estimate(point.get(Exhausted), &percent)),
        ("formula", |(point, _)| beside(point, Exhausted, point.closed_form().map(|form| form.exhausted), &percent)),
        ("model", |(point, _)| judged(point, beside(point, Exhausted, point.modelled().map(|row| row.exhausted), &percent))),
        ("Retries per success", |(point, _)| estimate(point.get(Metric::RetriesPerSuccess), &two)),
        ("Wasted writes", |(point, _)| estimate(point.get(Metric::WastedWrites), &percent)),
        ("Lost per burst", |(point, _)| estimate(point.get(Metric::Lost), &two)),
        ("p50", |(point, _)| estimate(point.get(Metric::AllocateP50), &answer::time)),
        ("p90", |(point, _)| estimate(point.get(Metric::AllocateP90), &answer::time)),
        ("p99", |(point, _)| estimate(point.get(Metric::AllocateP99), &answer::time)),
        ("p99.9", |(point, _)| estimate(point.get(Metric::AllocateP999), &answer::time)),
    ];
    if with_faults {
        let of_faults: [Column<Row<'a>>; 3] = [
            ("Refused for another reason", |(point, _)| estimate(point.get(Metric::RefusedOtherwise), &percent)),
            ("No answer", |(point, _)| estimate(point.get(Metric::Unanswered), &percent)),
            ("Bursts that meet a fault", |(point, _)| estimate(point.get(Metric::MetFault), &percent)),
        ];
        columns.extend(of_faults);
    }
    columns
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn two(number: f64) -> String {
    format!("{number:.2}")
}

/// The value that a formula or a model gives for a figure, and the difference; empty = it gives none.
fn beside(point: &Point, metric: Metric, other: Option<f64>, show: &dyn Fn(f64) -> String) -> String {
    let Some(other) = other else { return String::new() };
    let off = point.value(metric) - other;
    format!("{} <small>{}{}</small>", show(other), if off < 0.0 { "\u{2212}" } else { "+" }, show(off.abs()))
}

/// A comparison with the model, marked where they disagree.
fn judged(point: &Point, beside: String) -> String {
    let agrees = |model: Modelled| model.agrees(point.value(Metric::ConflictsPerCall), point.value(Metric::Exhausted));
    if beside.is_empty() || point.modelled().is_some_and(agrees) { beside } else { format!("<span class=\"bad\">{beside}</span>") }
}

fn table(page: &mut Page, points: &[&Point]) {
    let along = Along::of(points);
    let rows: Vec<Row<'_>> =
        series(points.iter().copied()).into_iter().flat_map(|(_, points)| points).map(|point| (point, along)).collect();
    let with_faults = points.iter().any(|point| point.setting.has_faults());
    page.grouped("The numbers", &columns(along, with_faults), &rows, |(point, _)| &point.setting.series);
}

fn made(page: &mut Page, report: &ConflictsReport) {
    let deciding: Vec<String> = DECIDING.iter().map(|metric| lower_first(metric.title())).collect();
    let mut rows = vec![
        (
            "seeds",
            "one a burst; those of a point follow each other from <code>first_seed</code> of <a href=\"points.csv\">points.csv</a> on, and \
             no two points share any; each burst by itself stands in <code>runs.csv</code>"
                .to_owned(),
        ),
        (
            "bursts",
            format!(
                "1,000 at first (50 of nodes with agents), then twice as many until the intervals of {} are narrow enough (usually \
                 \u{b1}2 % of the value or \u{b1}0.005)",
                deciding.join(" and of ")
            ),
        ),
        (
            "intervals",
            "of 95 %. Means and ratios: Student\u{2019}s t over bursts. Shares of bursts: Wilson. Shares of calls: Wilson, with as many \
             calls as their scatter between bursts makes count. Times: order statistics (Woodruff), whatever their distribution. \
             \u{201c}?\u{201d}: so many bursts do not bound it"
                .to_owned(),
        ),
        (
            "calls",
            "a call is a request for an address, also one that a kubelet repeats; an attempt is one to write the pool".to_owned(),
        ),
        (
            "times",
            "reads and writes take what the table\u{2019}s model assumes: a round trip of 4 ms and of 10 ms, 20 % \
             more or less, unless latency was varied"
                .to_owned(),
        ),
        (
            "servers",
            "without a width they work on everything at once. With one, requests wait for one another in the order of arrival; a read \
             keeps a server busy for the stated time, a write 1.5 times as long, and one that meets a conflict a quarter longer than that; \
             all of it is a part of the round trips; \u{201c}queue\u{201d} is said where requests wait for at least a tenth of a round trip"
                .to_owned(),
        ),
    ];
    if report.points.iter().any(|point| point.setting.has_faults()) {
        rows.push((
            "faults",
            "those of a swarm of that profile, or of a scenario; they begin within a window of which the burst is the second half, last \
             as long as they do there, and heal a minute after the window. A call that gets no answer as its process is taken down counts \
             as a call, and what it met is not known; formulas and model hold without faults"
                .to_owned(),
        ));
    }
    page.made(&report.made, &rows);
}

fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conflicts::Made;
    use crate::conflicts::figures::plates;
    use crate::conflicts::tests::point;
    use crate::page::STYLE;

    fn made() -> Made {
        Made {
            question: question(System::Byom).to_owned(),
            command: "ipam-sim report conflicts".to_owned(),
            build: "0.1.0-b".to_owned(),
            config: "c".to_owned(),
            ..Made::default()
        }
    }

    #[test]
    fn the_page_has_question_answer_plot_table_and_how_it_was_made() {
        let report = ConflictsReport::new(made(), vec![point(2, 0), point(8, 0)], false);
        let plates = plates(&report);
        let page = page(&report, &plates).unwrap();
        for plate in &plates {
            assert!(page.contains(&format!("href=\"{}.png\"", plate.figure.id)));
        }
        // The drawings have tests elsewhere.
        let mut text = page.as_str();
        let mut without = String::new();
        while let Some((before, rest)) = text.split_once("<svg ") {
            without += &format!("{before}<svg …>");
            text = rest.split_once("</svg>").unwrap().1;
        }
        let without = (without + text).replace(STYLE, "…\n");
        insta::assert_snapshot!(without);
    }

    #[test]
    fn names_cannot_become_markup_and_nothing_is_loaded() {
        let mut hostile = point(2, 0);
        hostile.setting.series = "<script>alert(1)</script>".to_owned();
        let report = ConflictsReport::new(Made { command: "a & <b>".to_owned(), ..made() }, vec![hostile], true);
        let page = page(&report, &plates(&report)).unwrap();
        assert!(!page.contains("<script") && page.contains("a &amp; &lt;b&gt;"));
        assert!(page.contains("interrupted before its last point"));
        assert!(!page.contains("src="), "nothing is loaded");
    }
}
