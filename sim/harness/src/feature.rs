//! Features of a run: what of its behaviour tells it from others, as coverage for a guided search.
//!
//! | kind | is | counted |
//! |---|---|---|
//! | `point` | a coverage point of the system: a row of a decision table, a reason, an error | yes |
//! | `claim` | a claim looks at something that could be false, while a kind of fault is active | no |
//! | `writes` | two writes to one object, one after the other: by whom, and which verbs | yes |
//! | `answer` | how a request ended, by verb and type | yes |
//! | `step` | an operation of an actor began, took place, failed, or is left open | yes |
//!
//! A feature that is counted is another one when it was there once, twice, four times, or eight times and more: as AFL has it, what
//! happens more often than before is new, and what happens 1,000 times instead of 999 is not. Nothing here names a system: systems are
//! known by what they tell anyway.

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

/// What a feature is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FeatureKind {
    /// A coverage point of the system under test.
    Point,
    /// A claim that judges while a fault is active.
    Claim,
    /// Two writes to one object.
    Writes,
    /// How a request ended.
    Answer,
    /// What came of an operation.
    Step,
}

impl FeatureKind {
    /// Every kind, in the order in which they are told.
    pub const ALL: [FeatureKind; 5] = [FeatureKind::Point, FeatureKind::Claim, FeatureKind::Writes, FeatureKind::Answer, FeatureKind::Step];

    /// Its name, with which the text of its features begins.
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

/// A name for processes that do the same: theirs without numbers.
type Class = u16;

/// Who wrote an object last, and how.
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

/// Looks on while a run takes place, and notes its features.
pub struct FeatureCollector {
    rt: Rt,
    plurals: Vec<&'static str>,
    /// The kind of each fault of the plan, and whether it ends some time after it begins.
    faults: Vec<(&'static str, bool)>,
    /// How many faults of each kind are active; none is listed that has ended.
    active: BTreeMap<&'static str, u32>,
    /// Faults that are over at once, and until when they count as active.
    brief: Vec<(SimTime, &'static str)>,
    classes: Vec<Arc<str>>,
    /// By the number of the process.
    class_of: Vec<Option<Class>>,
    last: BTreeMap<(u16, ObjectKey), Write>,
    /// How often each claim has judged, by its place, when it was looked last.
    judged: Vec<u32>,
    seen: BTreeMap<Seen, u32>,
}

/// Whether a fault ends some time after it begins, and says so.
fn lasts(kind: &FaultKind) -> bool {
    !kind.is_instant() || kind.recovers_after().is_some()
}

/// What claims that judge while no fault is active judge under.
const CALM: &str = "no fault";

impl FeatureCollector {
    /// For a run of `plan`.
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

    /// Something happened, and claims have judged it.
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
    /// and how often.
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

/// A feature that was there so often: with as many as that, and with each smaller class, which it has reached, too.
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

/// How a request ended: its code, 0 if there was no answer, and the reason.
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
