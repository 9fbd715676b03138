//! Claims: what must be true of a run, checked at the event that could break it.
//!
//! A claim observes typed events and never reaches into an actor. To add one: a row in [`ALL`] and a type that
//! implements [`Claim`] in its own file.

mod basic;
mod counter;

use std::fmt;

use ipam_reports::Seconds;
use ipam_reports::finding::{Kind, Violation};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::plan::Plan;
use crate::rt::Rt;
use crate::time::SimTime;
use crate::trace::{Event, Interest};

/// How many violations of one claim a run keeps; later ones are mostly the echo of the first. Violations for which
/// there is an excuse are counted apart: they must not keep one without excuse from being found.
const KEPT_PER_CLAIM: usize = 3;

/// What a claim can do.
pub trait Claim: Send {
    /// Which events it wants to see.
    fn interest(&self) -> Interest;

    /// Something happened.
    fn observe(&mut self, event: &Event<'_>, findings: &mut Findings);

    /// Only for `eventually`: what is still missing; `None` = it holds now.
    fn pending(&self) -> Option<String> {
        None
    }
}

/// What a claim may know when it is made.
pub struct Context<'a> {
    /// The runtime, for names and clocks.
    pub rt: &'a Rt,
    /// The plan.
    pub plan: &'a Plan,
}

/// A claim of the catalogue.
pub struct ClaimDef {
    /// Its name, in the present tense.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// What it says, in a sentence.
    pub about: &'static str,
    /// The property of the reference that it stands for.
    pub reference: Option<&'static str>,
    make: fn(&Context<'_>) -> Box<dyn Claim>,
}

/// The catalogue.
pub const ALL: &[ClaimDef] = &[
    ClaimDef {
        name: "no-process-panics",
        kind: Kind::Always,
        about: "no process of the system under test panics",
        reference: None,
        make: |context| Box::new(basic::NoProcessPanics::new(context)),
    },
    ClaimDef {
        name: "revisions-only-grow",
        kind: Kind::Always,
        about: "every committed write takes a revision greater than all before it",
        reference: Some("K004"),
        make: |_| Box::new(basic::RevisionsOnlyGrow::default()),
    },
    ClaimDef {
        name: "no-increment-is-lost",
        kind: Kind::Always,
        about: "no two increments are acknowledged with the same value",
        reference: Some("K070"),
        make: |context| Box::new(counter::NoIncrementIsLost::new(context)),
    },
    ClaimDef {
        name: "counter-never-goes-back",
        kind: Kind::Always,
        about: "no committed write of the counter lowers its value",
        reference: Some("K070"),
        make: |context| Box::new(counter::CounterNeverGoesBack::new(context)),
    },
    ClaimDef {
        name: "every-increment-ends",
        kind: Kind::Eventually,
        about: "every increment of the plan has come to an end: acknowledged, or left open by a crash or a lost answer",
        reference: None,
        make: |context| Box::new(counter::EveryIncrementEnds::new(context)),
    },
    ClaimDef {
        name: "clients-conflict",
        kind: Kind::Sometimes,
        about: "a write is refused because the object changed since it was read",
        reference: Some("K069"),
        make: |_| Box::new(basic::Seen(basic::Sight::Conflict)),
    },
    ClaimDef {
        name: "an-answer-is-lost",
        kind: Kind::Sometimes,
        about: "a caller gets no answer or an ambiguous error",
        reference: Some("K114"),
        make: |_| Box::new(basic::Seen(basic::Sight::AmbiguousAnswer)),
    },
    ClaimDef {
        name: "a-process-restarts",
        kind: Kind::Reachable,
        about: "a process crashes and starts again",
        reference: None,
        make: |_| Box::new(basic::Restarted::default()),
    },
    ClaimDef {
        name: "a-fault-takes-hold",
        kind: Kind::Reachable,
        about: "a fault of the plan begins",
        reference: None,
        make: |_| Box::new(basic::Seen(basic::Sight::FaultBegan)),
    },
];

/// The claim called `name`.
pub fn find(name: &str) -> Option<&'static ClaimDef> {
    ALL.iter().find(|def| def.name == name)
}

/// The name of a claim that exists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct ClaimName(String);

impl ClaimName {
    /// The claim called `name`, if there is one.
    pub fn new(name: &str) -> Option<Self> {
        find(name).map(|_| Self(name.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The claim.
    pub fn def(&self) -> &'static ClaimDef {
        find(&self.0).unwrap_or_else(|| unreachable!("the name was checked when it was read"))
    }
}

impl fmt::Display for ClaimName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ClaimName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::new(&name).ok_or_else(|| {
            let nearest = ALL.iter().map(|def| def.name).min_by_key(|known| strsim::levenshtein(known, &name)).unwrap_or("");
            serde::de::Error::custom(format!(
                "there is no claim `{name}`; the nearest is `{nearest}`, and `ipam-sim list claims` shows all"
            ))
        })
    }
}

/// Where claims report to.
#[derive(Default)]
pub struct Findings {
    at: SimTime,
    current: usize,
    violations: Vec<(usize, Found)>,
    held: Vec<bool>,
    /// For each claim: without and with an excuse.
    kept: Vec<[usize; 2]>,
}

