//! `points.csv`: one row for each point. Columns are only ever added at the end.

use serde::Serialize;

use crate::cells::{self, Cells, maybe};
use crate::column::{self, Column, Unit};
use crate::schema::PointsSchema;

use super::metric::{METRICS, Metric};
use super::point::Point;
use super::setting::Setting;
pub use crate::cells::TableError;

/// A table of points.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The build of the program that made it.
    pub build: String,
    /// A hash of everything but the seeds that went into it.
    pub config: String,
    /// Its rows, in the order of the file.
    pub points: Vec<Point>,
}

/// The columns of the setting, by the names of its fields.
const SETTING: [&str; 14] = [
    "panels",
    "series",
    "instances",
    "addresses",
    "taken",
    "spread_s",
    "read_s",
    "write_s",
    "think_s",
    "dial_s",
    "retry",
    "update",
    "selection",
    "throttle",
];
/// The column of the setting that was added last: earlier tables are without faults.
const FAULTS: &str = "faults";

/// Whether the column of a metric may be absent, because earlier tables do not have it.
fn is_later(metric: &Metric) -> bool {
    Metric::LATER.contains(metric) || Metric::OF_FAULTS.contains(metric)
}

/// A row: the build, the configuration, and the point.
type Row<'a> = (&'a str, &'a str, &'a Point);
type Of<'a> = Column<Row<'a>>;

/// A figure with the ends of its interval.
macro_rules! measured {
    ($metric:ident) => {{
        const METRIC: Metric = Metric::$metric;
        let unit = if METRIC.is_share() {
            Unit::Share
        } else if METRIC.is_time() {
            Unit::Seconds
        } else {
            Unit::Number
        };
        Of::estimate(METRIC.name(), unit, METRIC.meaning(), |(.., point)| point.get(METRIC))
    }};
}

