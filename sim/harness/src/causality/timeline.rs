//! A recording as the records of a picture: [`ipam_reports::timeline`].

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use ipam_reports::finding::{Kind, Violation};
use ipam_reports::timeline::{Call, Ending, Event, FaultSpan, Lane, Mark, ObjectHistory, Outage, Role, Timeline, Violated};
use ipam_reports::{Seconds, human};
use kube_machinery::api::{TransportError, Verb};
use kube_machinery::{FxHashMap, ObjectKey};
use kube_sim::kinds::KindId;
use kube_sim::object::{key_of, resource_version};
use kube_sim::rt::ProcessId;
use kube_sim::trace::record::{Record, What};
use kube_sim::trace::{FaultChange, Outcome, ProcessChange};
use sim_config::time::SimTime;

use super::history::histories;
use super::index::Index;
use crate::system::systems;

/// The most events on a page; browsers open a page with more of them slowly.
const EVENTS_MAX: usize = 20_000;
/// The number of shown events after the first violation, if not all events can be shown.
const AFTER_VIOLATION: usize = 1_000;
/// The number of changes of a commit that a line names.
const TOUCHES_TOLD: usize = 3;

/// The content of the picture besides the recording.
pub struct Wanted<'a> {
    /// The positions of the events that touched the followed subject, and the name of the subject.
    pub followed: Option<(&'a [usize], String)>,
    /// The violations of the run, each shown with the events from its cause to the one that broke the claim.
    pub violations: &'a [Violation],
    /// The time at which the faults heal.
    pub heal_at: SimTime,
    /// The time at which the run ended.
    pub ended_at: SimTime,
}

/// Makes a picture of a recording. Scenario, seed, digest and the command to run it again are left to the caller.
pub fn timeline(index: &Index<'_>, wanted: &Wanted<'_>) -> Timeline {
    let violated: Vec<(Range<usize>, &Violation)> =
        wanted.violations.iter().filter_map(|violation| Some((interval(index, violation, wanted.heal_at)?, violation))).collect();
    let total = index.records.len();
    let shown = shown(total, violated.iter().map(|(range, _)| range.end).min());
    let mut remarks = Vec::new();
    if shown.len() < total {
        remarks.push(format!(
            "this page shows {} of {}: those from #{} to #{}{}",
            human::count(shown.len() as u64),
            human::plural(total as u64, "event", "events"),
            shown.start,
            shown.end - 1,
            if shown.start > 0 { "; of earlier events only the objects' state is known" } else { "" }
        ));
    }
    let picture = Picture::new(index, shown.clone(), wanted);
    let healed = (SimTime::ZERO < wanted.heal_at && wanted.heal_at < wanted.ended_at).then(|| seconds(wanted.heal_at));
    let position = |event: usize| event.clamp(shown.start, shown.end.saturating_sub(1)) as u64;
    let violations = violated.into_iter().filter(|(range, _)| range.start < shown.end).map(|(range, violation)| Violated {
        violation: violation.clone(),
        from: position(range.start),
        to: position(range.end),
    });
    Timeline {
        simulated: seconds(wanted.ended_at),
        healed,
        total: total as u64,
        first: shown.start as u64,
        remarks,
        followed: wanted.followed.as_ref().map(|(_, name)| name.clone()),
        violations: violations.collect(),
        calls: picture.calls(),
        faults: picture.faults(),
        outages: picture.outages(),
        events: shown.clone().map(|event| picture.event(event)).collect(),
        lanes: picture.lanes,
        objects: picture.histories,
        ..Timeline::default()
    }
}

/// The shown events: all, or those around the first violation, or the first ones.
pub fn shown(total: usize, violated: Option<usize>) -> Range<usize> {
    let end = violated.map_or(EVENTS_MAX, |event| event.saturating_add(AFTER_VIOLATION).max(EVENTS_MAX)).min(total);
    end.saturating_sub(EVENTS_MAX)..end
}

fn seconds(at: SimTime) -> Seconds {
    Seconds::from_micros(at.as_micros())
}

