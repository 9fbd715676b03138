//! `replay --follow`: only the events that touched one address, pod or object, with their causes.
//!
//! The relations, from a subject to its events:
//!
//! ```text
//!  address ──── allocations that had it ──── their operations ──── calls on the objects that say so
//!     │                  │                          │
//!     │                  └── PeerPods               └── processes at work ──── their crashes, the faults that meant them
//!     └── commits that moved it
//!  pod ──── its object, its allocations as above, and their addresses as long as it has them
//!  object ── its commits, its deliveries, the calls on it, what its writers had read
//! ```

use std::collections::{BTreeMap, BTreeSet};

use ipam_reports::replay::TraceLine;
use kube_machinery::ObjectKey;
use kube_machinery::address::AddressKey;
use kube_sim::kinds::KindId;
use kube_sim::object::key_of;
use kube_sim::rt::ProcessId;
use kube_sim::trace::FaultChange;
use kube_sim::trace::entity::Entity;
use kube_sim::trace::record::What;

use super::index::Index;
use super::subject::Subject;

/// The number of known entities that are named if nothing touched the subject.
const KNOWN_TOLD: usize = 6;

/// The events that touched a subject.
#[derive(Debug, PartialEq)]
pub struct Followed {
    /// The positions of the events in the recording, ascending.
    pub events: Vec<usize>,
    /// The events as lines.
    pub lines: Vec<TraceLine>,
    /// The reason why there are no events, in a sentence.
    pub remark: Option<String>,
}

/// Follows a subject through a recording.
pub fn follow(index: &Index<'_>, subject: &Subject) -> Followed {
    let mut search = Search { index, events: BTreeSet::new(), entities: BTreeSet::new(), objects: BTreeSet::new(), busy: Vec::new() };
    match subject {
        Subject::Address(address) => search.entities_of_address(address),
        Subject::Pod(pod) => search.entities_of_pod(pod),
        Subject::Object { kind, key } => {
            let Some(kind) = index.narrator.kind_called(kind) else {
                let remark = format!("no type is called {kind}: nothing in this run touched {subject}");
                return Followed { events: Vec::new(), lines: Vec::new(), remark: Some(remark) };
            };
            search.object(kind, key);
        }
    }
    search.operations();
    search.causes();
    search.processes_and_faults();
    let Search { events, entities, .. } = search;
    let events: Vec<usize> = events.into_iter().collect();
    let lines = events.iter().map(|&event| line(index, event, &entities)).collect();
    let remark = events.is_empty().then(|| nothing(index, subject));
    Followed { events, lines, remark }
}

/// The line of an event, with its touches of the followed entities and its causes.
fn line(index: &Index<'_>, event: usize, entities: &BTreeSet<Entity>) -> TraceLine {
    let record = &index.records[event];
    let mut line = index.narrator.line(event as u64, record);
    if matches!(record.what, What::Commit { .. }) {
        let concerned =
            |touch: &&kube_sim::trace::entity::Touch| entities.is_empty() || touch.entities.iter().any(|thing| entities.contains(thing));
        for touch in index.touches[event].iter().filter(concerned).filter(|touch| !touch.says.is_empty()) {
            line.what.push_str("; ");
            line.what.push_str(&touch.says);
        }
    }
    line.because.clone_from(&index.causes[event]);
    line
}

