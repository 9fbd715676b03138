//! Features of a run: characteristics of its behaviour, as coverage for a guided search.
//!
//! | kind | is | counted |
//! |---|---|---|
//! | `point` | a coverage point of the system: a row of a decision table, a reason, an error | yes |
//! | `claim` | a claim judges something that could be false, while a kind of fault is active | no |
//! | `writes` | two consecutive writes to one object: their processes and verbs | yes |
//! | `answer` | the result of a request, by verb and type | yes |
//! | `step` | an operation of an actor began, took place, failed, or is left open | yes |
//!
//! A counted feature is a different one if it occurs once, twice, four times, or eight times and more, as in AFL: a larger class is new,
//! but 1,000 times instead of 999 is not. Nothing here names a system: features come from its events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_machinery::ObjectKey;
use kube_machinery::api::{TransportError, Verb};
use kube_sim::fault::FaultKind;
use kube_sim::kinds::{KindId, Registry};
use kube_sim::rt::{ProcessId, Rt};
use kube_sim::trace::coverage::{BRIEF, CoveragePoint};
use kube_sim::trace::step::Phase;
use kube_sim::trace::{Event, EventKind, FaultChange, Outcome};
use serde::{Deserialize, Serialize};
use sim_config::kinds::Kinds;
use sim_config::time::SimTime;

use crate::claim::Claims;
use crate::plan::Plan;

/// The kind of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FeatureKind {
    /// A coverage point of the system under test.
    Point,
    /// A claim that judges while a fault is active.
    Claim,
    /// Two writes to one object.
    Writes,
    /// The result of a request.
    Answer,
    /// The result of an operation.
    Step,
}

impl FeatureKind {
    /// Every kind, in the order of reports.
    pub const ALL: [FeatureKind; 5] = [FeatureKind::Point, FeatureKind::Claim, FeatureKind::Writes, FeatureKind::Answer, FeatureKind::Step];

