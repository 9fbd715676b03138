//! The requests of audit logs, with their latencies and the load that they met.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::path::PathBuf;

use ipam_reports::calibrate::{Kind, LogFacts};
use jiff::Timestamp;
use sim_config::{Position, Problem, Problems, source};
use sim_spiderpool::workload::trace::audit_log::{self, Event};

/// A request that was answered.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Request {
    /// The time of arrival, in microseconds since the first request.
    pub(super) at: i64,
    /// The latency, in microseconds.
    pub(super) took: i64,
    /// The number of its class: its verb and its resource.
    pub(super) class: usize,
    pub(super) kind: Kind,
    /// Whether its latency is representative: the request was carried out, or met a conflict.
    pub(super) counts: bool,
    /// The number of other requests in flight when it arrived.
    pub(super) load: u32,
    /// The number of requests that arrived within the second before it.
    pub(super) arrivals: u32,
}

/// The content of a log.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// The requests, in the order of arrival.
    pub(super) requests: Vec<Request>,
    /// The verb and the resource of each class.
    pub(super) classes: Vec<(String, String)>,
    pub(super) facts: LogFacts,
}

/// The state while logs are read, file by file.
#[derive(Default)]
struct Reading {
    events: u64,
    /// For each request: the time of arrival, the time of the answer, its class, its kind, and whether it counts.
    answered: Vec<(Timestamp, Timestamp, usize, Kind, bool)>,
    classes: BTreeMap<(String, String), usize>,
    facts: LogFacts,
    /// Requests that were received and have not ended yet.
    open: std::collections::BTreeSet<String>,
    /// The place of the first event that lacks necessary information.
    first: Option<Problem>,
    latest: Option<Timestamp>,
}

/// The name used instead of a resource for a path that has none.
const PATH: &str = "(path)";

const RIGHT_TIMES: &str = "events with `requestReceivedTimestamp` and `stageTimestamp`";

/// Reads audit logs of one server: files of JSON lines, `-` for standard input.
///
/// # Errors
/// A line that is no event, or logs with no latency in them, with the place.
pub(super) fn read(paths: &[PathBuf]) -> Result<Log, Problems> {
    let mut reading = Reading::default();
    for path in paths {
        let (file, bytes) = (source::name(path), source::read(path)?);
        if bytes.starts_with(&[0x1f, 0x8b]) {
            let right = "its text: `zcat LOG.gz | ipam-sim report calibrate -`";
            return Err(Problem::at(&file, Position::START, "the log is packed with gzip", right).into());
        }
        let text = source::text(&file, &bytes)?;
        let cut = audit_log::events(&file, text, |event, place| reading.see(event, place).map_err(Problems::from))?;
        if let Some(line) = cut {
            reading.facts.cut.push(format!("{file}:{line}"));
        }
    }
    let file = paths.first().map(|path| source::name(path)).unwrap_or_default();
    reading.end(&file).map_err(Problems::from)
}

impl Reading {
    fn see(&mut self, event: &Event, place: audit_log::Place<'_>) -> Result<(), Problem> {
        self.events += 1;
        let (received, stage) = event.times(place)?;
        let verb = event.verb.as_deref().unwrap_or_default();
        let subresource = event.object_ref.as_ref().and_then(|object| object.subresource.as_deref()).unwrap_or_default();
        let uri = event.request_uri.as_deref().unwrap_or_default();
        let stays_open = matches!(verb, "watch" | "connect" | "proxy")
            || matches!(subresource, "exec" | "attach" | "portforward" | "proxy")
            || (subresource == "log" && uri.contains("follow="))
            || uri.contains("watch=1")
            || uri.contains("watch=true");
        match event.stage.as_deref() {
            Some("ResponseStarted") => return Ok(()),
            Some("RequestReceived") => {
                if let Some(id) = event.audit_id.as_ref().filter(|_| !stays_open) {
                    self.open.insert(id.clone());
                }
                let right = "an audit policy that does not omit the stage `ResponseComplete`";
                self.first.get_or_insert_with(|| place.problem(1, "no event says how its request ended", right));
                return Ok(());
            }
            _ => {}
        }
        if let Some(id) = &event.audit_id {
            self.open.remove(id);
        }
        if stays_open {
            self.facts.long_running += 1;
            return Ok(());
        }
        let (Some(received), Some(stage)) = (received, stage) else {
            self.facts.without_time += 1;
            self.first.get_or_insert_with(|| place.problem(1, "no event has the times of its arrival and its answer", RIGHT_TIMES));
            return Ok(());
        };
        let Some(code) = event.response_status.as_ref().and_then(|status| status.code) else {
            self.facts.without_response += 1;
            let right = "an audit policy that does not omit the stage `ResponseComplete`";
            self.first.get_or_insert_with(|| place.problem(1, "no event says how its request ended", right));
            return Ok(());
        };
        // If the server's clock was set back, the latency is unknown.
        if stage < received {
            self.facts.without_time += 1;
            return Ok(());
        }
        self.facts.unordered += u64::from(self.latest.is_some_and(|latest| latest.duration_since(stage).as_millis() > 1_000));
        self.latest = Some(self.latest.map_or(stage, |latest| latest.max(stage)));
        if code == 429 {
            self.facts.throttled += 1;
            return Ok(());
        }
        self.facts.failed += u64::from(code >= 500);
        let resource = match event.object_ref.as_ref().and_then(|object| object.resource.as_deref()) {
            Some(resource) if subresource.is_empty() => resource.to_owned(),
            Some(resource) => format!("{resource}/{subresource}"),
            None => PATH.to_owned(),
        };
        let kind = match (verb, code) {
            ("create" | "update" | "patch" | "delete" | "deletecollection" | "post" | "put", 409) => Kind::Conflict,
            ("create" | "update" | "patch" | "delete" | "deletecollection" | "post" | "put", _) => Kind::Write,
            _ => Kind::Read,
        };
        // If the name is taken, that is another kind of 409: the client does not read the object again.
        let counts = (200..300).contains(&code) || (kind == Kind::Conflict && verb != "create" && verb != "post");
        let next = self.classes.len();
        let class = *self.classes.entry((verb.to_owned(), resource)).or_insert(next);
        self.answered.push((received, stage, class, kind, counts));
        Ok(())
    }