/// The events of a violation: from the cause of the event that broke the claim to that event. For an `eventually` claim, the whole time
/// that it had.
fn interval(index: &Index<'_>, violation: &Violation, heal_at: SimTime) -> Option<Range<usize>> {
    let records = index.records;
    let after = |at: SimTime| records.partition_point(|record| record.at <= at);
    let at = SimTime::ZERO + std::time::Duration::from_micros(violation.at.as_micros());
    let last = after(at).checked_sub(1)?;
    if violation.kind == Kind::Eventually {
        let from = records.partition_point(|record| record.at < heal_at).min(last);
        return Some(from..last);
    }
    // The event that broke the claim; if a deadline passed, the last event before it.
    let to = violation.event.map_or(last, |event| usize::try_from(event).unwrap_or(last).min(last));
    // A write is caused by its reads; a note by earlier events about the same allocation or address.
    let from = index.causes[to].iter().map(|cause| cause.event as usize).filter(|&event| event < to).map(|event| {
        let call = records[event].call.and_then(|call| index.calls.get(&call));
        call.map_or(event, |call| call.request)
    });
    Some(from.min().unwrap_or(to)..to)
}

struct Picture<'a> {
    index: &'a Index<'a>,
    shown: Range<usize>,
    lanes: Vec<Lane>,
    /// The position in `lanes` of each process, by its number.
    lane_of: Vec<u32>,
    store: u32,
    histories: Vec<ObjectHistory>,
    objects: FxHashMap<(KindId, ObjectKey), u32>,
    /// The server of each delivery's watch, by event.
    watched: FxHashMap<usize, ProcessId>,
    followed: BTreeSet<usize>,
}

impl<'a> Picture<'a> {
    fn new(index: &'a Index<'a>, shown: Range<usize>, wanted: &Wanted<'_>) -> Self {
        let names = index.narrator.processes();
        let servers: BTreeSet<usize> = index.calls.values().map(|call| call.server.0 as usize).collect();
        let is_server = |process: usize| servers.contains(&process) || names[process].starts_with("apiserver-");
        // Processes with the same stem side by side, in the order in which the first of each was added.
        let stem = |process: usize| names[process].trim_end_matches(|c: char| c.is_ascii_digit());
        let first_of = |process: usize| (0..names.len()).find(|&other| stem(other) == stem(process));
        let mut order: Vec<usize> = (0..names.len()).collect();
        order.sort_by_key(|&process| (is_server(process), first_of(process), process));
        let role = |process: usize| if is_server(process) { Role::Server } else { Role::Actor };
        let mut lanes: Vec<Lane> = order.iter().map(|&process| Lane { name: names[process].clone(), role: role(process) }).collect();
        let mut lane_of = vec![0; names.len()];
        for (lane, &process) in (0..).zip(&order) {
            lane_of[process] = lane;
        }
        let store = lanes.len() as u32;
        lanes.push(Lane { name: "etcd".to_owned(), role: Role::Store });
        let followed = wanted.followed.as_ref().map(|(events, _)| events.iter().copied().collect()).unwrap_or_default();
        let (objects, histories) = histories(index, &shown);
        Self { index, watched: watched(index), shown, lanes, lane_of, store, histories, objects, followed }
    }

    fn lane(&self, process: ProcessId) -> Option<u32> {
        self.lane_of.get(process.0 as usize).copied()
    }

    /// The name of an object in a line. Its namespace is in the details.
    fn name(&self, kind: KindId, key: Option<&ObjectKey>) -> String {
        let kind = self.index.narrator.kind(kind);
        key.map_or_else(|| format!("{kind}s"), |key| format!("{kind} {}", key.name()))
    }

    fn event(&self, event: usize) -> Event {
        let record: &Record = &self.index.records[event];
        let told = self.index.narrator.line(event as u64, record).what;
        let mut drawn = Event {
            micros: record.at.as_micros(),
            mark: Mark::Note,
            lane: None,
            peer: None,
            text: told.clone(),
            detail: String::new(),
            revision: None,
            object: None,
            ending: None,
            because: self.index.causes[event].iter().filter(|cause| self.shown.contains(&(cause.event as usize))).cloned().collect(),
            followed: self.followed.contains(&event),
        };
        self.draw(&mut drawn, event, record);
        if drawn.text != told {
            drawn.detail = told;
        }
        drawn
    }

