//! Pods from a production trace: when each was created and deleted.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::ops::{AppKind, ApplyApp, NAMESPACE};
use super::plan::check_name;
use crate::input::{Position, Problem, Problems};

/// The columns that are read; others are ignored.
const COLUMNS: [&str; 4] = ["name", "creation_time", "deletion_time", "scheduled_time"];

/// The pods of a trace, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceRows(Vec<Row>);

/// One pod. Times are seconds from the start of the trace.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    name: String,
    created: f64,
    deleted: Option<f64>,
    scheduled: bool,
}

/// A pod of a run.
pub(super) struct TracePod {
    pub(super) name: String,
    pub(super) created: Duration,
    pub(super) deleted: Option<Duration>,
    scheduled: bool,
}

impl TracePod {
    /// Its creation.
    pub(super) fn apply(&self) -> ApplyApp {
        ApplyApp {
            app: self.name.clone(),
            namespace: NAMESPACE.to_owned(),
            kind: AppKind::Pod,
            replicas: 1,
            unschedulable: !self.scheduled,
            ..ApplyApp::default()
        }
    }
}

impl TraceRows {
    /// Reads a CSV file with a header. `names`: what the columns are called, if not as in [`COLUMNS`].
    ///
    /// # Errors
    /// A column is missing, or a row cannot be understood; with file and line.
    pub(super) fn read(path: &Path, names: &BTreeMap<String, String>) -> Result<Self, Problems> {
        let file = path.display().to_string();
        let unreadable = |error: &csv::Error| {
            Problems::from(problem(&file, error.position(), format!("the trace cannot be read: {error}"), "CSV with a header"))
        };
        if let Some(unknown) = names.keys().find(|name| !COLUMNS.contains(&name.as_str())) {
            let right = format!("one of {}", COLUMNS.join(", "));
            return Err(Problem::of_file(&file, format!("`workload.trace_columns` maps `{unknown}`, which is not read"), right).into());
        }
        let mut reader = csv::Reader::from_path(path).map_err(|error| unreadable(&error))?;
        let header = reader.headers().map_err(|error| unreadable(&error))?.clone();
        if header.is_empty() {
            return Err(Problem::of_file(&file, "the trace is empty", format!("CSV with a header: {}", COLUMNS.join(","))).into());
        }
        let column = |name: &str| {
            let called = names.get(name).map_or(name, String::as_str);
            header.iter().position(|other| other == called).ok_or_else(|| {
                let there = header.iter().collect::<Vec<_>>().join(", ");
                let at = Position { line: 1, column: 1 };
                Problems::from(Problem::at(&file, at, format!("the trace has no column `{called}`"), format!("one of {there}")))
            })
        };
        let [name, created, deleted, scheduled] = COLUMNS.map(column);
        let (name, created, deleted, scheduled) = (name?, created?, deleted?, scheduled?);
        let mut rows = Vec::new();
        for record in reader.records() {
            let record = record.map_err(|error| unreadable(&error))?;
            let wrong = |what: String, right: &str| Problems::from(problem(&file, record.position(), what, right));
            let text = |column: usize| record.get(column).unwrap_or_default().trim();
            let time = |column: usize| match text(column) {
                "" => Ok(None),
                text => match text.parse::<f64>() {
                    Ok(time) if time.is_finite() && time >= 0.0 => Ok(Some(time)),
                    _ => Err(wrong(format!("`{text}` is no time"), "seconds from the start of the trace, or nothing")),
                },
            };
            check_name(text(name)).map_err(|misfit| wrong(misfit.wrong, &misfit.right))?;
            let created = time(created)?.ok_or_else(|| wrong("a pod has no creation time".to_owned(), "seconds from the start"))?;
            let deleted = time(deleted)?;
            if deleted.is_some_and(|deleted| deleted < created) {
                return Err(wrong("a pod is deleted before it is created".to_owned(), "a later deletion, or none"));
            }
            rows.push(Row { name: text(name).to_owned(), created, deleted, scheduled: time(scheduled)?.is_some() });
        }
        Ok(Self(rows))
    }

