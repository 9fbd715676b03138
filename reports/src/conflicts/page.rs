//! The page of a report on points: question, answer, plots, tables, how it was made.

use crate::figure::DrawError;
use crate::human;
use crate::page::{Page, escape, estimate};

use super::figures::{Along, Plate, panel_title};
use super::metric::Metric;
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

/// The file's text, with these figures in it.
///
/// # Errors
/// A figure could not be drawn.
pub fn page(report: &ConflictsReport, plates: &[Plate]) -> Result<String, DrawError> {
    let mut page = Page::new("Capacity of a pool", &report.made.question);
    let bursts: u64 = report.points.iter().map(|point| point.bursts).sum();
    let (points, bursts) = (report.points.len() as u64, human::plural(bursts, "burst", "bursts"));
    let unfinished = if report.interrupted { "; interrupted before its last point" } else { "" };
    page.meta(&format!("{}, {bursts}{unfinished}.", human::plural(points, "point", "points")));
    // Advice begins with its headline.
    if report.advice.is_none() {
        page.headline(&report.headline);
    }
    page.answer(&report.answers);
    page.against(report.against.as_ref());
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

const HEADS: [&str; 16] = [
    "Curve",
    "",
    "Bursts",
    "Conflicts per call",
    "formula",
    "model",
    "Calls that give up",
    "formula",
    "model",
    "Retries per success",
    "Wasted writes",
    "Lost per burst",
    "p50",
    "p90",
    "p99",
    "p99.9",
];

fn table(page: &mut Page, points: &[&Point]) {
    let along = Along::of(points);
    let heads = HEADS.iter().enumerate().map(|(number, head)| if number == 1 { along.label() } else { head });
    let rows = series(points.iter().copied()).into_iter().flat_map(|(name, points)| {
        let row = |(number, point): (usize, &Point)| {
            let name = if number == 0 { escape(name) } else { String::new() };
            (number == 0, std::iter::once(name).chain(cells(point, along)).collect())
        };
        points.into_iter().enumerate().map(row).collect::<Vec<_>>()
    });
    page.numbers(heads, rows);
}

fn cells(point: &Point, along: Along) -> Vec<String> {
    let place = along.told(&point.setting);
    let enough = if point.reached { "" } else { " <small class=\"bad\">not enough</small>" };
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let two = |number: f64| format!("{number:.2}");
    let closed = point.closed_form();
    let model = point.modelled();
    let agrees = model.is_some_and(|model| model.agrees(point.value(Metric::ConflictsPerCall), point.value(Metric::Exhausted)));
    let judged = |text: String| if agrees { text } else { format!("<span class=\"bad\">{text}</span>") };
    let beside = |metric: Metric, other: Option<f64>, show: &dyn Fn(f64) -> String| {
        other.map(|other| {
            let off = point.value(metric) - other;
            format!("{} <small>{}{}</small>", show(other), if off < 0.0 { "\u{2212}" } else { "+" }, show(off.abs()))
        })
    };
    let both = |metric, closed: Option<f64>, model: Option<f64>, show: &dyn Fn(f64) -> String| {
        [
            estimate(point.get(metric), show),
            beside(metric, closed, show).unwrap_or_default(),
            beside(metric, model, show).map(judged).unwrap_or_default(),
        ]
    };
    let mut cells = vec![place, format!("{}{enough}", human::count(point.bursts))];
    cells.extend(both(Metric::ConflictsPerCall, closed.map(|form| form.conflicts_per_call), model.map(|row| row.conflicts_per_call), &two));
    cells.extend(both(Metric::Exhausted, closed.map(|form| form.exhausted), model.map(|row| row.exhausted), &percent));
    cells.push(estimate(point.get(Metric::RetriesPerSuccess), &two));
    cells.push(estimate(point.get(Metric::WastedWrites), &percent));
    cells.push(estimate(point.get(Metric::Lost), &two));
    for metric in [Metric::AllocateP50, Metric::AllocateP90, Metric::AllocateP99, Metric::AllocateP999] {
        cells.push(estimate(point.get(metric), &answer::time));
    }
    cells
}

fn made(page: &mut Page, report: &ConflictsReport) {
    let deciding: Vec<String> = DECIDING.iter().map(|metric| lower_first(metric.title())).collect();
    let rows = [
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
        // The drawings have tests of their own.
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