pub(crate) fn columns<'a>() -> Vec<Of<'a>> {
    use Unit::{Count, Flag, Number, Seconds, Share, Text};
    vec![
        Of::cell("schema", Text, "The name of the format: `ipam-sim/points/1`.", |_| PointsSchema::NAME.to_owned()),
        Of::cell("build", Text, "The build of the program that simulated.", |(build, ..)| (*build).to_owned()),
        Of::cell("config", Text, "A hash of everything but the seeds that went into the runs.", |(_, config, _)| (*config).to_owned()),
        Of::cell("panels", Text, "The panels of the report that show the point, joined by `+`.", |(.., point)| {
            written(&point.setting.panels)
        }),
        Of::cell("series", Text, "The curve on which it lies: everything but what the axis shows.", |(.., point)| {
            written(&point.setting.series)
        }),
        Of::cell("instances", Count, "How many adaptors or nodes share the pool.", |(.., point)| written(point.setting.instances)),
        Of::cell("addresses", Count, "How many addresses the pool has in total.", |(.., point)| written(point.setting.addresses)),
        Of::cell("taken", Count, "How many of them are taken at the beginning.", |(.., point)| written(point.setting.taken)),
        Of::cell("spread_s", Seconds, "Starts are uniform between the beginning and this.", |(.., point)| written(point.setting.spread)),
        Of::cell("read_s", Seconds, "The mean round trip of a read.", |(.., point)| written(point.setting.read)),
        Of::cell("write_s", Seconds, "The mean round trip of a write.", |(.., point)| written(point.setting.write)),
        Of::cell("think_s", Seconds, "What an adaptor needs between an answer and the request that follows it.", |(.., point)| {
            written(point.setting.think)
        }),
        Of::cell("dial_s", Seconds, "The mean time to try a VM before its address is handed out; 0 = it is not tried.", |(.., point)| {
            written(point.setting.dial)
        }),
        Of::cell(
            "retry",
            Text,
            "How a write that met a conflict is tried again: `default-backoff`, `default-retry`, \
            `twelve`, `patient`; of agents `hardened`, `upstream`.",
            |(.., point)| written(&point.setting.retry),
        ),
        Of::cell("update", Text, "What is written after a conflict: `decides-again` or `decides-once`.", |(.., point)| {
            written(&point.setting.update)
        }),
        Of::cell("selection", Text, "Which free address is taken: `hash` or `first`.", |(.., point)| written(&point.setting.selection)),
        Of::cell(
            "throttle",
            Text,
            "How many requests an adaptor may make: `none`, `client-go`, `drained`; an agent: `agent`.",
            |(.., point)| written(&point.setting.throttle),
        ),
        Of::cell("bursts", Count, "How many runs the point rests on.", |(.., point)| point.bursts.to_string()),
        Of::cell("first_seed", Count, "The seed of the first of them.", |(.., point)| point.first_seed.to_string()),
        Of::cell("reached", Flag, "Whether its intervals are as narrow as was asked.", |(.., point)| point.reached.to_string()),
        Of::cell("calls", Count, "How many calls for an address there were.", |(.., point)| point.calls.to_string()),
        Of::cell("allocated", Count, "How many of them were told one.", |(.., point)| point.allocated.to_string()),
        measured!(ConflictsPerCall),
        measured!(AttemptsPerCall),
        measured!(ConflictRate),
        measured!(RetriesPerSuccess),
        measured!(Exhausted),
        measured!(SomeExhausted),
        measured!(WastedWrites),
        measured!(Granted),
        measured!(Lost),
        measured!(LostRate),
        measured!(Sharing),
        measured!(SomeShared),
        measured!(AllocateP50),
        measured!(AllocateP90),
        measured!(AllocateP99),
        measured!(AllocateP999),
        measured!(Makespan),
        Of::cell("closed_form", Text, "Which formula of B §8.2 fits the point; empty = there is none.", |(.., point)| {
            maybe(point.closed_form().map(|closed| closed.form.name()))
        }),
        Of::cell("closed_conflicts_per_call", Number, "The conflicts per call that the formula gives.", |(.., point)| {
            maybe(point.closed_form().map(|closed| closed.conflicts_per_call))
        }),
        Of::cell("closed_exhausted", Share, "The calls that give up, by the formula.", |(.., point)| {
            maybe(point.closed_form().map(|closed| closed.exhausted))
        }),
        Of::cell("closed_lost", Number, "The records that a burst loses, by the formula.", |(.., point)| {
            maybe(point.closed_form().and_then(|closed| closed.lost))
        }),
        Of::cell(
            "model_conflicts_per_call",
            Number,
            "The conflicts per call that an independent model gave (B §8.3); empty = it has no such point.",
            |(.., point)| maybe(point.modelled().map(|row| row.conflicts_per_call)),
        ),
        Of::cell("model_exhausted", Share, "The calls that give up, by the model.", |(.., point)| {
            maybe(point.modelled().map(|row| row.exhausted))
        }),
        Of::cell("model_lost", Number, "The records that a burst loses, by the model.", |(.., point)| {
            maybe(point.modelled().map(|row| row.lost))
        }),
        Of::cell(
            "system",
            Text,
            "Who shares the pool: `byom` or `spiderpool`; tables without this column are of `byom`.",
            |(.., point)| point.setting.system.name().to_owned(),
        ),
        Of::cell(
            "pods",
            Count,
            "How many pods start on each node, each of which asks for one address; 1 in tables without this column.",
            |(.., point)| point.setting.pods.to_string(),
        ),
        Of::cell(
            "width",
            Count,
            "How many requests an API server works on at a time; 0 = everything at once, as in tables without this column.",
            |(.., point)| point.setting.width.to_string(),
        ),
        Of::cell(
            "service_s",
            Seconds,
            "For how long a read keeps a server of a width busy, as a part of its round trip.",
            |(.., point)| point.setting.service.as_f64().to_string(),
        ),
        Of::cell(
            "start",
            Text,
            "How pods of nodes come to their first call: `kubelets`, `together`, `restarted` or `loops`; empty for adaptors.",
            |(.., point)| point.setting.start.clone(),
        ),
        measured!(FirstConflicts),
        measured!(FirstExhausted),
        measured!(ServerWait),
        measured!(ReleaseConflicts),
        measured!(ReleaseExhausted),
        Of::cell("faults", Text, "Which faults bursts meet: `mixed`, `hostile`, or `scenario NAME`; empty = none.", |(.., point)| {
            point.setting.faults.clone()
        }),
        measured!(RefusedOtherwise),
        measured!(Unanswered),
        measured!(MetFault),
    ]
}

/// A value of the setting, in its JSON form.
fn written(value: impl Serialize) -> String {
    match serde_json::to_value(value).unwrap_or_default() {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    }
}

/// The head of the table.
pub fn head() -> String {
    column::head(&columns())
}

/// The row of a point.
pub fn row(build: &str, config: &str, point: &Point) -> String {
    column::row(&columns(), &(build, config, point))
}

/// Reads a table back. Values that follow from the setting are computed again.
///
/// # Errors
/// It is something else, it is empty, or a value is invalid.
pub fn read(text: &str) -> Result<Table, TableError> {
    let mut table = Table::default();
    table.points = cells::read(text, "points", PointsSchema::NAME, |row| {
        row.text("build")?.clone_into(&mut table.build);
        row.text("config")?.clone_into(&mut table.config);
        point(&row)
    })?;
    Ok(table)
}

fn seconds(row: &Cells<'_>, name: &str) -> Result<f64, TableError> {
    match row.number(name)?.filter(|seconds| *seconds >= 0.0) {
        Some(seconds) => Ok(seconds),
        None => Err(row.wrong(name, row.text(name)?, "duration in seconds")),
    }
}

