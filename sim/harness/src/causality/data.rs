//! A recording as data for other programs: [`ipam_reports::history`].

use std::collections::BTreeMap;

use ipam_reports::Seconds;
use ipam_reports::history::{Commit, Event, Fault, History, Operation, OperationOutcome, Outage, Request};
use ipam_reports::timeline::Mark;
use kube_sim::rt::ProcessId;
use kube_sim::trace::record::What;
use kube_sim::trace::step::{Phase, Step};
use kube_sim::trace::{FaultChange, ProcessChange};
use serde_json::Value;
use sim_config::kinds::Kinds;

use super::index::Index;
use super::timeline::ending;
use crate::fault_text;

/// The spans and events of a recording. The verdicts of the claims are left to the caller.
pub fn history(index: &Index<'_>) -> History {
    let requests = requests(index);
    let of_event: BTreeMap<u64, usize> = requests
        .iter()
        .enumerate()
        .flat_map(|(position, request)| {
            let parts = [request.event].into_iter().chain(request.commits.iter().map(|commit| commit.event)).chain(request.answer_event);
            parts.map(move |event| (event, position))
        })
        .collect();
    History {
        processes: index.narrator.processes().to_vec(),
        operations: operations(index),
        faults: faults(index),
        outages: outages(index),
        events: (0..).zip(index.records).map(|(event, record)| self::event(index, event, &record.what, &of_event)).collect(),
        requests,
        claims: Vec::new(),
    }
}

/// The time of an event.
fn at(index: &Index<'_>, event: usize) -> Seconds {
    Seconds::from_micros(index.records[event].at.as_micros())
}

fn event(index: &Index<'_>, number: u64, what: &What, of_event: &BTreeMap<u64, usize>) -> Event {
    let record = &index.records[number as usize];
    let (kind, process) = match what {
        What::Process { process, change } => (mark_of(*change), Some(process)),
        What::Request { client, .. } => (Mark::Request, Some(client)),
        What::Commit { server, .. } => (Mark::Commit, Some(server)),
        What::Answer { client, .. } => (Mark::Answer, Some(client)),
        What::Deliver { client, .. } => (Mark::Deliver, Some(client)),
        What::Fault { change: FaultChange::Began, .. } => (Mark::Begin, None),
        What::Fault { change: FaultChange::Ended, .. } => (Mark::End, None),
        What::Fault { change: FaultChange::Fired, .. } => (Mark::Fire, None),
        What::Note { process, .. } | What::Lost { server: process, .. } | What::Relisted { server: process, .. } => {
            (Mark::Note, Some(process))
        }
    };
    Event {
        event: number,
        at: at(index, number as usize),
        kind,
        process: process.map(|process| process.0),
        what: index.narrator.line(number, record).what,
        request: of_event.get(&number).copied(),
    }
}

/// The mark with which a change of a process is drawn.
pub(super) fn mark_of(change: ProcessChange) -> Mark {
    match change {
        ProcessChange::Started => Mark::Start,
        ProcessChange::Crashed => Mark::Crash,
        ProcessChange::Paused => Mark::Pause,
        ProcessChange::Resumed => Mark::Resume,
        ProcessChange::Panicked => Mark::Panic,
    }
}

fn requests(index: &Index<'_>) -> Vec<Request> {
    let mut requests: Vec<Request> = index
        .calls
        .values()
        .filter_map(|call| {
            let What::Request { client, server, verb, kind, key } = &index.records[call.request].what else { return None };
            let answer = call.answer.and_then(|answer| match &index.records[answer].what {
                What::Answer { outcome, .. } => Some(ending(*outcome)),
                _ => None,
            });
            let revision = |event: usize| match &index.records[event].what {
                What::Commit { revision, .. } => Some(Commit { at: at(index, event), event: event as u64, revision: *revision }),
                _ => None,
            };
            let fault = |event: usize| match &index.records[event].what {
                What::Fault { index, .. } => Some(*index),
                _ => None,
            };
            let (ending, status) = answer.unzip();
            Some(Request {
                client: client.0,
                server: server.0,
                verb: verb.to_string(),
                resource: index.narrator.object(*kind, None),
                // A create with a server-generated name has no key until its commit.
                object: key.as_ref().or(call.key.as_ref()).map(ToString::to_string),
                at: at(index, call.request),
                event: call.request as u64,
                commits: call.commits.iter().filter_map(|&commit| revision(commit)).collect(),
                answered: call.answer.map(|answer| at(index, answer)),
                answer_event: call.answer.map(|answer| answer as u64),
                ending,
                status,
                hit_by: call.fired.iter().filter_map(|&event| fault(event)).collect(),
            })
        })
        .collect();
    requests.sort_by_key(|request| request.event);
    requests
}

