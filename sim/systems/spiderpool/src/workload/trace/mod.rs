//! Pods from a production trace, with their creation and deletion times.

mod audit;
pub mod audit_log;
mod lives;
mod resample;
mod snapshot;
mod time;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use sim_config::time::Span;
use sim_config::{Position, Problem, Problems, source, toml as input_text};
use sim_harness::plan::OPS_MAX;

pub use self::audit::from_audit;
pub use self::lives::{Life, Lives, Since, Until};
pub use self::resample::Arrivals;
pub use self::snapshot::from_pods;
use self::time::Times;
use super::ops::{AppKind, ApplyApp, NAMESPACE};
use super::spelling::check_name;

/// The columns that are read; others are ignored.
pub(super) const COLUMNS: [&str; 4] = ["name", "creation_time", "deletion_time", "scheduled_time"];

/// The pods of a trace, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceRows {
    rows: Vec<Row>,
    file: String,
}

/// The number of pods of a trace that are created before a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// The number of pods that are created.
    pub pods: usize,
    /// The number of pods in the trace.
    pub of: usize,
}

/// The size of a cluster that can run all pods of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TraceSize {
    /// The number of pods in the trace.
    pub pods: usize,
    /// The maximum number of pods that live at the same time.
    pub peak: usize,
    /// The time from its start to the last creation or deletion.
    pub lasts: Duration,
}

