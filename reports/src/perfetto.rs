//! A run in the Trace Event Format of Chrome, which <https://ui.perfetto.dev> and `chrome://tracing` open.
//!
//! Each process of the model is a process of the trace; faults and violations have a process for themselves. Operations, requests, outages
//! and faults are asynchronous spans (`b`, `e`), because a process has several at once; commits, crashes and notes of actors are instants,
//! and violations are instants across the whole picture. Time stamps are microseconds of model time. Spans without an end end with the run.

use serde_json::{Map, Value, json};

use crate::finding::Violation;
use crate::history::History;
use crate::timeline::{Ending, Mark};
use crate::{Provenance, Seconds};

/// The process of the trace that holds faults and violations.
const WORLD: u32 = 0;

/// The JSON text of the file, one object. `title`: the name of the run.
pub fn perfetto(title: &str, history: &History, violations: &[Violation], ended: Seconds, provenance: Option<&Provenance>) -> String {
    let mut trace = Trace { end: ended, next: 0, events: Vec::new() };
    for fault in &history.faults {
        let args = json!({"fault": fault.index, "about": fault.about, "fired": fault.fired, "event": fault.event});
        trace.span(WORLD, "fault", &fault.kind, (fault.at, fault.ended), args);
    }
    for outage in &history.outages {
        let name = if outage.paused { "paused" } else { "down" };
        trace.span(pid(outage.process), "outage", name, (outage.at, outage.ended), json!({"event": outage.event}));
    }
    for operation in &history.operations {
        let mut args =
            json!({"input": operation.input, "output": operation.output, "outcome": operation.outcome, "event": operation.event});
        if let (Some(error), Some(args)) = (&operation.error, args.as_object_mut()) {
            args.insert("error".to_owned(), json!(error));
        }
        trace.span(pid(operation.process), "operation", &operation.f, (operation.at, operation.ended), args);
    }
    for request in &history.requests {
        let object = request.object.as_ref().map_or_else(|| request.resource.clone(), |object| format!("{}/{object}", request.resource));
        let revisions: Vec<u64> = request.commits.iter().map(|commit| commit.revision).collect();
        let server = history.processes.get(request.server as usize);
        let ending = match request.ending {
            None => "unanswered",
            Some(Ending::Ok) => "ok",
            Some(Ending::Refused) => "refused",
            Some(Ending::Lost) => "lost",
        };
        let args = json!({
            "server": server, "ending": ending, "status": request.status,
            "revisions": revisions, "faults": request.hit_by, "event": request.event,
        });
        trace.span(pid(request.client), "request", &format!("{} {object}", request.verb), (request.at, request.answered), args);
    }
    for event in &history.events {
        let shown = matches!(event.kind, Mark::Commit | Mark::Note | Mark::Crash | Mark::Panic | Mark::Start | Mark::Fire);
        if shown {
            let args = json!({"event": event.event});
            trace.instant(event.process.map_or(WORLD, pid), "event", &event.what, event.at, "p", args);
        }
    }
    for violation in violations {
        let args = json!({"kind": violation.kind, "excuse": violation.excuse, "detail": violation.detail});
        trace.instant(WORLD, "violation", &violation.claim, violation.at, "g", args);
    }
    // Stable sort: a span without length begins before it ends.
    trace.events.sort_by_key(|(at, _)| *at);
    let names = [(WORLD, "faults and violations")].into_iter().chain((1..).zip(history.processes.iter().map(String::as_str)));
    let metadata = names.flat_map(|(pid, name)| {
        let of = |what: &str, args: Value| json!({"ph": "M", "name": what, "pid": pid, "tid": 0, "args": args});
        [of("process_name", json!({"name": name})), of("process_sort_index", json!({"sort_index": pid}))]
    });
    let events: Vec<Value> = metadata.chain(trace.events.into_iter().map(|(_, event)| event)).collect();
    let mut other = Map::new();
    other.insert("run".to_owned(), json!(title));
    other.extend(provenance.map(|provenance| ("provenance".to_owned(), json!(provenance))));
    let file = json!({"displayTimeUnit": "ms", "otherData": other, "traceEvents": events});
    file.to_string() + "\n"
}

/// The process of the trace for a process of the model.
fn pid(process: u32) -> u32 {
    process + 1
}

struct Trace {
    end: Seconds,
    next: u64,
    events: Vec<(Seconds, Value)>,
}

impl Trace {
    fn span(&mut self, pid: u32, category: &str, name: &str, (from, to): (Seconds, Option<Seconds>), args: Value) {
        let id = format!("{:#x}", self.next);
        self.next += 1;
        let to = to.unwrap_or(self.end.max(from));
        let event = |phase: &str, at: Seconds| {
            json!({
                "ph": phase, "cat": category, "name": name, "id": id, "pid": pid, "tid": 0, "ts": at.as_micros(),
            })
        };
        let (mut begins, ends) = (event("b", from), event("e", to));
        begins["args"] = args;
        self.events.extend([(from, begins), (to, ends)]);
    }

    fn instant(&mut self, pid: u32, category: &str, name: &str, at: Seconds, scope: &str, args: Value) {
        let event = json!({"ph": "i", "cat": category, "name": name, "s": scope, "pid": pid, "tid": 0, "ts": at.as_micros(), "args": args});
        self.events.push((at, event));
    }
}
