//! `levels.csv`: one row a kind of request and load.

use super::{CalibrateReport, Level};
use crate::cells::line;
use crate::schema::LevelsSchema;

/// The table of all levels, with its head.
pub fn levels_csv(report: &CalibrateReport) -> String {
    let head = [
        "schema",
        "build",
        "config",
        "kind",
        "others_from",
        "others_to",
        "others",
        "requests",
        "arrivals_per_s",
        "measured_s",
        "measured_s_low",
        "measured_s_high",
        "fitted_s",
    ];
    line(head.map(str::to_owned)) + &report.levels.iter().map(|level| row(report, level)).collect::<String>()
}

fn row(report: &CalibrateReport, level: &Level) -> String {
    let number = |number: Option<f64>| number.map_or_else(String::new, |number| number.to_string());
    let made = [LevelsSchema::NAME.to_owned(), report.made.build.clone(), report.made.config.clone(), level.kind.name().to_owned()];
    let whole = [level.from.to_string(), level.to.to_string(), level.load.to_string(), level.requests.to_string()];
    let measured = level.measured_s;
    let rest = [Some(level.arrivals_per_s), Some(measured.value), measured.low, measured.high, level.fitted_s].map(number);
    line(made.into_iter().chain(whole).chain(rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::tests::report;

    #[test]
    fn each_level_has_a_row_as_long_as_the_head() {
        let text = levels_csv(&report());
        let columns: Vec<usize> = text.lines().map(|line| line.split(',').count()).collect();
        assert_eq!(columns, [13; 5], "{text}");
        assert!(text.contains(",reads,2,3,2.5,500,102.5,0.002,"), "{text}");
    }
}
