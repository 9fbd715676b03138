//! `levels.csv`: one row a kind of request and load.

use super::{CalibrateReport, Level};
use crate::Made;
use crate::cells::{self, Column, maybe};
use crate::schema::LevelsSchema;

/// How the report was made, and the level of the row.
type Row<'a> = (&'a Made, &'a Level);

fn columns<'a>() -> [Column<Row<'a>>; 11] {
    use Column::{Cell, Estimate};
    [
        Cell("schema", |_| LevelsSchema::NAME.to_owned()),
        Cell("build", |(made, _)| made.build.clone()),
        Cell("config", |(made, _)| made.config.clone()),
        Cell("kind", |(_, level)| level.kind.name().to_owned()),
        Cell("others_from", |(_, level)| level.from.to_string()),
        Cell("others_to", |(_, level)| level.to.to_string()),
        Cell("others", |(_, level)| level.load.to_string()),
        Cell("requests", |(_, level)| level.requests.to_string()),
        Cell("arrivals_per_s", |(_, level)| level.arrivals_per_s.to_string()),
        Estimate("measured_s", |(_, level)| Some(level.measured_s)),
        Cell("fitted_s", |(_, level)| maybe(level.fitted_s)),
    ]
}

/// The table of all levels, with its head.
pub fn levels_csv(report: &CalibrateReport) -> String {
    let rows = report.levels.iter().map(|level| cells::row(&columns(), &(&report.made, level)));
    cells::head(&columns()) + &rows.collect::<String>()
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