/// The remark for a subject that nothing touched.
fn nothing(index: &Index<'_>, subject: &Subject) -> String {
    let mut known: BTreeSet<String> = BTreeSet::new();
    for thing in index.touches.iter().flatten().flat_map(|touch| &touch.entities) {
        match (subject, thing) {
            (Subject::Address(_), Entity::Address(address)) => known.insert(address.to_string()),
            (Subject::Pod(_), Entity::Pod(pod)) => known.insert(format!("pod:{pod}")),
            _ => false,
        };
    }
    if let Subject::Object { kind, .. } = subject {
        for record in index.records {
            if let What::Commit { kind: of, key, .. } = &record.what
                && Some(*of) == index.narrator.kind_called(kind)
            {
                known.insert(format!("object:{kind}/{key}"));
            }
        }
    }
    let more = if known.len() > KNOWN_TOLD { format!(" and {} more", known.len() - KNOWN_TOLD) } else { String::new() };
    let known: Vec<String> = known.into_iter().take(KNOWN_TOLD).collect();
    let instead = if known.is_empty() { String::new() } else { format!("; there are {}{more}", known.join(", ")) };
    format!("nothing in this run touched {subject}{instead}")
}

/// Collects the events of a subject.
struct Search<'a> {
    index: &'a Index<'a>,
    events: BTreeSet<usize>,
    /// The followed entities; other touches of a commit are left out.
    entities: BTreeSet<Entity>,
    /// The objects that contain the entities.
    objects: BTreeSet<(KindId, ObjectKey)>,
    /// The processes that were busy with the entities, each with its first and last event.
    busy: Vec<(ProcessId, usize, usize)>,
}

