//! Writes a recording as text.

use std::fmt::Write;

use ipam_reports::Seconds;
use ipam_reports::replay::TraceLine;
use kube_machinery::ObjectKey;
use kube_sim::fault::{Fault, Target};
use kube_sim::kinds::{KindId, Registry};
use kube_sim::object::{Obj, resource_version};
use kube_sim::rt::{ProcessId, Rt};
use kube_sim::trace::record::{Record, What};
use kube_sim::trace::{FaultChange, Outcome, ProcessChange};
use sim_config::kinds::Kinds;

/// Writes records as text. Copies what it needs from the run, so that it can outlive the run.
pub struct Narrator {
    processes: Vec<String>,
    hosts: Vec<String>,
    plurals: Vec<&'static str>,
    kinds: Vec<&'static str>,
    faults: Vec<Fault>,
}

impl Narrator {
    /// A narrator of a run with these processes, types and faults.
    pub fn new(rt: &Rt, registry: &Registry, faults: &[Fault]) -> Self {
        Self {
            processes: rt.processes().into_iter().map(|process| rt.process_name(process).to_string()).collect(),
            hosts: rt.processes().into_iter().map(|process| rt.host_name(rt.host_of(process)).to_string()).collect(),
            plurals: registry.iter().map(|(_, def)| def.plural).collect(),
            kinds: registry.iter().map(|(_, def)| def.kind).collect(),
            faults: faults.to_vec(),
        }
    }

    /// The names of the processes, by their numbers.
    pub fn processes(&self) -> &[String] {
        &self.processes
    }

    /// The faults of the plan.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// The Kind of a type, as in manifests.
    pub fn kind(&self, kind: KindId) -> &'static str {
        self.kinds.get(usize::from(kind.0)).copied().unwrap_or("?")
    }

    /// The type whose Kind or plural is `name`, in any case.
    pub fn kind_called(&self, name: &str) -> Option<KindId> {
        let named = |names: &[&str]| names.iter().position(|known| known.eq_ignore_ascii_case(name));
        named(&self.kinds).or_else(|| named(&self.plurals)).and_then(|position| u16::try_from(position).ok()).map(KindId)
    }

    /// Whether `target` covers this process, or its host.
    pub fn is_meant(&self, target: &Target, process: ProcessId) -> bool {
        let host = self.hosts.get(process.0 as usize).map_or("", String::as_str);
        target.matches(self.process(process)) || target.matches(host)
    }

    /// The name of a process.
    pub fn process(&self, process: ProcessId) -> &str {
        self.processes.get(process.0 as usize).map_or("?", String::as_str)
    }

    /// The name of an object in lines: `PLURAL/NAMESPACE/NAME`.
    pub fn object(&self, kind: KindId, key: Option<&ObjectKey>) -> String {
        let plural = self.plurals.get(usize::from(kind.0)).copied().unwrap_or("?");
        key.map_or_else(|| plural.to_owned(), |key| format!("{plural}/{key}"))
    }

    /// The name of a fault.
    pub fn fault(&self, index: u32) -> &str {
        self.faults.get(index as usize).map_or("?", |fault| fault.kind.kind())
    }

    /// One line of a trace.
    pub fn line(&self, number: u64, record: &Record) -> TraceLine {
        let (place, what) = match &record.what {
            What::Process { process, change } => {
                let change = match change {
                    ProcessChange::Started => "starts",
                    ProcessChange::Crashed => "crashes",
                    ProcessChange::Paused => "stands still",
                    ProcessChange::Resumed => "goes on",
                    ProcessChange::Panicked => "panics",
                };
                (self.process(*process), change.to_owned())
            }
            What::Request { client, server, verb, kind, key } => {
                (self.process(*client), format!("{verb} {} -> {}", self.object(*kind, key.as_ref()), self.process(*server)))
            }
            What::Commit { client, server, verb, kind, key, revision, before, after } => {
                let mut text =
                    format!("commits {verb} {} of {} at revision {revision}", self.object(*kind, Some(key)), self.process(*client));
                match (before, after) {
                    (None, Some(_)) => text.push_str(", new"),
                    (Some(before), Some(after)) => {
                        let _ = write!(text, ", was {}", resource_version(&**before));
                        push_difference(&mut text, before, after);
                    }
                    (_, None) => text.push_str(", gone"),
                }
                (self.process(*server), text)
            }
            What::Answer { client, verb, kind, key, outcome } => {
                let outcome = match outcome {
                    Outcome::Ok => "ok".to_owned(),
                    Outcome::Http(code, reason) => format!("{code} {}", reason.as_str()),
                    Outcome::Transport(error) => error.to_string(),
                };
                (self.process(*client), format!("{verb} {} <- {}", self.object(*kind, key.as_ref()), outcome.trim_end()))
            }
            What::Deliver { client, kind, what, revision, object } => {
                let name = object.as_ref().map(|object| match (&object.meta().namespace, &object.meta().name) {
                    (Some(namespace), Some(name)) => format!("/{namespace}/{name}"),
                    (None, Some(name)) => format!("/{name}"),
                    _ => String::new(),
                });
                (self.process(*client), format!("sees {what} {}{} revision {revision}", self.object(*kind, None), name.unwrap_or_default()))
            }
            What::Relisted { server, kind } => (
                self.process(*server),
                format!("refills its watch cache of {}: nothing is missing there any more", self.object(*kind, None)),
            ),
            What::Lost { server, kind, key, revision } => (
                self.process(*server),
                format!("loses {} revision {revision}: its watch cache continues without it", self.object(*kind, Some(key))),
            ),
            What::Fault { index, change } => {
                let change = match change {
                    FaultChange::Began => "begins",
                    FaultChange::Ended => "ends",
                    FaultChange::Fired => "fires",
                };
                ("world", format!("fault {index} ({}) {change}", self.fault(*index)))
            }
            What::Note { process, note } => (self.process(*process), note.to_string()),
        };
        TraceLine { event: number, at: Seconds::from_micros(record.at.as_micros()), place: place.to_owned(), what, because: Vec::new() }
    }
}

/// Appends the first-level fields in which two states differ, with their values if they are short.
fn push_difference(text: &mut String, before: &Obj, after: &Obj) {
    /// The longest value that is written in a line; longer values say nothing there.
    const VALUE_MAX: usize = 40;
    let (before, after) = (before.to_value(), after.to_value());
    let mut leaves = Vec::new();
    differing(&before, &after, String::new(), &mut leaves);
    for (path, was, is) in leaves.iter().filter(|(path, ..)| path != "metadata.resourceVersion").take(4) {
        if was.len() <= VALUE_MAX && is.len() <= VALUE_MAX {
            let _ = write!(text, ", {path} {was} -> {is}");
        } else {
            let _ = write!(text, ", {path} changed");
        }
    }
}

fn differing(before: &serde_json::Value, after: &serde_json::Value, path: String, leaves: &mut Vec<(String, String, String)>) {
    use serde_json::Value;
    if before == after {
        return;
    }
    if let (Value::Object(before), Value::Object(after)) = (before, after) {
        let mut keys: Vec<&String> = before.keys().chain(after.keys()).collect();
        keys.sort();
        keys.dedup();
        for key in keys {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            differing(before.get(key).unwrap_or(&Value::Null), after.get(key).unwrap_or(&Value::Null), path, leaves);
        }
    } else {
        leaves.push((path, before.to_string(), after.to_string()));
    }
}