    /// The pods of a run in which time passes `compression` times as fast and each pod stands for `replication` pods.
    pub(super) fn pods(&self, compression: u32, replication: u32) -> impl Iterator<Item = TracePod> {
        let at = move |seconds: f64| Duration::from_micros((seconds * 1e6 / f64::from(compression)) as u64);
        self.0.iter().flat_map(move |row| {
            (0..replication).map(move |copy| TracePod {
                name: if replication == 1 { row.name.clone() } else { format!("{}-{copy}", row.name) },
                created: at(row.created),
                deleted: row.deleted.map(at),
                scheduled: row.scheduled,
            })
        })
    }
}

/// What is wrong at a place of the file, if that is known.
fn problem(file: &str, place: Option<&csv::Position>, wrong: String, right: &str) -> Problem {
    match place {
        Some(place) => Problem::at(file, Position { line: place.line() as u32, column: 1 }, wrong, right),
        None => Problem::of_file(file, wrong, right),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, names: &[(&str, &str)]) -> Result<TraceRows, String> {
        let path = std::env::temp_dir().join(format!("ipam-sim-trace-{}-{:x}.csv", std::process::id(), hash(text)));
        std::fs::write(&path, text).unwrap();
        let names = names.iter().map(|(one, other)| ((*one).to_owned(), (*other).to_owned())).collect();
        let rows = TraceRows::read(&path, &names);
        std::fs::remove_file(&path).unwrap();
        rows.map_err(|problems| problems.to_string())
    }

    fn hash(text: &str) -> u64 {
        text.bytes().fold(7, |hash: u64, byte| hash.wrapping_mul(31) ^ u64::from(byte))
    }

    #[test]
    fn columns_are_found_by_name_and_others_are_ignored() {
        let text = "cpu,scheduled_time,name,deletion_time,creation_time\n1,5,web-0,100,5\n1,,web-1,,6.5\n";
        let rows = read(text, &[]).unwrap();
        let pods: Vec<TracePod> = rows.pods(10, 1).collect();
        assert_eq!(pods.iter().map(|pod| pod.name.as_str()).collect::<Vec<_>>(), ["web-0", "web-1"]);
        assert_eq!((pods[0].created, pods[0].deleted), (Duration::from_millis(500), Some(Duration::from_secs(10))));
        assert_eq!((pods[1].created, pods[1].deleted), (Duration::from_millis(650), None));
        assert!(!pods[0].apply().unschedulable && pods[1].apply().unschedulable);
    }

    #[test]
    fn columns_can_be_mapped_and_pods_replicated() {
        let text = "pod,creation_time,deletion_time,scheduled_time\na,0,1,0\n";
        let names: Vec<String> = read(text, &[("name", "pod")]).unwrap().pods(1, 2).map(|pod| pod.name).collect();
        assert_eq!(names, ["a-0", "a-1"]);
    }

    #[test]
    fn what_cannot_be_understood_is_told_with_its_line() {
        let header = "name,creation_time,deletion_time,scheduled_time\n";
        for (text, line, what) in [
            ("name,creation_time\n".to_owned(), ":1:", "no column `deletion_time`"),
            (format!("{header}a,0,,\nb,soon,,\n"), ":3:", "`soon` is no time"),
            (format!("{header}A_B,0,,\n"), ":2:", "no object can be called `A_B`"),
            (format!("{header}a,5,4,\n"), ":2:", "deleted before it is created"),
            (format!("{header}a,,4,\n"), ":2:", "no creation time"),
        ] {
            let problem = read(&text, &[]).unwrap_err();
            assert!(problem.contains(line) && problem.contains(what), "{problem}");
        }
        assert!(read(header, &[("pod", "x")]).unwrap_err().contains("`pod`, which is not read"));
    }
}