struct Found {
    at: SimTime,
    excuse: Option<&'static str>,
    detail: Vec<String>,
}

impl Findings {
    /// The claim that observes is false. `detail`: who holds what since when, a sentence a line.
    pub fn violated(&mut self, detail: impl FnOnce() -> Vec<String>) {
        self.found(None, detail);
    }

    /// The claim is false in the documented case `excuse`, which counts only in runs that admit it.
    pub fn violated_with(&mut self, excuse: &'static str, detail: impl FnOnce() -> Vec<String>) {
        self.found(Some(excuse), detail);
    }

    fn found(&mut self, excuse: Option<&'static str>, detail: impl FnOnce() -> Vec<String>) {
        let kept = &mut self.kept[self.current][usize::from(excuse.is_some())];
        if *kept < KEPT_PER_CLAIM {
            *kept += 1;
            self.violations.push((self.current, Found { at: self.at, excuse, detail: detail() }));
        }
    }

    /// For the test of one claim.
    #[cfg(test)]
    fn of_one_claim() -> Self {
        Self { kept: vec![[0; 2]], held: vec![false], ..Self::default() }
    }

    /// The excuse of each violation so far.
    #[cfg(test)]
    fn excuses(&self) -> Vec<Option<&'static str>> {
        self.violations.iter().map(|(_, found)| found.excuse).collect()
    }

    /// The claim that observes holds now: only for `sometimes` and `reachable`.
    pub fn held(&mut self) {
        self.held[self.current] = true;
    }
}

struct Watching {
    def: &'static ClaimDef,
    interest: Interest,
    bound: Option<SimTime>,
    claim: Box<dyn Claim>,
}

/// The claims of a run.
#[derive(Default)]
pub struct Claims {
    watching: Vec<Watching>,
    interest: Interest,
    findings: Findings,
}

impl Claims {
    /// The claims that a plan names. The one about panics belongs to every run.
    pub fn new(context: &Context<'_>) -> Self {
        let check = &context.plan.check;
        let always_on = ALL.iter().filter(|def| def.name == "no-process-panics");
        let named = check.always.iter().chain(&check.sometimes).map(ClaimName::def).filter(|def| def.name != "no-process-panics");
        let unbounded = always_on.chain(named).map(|def| (def, None));
        let bounded = check.eventually.iter().map(|eventually| (eventually.claim.def(), Some(context.plan.heal_at + eventually.within.0)));
        let mut claims = Self::default();
        for (def, bound) in unbounded.chain(bounded) {
            let claim = (def.make)(context);
            let interest = claim.interest();
            claims.interest = claims.interest.and(interest);
            claims.watching.push(Watching { def, interest, bound, claim });
        }
        claims.findings.held = vec![false; claims.watching.len()];
        claims.findings.kept = vec![[0; 2]; claims.watching.len()];
        claims
    }

    /// Something happened.
    pub fn observe(&mut self, event: &Event<'_>) {
        let kind = event.kind.interest();
        if !self.interest.meets(kind) {
            return;
        }
        self.findings.at = event.at;
        for (index, watching) in self.watching.iter_mut().enumerate() {
            if watching.interest.meets(kind) {
                self.findings.current = index;
                watching.claim.observe(event, &mut self.findings);
            }
        }
    }

    /// When the bounds of `eventually` claims pass, in order.
    pub fn bounds(&self) -> Vec<SimTime> {
        let mut bounds: Vec<SimTime> = self.watching.iter().filter_map(|watching| watching.bound).collect();
        bounds.sort_unstable();
        bounds.dedup();
        bounds
    }

    /// Judges the `eventually` claims whose bound is `now`.
    pub fn judge_bounds(&mut self, now: SimTime) {
        self.findings.at = now;
        for (index, watching) in self.watching.iter().enumerate().filter(|(_, watching)| watching.bound == Some(now)) {
            if let Some(missing) = watching.claim.pending() {
                self.findings.current = index;
                self.findings.violated(|| vec![missing]);
            }
        }
    }

    /// What was violated, by time, and which `sometimes` and `reachable` claims held.
    pub fn verdict(&self, excuses: &[String]) -> (Vec<Violation>, Vec<String>) {
        let mut violations: Vec<Violation> = self
            .findings
            .violations
            .iter()
            .map(|(index, found)| Violation {
                claim: self.watching[*index].def.name.to_owned(),
                kind: self.watching[*index].def.kind,
                at: Seconds::from_micros(found.at.as_micros()),
                excuse: found.excuse.filter(|excuse| excuses.iter().any(|admitted| admitted == excuse)).map(str::to_owned),
                detail: found.detail.clone(),
                needs: None,
            })
            .collect();
        violations.sort_by_key(|violation| violation.at);
        let held =
            self.watching.iter().zip(&self.findings.held).filter(|(_, held)| **held).map(|(watching, _)| watching.def.name.to_owned());
        (violations, held.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excused_violations_do_not_hide_one_without_excuse() {
        let mut findings = Findings::of_one_claim();
        for _ in 0..10 {
            findings.violated_with("documented", Vec::new);
        }
        findings.violated(Vec::new);
        assert!(findings.excuses().contains(&None));
        assert_eq!(findings.excuses().len(), KEPT_PER_CLAIM + 1);
    }
}