    /// Sets the fields that depend on the kind of the event.
    fn draw(&self, drawn: &mut Event, event: usize, record: &Record) {
        let object = |kind: KindId, key: &ObjectKey| self.objects.get(&(kind, key.clone())).copied();
        match &record.what {
            What::Process { process, change } => {
                drawn.lane = self.lane(*process);
                drawn.mark = match change {
                    ProcessChange::Started => Mark::Start,
                    ProcessChange::Crashed => Mark::Crash,
                    ProcessChange::Paused => Mark::Pause,
                    ProcessChange::Resumed => Mark::Resume,
                    ProcessChange::Panicked => Mark::Panic,
                };
            }
            What::Request { client, server, verb, kind, key } => {
                let known = record.call.and_then(|call| self.index.calls.get(&call)).and_then(|call| call.key.as_ref());
                (drawn.mark, drawn.lane, drawn.peer) = (Mark::Request, self.lane(*client), self.lane(*server));
                drawn.text = format!("{verb} {}", self.name(*kind, key.as_ref().or(known)));
                drawn.object = key.as_ref().or(known).and_then(|key| object(*kind, key));
            }
            What::Commit { client, server, verb, kind, key, revision, before, after } => {
                (drawn.mark, drawn.lane, drawn.peer) = (Mark::Commit, self.lane(*server), Some(self.store));
                drawn.revision = Some(*revision);
                drawn.object = object(*kind, key);
                let client = if record.call.is_some() { "" } else { self.index.narrator.process(*client) };
                let write = format!("{client} {verb} {}", self.name(*kind, Some(key)));
                let write = write.trim_start();
                let says: Vec<&str> = self.index.touches[event].iter().map(|touch| &*touch.says).filter(|says| !says.is_empty()).collect();
                let more = says.len().saturating_sub(TOUCHES_TOLD);
                let told = says[..says.len() - more].join("; ");
                let is_shared = [before, after].into_iter().flatten().any(|object| systems().iter().any(|system| system.is_shared(object)));
                drawn.text = match (told.is_empty(), is_shared) {
                    (true, _) => write.to_owned(),
                    // Changes of addresses come first: a line is soon cut.
                    (false, true) if more > 0 => format!("{told} and {more} more ({write})"),
                    (false, true) => format!("{told} ({write})"),
                    (false, false) => format!("{write}: {told}"),
                };
            }
            What::Answer { client, verb, kind, key, outcome } => {
                let call = record.call.and_then(|call| self.index.calls.get(&call));
                (drawn.mark, drawn.lane) = (Mark::Answer, self.lane(*client));
                drawn.peer = call.and_then(|call| self.lane(call.server));
                let known = key.as_ref().or(call.and_then(|call| call.key.as_ref()));
                drawn.object = known.and_then(|key| object(*kind, key));
                let (ending, outcome) = ending(*outcome);
                drawn.ending = Some(ending);
                drawn.text = format!("{outcome}: {verb} {}", self.name(*kind, known));
                if let Some(seen) = record.object.as_ref().filter(|_| *verb == Verb::Get) {
                    drawn.text.push_str(&format!(" at r{}", resource_version(&**seen)));
                }
            }
            What::Deliver { client, kind, what, revision, object: seen } => {
                (drawn.mark, drawn.lane) = (Mark::Deliver, self.lane(*client));
                drawn.peer = self.watched.get(&event).and_then(|&server| self.lane(server));
                let key = seen.as_ref().map(key_of);
                drawn.object = key.as_ref().and_then(|key| object(*kind, key));
                drawn.text = format!("sees {what} {} at r{revision}", self.name(*kind, key.as_ref()));
            }
            What::Relisted { server, kind } => {
                drawn.lane = self.lane(*server);
                drawn.text = format!("lists {} again", self.name(*kind, None));
            }
            What::Lost { server, kind, key, revision } => {
                drawn.lane = self.lane(*server);
                drawn.object = object(*kind, key);
                drawn.text = format!("loses {} at r{revision}", self.name(*kind, Some(key)));
            }
            What::Fault { index, change } => {
                (drawn.mark, drawn.text) = match change {
                    FaultChange::Began => (Mark::Begin, format!("{} begins: {}", self.index.narrator.fault(*index), self.about(*index))),
                    FaultChange::Ended => (Mark::End, format!("{} ends", self.index.narrator.fault(*index))),
                    FaultChange::Fired => (Mark::Fire, format!("{} strikes", self.index.narrator.fault(*index))),
                };
            }
            What::Note { process, .. } => drawn.lane = self.lane(*process),
        }
    }

    /// The parameters of a fault, in a line.
    fn about(&self, index: u32) -> String {
        let fault = self.index.narrator.faults().get(index as usize).and_then(|fault| serde_json::to_value(&fault.kind).ok());
        let fields = fault.as_ref().and_then(|fault| fault.as_object());
        let told = fields.into_iter().flatten().filter(|(name, value)| *name != "kind" && !value.is_null());
        let told: Vec<String> = told
            .map(|(name, value)| {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                format!("{} {value}", name.replace('_', " "))
            })
            .collect();
        told.join(", ")
    }