    fn end(mut self, file: &str) -> Result<Log, Problem> {
        if self.events == 0 {
            return Err(Problem::at(file, Position::START, "the log has no event", "JSON lines of audit.k8s.io, an event each"));
        }
        self.facts.without_response += self.open.len() as u64;
        if !self.answered.iter().any(|(.., counts)| *counts) {
            let wrong = format!("none of its {} events has the latency of a request that was carried out", self.events);
            let right = "an audit policy with a rule for reads and writes, at the level `Metadata` or above";
            return Err(match self.first {
                Some(problem) if self.answered.is_empty() => problem,
                _ => Problem::at(file, Position::START, wrong, right),
            });
        }
        // Requests of the same microsecond stay in the order of the log.
        self.answered.sort_by_key(|(received, ..)| *received);
        let start = self.answered[0].0;
        let micros = |time: Timestamp| time.as_microsecond() - start.as_microsecond();
        let mut requests: Vec<Request> = self
            .answered
            .iter()
            .map(|&(received, stage, class, kind, counts)| {
                let at = micros(received);
                Request { at, took: micros(stage) - at, class, kind, counts, load: 0, arrivals: 0 }
            })
            .collect();
        let answered_last = self.answered.iter().map(|(_, stage, ..)| *stage).max().unwrap_or(start);
        meet(&mut requests);
        let mut classes = vec![(String::new(), String::new()); self.classes.len()];
        for (name, number) in self.classes {
            classes[number] = name;
        }
        let mut ends: Vec<i64> = requests.iter().map(|request| request.at + request.took).collect();
        ends.sort_unstable();
        let facts = LogFacts {
            from: format!("{start:.0}"),
            until: format!("{answered_last:.0}"),
            requests: requests.len() as u64,
            load_max: requests.iter().map(|request| request.load + 1).max().unwrap_or(0),
            answered_per_second_max: within_a_second(&ends).into_iter().max().map_or(0, |most| u64::from(most) + 1),
            ..self.facts
        };
        Ok(Log { requests, classes, facts })
    }
}

/// For each time, the number of earlier ones that are less than a second before it.
fn within_a_second(times: &[i64]) -> Vec<u32> {
    let mut first = 0;
    let count = |(number, time): (usize, &i64)| {
        while time - times[first] >= 1_000_000 {
            first += 1;
        }
        (number - first) as u32
    };
    times.iter().enumerate().map(count).collect()
}

