//! `levels.csv`: one row for each kind of request and load.

use super::{CalibrateReport, Level};
use crate::Made;
use crate::cells::maybe;
use crate::column::{self, Column, Unit};
use crate::schema::LevelsSchema;

/// The way in which the report was made, and the level of the row.
type Row<'a> = (&'a Made, &'a Level);
type Of<'a> = Column<Row<'a>>;

pub(crate) fn columns<'a>() -> Vec<Of<'a>> {
    use Unit::{Count, Number, PerSecond, Seconds, Text};
    vec![
        Of::cell("schema", Text, "The name of the format: `ipam-sim/levels/1`.", |_| LevelsSchema::NAME.to_owned()),
        Of::cell("build", Text, "The build of the program that fitted.", |(made, _)| made.build.clone()),
        Of::cell("config", Text, "A hash of the settings that were fitted.", |(made, _)| made.config.clone()),
        Of::cell("kind", Text, "What the requests do to a server: `reads`, `writes` or `conflicts`.", |(_, level)| {
            level.kind.name().to_owned()
        }),
        Of::cell("others_from", Count, "The fewest other requests that were in flight when one of these came.", |(_, level)| {
            level.from.to_string()
        }),
        Of::cell("others_to", Count, "The most other requests that were in flight.", |(_, level)| level.to.to_string()),
        Of::cell("others", Number, "How many others were in flight, on average.", |(_, level)| level.load.to_string()),
        Of::cell("requests", Count, "How many requests met this load.", |(_, level)| level.requests.to_string()),
        Of::cell("arrivals_per_s", PerSecond, "How many requests came within the second before, on average.", |(_, level)| {
            level.arrivals_per_s.to_string()
        }),
        Of::estimate("measured_s", Seconds, "Their mean latency in the log, from arrival to answer.", |(_, level)| Some(level.measured_s)),
        Of::cell(
            "fitted_s",
            Seconds,
            "The mean latency of the same requests at a server with the fitted settings; empty = too few requests to fit.",
            |(_, level)| maybe(level.fitted_s),
        ),
    ]
}

/// The table of all levels, with its head.
pub fn levels_csv(report: &CalibrateReport) -> String {
    let rows = report.levels.iter().map(|level| column::row(&columns(), &(&report.made, level)));
    column::head(&columns()) + &rows.collect::<String>()
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
