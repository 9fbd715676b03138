//! `report capacity` of a scenario: a line per size, then the answers.

use ipam_reports::DemandReport;
use ipam_reports::demand::Trial;
use ipam_reports::human;
use ipam_reports::reference;

use super::Paint;
use super::against::{against, what_if};
use super::table::{Align, Table};

/// A line for each size that was tried, by form and size, between the headline and the answers.
pub fn demand(report: &DemandReport, paint: Paint) -> String {
    use Align::{Left, Right};
    let mut table = Table::new([Left, Right, Right, Left, Right, Right, Right, Right, Right, Right, Right]);
    let head = ["form", "addresses", "runs", "enough", "pods", "refused", "wait p99", "peak", "living", "on their way out", "gone"];
    table.painted(head.map(str::to_owned), move |_, text| paint.dim(text));
    let mut trials: Vec<&Trial> = report.trials.iter().collect();
    let place = |trial: &Trial| report.forms.iter().position(|form| form.name == trial.form);
    trials.sort_by_key(|trial| (place(trial), trial.addresses));
    let mut last = "";
    for trial in trials {
        table.row(cells(if trial.form == last { "" } else { &trial.form }, trial));
        last = &trial.form;
    }
    let mut lines = against(report.against.as_ref(), paint);
    lines.extend([report.headline.clone(), String::new()]);
    lines.extend(table.lines());
    lines.extend(what_if(&report.what_if, paint));
    lines.push(String::new());
    lines.extend(report.answers.iter().cloned());
    lines.extend(reference::legend(report.answers.iter().map(String::as_str)).iter().map(|line| paint.dim(line)));
    if report.interrupted {
        lines.push(format!("{} the same command continues where this one stopped", paint.warn("interrupted:")));
    }
    lines.join("\n") + "\n"
}

fn cells(form: &str, trial: &Trial) -> [String; 11] {
    let wait = trial
        .wait_p99_s
        .map_or_else(|| "-".to_owned(), |seconds| human::duration(ipam_reports::Seconds::from_micros((seconds * 1e6).round() as u64)));
    [
        form.to_owned(),
        human::count(trial.addresses),
        human::count(trial.seeds),
        if trial.met { "yes" } else { "no" }.to_owned(),
        human::count(trial.asked),
        format!("{:.2} %", 100.0 * trial.refused),
        wait,
        human::count(trial.peak),
        human::count(trial.peak_living),
        human::count(trial.peak_ending),
        human::count(trial.peak_leaked),
    ]
}
