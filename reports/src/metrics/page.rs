//! The page of a report on metrics.

use super::MetricsReport;
use super::answer::{mean, number};
use super::figures::Plate;
use super::summary::Summary;
use crate::figure::DrawError;
use crate::human;
use crate::page::{Column, Page, escape, estimate, unfinished};

const COLUMNS: [Column<Summary>; 11] = [
    ("Metric", |one| escape(&one.metric)),
    ("Counted by", |one| one.source.name().to_owned()),
    ("Scenario", |one| escape(&one.scenario)),
    ("Runs", |one| human::count(one.runs)),
    ("Mean", |one| estimate(Some(one.mean), &|value| mean(one, value))),
    ("Least", |one| number(one, one.min)),
    ("p50", |one| estimate(Some(one.p50), &|value| number(one, value))),
    ("p90", |one| estimate(Some(one.p90), &|value| number(one, value))),
    ("p99", |one| estimate(Some(one.p99), &|value| number(one, value))),
    ("Most", |one| number(one, one.max)),
    ("Sum", |one| number(one, one.sum)),
];

/// The HTML text of the page, with these figures in it.
///
/// # Errors
/// A figure could not be drawn.
pub fn page(report: &MetricsReport, plates: &[Plate]) -> Result<String, DrawError> {
    let runs = report.runs.map_or_else(|| "A table of runs".to_owned(), |runs| human::plural(runs, "run", "runs"));
    let mut page = Page::of(report, "Metrics", &format!("{runs}{}.", unfinished(report, "run")));
    page.part("Metrics over runs");
    for plate in plates {
        page.figure(&plate.figure, plate.caption)?;
    }
    page.grouped("The numbers", &COLUMNS, &report.summaries, |one| &one.metric);
    let more = [
        (
            "seeds",
            "from 0 on; each number of each run stands in <code>values.csv</code>, each run by itself \
            in <code>runs.csv</code>"
                .to_owned(),
        ),
        (
            "counted by",
            "system: a metric of the system under test; run: a column of <code>runs.csv</code>, which runs of any system have".to_owned(),
        ),
        (
            "intervals",
            "of 95 %. Means: Student\u{2019}s t over runs. Quantiles: order statistics (Woodruff). \
            \u{201c}?\u{201d}: so many runs do not bound it"
                .to_owned(),
        ),
        ("claims", "are not judged here; <code>run</code> does that".to_owned()),
    ];
    page.made(&report.made, &more);
    Ok(page.end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Made;
    use crate::metrics::plates;
    use crate::metrics::tests::values;

    #[test]
    fn the_page_has_question_answer_plots_table_and_no_markup_of_others() {
        let mut all = values(10);
        all.iter_mut().filter(|value| value.metric == "given").for_each(|value| value.metric = "<script>".to_owned());
        let made = Made { question: super::super::QUESTION.to_owned(), command: "ipam-sim report metrics".to_owned(), ..Made::default() };
        let report = MetricsReport::new(made, &all, &[], Some(20), true);
        let page = page(&report, &plates(&all, &[])).unwrap();
        for part in
            ["system--script-.png", "Answer", "The numbers", "interrupted before its last run", "ipam-sim report metrics", "&lt;script&gt;"]
        {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("<script") && !page.contains("src="));
    }
}