/// One pod. Times are seconds from the start of the trace.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    name: String,
    created: f64,
    deleted: Option<f64>,
    /// Whether the pod was bound to a node in the trace at any time: the scheduler of the simulated cluster binds it at once. The others
    /// stay pending.
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
    /// The operation that creates it as a bare pod, which stays pending if the trace says so.
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
    /// Reads a CSV file with a header; `-` is standard input. `names`: the names of columns that differ from [`COLUMNS`]. Times are seconds
    /// from the start of the trace, or dates, of which the first creation is the start. Without a column for the time of scheduling, all
    /// pods were scheduled.
    ///
    /// # Errors
    /// A column is missing, a row cannot be understood, or there is none; with file, line and column.
    pub fn read(path: &Path, names: &BTreeMap<String, String>) -> Result<Self, Problems> {
        let (file, text) = input_text::text(path)?;
        let table = Table { file: &file, text: &text };
        let unreadable = |error: &csv::Error| {
            Problems::from(table.problem(error.position(), 0, format!("the trace cannot be read: {error}"), "CSV with a header"))
        };
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let header = reader.headers().map_err(|error| unreadable(&error))?.clone();
        if header.is_empty() {
            return Err(
                Problem::at(&file, Position::START, "the trace is empty", format!("CSV with a header: {}", COLUMNS.join(","))).into()
            );
        }
        if let Some((first, _)) = header.iter().enumerate().find_map(|(at, name)| {
            let again = header.iter().skip(at + 1).any(|other| other == name)
                && COLUMNS.iter().any(|one| names.get(*one).map_or(*one, String::as_str) == name);
            again.then_some((name.to_owned(), at))
        }) {
            let wrong = format!("the trace has two columns `{first}`");
            return Err(Problem::at(&file, Position::START, wrong, "one name for each column").into());
        }
        let column = |name: &str| {
            let called = names.get(name).map_or(name, String::as_str);
            header.iter().position(|other| other == called).ok_or_else(|| {
                let there = header.iter().collect::<Vec<_>>().join(", ");
                Problems::from(Problem::at(
                    &file,
                    Position::START,
                    format!("the trace has no column `{called}`"),
                    format!("one of {there}"),
                ))
            })
        };
        let [name, created, deleted, scheduled] = COLUMNS.map(column);
        let (name, created, deleted) = (name?, created?, deleted?);
        let scheduled = if names.contains_key(COLUMNS[3]) { Some(scheduled?) } else { scheduled.ok() };
        let mut times = Times::default();
        let mut rows = Vec::new();
        let mut lives = Spans::default();
        for record in reader.records() {
            let record = record.map_err(|error| unreadable(&error))?;
            let wrong = |column: usize, what: String, right: &str| Problems::from(table.problem(record.position(), column, what, right));
            let text = |column: usize| record.get(column).unwrap_or_default().trim();
            let line = record.position().map_or(0, csv::Position::line);
            let mut time = |column: usize| match text(column) {
                "" => Ok(None),
                text => times.read(text, line).map(Some).map_err(|(what, right)| wrong(column, what, &right)),
            };
            check_name(text(name)).map_err(|invalid| wrong(name, invalid.wrong, &invalid.right))?;
            let born = time(created)?
                .ok_or_else(|| wrong(created, "a pod has no creation time".to_owned(), "seconds from the start, or a date"))?;
            let died = time(deleted)?;
            if died.is_some_and(|died| died < born) {
                return Err(wrong(deleted, "a pod is deleted before it is created".to_owned(), "a later deletion, or none"));
            }
            let placed = scheduled.map_or(Ok(Some(born)), &mut time)?;
            if placed.is_some_and(|placed| placed < born || died.is_some_and(|died| placed > died)) {
                let what = "a pod is scheduled before it is created, or after it is deleted".to_owned();
                return Err(wrong(scheduled.unwrap_or_default(), what, "a time between them, or nothing for a pod that never was"));
            }
            if let Some(line) = lives.overlaps(text(name), born, died, line) {
                let what = format!("the pod `{}` lives at the same time as the one of its name in line {line}", text(name));
                return Err(wrong(name, what, "another name, or a creation after the deletion of the other one"));
            }
            rows.push(Row { name: text(name).to_owned(), created: born, deleted: died, scheduled: placed.is_some() });
        }
        if rows.is_empty() {
            return Err(Problem::at(&file, source::end(&text), "the trace has no pod", "a row for each pod below the header").into());
        }
        if times.are_dates() {
            let first = rows.iter().map(|row: &Row| row.created).fold(f64::INFINITY, f64::min);
            // Rounded, because sums of fractions may miss the exact microsecond.
            let since = |time: f64| ((time - first) * 1e6).round() / 1e6;
            for row in &mut rows {
                (row.created, row.deleted) = (since(row.created), row.deleted.map(since));
            }
        }
        Ok(Self { rows, file })
    }

    /// The size of a cluster that can run all of the pods.
    pub fn size(&self) -> TraceSize {
        let last = self.rows.iter().flat_map(|row| [Some(row.created), row.deleted]).flatten().fold(0.0, f64::max);
        let mut turns: Vec<(f64, i64)> = self.rows.iter().map(|row| (row.created, 1)).collect();
        turns.extend(self.rows.iter().filter_map(|row| Some((row.deleted?, -1))));
        // A pod that goes at the time at which another one comes makes room for it.
        turns.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        let (_, peak) = turns.iter().fold((0, 0), |(living, peak): (i64, i64), (_, turn)| (living + turn, peak.max(living + turn)));
        TraceSize { pods: self.rows.len(), peak: usize::try_from(peak).unwrap_or_default(), lasts: at(last, 1) }
    }

    /// The number of operations if each row stands for `replication` pods; `None` = a run may have as many.
    pub(super) fn too_many(&self, replication: u32) -> Option<u64> {
        let of_one = self.rows.len() + self.rows.iter().filter(|row| row.deleted.is_some()).count();
        let operations = (of_one as u64).saturating_mul(replication.into());
        (operations > OPS_MAX).then_some(operations)
    }

    /// The number of its pods that a run uses which ends after `lasts`.
    ///
    /// # Errors
    /// The run uses none.
    pub(super) fn within(&self, lasts: Duration, compression: u32) -> Result<Taken, Problem> {
        let begins = |row: &Row| at(row.created, compression);
        let taken = Taken { pods: self.rows.iter().filter(|row| begins(row) < lasts).count(), of: self.rows.len() };
        if taken.pods > 0 || self.rows.is_empty() {
            return Ok(taken);
        }
        let times = || self.rows.iter().map(|row| row.created);
        let (first, last) = (times().fold(f64::INFINITY, f64::min), times().fold(0.0, f64::max));
        let wrong = format!(
            "no pod of the trace comes before the run ends: the first is created at {first} s and the last at {last} s, which with \
             `workload.trace_compression` {compression} is after {} and {}; the run lasts {}",
            Span(at(first, compression)),
            Span(at(last, compression)),
            Span(lasts)
        );
        let right = format!(
            "times that count from the start of the trace (these less {first}?), a longer `phases.safety`, or a larger \
             `workload.trace_compression`"
        );
        Err(Problem::at(&self.file, Position::START, wrong, right))
    }

    /// The pods of a run in which time passes `compression` times as fast and each pod stands for `replication` pods.
    pub(super) fn pods(&self, compression: u32, replication: u32) -> impl Iterator<Item = TracePod> {
        let at = move |seconds: f64| at(seconds, compression);
        self.rows.iter().flat_map(move |row| {
            (0..replication).map(move |copy| TracePod {
                name: if replication == 1 { row.name.clone() } else { format!("{}-{copy}", row.name) },
                created: at(row.created),
                deleted: row.deleted.map(at),
                scheduled: row.scheduled,
            })
        })
    }
}