impl Search<'_> {
    /// The entities that are named together with `thing`, each with the first event that names both.
    fn beside(&self, thing: &Entity) -> BTreeMap<Entity, usize> {
        let mut beside = BTreeMap::new();
        for (event, touches) in self.index.touches.iter().enumerate() {
            for touch in touches.iter().filter(|touch| touch.entities.contains(thing)) {
                for other in touch.entities.iter().filter(|other| *other != thing) {
                    beside.entry(other.clone()).or_insert(event);
                }
            }
        }
        beside
    }

    fn mentioning(&self, thing: &Entity) -> Vec<usize> {
        let about = |touches: &Vec<kube_sim::trace::entity::Touch>| touches.iter().any(|touch| touch.entities.contains(thing));
        (0..self.index.touches.len()).filter(|&event| about(&self.index.touches[event])).collect()
    }

    fn entities_of_address(&mut self, address: &AddressKey) {
        let address = Entity::Address(address.clone());
        self.events.extend(self.mentioning(&address));
        let allocations: Vec<Entity> = self.beside(&address).into_keys().filter(|thing| matches!(thing, Entity::Allocation(_))).collect();
        for allocation in allocations {
            self.allocation(allocation);
        }
        self.entities.insert(address);
    }

    fn entities_of_pod(&mut self, pod: &ObjectKey) {
        let pod = Entity::Pod(pod.as_str().into());
        self.events.extend(self.mentioning(&pod));
        let allocations: Vec<Entity> = self.beside(&pod).into_keys().filter(|thing| matches!(thing, Entity::Allocation(_))).collect();
        for allocation in allocations {
            let last = self.mentioning(&allocation).last().copied().unwrap_or(0);
            for (address, first) in self.beside(&allocation).into_iter().filter(|(thing, _)| matches!(thing, Entity::Address(_))) {
                // Whatever else touches the pod's address in that time touches the pod.
                self.events.extend(self.mentioning(&address).into_iter().filter(|event| (first..=last).contains(event)));
                self.entities.insert(address);
            }
            self.allocation(allocation);
        }
        if let Some(kind) = self.index.narrator.kind_called("Pod")
            && let Entity::Pod(name) = &pod
            && let Some((namespace, name)) = name.split_once('/')
        {
            self.object(kind, &ObjectKey::namespaced(namespace, name));
        }
        self.entities.insert(pod);
    }

    /// Adds all events of an allocation; each process that notes it is busy with it from then until the last of them.
    fn allocation(&mut self, allocation: Entity) {
        let events = self.mentioning(&allocation);
        let mut speakers: BTreeMap<ProcessId, usize> = BTreeMap::new();
        for &event in &events {
            if let What::Note { process, .. } = &self.index.records[event].what {
                speakers.entry(*process).or_insert(event);
            }
        }
        let last = events.last().copied().unwrap_or(0);
        self.busy.extend(speakers.into_iter().map(|(process, first)| (process, first, last)));
        self.events.extend(events);
        self.entities.insert(allocation);
    }

    /// Adds the commits and deliveries of an object, and the calls on it.
    fn object(&mut self, kind: KindId, key: &ObjectKey) {
        for (event, record) in self.index.records.iter().enumerate() {
            let is_it = match &record.what {
                What::Commit { kind: of, key: name, .. } | What::Lost { kind: of, key: name, .. } => *of == kind && name == key,
                What::Deliver { kind: of, object: Some(object), .. } => *of == kind && key_of(object) == *key,
                _ => false,
            };
            if is_it {
                self.events.insert(event);
            }
        }
        for call in self.index.calls.values().filter(|call| call.kind == kind && call.key.as_ref() == Some(key)) {
            self.events.extend(Index::parts(call));
            let end = call.answer.or(call.commits.last().copied()).unwrap_or(call.request);
            self.busy.push((call.client, call.request, end));
        }
    }

    /// Adds the API calls of actors during operations for a followed allocation.
    fn operations(&mut self) {
        for &event in &self.events {
            if let What::Commit { kind, key, .. } = &self.index.records[event].what {
                self.objects.insert((*kind, key.clone()));
            }
        }
        let last = self.index.records.len();
        for operation in &self.index.operations {
            let is_ours = |thing: &Entity| matches!(thing, Entity::Allocation(_)) && self.entities.contains(thing);
            if !operation.entities.iter().any(is_ours) {
                continue;
            }
            let (from, to) = (operation.began, operation.ended.unwrap_or(last));
            self.busy.push((operation.process, from, to));
            for call in self.index.calls.values() {
                let about_it = call.key.as_ref().is_some_and(|key| self.objects.contains(&(call.kind, key.clone())));
                if about_it && call.client == operation.process && (from..=to).contains(&call.request) {
                    self.events.extend(Index::parts(call));
                }
            }
        }
    }

    /// Adds the causes of the collected commits, and all parts of each call that has an event among the collected ones.
    fn causes(&mut self) {
        let commits: Vec<usize> = self.events.iter().copied().collect();
        for event in commits {
            let record = &self.index.records[event];
            if let What::Commit { .. } = record.what {
                self.events.extend(self.index.causes[event].iter().map(|cause| cause.event as usize));
            }
        }
        let parts: Vec<u64> = self.events.iter().filter_map(|&event| self.index.records[event].call).collect();
        for call in parts {
            if let Some(call) = self.index.calls.get(&call) {
                self.events.extend(Index::parts(call));
                let end = call.answer.unwrap_or(call.request);
                self.busy.push((call.client, call.request, end));
                self.busy.push((call.server, call.request, end));
            }
        }
    }

    /// Adds the changes of processes while they were busy, and the faults that targeted them meanwhile.
    fn processes_and_faults(&mut self) {
        let last = self.index.records.len();
        let mut hit = BTreeSet::new();
        for (event, record) in self.index.records.iter().enumerate() {
            let meanwhile = |process: ProcessId| self.busy.iter().any(|&(busy, from, to)| busy == process && (from..=to).contains(&event));
            if let What::Process { process, .. } = record.what
                && meanwhile(process)
            {
                hit.insert(event);
            }
        }
        for span in &self.index.faults {
            let to = span.ended.unwrap_or(last);
            let meets = |&(process, from, until): &(ProcessId, usize, usize)| {
                from <= to && span.began <= until && self.index.concerns(span.fault, process)
            };
            if self.busy.iter().any(meets) {
                hit.extend([span.began].into_iter().chain(span.ended));
            }
        }
        // The calls that a fault hit tell its effect; the events at which it fired are left out.
        hit.retain(|&event| !matches!(self.index.records[event].what, What::Fault { change: FaultChange::Fired, .. }));
        self.events.extend(hit);
    }
}
