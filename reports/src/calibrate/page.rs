//! The page of a report on an audit log.

use super::answer::time;
use super::{CalibrateReport, Group, Level, figures};
use crate::figure::DrawError;
use crate::human;
use crate::page::{Page, escape, estimate};

/// The file's text.
///
/// # Errors
/// A figure could not be drawn.
pub fn page(report: &CalibrateReport) -> Result<String, DrawError> {
    let mut page = Page::new("Calibration", &report.made.question);
    let log = &report.log;
    page.meta(&format!(
        "{} from {} to {}, at most {} in flight.",
        human::plural(log.requests, "request", "requests"),
        log.from,
        log.until,
        log.load_max
    ));
    page.answer(&report.answers);
    page.part("The fit");
    for figure in figures(report) {
        page.figure(
            &figure,
            "Measured: the mean of the log, with its interval. Dotted: the same requests, at the same times, \
             at a server with the fitted settings.",
        )?;
    }
    let heads = ["", "Others in flight", "Requests", "Arrivals per second", "Measured", "Fitted", "Off by"];
    let new_kind = |number: usize| number == 0 || report.levels[number - 1].kind != report.levels[number].kind;
    page.numbers(heads, report.levels.iter().enumerate().map(|(number, level)| (new_kind(number), of_level(level, new_kind(number)))));
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

fn of_level(level: &Level, first: bool) -> Vec<String> {
    let off = level.error().map_or_else(|| "–".to_owned(), |error| format!("{:+.0} %", 100.0 * error));
    vec![
        if first { level.kind.name().to_owned() } else { String::new() },
        level.others(),
        human::count(level.requests),
        format!("{:.1}", level.arrivals_per_s),
        estimate(Some(level.measured_s), &time),
        level.fitted_s.map_or_else(|| "–".to_owned(), time),
        off,
    ]
}

fn of_group(group: &Group) -> Vec<String> {
    let maybe = |seconds: Option<f64>| seconds.map_or_else(|| "–".to_owned(), time);
    vec![
        escape(&group.verb),
        escape(&group.resource),
        human::count(group.requests),
        human::count(group.conflicts),
        time(group.p50_s),
        time(group.p99_s),
        human::count(group.calm),
        maybe(group.calm_mean_s),
        maybe(group.calm_p50_s),
        maybe(group.calm_p99_s),
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
