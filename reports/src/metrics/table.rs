//! `metrics.csv`: one row for each metric and point; `values.csv`: one row for each metric and run, also read back.

use super::answer::{mean, number, with_ends};
use super::summary::Summary;
use super::value::{Source, Value};
use super::{MetricsReport, Tabular};
use crate::Made;
use crate::cells::{self, Cells, TableError};
use crate::column::{self, Column, Unit};
use crate::human;
use crate::schema::{MetricValuesSchema, MetricsSchema};

/// The way in which the report was made, and the summary of the row.
type Row<'a> = (&'a Made, &'a Summary);
type Of<'a> = Column<Row<'a>>;

pub(crate) fn columns<'a>() -> Vec<Column<Row<'a>>> {
    use Unit::{Count, Number, Text};
    vec![
        Of::cell("schema", Text, "The name of the format: `ipam-sim/metrics/1`.", |_| MetricsSchema::NAME.to_owned()),
        Of::cell("build", Text, "The build of the program that simulated.", |(made, _)| made.build.clone()),
        Of::cell("config", Text, "A hash of everything but the seeds that went into the runs.", |(made, _)| made.config.clone()),
        Of::cell("scenario", Text, "The point: the scenario, and what is varied in it.", |(_, one)| one.scenario.clone())
            .shown("scenario", |(_, one)| one.scenario.clone()),
        Of::cell("varied", Text, "The settings that are varied, as `KEY=VALUE`; empty = the scenario as its file says.", |(_, one)| {
            one.varied.clone()
        }),
        Of::cell("metric", Text, "What is counted in a run; a name that ends in `_s` is that of a time in seconds.", |(_, one)| {
            one.metric.clone()
        })
        .shown("metric", |(_, one)| one.metric.clone()),
        Of::cell("source", Text, "Who counts: `system` = a metric of the system, `run` = a column of `runs.csv`.", |(_, one)| {
            one.source.name().to_owned()
        }),
        Of::cell("runs", Count, "How many runs gave a number.", |(_, one)| one.runs.to_string())
            .shown("runs", |(_, one)| human::count(one.runs)),
        Of::cell("sum", Number, "The sum over these runs.", |(_, one)| one.sum.to_string()).shown("sum", |(_, one)| number(one, one.sum)),
        Of::estimate("mean", Number, "The mean over these runs.", |(_, one)| Some(one.mean))
            .shown("mean", |(_, one)| with_ends(one.mean, |value| mean(one, value))),
        Of::cell("min", Number, "The smallest number of any run.", |(_, one)| one.min.to_string())
            .shown("min", |(_, one)| number(one, one.min)),
        Of::estimate("p50", Number, "The number that half of the runs do not exceed.", |(_, one)| Some(one.p50))
            .shown("p50", |(_, one)| number(one, one.p50.value)),
        Of::estimate("p90", Number, "The number that 90 % of the runs do not exceed.", |(_, one)| Some(one.p90))
            .shown("p90", |(_, one)| number(one, one.p90.value)),
        Of::estimate("p99", Number, "The number that 99 % of the runs do not exceed.", |(_, one)| Some(one.p99))
            .shown("p99", |(_, one)| number(one, one.p99.value)),
        Of::cell("max", Number, "The largest number of any run.", |(_, one)| one.max.to_string())
            .shown("max", |(_, one)| number(one, one.max)),
    ]
}

/// The head of `metrics.csv`.
pub fn head() -> String {
    column::head(&columns())
}

/// The rows of `metrics.csv`.
pub fn rows(report: &MetricsReport) -> String {
    report.rows().iter().map(|row| column::row(&columns(), row)).collect()
}

pub(crate) fn value_columns() -> Vec<Column<Value>> {
    use Unit::{Count, Number, Text};
    vec![
        Column::cell("schema", Text, "The name of the format: `ipam-sim/metric-values/1`.", |_| MetricValuesSchema::NAME.to_owned()),
        Column::cell("scenario", Text, "The point: the scenario, and what is varied in it.", |one| one.scenario.clone()),
        Column::cell("varied", Text, "The settings that are varied, as `KEY=VALUE`; empty = the scenario as its file says.", |one| {
            one.varied.clone()
        }),
        Column::cell("seed", Count, "The seed of the run.", |one| one.seed.to_string()),
        Column::cell("source", Text, "Who counts: `system` = a metric of the system, `run` = a column of `runs.csv`.", |one| {
            one.source.name().to_owned()
        }),
        Column::cell("metric", Text, "What is counted.", |one| one.metric.clone()),
        Column::cell("value", Number, "What the run gave; of a name that ends in `_s` in seconds.", |one| one.value.to_string()),
    ]
}

/// The head of `values.csv`.
pub fn values_head() -> String {
    column::head(&value_columns())
}

/// The rows of `values.csv`.
pub fn value_rows(values: &[Value]) -> String {
    let columns = value_columns();
    values.iter().map(|value| column::row(&columns, value)).collect()
}

/// Reads `values.csv` back.
///
/// # Errors
/// It is something else, it is empty, or a value is invalid.
pub fn read(text: &str) -> Result<Vec<Value>, TableError> {
    cells::read(text, "numbers of metrics", MetricValuesSchema::NAME, |row| value(&row))
}

fn value(row: &Cells<'_>) -> Result<Value, TableError> {
    let source = row.text("source")?;
    Ok(Value {
        scenario: row.text("scenario")?.to_owned(),
        varied: row.text("varied")?.to_owned(),
        seed: row.count("seed")?,
        source: Source::ALL.into_iter().find(|one| one.name() == source).ok_or_else(|| row.wrong("source", source, "system or run"))?,
        metric: row.text("metric")?.to_owned(),
        value: row.number("value")?.ok_or_else(|| row.wrong("value", "", "number"))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::tests::values;

    #[test]
    fn numbers_read_back_to_the_last_digit() {
        let mut all = values(3);
        all[0].value = 0.1 + 0.2;
        all[1].metric = "=a, \"b\"".to_owned();
        assert_eq!(read(&(values_head() + &value_rows(&all))).unwrap(), all);
    }

    #[test]
    fn what_is_no_table_of_numbers_gets_one_sentence() {
        let whole = values_head() + &value_rows(&values(1)[1..2]);
        for (text, expected) in [
            ("a,b\n1,2\n".to_owned(), "it is no table of numbers of metrics: the first column must say `ipam-sim/metric-values/1`"),
            (values_head(), "it has no numbers of metrics"),
            (whole.replace(",system,", ",nobody,"), "line 2, column `source`: `nobody` is no system or run"),
            (whole.replace(",6\n", ",many\n"), "line 2, column `value`: `many` is no number"),
        ] {
            assert_eq!(read(&text).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn a_row_is_as_long_as_the_head_which_is_a_promise() {
        insta::assert_snapshot!(head().trim_end().replace(',', "\n"));
        let report = MetricsReport::new(Made::default(), &values(30), &[], Some(60), false);
        for row in rows(&report).lines() {
            // The name of a point contains a comma.
            assert_eq!(row.replace(", ", " ").split(',').count(), head().split(',').count(), "{row}");
        }
    }
}
