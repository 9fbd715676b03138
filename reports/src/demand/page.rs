//! The page of a report on pods that come and go.

use crate::figure::DrawError;
use crate::human;
use crate::page::{Page, escape};

use super::DemandReport;
use super::figures::Plate;
use super::trial::Trial;

const HEADS: [&str; 12] = [
    "Form",
    "Addresses",
    "Runs",
    "Enough",
    "Pods",
    "Refused",
    "Never served",
    "Wait p99",
    "Peak",
    "of living pods",
    "of pods on their way out",
    "of pods that are gone",
];

/// The file's text, with these figures in it.
///
/// # Errors
/// A figure could not be drawn.
pub fn page(report: &DemandReport, plates: &[Plate]) -> Result<String, DrawError> {
    let mut page = Page::new("Demand of addresses", &report.made.question);
    let runs: u64 = report.trials.iter().map(|trial| trial.seeds).sum();
    let unfinished = if report.interrupted { "; interrupted before its last run" } else { "" };
    let sizes = human::plural(report.trials.len() as u64, "size", "sizes");
    page.meta(&format!("{sizes}, {}{unfinished}. Wanted: {}.", human::plural(runs, "run", "runs"), report.needs.join(" and ")));
    page.headline(&report.headline);
    page.answer(&report.answers);
    page.against(report.against.as_ref());
    page.what_if(&report.what_if);
    page.part("Addresses over time, and sizes");
    for plate in plates {
        page.figure(&plate.figure, plate.caption)?;
    }
    let mut trials: Vec<&Trial> = report.trials.iter().collect();
    let place = |trial: &Trial| report.forms.iter().position(|form| form.name == trial.form);
    trials.sort_by_key(|trial| (place(trial), trial.addresses));
    let rows = trials.iter().enumerate().map(|(number, trial)| {
        let first = number == 0 || trials[number - 1].form != trial.form;
        (first, cells(trial, first))
    });
    page.numbers(HEADS, rows);
    let more = [
        (
            "seeds",
            "from 0 on; each run by itself stands in <code>runs.csv</code>, each size in <a href=\"sizes.csv\">sizes.csv</a>"
                .to_owned(),
        ),
        ("figures", "of the worst run of each size; a size is enough if each run meets all that is wanted".to_owned()),
        (
            "refused",
            "pods that were refused an address at least once because none was free; their kubelets ask again, so that most are served later"
                .to_owned(),
        ),
        ("waits", "from the first request on behalf of a pod to the answer with its address".to_owned()),
        (
            "time",
            format!(
                "of a trace passes {} times as fast; graces, DELs and reclaim take as long as they do",
                human::count(u64::from(report.compression))
            ),
        ),
        ("intervals", "of 95 %, of means over runs: Student\u{2019}s t".to_owned()),
    ];
    page.made(&report.made, &more);
    Ok(page.end())
}

fn cells(trial: &Trial, first: bool) -> Vec<String> {
    let share = |share: f64| format!("{:.2} %", 100.0 * share);
    let wait = |seconds: f64| human::duration(crate::Seconds::from_micros((seconds * 1e6).round() as u64));
    vec![
        if first { escape(&trial.form) } else { String::new() },
        human::count(trial.addresses),
        human::count(trial.seeds),
        if trial.met { "<span class=\"good\">yes</span>".to_owned() } else { "<span class=\"bad\">no</span>".to_owned() },
        human::count(trial.asked),
        share(trial.refused),
        share(trial.unserved),
        trial.wait_p99_s.map_or_else(|| "–".to_owned(), wait),
        human::count(trial.peak),
        human::count(trial.peak_living),
        human::count(trial.peak_ending),
        human::count(trial.peak_leaked),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demand::plates;
    use crate::demand::tests::report;

    #[test]
    fn the_page_has_question_answer_plots_table_and_how_it_was_made() {
        let report = report();
        let page = page(&report, &plates(&report, &[])).unwrap();
        for part in ["How many addresses", "Answer", "usage-1.png", "head-room.svg", "The numbers", ">no<", "passes 100 times as fast"] {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("<script") && !page.contains("src="));
    }
}
