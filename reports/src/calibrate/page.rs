//! The page of a report on an audit log.

use super::answer::time;
use super::{CalibrateReport, Group, Level, figures};
use crate::figure::DrawError;
use crate::human;
use crate::page::{Column, Page, escape, estimate, maybe};

const LEVELS: [Column<Level>; 7] = [
    ("", |level| level.kind.name().to_owned()),
    ("Others in flight", Level::others),
    ("Requests", |level| human::count(level.requests)),
    ("Arrivals per second", |level| format!("{:.1}", level.arrivals_per_s)),
    ("Measured", |level| estimate(Some(level.measured_s), &time)),
    ("Fitted", |level| maybe(level.fitted_s, time)),
    ("Off by", |level| maybe(level.error(), |error| format!("{:+.0} %", 100.0 * error))),
];

/// The HTML text of the page.
///
/// # Errors
/// A figure could not be drawn.
pub fn page(report: &CalibrateReport) -> Result<String, DrawError> {
    let log = &report.log;
    let rests_on = format!(
        "{} from {} to {}, at most {} in flight.",
        human::plural(log.requests, "request", "requests"),
        log.from,
        log.until,
        log.load_max
    );
    let mut page = Page::of(report, "Calibration", &rests_on);
    page.part("The fit");
    for figure in figures(report) {
        page.figure(
            &figure,
            "Measured: the mean of the log, with its interval. Dotted: the same requests, at the same times, \
             at a server with the fitted settings.",
        )?;
    }
    page.grouped("The numbers", &LEVELS, &report.levels, |level| level.kind.name());
    page.part("By verb and resource");
    let heads = ["Verb", "Resource", "Requests", "Conflicts", "p50", "p99", "Calm", "mean", "p50", "p99"];
    page.numbers(heads, report.groups.iter().enumerate().map(|(number, group)| (number == 0, of_group(group))));
    page.part("What the log does not say");
    page.list(&report.unsaid);
    page.part("The settings");
    page.text(&report.settings);
    let more = [
        ("calm", "no other request was in flight when it came".to_owned()),
        (
            "intervals",
            "of 95 %. Means: Student\u{2019}s t over blocks of the log. Width and rate: resampling of the same blocks".to_owned(),
        ),
    ];
    page.made(&report.made, &more);
    Ok(page.end())
}

fn of_group(group: &Group) -> Vec<String> {
    vec![
        escape(&group.verb),
        escape(&group.resource),
        human::count(group.requests),
        human::count(group.conflicts),
        time(group.p50_s),
        time(group.p99_s),
        human::count(group.calm),
        maybe(group.calm_mean_s, time),
        maybe(group.calm_p50_s, time),
        maybe(group.calm_p99_s, time),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::tests::report;

    #[test]
    fn the_page_has_the_fit_the_settings_and_no_markup_of_the_log() {
        let mut report = report();
        report.settings = "name = \"<calibrated>\"\n".to_owned();
        let page = page(&report).unwrap();
        for part in [
            "latency.png",
            "Answer",
            "The fit",
            "fitted settings",
            "&lt;pods&gt;",
            "name = &quot;&lt;calibrated&gt;",
            "-10 %",
            "The network",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("<pods>") && !page.contains("<script"));
    }
}