/// Sets the load that each request met. The requests are in the order of arrival.
fn meet(requests: &mut [Request]) {
    let mut ends = BinaryHeap::new();
    for request in &mut *requests {
        while ends.peek().is_some_and(|Reverse(end)| *end <= request.at) {
            ends.pop();
        }
        request.load = ends.len() as u32;
        ends.push(Reverse(request.at + request.took));
    }
    let at: Vec<i64> = requests.iter().map(|request| request.at).collect();
    for (request, arrivals) in requests.iter_mut().zip(within_a_second(&at)) {
        request.arrivals = arrivals;
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A log of requests, each with its class and with the load that it meets from the others.
    pub(in super::super) fn log_of(requests: &[(i64, i64, Kind)]) -> Log {
        let one =
            |&(at, took, kind): &(i64, i64, Kind)| Request { at, took, class: kind as usize, kind, counts: true, load: 0, arrivals: 0 };
        let mut requests: Vec<Request> = requests.iter().map(one).collect();
        requests.sort_by_key(|request| request.at);
        meet(&mut requests);
        let classes = ["get", "update", "update"].map(|verb| (verb.to_owned(), "configmaps".to_owned())).to_vec();
        let load_max = requests.iter().map(|request| request.load + 1).max().unwrap_or(0);
        Log { requests, classes, facts: LogFacts { load_max, ..LogFacts::default() } }
    }

    #[test]
    fn the_load_is_what_is_in_flight_when_a_request_comes() {
        use Kind::Read;
        let log = log_of(&[(0, 10, Read), (5, 3, Read), (7, 9, Read), (8, 1, Read), (10, 1, Read), (1_000_007, 1, Read)]);
        let met: Vec<(u32, u32)> = log.requests.iter().map(|request| (request.load, request.arrivals)).collect();
        assert_eq!(met, [(0, 0), (1, 1), (2, 2), (2, 3), (1, 4), (0, 2)]);
    }

    fn event(second: u32, took: u32, verb: &str, code: u32) -> String {
        format!(
            r#"{{"kind":"Event","auditID":"{second}-{took}-{verb}","stage":"ResponseComplete","requestURI":"/api/v1/x","verb":"{verb}","objectRef":{{"resource":"pods"}},"responseStatus":{{"code":{code}}},"requestReceivedTimestamp":"2026-01-15T12:00:{second:02}.000000Z","stageTimestamp":"2026-01-15T12:00:{second:02}.{took:06}Z"}}"#
        ) + "\n"
    }

    fn read_text(bytes: impl AsRef<[u8]>) -> Result<Log, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        read(&[file.path().to_owned()]).map_err(|problems| problems.to_string().replace(&*file.path().display().to_string(), "LOG"))
    }

    #[test]
    fn what_is_no_latency_is_counted_and_left_out() {
        let received = event(9, 1, "get", 200).replace("ResponseComplete", "RequestReceived").replace("9-1", "other");
        let log = event(1, 500, "get", 200)
            + &event(3, 700, "update", 409)
            + &event(4, 700, "create", 409)
            + &event(5, 100, "watch", 200)
            + &event(6, 100, "get", 429)
            + &event(7, 100, "get", 503)
            + &event(2, 900, "update", 200)
            + &event(8, 100, "get", 200).replace("stageTimestamp", "x")
            + &received
            + &event(8, 1, "get", 200)[..50];
        let log = read_text(log).unwrap();
        let told: Vec<(i64, i64, Kind, bool)> =
            log.requests.iter().map(|one| (one.at / 1_000_000, one.took, one.kind, one.counts)).collect();
        let expected = [
            (0, 500, Kind::Read, true),
            (1, 900, Kind::Write, true),
            (2, 700, Kind::Conflict, true),
            (3, 700, Kind::Conflict, false),
            (6, 100, Kind::Read, false),
        ];
        assert_eq!(told, expected);
        let facts = &log.facts;
        let counted = [facts.long_running, facts.throttled, facts.failed, facts.without_time, facts.without_response, facts.unordered];
        assert_eq!((counted, facts.cut.len()), ([1, 1, 1, 1, 1, 1], 1), "{facts:?}");
    }

    #[test]
    fn a_log_without_a_latency_is_refused_with_its_place() {
        let one = event(1, 500, "get", 200);
        for (log, expected) in [
            (String::new(), "LOG:1:1: the log has no event"),
            (one.replace("requestReceivedTimestamp", "x"), "LOG:1:1: no event has the times of its arrival and its answer"),
            (one.replace("ResponseComplete", "RequestReceived"), "LOG:1:1: no event says how its request ended"),
            (one.replace("responseStatus", "x"), "LOG:1:1: no event says how its request ended"),
            (event(1, 500, "get", 404), "LOG:1:1: none of its 1 events has the latency of a request that was carried out"),
            (event(1, 500, "watch", 200), "LOG:1:1: none of its 1 events has the latency"),
            (one.clone() + "[1]\n" + &one, "LOG:2:"),
            (one.clone() + "{\"kind\":\"Pod\"}\n", "LOG:2:1: no audit event: its kind is `Pod`"),
            (one.replace("12:00:01.000000Z", "noon"), "`2026-01-15Tnoon` is no date"),
        ] {
            let error = read_text(&log).unwrap_err();
            assert!(error.contains(expected), "{log}: {error}");
        }
        let error = read_text([0x1f, 0x8b, 8, 0, 0]).unwrap_err();
        assert!(error.starts_with("LOG:1:1: the log is packed with gzip"), "{error}");
    }
}
