//! The page of a report on pods that come and go.

use crate::figure::DrawError;
use crate::human;
use crate::page::{Column, Page, escape, maybe, unfinished};

use super::DemandReport;
use super::figures::Plate;
use super::trial::Trial;

const COLUMNS: [Column<Trial>; 12] = [
    ("Form", |trial| escape(&trial.form)),
    ("Addresses", |trial| human::count(trial.addresses)),
    ("Runs", |trial| human::count(trial.seeds)),
    ("Enough", |trial| if trial.met { "<span class=\"good\">yes</span>" } else { "<span class=\"bad\">no</span>" }.to_owned()),
    ("Pods", |trial| human::count(trial.asked)),
    ("Refused", |trial| share(trial.refused)),
    ("Never served", |trial| share(trial.unserved)),
    ("Wait p99", |trial| maybe(trial.wait_p99_s, wait)),
    ("Peak", |trial| human::count(trial.peak)),
    ("of living pods", |trial| human::count(trial.peak_living)),
    ("of pods on their way out", |trial| human::count(trial.peak_ending)),
    ("of pods that are gone", |trial| human::count(trial.peak_leaked)),
];

fn share(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

fn wait(seconds: f64) -> String {
    human::duration(crate::Seconds::from_micros((seconds * 1e6).round() as u64))
}

/// The HTML text of the page, with these figures in it.
///
/// # Errors
/// A figure could not be drawn.
pub fn page(report: &DemandReport, plates: &[Plate]) -> Result<String, DrawError> {
    let runs: u64 = report.trials.iter().map(|trial| trial.seeds).sum();
    let unfinished = unfinished(report, "run");
    let sizes = human::plural(report.trials.len() as u64, "size", "sizes");
    let rests_on = format!("{sizes}, {}{unfinished}. Wanted: {}.", human::plural(runs, "run", "runs"), report.needs.join(" and "));
    let mut page = Page::of(report, "Demand of addresses", &rests_on);
    page.part("Addresses over time, and sizes");
    for plate in plates {
        page.figure(&plate.figure, plate.caption)?;
    }
    let mut trials: Vec<&Trial> = report.trials.iter().collect();
    let place = |trial: &Trial| report.forms.iter().position(|form| form.name == trial.form);
    trials.sort_by_key(|trial| (place(trial), trial.addresses));
    page.grouped("The numbers", &COLUMNS, trials, |trial| &trial.form);
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