    /// The name of the kind, with which the text of its features begins.
    pub fn name(self) -> &'static str {
        match self {
            FeatureKind::Point => "point",
            FeatureKind::Claim => "claim",
            FeatureKind::Writes => "writes",
            FeatureKind::Answer => "answer",
            FeatureKind::Step => "step",
        }
    }

    /// The kind of the feature with this text.
    pub fn of(feature: &str) -> Option<Self> {
        let (name, _) = feature.split_once(' ')?;
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// The number of a class of processes that do the same: those whose names differ only in numbers.
type Class = u16;

/// The last write to an object.
#[derive(Clone, Copy)]
struct Write {
    process: ProcessId,
    class: Class,
    verb: Verb,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Seen {
    Claim { claim: &'static str, fault: &'static str },
    Writes { kind: u16, first: (Class, u8), next: (Class, u8), same: bool },
    Answer { verb: u8, kind: u16, ended: (u16, &'static str) },
    Step { f: &'static str, phase: &'static str },
}

/// Observes a run, and notes its features.
pub struct FeatureCollector {
    rt: Rt,
    plurals: Vec<&'static str>,
    /// The kind of each fault of the plan, and whether it ends some time after it begins.
    faults: Vec<(&'static str, bool)>,
    /// The number of active faults of each kind; kinds without any are not listed.
    active: BTreeMap<&'static str, u32>,
    /// The instantaneous faults, each with the time until which it counts as active.
    brief: Vec<(SimTime, &'static str)>,
    classes: Vec<Arc<str>>,
    /// The class of each process, by its number.
    class_of: Vec<Option<Class>>,
    last: BTreeMap<(u16, ObjectKey), Write>,
    /// The number of judgements of each claim at the last look, by its index.
    judged: Vec<u32>,
    seen: BTreeMap<Seen, u32>,
}

/// Whether a fault ends some time after it begins, with an event.
fn lasts(kind: &FaultKind) -> bool {
    !kind.is_instant() || kind.recovers_after().is_some()
}

/// The name, in place of a kind of fault, for judgements while no fault is active.
const CALM: &str = "no fault";

impl FeatureCollector {
    /// A collector for a run of `plan`.
    pub fn new(plan: &Plan, rt: &Rt, registry: &Registry) -> Self {
        Self {
            rt: rt.clone(),
            plurals: registry.iter().map(|(_, def)| def.plural).collect(),
            faults: plan.fault.iter().map(|fault| (fault.kind.kind(), lasts(&fault.kind))).collect(),
            active: BTreeMap::new(),
            brief: Vec::new(),
            classes: Vec::new(),
            class_of: Vec::new(),
            last: BTreeMap::new(),
            judged: Vec::new(),
            seen: BTreeMap::new(),
        }
    }

    /// Notes the features of an event, after the claims have judged it.
    pub fn observe(&mut self, event: &Event<'_>, claims: &Claims) {
        while self.brief.first().is_some_and(|(until, _)| *until < event.at) {
            let (_, kind) = self.brief.remove(0);
            self.ends(kind);
        }
        self.look_at_claims(claims);
        match event.kind {
            EventKind::Fault { index, change } => self.fault(index, change, event.at),
            EventKind::Commit { client, verb, kind, key, .. } => self.write(client, verb, kind, key),
            EventKind::Answer { verb, kind, outcome, .. } => {
                self.count(Seen::Answer { verb: verb as u8, kind: kind.0, ended: ended(outcome) });
            }
            EventKind::Note { note, .. } => {
                if let Some(step) = note.step() {
                    let phase = match step.phase {
                        Phase::Invoke(_) => "begins",
                        Phase::Ok(_) => "ok",
                        Phase::Fail(_) => "fails",
                        Phase::Info(_) => "left open",
                    };
                    self.count(Seen::Step { f: step.f, phase });
                }
            }
            _ => {}
        }
    }

    fn count(&mut self, seen: Seen) {
        let times = self.seen.entry(seen).or_default();
        *times = times.saturating_add(1);
    }

    fn fault(&mut self, index: u32, change: FaultChange, at: SimTime) {
        let Some(&(kind, lasts)) = self.faults.get(index as usize) else { return };
        match change {
            FaultChange::Began => {
                *self.active.entry(kind).or_default() += 1;
                if !lasts {
                    self.brief.push((at + BRIEF, kind));
                }
            }
            FaultChange::Ended => self.ends(kind),
            FaultChange::Fired => {}
        }
    }

    fn ends(&mut self, kind: &'static str) {
        if let Some(count) = self.active.get_mut(kind) {
            *count -= 1;
            if *count == 0 {
                self.active.remove(kind);
            }
        }
    }

    fn look_at_claims(&mut self, claims: &Claims) {
        for (place, (claim, judged)) in claims.judged().enumerate() {
            match self.judged.get_mut(place) {
                Some(known) if *known == judged => continue,
                Some(known) => *known = judged,
                None => {
                    self.judged.push(judged);
                    if judged == 0 {
                        continue;
                    }
                }
            }
            if self.active.is_empty() {
                self.seen.insert(Seen::Claim { claim, fault: CALM }, 1);
            }
            for &fault in self.active.keys() {
                self.seen.insert(Seen::Claim { claim, fault }, 1);
            }
        }
    }

    fn write(&mut self, process: ProcessId, verb: Verb, kind: KindId, key: &ObjectKey) {
        let write = Write { process, class: self.class(process), verb };
        let Some(before) = self.last.insert((kind.0, key.clone()), write) else { return };
        let (first, next) = ((before.class, before.verb as u8), (write.class, verb as u8));
        self.count(Seen::Writes { kind: kind.0, first, next, same: before.process == process });
    }

    fn class(&mut self, process: ProcessId) -> Class {
        let place = process.0 as usize;
        if let Some(class) = self.class_of.get(place).copied().flatten() {
            return class;
        }
        let name = class_name(&self.rt.process_name(process));
        let known = self.classes.iter().position(|class| **class == *name);
        let class = known.unwrap_or_else(|| {
            self.classes.push(name.into());
            self.classes.len() - 1
        }) as Class;
        if self.class_of.len() <= place {
            self.class_of.resize(place + 1, None);
        }
        self.class_of[place] = Some(class);
        class
    }

    /// The features of the run, in order, as texts that begin with the name of their kind. `points`: the coverage points that it reached,
    /// each with the number of times.
    pub fn features(&self, points: &[(CoveragePoint, u32)]) -> Vec<String> {
        let mut features = BTreeSet::new();
        for (point, times) in points {
            features.extend(counted(format!("point {point}"), *times));
        }
        let verb = |verb: u8| format!("{:?}", Verb::ALL[usize::from(verb)]).to_lowercase();
        let plural = |kind: u16| self.plurals.get(usize::from(kind)).copied().unwrap_or_default();
        let writer = |(class, of): (Class, u8)| format!("{} {}", self.classes[usize::from(class)], verb(of));
        for (seen, times) in &self.seen {
            match *seen {
                Seen::Claim { claim, fault } => drop(features.insert(format!("claim {claim} under {fault}"))),
                Seen::Writes { kind, first, next, same } => {
                    let who = if same { "the same" } else { "another" };
                    let text = format!("writes {}: {}, then {who} {}", plural(kind), writer(first), writer(next));
                    features.extend(counted(text, *times));
                }
                Seen::Answer { verb: of, kind, ended } => {
                    features.extend(counted(format!("answer {} {}: {}", verb(of), plural(kind), told(ended)), *times));
                }
                Seen::Step { f, phase } => features.extend(counted(format!("step {f} {phase}"), *times)),
            }
        }
        features.into_iter().collect()
    }
}

/// The features of something that occurred `times` times: one for its class, and one for each smaller class.
fn counted(text: String, times: u32) -> impl Iterator<Item = String> {
    [1u32, 2, 4, 8].into_iter().filter(move |class| times >= *class).map(move |class| match class {
        1 => text.clone(),
        8 => format!("{text} ×8+"),
        class => format!("{text} ×{class}"),
    })
}

/// The name of a process without its numbers: `agent-3` is one of `agent`.
fn class_name(name: &str) -> String {
    let parts = name.split('-').filter(|part| !part.is_empty() && !part.bytes().all(|byte| byte.is_ascii_digit()));
    parts.collect::<Vec<_>>().join("-")
}

/// The result of a request: its code and its reason; the code is 0 for success and without an answer.
fn ended(outcome: Outcome) -> (u16, &'static str) {
    match outcome {
        Outcome::Ok => (0, "ok"),
        Outcome::Http(code, reason) => (code, reason.as_str()),
        Outcome::Transport(TransportError::Refused) => (0, "connection refused"),
        Outcome::Transport(TransportError::Reset) => (0, "connection reset"),
        Outcome::Transport(TransportError::Deadline) => (0, "deadline exceeded"),
        Outcome::Transport(TransportError::ConnectionLost) => (0, "connection lost"),
    }
}

fn told((code, reason): (u16, &str)) -> String {
    if code == 0 { reason.to_owned() } else { format!("{code} {reason}").trim_end().to_owned() }
}

#[cfg(test)]
mod tests {
    use kube_machinery::api::Reason;

    use super::*;

    #[test]
    fn what_happens_often_has_also_happened_less_often() {
        let of = |times| counted("x".to_owned(), times).collect::<Vec<_>>();
        assert_eq!(of(1), ["x"]);
        assert_eq!(of(3), ["x", "x ×2"]);
        assert_eq!(of(7), ["x", "x ×2", "x ×4"]);
        assert_eq!(of(1_000), ["x", "x ×2", "x ×4", "x ×8+"]);
        assert_eq!(of(0), Vec::<String>::new());
    }

    #[test]
    fn processes_that_differ_by_number_are_of_one_class() {
        for (name, class) in [("agent-3", "agent"), ("adaptor-0-b", "adaptor-b"), ("controller-manager", "controller-manager")] {
            assert_eq!(class_name(name), class);
        }
    }

    #[test]
    fn how_a_request_ended_is_told_in_words() {
        let told = |outcome| told(ended(outcome));
        assert_eq!(told(Outcome::Ok), "ok");
        assert_eq!(told(Outcome::Http(409, Reason::Conflict)), "409 Conflict");
        assert_eq!(told(Outcome::Transport(TransportError::Deadline)), "deadline exceeded");
    }

    #[test]
    fn a_text_tells_its_kind() {
        for kind in FeatureKind::ALL {
            assert_eq!(FeatureKind::of(&format!("{} x", kind.name())), Some(kind));
        }
        assert_eq!(FeatureKind::of("pointless x"), None);
    }
}