/// The time in a run that corresponds to a time of the trace.
fn at(seconds: f64, compression: u32) -> Duration {
    Duration::from_micros((seconds * 1e6 / f64::from(compression)) as u64)
}

/// The lives of the pods of each name: start, end, and line.
#[derive(Default)]
struct Spans(BTreeMap<String, Vec<(f64, f64, u64)>>);

impl Spans {
    /// Adds a pod. Returns the line of another pod of its name that lives at the same time: the operator would wait forever for that pod to
    /// go, because operations on one name run one after the other.
    fn overlaps(&mut self, name: &str, born: f64, died: Option<f64>, line: u64) -> Option<u64> {
        let died = died.unwrap_or(f64::INFINITY);
        let lives = self.0.entry(name.to_owned()).or_default();
        let other = lives.iter().find(|(from, until, _)| born < *until && *from < died).map(|(.., line)| *line);
        lives.push((born, died, line));
        other
    }
}

/// A CSV file, to locate problems in it.
struct Table<'a> {
    file: &'a str,
    text: &'a str,
}

impl Table<'_> {
    /// A problem with a field of the record that begins at `place`, if the place is known.
    fn problem(&self, place: Option<&csv::Position>, field: usize, wrong: String, right: &str) -> Problem {
        match place {
            Some(place) => Problem::at(self.file, self.position(place, field), wrong, right),
            None => Problem::of_file(self.file, wrong, right),
        }
    }

    /// The position at which a field of a record begins. Quoted fields may contain commas and line ends.
    fn position(&self, record: &csv::Position, field: usize) -> Position {
        // The reader's records begin after the end of the line before, or with empty lines.
        let begin = usize::try_from(record.byte()).ok().and_then(|byte| self.text.get(byte..)).unwrap_or_default();
        let blank = begin.len() - begin.trim_start_matches(['\r', '\n']).len();
        let skipped = begin[..blank].matches('\n').count() as u32;
        let mut at = Position { line: record.line() as u32 + skipped, column: 1 };
        let (mut left, mut quoted) = (field, false);
        for character in begin[blank..].chars() {
            if left == 0 {
                break;
            }
            match character {
                '"' => quoted = !quoted,
                ',' if !quoted => left -= 1,
                '\n' if !quoted => break,
                _ => {}
            }
            at = if character == '\n' { Position { line: at.line + 1, column: 1 } } else { Position { column: at.column + 1, ..at } };
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, names: &[(&str, &str)]) -> Result<TraceRows, String> {
        let folder = testkit::Folder::new("trace");
        let names = names.iter().map(|(one, other)| ((*one).to_owned(), (*other).to_owned())).collect();
        TraceRows::read(folder.file("trace.csv", text).as_ref(), &names).map_err(|problems| problems.to_string())
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
    fn dates_count_from_the_first_creation() {
        let text = "name,creation_time,deletion_time,scheduled_time\n\
                    b,2026-01-15T12:00:30Z,2026-01-15T13:01:00+01:00,2026-01-15T12:00:31Z\na,2026-01-15T12:00:00.5Z,,\n";
        let rows = read(text, &[]).unwrap();
        let pods: Vec<TracePod> = rows.pods(1, 1).collect();
        assert_eq!((pods[0].created, pods[0].deleted), (Duration::from_micros(29_500_000), Some(Duration::from_micros(59_500_000))));
        assert_eq!(pods[1].created, Duration::ZERO);
        let seconds = "name,creation_time,deletion_time,scheduled_time\nb,29.5,59.5,30.5\na,0,,\n";
        assert_eq!(rows.rows, read(seconds, &[]).unwrap().rows);
        assert_eq!(rows.size(), TraceSize { pods: 2, peak: 2, lasts: Duration::from_micros(59_500_000) });
    }

    #[test]
    fn pods_are_scheduled_where_nothing_says_when_and_the_most_that_live_are_counted() {
        let rows =
            read("name,arrival,departure\na,0,10\nb,10,20\nc,15,\n", &[("creation_time", "arrival"), ("deletion_time", "departure")])
                .unwrap();
        assert!(rows.pods(1, 1).all(|pod| !pod.apply().unschedulable));
        assert_eq!(rows.size(), TraceSize { pods: 3, peak: 2, lasts: Duration::from_secs(20) });
        let problem = read("name,creation_time,deletion_time\na,0,\n", &[("scheduled_time", "bound")]).unwrap_err();
        assert!(problem.contains("no column `bound`"), "{problem}");
    }

    #[test]
    fn a_name_can_come_again_when_the_first_of_it_is_gone() {
        assert!(read("name,creation_time,deletion_time,scheduled_time\na,20,30,20\na,10,20,20\n", &[]).is_ok());
    }

    #[test]
    fn a_trace_of_which_no_run_sees_a_pod_is_refused_and_of_one_that_sees_some_it_is_said_how_many() {
        let rows = read("name,creation_time,deletion_time,scheduled_time\na,1767225600,,1767225600\nb,1767225700,,\n", &[]).unwrap();
        let problem = rows.within(Duration::from_secs(1200), 10).unwrap_err();
        insta::assert_snapshot!(problem.wrong, @"no pod of the trace comes before the run ends: the first is created at 1767225600 s and the last at 1767225700 s, which with `workload.trace_compression` 10 is after 176722560s and 176722570s; the run lasts 1200s");
        insta::assert_snapshot!(problem.right, @"times that count from the start of the trace (these less 1767225600?), a longer `phases.safety`, or a larger `workload.trace_compression`");
        assert_eq!(rows.within(Duration::from_secs(1_767_225_650), 1), Ok(Taken { pods: 1, of: 2 }));
        assert_eq!(rows.too_many(500_000), None);
        assert_eq!(rows.too_many(500_001), Some(1_000_002));
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
            (format!("{header}a,0,,\nb,soon,,\n"), ":3:3:", "`soon` is no time"),
            (format!("{header}\"a\",0,,\r\n\r\n\"b\",-5,,\r\n"), ":4:5:", "`-5` is no time"),
            (format!("{header}A_B,0,,\n"), ":2:1:", "no object can be called `A_B`"),
            (format!("{header}a,2026-01-15T12:00:00Z,,\nb,60,,\n"), ":3:3:", "`60` is in seconds, and the time in line 2 in dates"),
            (format!("{header}a,0,2026-01-15T12:00:00Z,\n"), ":2:5:", "is in dates, and the time in line 2 in seconds"),
            (format!("{header}a,2026-02-30T12:00:00Z,,\n"), ":2:3:", "`2026-02-30T12:00:00Z` is no date"),
            (format!("{header}a,2026-01-15T12:00:00Z,2026-01-15T12:59:59+01:00,\n"), ":2:24:", "deleted before it is created"),
            ("name,creation_time,creation_time,deletion_time\na,0,0,\n".to_owned(), ":1:1:", "two columns `creation_time`"),
            (format!("{header}a,5,4,\n"), ":2:5:", "deleted before it is created"),
            (format!("{header}a,,4,\n"), ":2:3:", "no creation time"),
            (format!("{header}a,60,100,10\n"), ":2:10:", "scheduled before it is created"),
            (format!("{header}a,60,100,200\n"), ":2:10:", "scheduled before it is created, or after it is deleted"),
            (format!("{header}a,10,20,\nb,1,,\na,15,30,\n"), ":4:1:", "in line 2"),
            (format!("{header}a,10,,\na,15,30,\n"), ":3:1:", "lives at the same time"),
            (header.to_owned(), ".csv:2:1: ", "the trace has no pod"),
        ] {
            let problem = read(&text, &[]).unwrap_err();
            assert!(problem.contains(line) && problem.contains(what), "{problem}");
        }
    }
}
