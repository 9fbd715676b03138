//! `points.csv`: one row a point. Columns are only ever added at the end.
//!
//! | columns | hold |
//! |---|---|
//! | `schema`, `build`, `config` | the format, and what made the row |
//! | `panels` … `throttle` | the [`Setting`]; times in seconds |
//! | `bursts`, `first_seed`, `reached`, `calls`, `allocated` | how much the row rests on, and whether it is as precise as was asked |
//! | `M`, `M_low`, `M_high` for each [`Metric`] | the figure and the ends of its interval of 95 %; empty = nothing to take it from, an end that nothing bounds |
//! | `closed_…` | what a formula of B §8.2 gives, and which; empty = there is none |
//! | `system`, `pods` | who shares the pool, and how many addresses each asks for; tables from before are of `byom`, 1 |
//! | `width`, `service_s`, `start` | how many requests a server works on at a time (0 = all), how long it works on a read, and how pods start; tables from before are of 0 |
//! | `first_conflicts_per_call`, `first_exhausted`, `server_wait_s` | later [`Metric`]s, with the ends of their intervals |
//! | `conflicts_per_release`, `release_exhausted` | what releases met, empty = there was none; of tables from before neither is known |
//! | `faults` | which faults bursts meet; empty = none, as in tables from before |
//! | `refused_otherwise`, `unanswered`, `met_fault` | [`Metric::OF_FAULTS`], with the ends of their intervals; empty without faults |
//! | `model_…` | what an independent model gave, B §8.3 |

use crate::cells::{self, Cells, line, maybe};
use crate::schema::PointsSchema;

use super::metric::{METRICS, Metric};
use super::point::Point;
use super::setting::Setting;
pub use crate::cells::TableError;

/// A table of points.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Which build made it.
    pub build: String,
    /// Identifies everything but the seeds that went into it.
    pub config: String,
    /// Its rows, in the order of the file.
    pub points: Vec<Point>,
}

/// The columns that are the setting's, by the names of its fields.
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
const RESTS_ON: [&str; 5] = ["bursts", "first_seed", "reached", "calls", "allocated"];
const BESIDE: [&str; 7] = [
    "closed_form",
    "closed_conflicts_per_call",
    "closed_exhausted",
    "closed_lost",
    "model_conflicts_per_call",
    "model_exhausted",
    "model_lost",
];

/// Columns of the setting that came later: tables from before are of BYOM, one address each.
const ADDED: [&str; 2] = ["system", "pods"];

/// Columns of the setting that came later still: tables from before are of servers that work on everything at once, and of pods that start
/// when their kubelets have made their sandboxes.
const OF_SERVERS: [&str; 3] = ["width", "service_s", "start"];

/// The column of the setting that came last: tables from before are without faults.
const FAULTS: &str = "faults";

fn is_later(metric: &Metric) -> bool {
    Metric::LATER.contains(metric) || Metric::OF_FAULTS.contains(metric)
}

/// The head of the table.
pub fn head() -> String {
    let columns = |metric: Metric| cells::heads_of_estimate(metric.name());
    let metrics = Metric::ALL.into_iter().filter(|metric| !is_later(metric)).flat_map(columns);
    let later = Metric::LATER.into_iter().flat_map(columns);
    let before = ["schema", "build", "config"].into_iter().chain(SETTING).chain(RESTS_ON).map(str::to_owned);
    let added = BESIDE.into_iter().chain(ADDED).chain(OF_SERVERS).map(str::to_owned);
    let of_faults = std::iter::once(FAULTS.to_owned()).chain(Metric::OF_FAULTS.into_iter().flat_map(columns));
    line(before.chain(metrics).chain(added).chain(later).chain(of_faults))
}

/// The row of a point.
pub fn row(build: &str, config: &str, point: &Point) -> String {
    let setting = serde_json::to_value(&point.setting).unwrap_or_default();
    let of_setting = SETTING.iter().map(|name| match &setting[*name] {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    let mut cells = vec![PointsSchema::NAME.to_owned(), build.to_owned(), config.to_owned()];
    cells.extend(of_setting);
    cells.extend([point.bursts, point.first_seed].map(|number| number.to_string()));
    cells.push(point.reached.to_string());
    cells.extend([point.calls, point.allocated].map(|number| number.to_string()));
    let measured = |metric| cells::of_estimate(point.get(metric));
    cells.extend(Metric::ALL.into_iter().filter(|metric| !is_later(metric)).flat_map(measured));
    let closed = point.closed_form();
    cells.push(maybe(closed.map(|closed| closed.form.name())));
    cells.extend(
        [closed.map(|form| form.conflicts_per_call), closed.map(|form| form.exhausted), closed.and_then(|form| form.lost)].map(maybe),
    );
    let model = point.modelled();
    cells.extend([model.map(|row| row.conflicts_per_call), model.map(|row| row.exhausted), model.map(|row| row.lost)].map(maybe));
    cells.extend([point.setting.system.name().to_owned(), point.setting.pods.to_string()]);
    cells.extend([point.setting.width.to_string(), point.setting.service.as_f64().to_string(), point.setting.start.clone()]);
    cells.extend(Metric::LATER.into_iter().flat_map(measured));
    cells.push(point.setting.faults.clone());
    cells.extend(Metric::OF_FAULTS.into_iter().flat_map(measured));
    line(cells)
}

/// Reads a table back. What follows from the setting is not read but worked out again.
///
/// # Errors
/// It is something else, it is empty, or a value cannot be.
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
        let later = Metric::LATER.len() * 3 + OF_SERVERS.len() + Metric::OF_FAULTS.len() * 3 + 1;
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