fn setting(row: &Cells<'_>) -> Result<Setting, TableError> {
    let mut fields = serde_json::Map::new();
    for name in SETTING {
        let text = row.text(name)?;
        let value = match name {
            "instances" | "addresses" | "taken" => serde_json::Value::from(row.value::<u32>(name, "whole number")?),
            _ if name.ends_with("_s") => serde_json::Value::from(seconds(row, name)?),
            _ => serde_json::Value::from(text),
        };
        fields.insert(name.to_owned(), value);
    }
    if let Some(system) = row.get("system") {
        fields.insert("system".to_owned(), system.into());
        fields.insert("pods".to_owned(), row.value::<u32>("pods", "whole number")?.into());
    }
    if row.get("width").is_some() {
        fields.insert("width".to_owned(), row.value::<u32>("width", "whole number")?.into());
        fields.insert("service_s".to_owned(), seconds(row, "service_s")?.into());
        fields.insert("start".to_owned(), row.text("start")?.into());
    }
    if let Some(faults) = row.get(FAULTS) {
        fields.insert(FAULTS.to_owned(), faults.into());
    }
    serde_json::from_value(fields.into()).map_err(|_| row.wrong("panels", row.text("panels").unwrap_or_default(), "setting"))
}

fn point(row: &Cells<'_>) -> Result<Point, TableError> {
    let mut estimates = [None; METRICS];
    for metric in Metric::ALL {
        let name = metric.name();
        if is_later(&metric) && row.get(name).is_none() {
            continue;
        }
        estimates[metric as usize] = row.estimate(name)?;
    }
    let bursts = (row.count("bursts")?, row.count("first_seed")?);
    let calls = (row.count("calls")?, row.count("allocated")?);
    Ok(Point::known(setting(row)?, bursts, row.value("reached", "true or false")?, calls, estimates))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conflicts::tests::{bursts, point, setting};
    use crate::pool::ServerQueue;

    #[test]
    fn the_head_is_a_promise() {
        insta::assert_snapshot!(head().trim_end().replace(',', "\n"));
    }

    #[test]
    fn a_table_reads_back_to_the_last_digit() {
        let mut runs = bursts(8, 100);
        let queue = ServerQueue { requests: 7, waited: crate::Seconds::from_micros(12_345) };
        runs.iter_mut().for_each(|run| run.queue = Some(queue));
        let sized = Setting { width: 2, service: crate::Seconds::from_micros(500), ..setting(8, 0) };
        let hostile = Point::of(Setting { faults: "hostile".to_owned(), ..setting(8, 0) }, 0, &runs);
        let points = vec![point(2, 0), point(8, 50), point(64, 1_000), Point::of(sized, 0, &runs), hostile];
        let text = head() + &points.iter().map(|point| row("b", "c", point)).collect::<String>();
        assert_eq!(read(&text).unwrap(), Table { build: "b".to_owned(), config: "c".to_owned(), points });
    }

    #[test]
    fn a_table_from_before_bursts_met_faults_still_reads() {
        let text = head() + &row("b", "c", &point(8, 50));
        let later = Metric::OF_FAULTS.len() * 3 + 1;
        let cut = |line: &str| line.rsplitn(later + 1, ',').last().unwrap_or_default().to_owned() + "\n";
        let old: String = text.lines().map(cut).collect();
        assert!(!old.contains("faults") && old.lines().all(|line| line.split(',').count() == head().split(',').count() - later));
        assert_eq!(read(&old).unwrap().points, [point(8, 50)]);
    }

    #[test]
    fn a_table_from_before_servers_had_a_size_still_reads() {
        let text = head() + &row("b", "c", &point(8, 50));
        let later = Metric::LATER.len() * 3 + 3 + Metric::OF_FAULTS.len() * 3 + 1;
        let cut = |line: &str| line.split(',').rev().skip(later).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join(",") + "\n";
        let old: String = text.lines().map(cut).collect();
        let point = read(&old).unwrap().points.remove(0);
        assert_eq!(point.get(Metric::FirstExhausted), None);
        assert_eq!(point.setting, setting(8, 50));
    }

    #[test]
    fn what_is_no_table_of_points_gets_one_sentence() {
        let whole = head() + &row("b", "c", &point(2, 0));
        for (text, expected) in [
            (String::new(), "it is no table of points: the first column must say `ipam-sim/points/1`"),
            ("name,age\nx,3\n".to_owned(), "it is no table of points: the first column must say `ipam-sim/points/1`"),
            (whole.replace("points/1", "runs/1"), "it is no table of points: the first column must say `ipam-sim/points/1`"),
            (head(), "it has no points"),
            (whole.replace("makespan_s_low", "other"), "it has no column `makespan_s_low`"),
            (whole.replace(",true,", ",maybe,"), "line 2, column `reached`: `maybe` is no true or false"),
            (whole.replace("0.004", "-1"), "line 2, column `read_s`: `-1` is no duration in seconds"),
        ] {
            assert_eq!(read(&text).unwrap_err().to_string(), expected);
        }
        let cut = read(&whole.replace(",true,", ",")).unwrap_err().to_string();
        assert!(cut.starts_with("line 2 has ") && cut.ends_with(": it is cut off, or of another table"), "{cut}");
    }
}
