//! A run as a history of operations in the form of Jepsen, for external checkers such as Knossos, Elle and Porcupine.
//!
//! Each operation is an `invoke` and a completion: `ok`, `fail` (it did not take place) or `info` (unknown). A process of the history does
//! one operation at a time, as checkers demand: an actor of the model that does several at once is several processes, and one whose
//! operation ended with `info` goes on under a new number. Faults are operations of the `nemesis`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::Seconds;
use crate::history::{History, Operation, OperationOutcome};

/// The operations as a JSON array, one on each line.
pub fn json(history: &History, ended: Seconds) -> String {
    let lines: Vec<String> = entries(history, ended).iter().map(Value::to_string).collect();
    if lines.is_empty() { "[]\n".to_owned() } else { format!("[\n{}\n]\n", lines.join(",\n")) }
}

/// The operations in EDN, one map on each line, as Jepsen writes `history.edn`.
pub fn edn(history: &History, ended: Seconds) -> String {
    let mut text = String::new();
    for entry in entries(history, ended) {
        push_edn(&mut text, &entry, None);
        text.push('\n');
    }
    text
}

/// A moment of the history: its time, its place in the order, and its entry.
type Entry = (Seconds, u64, Value);

fn entries(history: &History, ended: Seconds) -> Vec<Value> {
    let mut entries: Vec<Entry> = Vec::new();
    for (operation, process) in history.operations.iter().zip(processes(history)) {
        let actor = history.processes.get(operation.process as usize).map_or("?", String::as_str);
        let entry = |kind: &str, value: &Value| json!({"type": kind, "process": process, "f": operation.f, "value": value, "node": actor});
        entries.push((operation.at, operation.event, entry("invoke", &operation.input)));
        let (kind, value) = match operation.outcome {
            OperationOutcome::Ok => ("ok", output(operation)),
            OperationOutcome::Fail => ("fail", operation.input.clone()),
            OperationOutcome::Info => ("info", operation.input.clone()),
        };
        let mut completion = entry(kind, &value);
        if let Some(error) = &operation.error {
            completion["error"] = json!(error);
        }
        entries.push((operation.ended.unwrap_or(ended), operation.ended_event.unwrap_or(u64::MAX), completion));
    }
    for fault in &history.faults {
        let entry = |value: String| json!({"type": "info", "process": "nemesis", "f": fault.kind, "value": value});
        entries.push((fault.at, fault.event, entry(format!("begins: {}", fault.about))));
        entries.push((fault.ended.unwrap_or(ended), fault.ended_event.unwrap_or(u64::MAX), entry(format!("ends: {}", fault.about))));
    }
    // Stable sort: an operation that begins and ends with one event is invoked first.
    entries.sort_by_key(|(at, event, _)| (*at, *event));
    let with_place = |(index, (at, _, mut entry)): (u64, Entry)| {
        entry["index"] = json!(index);
        entry["time"] = json!(at.as_micros() * 1_000);
        entry
    };
    (0..).zip(entries).map(with_place).collect()
}

/// The output of an operation, together with its input where both have a value.
fn output(operation: &Operation) -> Value {
    match (&operation.input, &operation.output) {
        (Value::Null, output) => output.clone(),
        (input, Value::Null) => input.clone(),
        (input, output) => json!([input, output]),
    }
}

/// The end of the time for which a process is busy: a moment and its event; `None` = it stays busy.
type Until = Option<(Seconds, u64)>;

/// The process of each operation in the history.
fn processes(history: &History) -> Vec<u64> {
    let mut next = 0;
    // The processes of each actor, and the times until which they are busy.
    let mut known: BTreeMap<u32, Vec<(u64, Until)>> = BTreeMap::new();
    let take = |operation: &Operation| {
        let until = match (operation.outcome, operation.ended, operation.ended_event) {
            (OperationOutcome::Ok | OperationOutcome::Fail, Some(at), Some(event)) => Some((at, event)),
            _ => None,
        };
        let of_actor = known.entry(operation.process).or_default();
        let free = of_actor.iter_mut().find(|(_, busy)| busy.is_some_and(|until| until < (operation.at, operation.event)));
        if let Some((process, busy)) = free {
            *busy = until;
            return *process;
        }
        of_actor.push((next, until));
        next += 1;
        next - 1
    };
    history.operations.iter().map(take).collect()
}

/// Keys whose values are keywords in EDN.
const KEYWORDS: [&str; 2] = ["type", "f"];

fn push_edn(text: &mut String, value: &Value, key: Option<&str>) {
    match value {
        Value::Null => text.push_str("nil"),
        Value::Bool(_) | Value::Number(_) => text.push_str(&value.to_string()),
        Value::String(name) if key.is_some_and(|key| KEYWORDS.contains(&key)) || (key == Some("process") && name == "nemesis") => {
            text.push(':');
            text.push_str(name);
        }
        // The escapes of JSON are those of EDN.
        Value::String(_) => text.push_str(&crate::printable::json(&value.to_string())),
        Value::Array(values) => {
            text.push('[');
            for (position, value) in values.iter().enumerate() {
                if position > 0 {
                    text.push(' ');
                }
                push_edn(text, value, None);
            }
            text.push(']');
        }
        Value::Object(fields) => {
            text.push('{');
            for (position, (key, value)) in fields.iter().enumerate() {
                if position > 0 {
                    text.push_str(", ");
                }
                text.push(':');
                text.push_str(key);
                text.push(' ');
                push_edn(text, value, Some(key));
            }
            text.push('}');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(process: u32, from: u64, to: Option<u64>, outcome: OperationOutcome) -> Operation {
        Operation {
            process,
            f: "allocate".into(),
            input: json!("pod \"a\""),
            at: Seconds::from_micros(from),
            event: from,
            ended: to.map(Seconds::from_micros),
            ended_event: to,
            outcome,
            output: json!(["10.0.0.1"]),
            error: (outcome != OperationOutcome::Ok).then(|| "timeout".to_owned()),
        }
    }

    #[test]
    fn a_process_does_one_thing_at_a_time_and_none_after_it_is_lost() {
        use OperationOutcome::{Fail, Info, Ok};
        let operations = vec![
            operation(7, 0, Some(5), Ok),
            operation(7, 3, Some(9), Info),
            operation(7, 6, Some(7), Fail),
            operation(7, 10, None, Info),
            operation(8, 11, Some(12), Ok),
            operation(7, 13, Some(14), Ok),
        ];
        assert_eq!(processes(&History { operations, ..History::default() }), [0, 1, 0, 0, 2, 3]);
    }

    #[test]
    fn operations_are_maps_in_edn() {
        let history = History {
            processes: vec!["agent-0".into()],
            operations: vec![operation(0, 1, Some(2), OperationOutcome::Ok)],
            ..History::default()
        };
        let expected = "{:f :allocate, :index 0, :node \"agent-0\", :process 0, :time 1000, :type :invoke, :value \"pod \\\"a\\\"\"}\n\
                        {:f :allocate, :index 1, :node \"agent-0\", :process 0, :time 2000, :type :ok, :value \
                        [\"pod \\\"a\\\"\" [\"10.0.0.1\"]]}\n";
        assert_eq!(edn(&history, Seconds::from_micros(9)), expected);
        assert_eq!(json(&History::default(), Seconds::ZERO), "[]\n");
    }
}