fn faults(index: &Index<'_>) -> Vec<Fault> {
    let fired = |fault: u32, from: usize, to: Option<usize>| {
        let records = &index.records[from..to.unwrap_or(index.records.len())];
        let of_fault = |what: &What| matches!(what, What::Fault { index, change: FaultChange::Fired } if *index == fault);
        records.iter().filter(|record| of_fault(&record.what)).count() as u64
    };
    let spans = index.faults.iter().filter_map(|span| {
        let fault = index.narrator.faults().get(span.fault as usize)?;
        Some(Fault {
            index: span.fault,
            kind: fault.kind.kind().to_owned(),
            about: fault_text::text(fault),
            at: at(index, span.began),
            event: span.began as u64,
            ended: span.ended.map(|ended| at(index, ended)),
            ended_event: span.ended.map(|ended| ended as u64),
            fired: fired(span.fault, span.began, span.ended),
        })
    });
    spans.collect()
}

fn outages(index: &Index<'_>) -> Vec<Outage> {
    let mut outages: Vec<Outage> = Vec::new();
    for (event, record) in index.records.iter().enumerate() {
        let What::Process { process, change } = record.what else { continue };
        let open = outages.iter_mut().rev().find(|outage| outage.process == process.0 && outage.ended.is_none());
        if let Some(outage) = open {
            outage.ended = Some(at(index, event));
        }
        if !matches!(change, ProcessChange::Started | ProcessChange::Resumed) {
            let paused = change == ProcessChange::Paused;
            outages.push(Outage { process: process.0, paused, at: at(index, event), event: event as u64, ended: None });
        }
    }
    outages
}

/// The operations that actors note, including those that never ended.
fn operations(index: &Index<'_>) -> Vec<Operation> {
    /// Operations that have not ended: process, name and input of each, and its index in the list.
    type Open = Vec<(ProcessId, &'static str, String, usize)>;
    let mut operations: Vec<Operation> = Vec::new();
    let mut open: Open = Vec::new();
    // The first request of each process since its last operation ended.
    let mut first_request: BTreeMap<ProcessId, usize> = BTreeMap::new();
    let new = |process: ProcessId, f: &str, input: Value, began: usize| Operation {
        process: process.0,
        f: f.to_owned(),
        input,
        at: at(index, began),
        event: began as u64,
        ended: None,
        ended_event: None,
        outcome: OperationOutcome::Info,
        output: Value::Null,
        error: None,
    };
    for (event, record) in index.records.iter().enumerate() {
        match &record.what {
            What::Request { client, .. } => {
                first_request.entry(*client).or_insert(event);
            }
            What::Process { process, change: change @ (ProcessChange::Crashed | ProcessChange::Panicked) } => {
                let gone = open.extract_if(.., |(of, ..)| of == process);
                for (.., position) in gone.collect::<Vec<_>>() {
                    let operation = &mut operations[position];
                    (operation.ended, operation.ended_event) = (Some(at(index, event)), Some(event as u64));
                    let how = if *change == ProcessChange::Panicked { "panicked" } else { "crashed" };
                    operation.error = Some(format!("its process {how}"));
                }
            }
            What::Note { process, note } => {
                let Some(Step { f, key, phase }) = note.step() else { continue };
                let (outcome, output, error) = match phase {
                    Phase::Invoke(input) => {
                        open.push((*process, f, key, operations.len()));
                        operations.push(new(*process, f, input, event));
                        continue;
                    }
                    Phase::Ok(output) => (OperationOutcome::Ok, output, None),
                    Phase::Fail(why) => (OperationOutcome::Fail, Value::Null, Some(why)),
                    Phase::Info(why) => (OperationOutcome::Info, Value::Null, Some(why)),
                };
                let same = open.iter().rposition(|(of, what, which, _)| (*of, *what, which) == (*process, f, &key));
                let position = match same {
                    Some(same) => open.remove(same).3,
                    None => {
                        operations.push(new(*process, f, Value::Null, first_request.get(process).copied().unwrap_or(event)));
                        operations.len() - 1
                    }
                };
                first_request.remove(process);
                let operation = &mut operations[position];
                (operation.ended, operation.ended_event) = (Some(at(index, event)), Some(event as u64));
                (operation.outcome, operation.output, operation.error) = (outcome, output, error);
            }
            _ => {}
        }
    }
    operations.sort_by_key(|operation| operation.event);
    operations
}