    fn is_shown(&self, event: usize) -> bool {
        self.shown.contains(&event)
    }

    /// Whether any event from one to another is shown.
    fn meets(&self, from: usize, to: Option<usize>) -> bool {
        from < self.shown.end && to.is_none_or(|to| to >= self.shown.start)
    }

    fn calls(&self) -> Vec<Call> {
        let shown = self.index.calls.values().filter(|call| self.is_shown(call.request));
        let mut calls: Vec<Call> = shown
            .filter_map(|call| {
                Some(Call {
                    lane: self.lane(call.client)?,
                    request: call.request as u64,
                    commits: call.commits.iter().filter(|&&commit| self.is_shown(commit)).map(|&commit| commit as u64).collect(),
                    answer: call.answer.filter(|&answer| self.is_shown(answer)).map(|answer| answer as u64),
                })
            })
            .collect();
        calls.sort_by_key(|call| call.request);
        calls
    }

    fn faults(&self) -> Vec<FaultSpan> {
        let spans = self.index.faults.iter().filter(|span| self.meets(span.began, span.ended));
        spans
            .map(|span| FaultSpan {
                index: span.fault,
                name: self.index.narrator.fault(span.fault).to_owned(),
                about: self.about(span.fault),
                lanes: self.lanes_of(span.fault),
                from: span.began as u64,
                to: span.ended.map(|ended| ended as u64),
            })
            .collect()
    }

    /// The lanes that a fault names.
    fn lanes_of(&self, fault: u32) -> Vec<u32> {
        let Some(fault) = self.index.narrator.faults().get(fault as usize) else { return Vec::new() };
        let targets = fault.kind.targets();
        let named = |process: ProcessId| targets.iter().any(|target| !target.is_any() && self.index.narrator.is_meant(target, process));
        let mut lanes: Vec<u32> = (0..self.lane_of.len() as u32)
            .map(ProcessId)
            .filter(|&process| named(process))
            .filter_map(|process| self.lane(process))
            .collect();
        lanes.sort_unstable();
        lanes
    }

    fn outages(&self) -> Vec<Outage> {
        let mut open: BTreeMap<ProcessId, usize> = BTreeMap::new();
        let mut outages: Vec<(Outage, usize, Option<usize>)> = Vec::new();
        for (event, record) in self.index.records.iter().enumerate() {
            let What::Process { process, change } = record.what else { continue };
            if let Some(outage) = open.remove(&process).map(|outage| &mut outages[outage]) {
                (outage.0.to, outage.2) = (Some(event as u64), Some(event));
            }
            if !matches!(change, ProcessChange::Started | ProcessChange::Resumed)
                && let Some(lane) = self.lane(process)
            {
                open.insert(process, outages.len());
                let paused = change == ProcessChange::Paused;
                outages.push((Outage { lane, paused, from: event as u64, to: None }, event, None));
            }
        }
        outages.into_iter().filter(|(_, from, to)| self.meets(*from, *to)).map(|(outage, ..)| outage).collect()
    }
}

pub(super) fn ending(outcome: Outcome) -> (Ending, String) {
    match outcome {
        Outcome::Ok => (Ending::Ok, "ok".to_owned()),
        Outcome::Http(code, reason) => (Ending::Refused, format!("{code} {}", reason.as_str()).trim_end().to_owned()),
        Outcome::Transport(error @ TransportError::Refused) => (Ending::Refused, error.to_string()),
        Outcome::Transport(error) => (Ending::Lost, error.to_string()),
    }
}

/// The server whose watch brought each delivery: the one of the client's last watch request for the type.
fn watched(index: &Index<'_>) -> FxHashMap<usize, ProcessId> {
    let mut watches: FxHashMap<(ProcessId, KindId), ProcessId> = FxHashMap::default();
    let mut watched = FxHashMap::default();
    for (event, record) in index.records.iter().enumerate() {
        match record.what {
            What::Request { client, server, verb: Verb::Watch, kind, .. } => {
                watches.insert((client, kind), server);
            }
            What::Deliver { client, kind, .. } => {
                watched.extend(watches.get(&(client, kind)).map(|&server| (event, server)));
            }
            _ => {}
        }
    }
    watched
}
