//! The claims of a run, while it runs.

use std::any::Any;
use std::collections::BTreeMap;

use ipam_reports::Seconds;
use ipam_reports::finding::{Kind, Violation};
use kube_machinery::api::Verb;
use kube_sim::kinds::KindId;
use kube_sim::object::Obj;
use kube_sim::rt::{ProcessId, Rt};
use kube_sim::trace::{Event, EventKind, Interest, Outcome};
use sim_config::time::SimTime;

use super::findings::{Findings, Found};
use super::{BUDGET, COMMON, Claim, ClaimDef, Context, Group, Make, find};

/// The claim with this name, which was checked when the name was parsed.
fn def_of(name: &str) -> &'static ClaimDef {
    find(name).unwrap_or_else(|| unreachable!("there is no claim `{name}`"))
}

/// The number of processes whose last error is reported when an `eventually` claim does not come true.
const REASONS_MAX: usize = 4;

/// The result of a call, in words.
fn told(outcome: Outcome) -> String {
    match outcome {
        Outcome::Ok => "ok".to_owned(),
        Outcome::Http(code, reason) => format!("{code} {}", reason.as_str()).trim_end().to_owned(),
        Outcome::Transport(error) => error.to_string(),
    }
}

/// The number of events between two looks at what `eventually` claims wait for, at first; later an eighth of the events so far, so that
/// long runs need few looks.
const LOOK_AFTER: u64 = 16;

struct Watching {
    def: &'static ClaimDef,
    /// Whether the claim has to judge something in a sweep.
    required: bool,
    bound: Option<SimTime>,
    /// Only for `eventually`: whether there was something to wait for at a look.
    waited: bool,
    judge: Judge,
}

enum Judge {
    /// A claim that observes events itself, and the kinds of events.
    Events(Interest, Box<dyn Claim>),
    /// A claim of the group at this index.
    Grouped(usize),
}

/// A group with claims in this run.
struct Grouped {
    name: &'static str,
    interest: Interest,
    group: Box<dyn Group>,
}

/// The claims of a run.
#[derive(Default)]
pub struct Claims {
    watching: Vec<Watching>,
    interest: Interest,
    /// The claims that observe events themselves, by their index in `watching`.
    of_events: Vec<usize>,
    groups: Vec<Grouped>,
    /// The number of events so far, including those that no claim asks for.
    seen: u64,
    /// The reports of the claims.
    pub findings: Findings,
    /// The number of events after which the `eventually` claims are looked at next; those that already had something to wait for are
    /// skipped.
    next_look: u64,
    /// The processes and hosts that are down or cut off permanently.
    lost: Vec<String>,
    /// The last error of each process: time, verb and result.
    errors: BTreeMap<ProcessId, (SimTime, Verb, Outcome)>,
    /// For the names of processes; only where an `eventually` claim may report them.
    rt: Option<Rt>,
}

impl Claims {
    /// The claims that a plan names. The one about panics belongs to every run.
    pub fn new(context: &Context<'_>) -> Self {
        let check = &context.plan.check;
        let belongs = |name: &str| name == "no-process-panics" || (name == BUDGET && !check.budget.is_empty());
        let always_on = COMMON.iter().filter(|def| belongs(def.name)).map(|def| (def, true));
        let named = check.always_claims().into_iter().map(|(claim, required)| (def_of(claim.name), required));
        let named = named.chain(check.sometimes.iter().map(|name| (def_of(name.as_str()), true)));
        let unbounded = always_on.chain(named.filter(|(def, _)| !belongs(def.name))).map(|claim| (claim, None));
        let healed = context.plan.heal_at;
        let bounded =
            check.eventually.iter().map(|eventually| ((def_of(eventually.claim.as_str()), true), Some(healed + eventually.within.0)));
        let lost = context.plan.lost_for_good().into_iter().collect();
        let mut claims = Self { lost, rt: Some(context.rt.clone()), ..Self::default() };
        claims.findings.unsettled =
            context.plan.upgrade.as_ref().map_or(SimTime::ZERO..SimTime::ZERO, |upgrade| upgrade.begins()..upgrade.settled);
        for ((def, required), bound) in unbounded.chain(bounded) {
            let judge = match def.make {
                Make::Events(make) => claims.judge_of_events(make(context)),
                Make::Grouped(group, make) => claims.judge_of_group(make(), group.name, || (group.make)(context)),
            };
            claims.watch(Watching { def, required, bound, waited: false, judge });
        }
        claims
    }

    /// Whether [`begin`](Self::begin) needs the objects that exist when the run begins.
    pub fn want_beginning(&self) -> bool {
        self.groups.iter().any(|grouped| grouped.group.wants_beginning())
    }

    /// Passes on the objects that exist when the run begins.
    pub fn begin(&mut self, objects: &[(KindId, Obj)]) {
        for grouped in self.groups.iter_mut().filter(|grouped| grouped.group.wants_beginning()) {
            for (kind, object) in objects {
                grouped.group.begin(*kind, object);
            }
        }
    }

    /// The judge of a claim that observes events itself and is watched next.
    fn judge_of_events(&mut self, claim: Box<dyn Claim>) -> Judge {
        self.of_events.push(self.watching.len());
        Judge::Events(claim.interest(), claim)
    }

    /// The judge of a claim that is watched next and belongs to the group `name`.
    fn judge_of_group(&mut self, claim: Box<dyn Any + Send>, name: &'static str, make: impl FnOnce() -> Box<dyn Group>) -> Judge {
        let place = self.groups.iter().position(|grouped| grouped.name == name).unwrap_or_else(|| {
            let group = make();
            self.groups.push(Grouped { name, interest: group.interest(), group });
            self.groups.len() - 1
        });
        self.groups[place].group.add(self.watching.len(), claim);
        Judge::Grouped(place)
    }

    fn watch(&mut self, watching: Watching) {
        let interest = match &watching.judge {
            Judge::Events(interest, _) => *interest,
            Judge::Grouped(place) => self.groups[*place].interest,
        };
        self.interest = self.interest.and(interest);
        if watching.bound.is_some() {
            // The reasons need answers.
            self.interest = self.interest.and(Interest::ANSWER);
        }
        self.watching.push(watching);
        self.findings.held.push(false);
        self.findings.judged.push(0);
        self.findings.kept.push([0; 2]);
    }

    /// Passes an event to the claims that ask for its kind, after judging the claims whose deadline was before it.
    pub fn observe(&mut self, event: &Event<'_>) {
        let number = self.seen;
        self.seen += 1;
        let kind = event.kind.interest();
        if !self.interest.meets(kind) {
            return;
        }
        self.judge_due(event.at, false);
        self.findings.at = event.at;
        self.findings.event += 1;
        self.findings.number = Some(number);
        if let EventKind::Answer { client, verb, outcome, .. } = event.kind
            && outcome != Outcome::Ok
        {
            self.errors.insert(client, (event.at, verb, outcome));
        }
        for &index in &self.of_events {
            if let Judge::Events(interest, claim) = &mut self.watching[index].judge
                && interest.meets(kind)
            {
                self.findings.asks(index);
                claim.observe(event, &mut self.findings);
            }
        }
        for grouped in self.groups.iter_mut().filter(|grouped| grouped.interest.meets(kind)) {
            grouped.group.observe(event, &mut self.findings);
        }
        if self.findings.event >= self.next_look {
            self.look();
            self.next_look = self.findings.event + (self.findings.event / 8).max(LOOK_AFTER);
        }
    }

    /// Notes which `eventually` claims have something to wait for now.
    fn look(&mut self) {
        for index in 0..self.watching.len() {
            let Watching { bound, waited, .. } = &self.watching[index];
            if bound.is_some() && !*waited {
                self.watching[index].waited = self.awaits(index);
            }
        }
    }

    /// Judges the claims with a deadline before `now`, or at `now` if the run is at its end.
    fn judge_due(&mut self, now: SimTime, at_the_end: bool) {
        while let Some((at, index)) = self.findings.next_due(now, at_the_end) {
            self.findings.at = at;
            self.findings.event += 1;
            self.findings.number = None;
            self.findings.asks(index);
            match &mut self.watching[index].judge {
                Judge::Events(_, claim) => claim.overdue(at, &mut self.findings),
                Judge::Grouped(place) => {
                    let group = &mut self.groups[*place].group;
                    group.tick(at);
                    group.overdue(index, at, &mut self.findings);
                }
            }
        }
    }

    /// Ends the run at `now`.
    pub fn end(&mut self, now: SimTime) {
        self.judge_due(now, true);
    }

    /// The times at which the bounds of `eventually` claims pass, in order.
    pub fn bounds(&self) -> Vec<SimTime> {
        let mut bounds: Vec<SimTime> = self.watching.iter().filter_map(|watching| watching.bound).collect();
        bounds.sort_unstable();
        bounds.dedup();
        bounds
    }

    /// Judges the `eventually` claims whose bound is `now`.
    pub fn judge_bounds(&mut self, now: SimTime) {
        self.judge_due(now, false);
        self.findings.at = now;
        self.findings.event += 1;
        self.findings.number = None;
        self.groups.iter_mut().for_each(|grouped| grouped.group.tick(now));
        for index in 0..self.watching.len() {
            if self.watching[index].bound == Some(now)
                && let Some(missing) = self.missing(index)
            {
                self.watching[index].waited = true;
                self.findings.asks(index);
                let reasons = self.reasons();
                self.findings.violated(|| [vec![missing], reasons].concat());
            }
        }
    }

    /// Possible reasons why something is still missing: the processes and hosts that are down or cut off permanently, and the last errors
    /// of the processes.
    fn reasons(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.lost.is_empty() {
            lines.push(format!("down or cut off for good: {}", self.lost.join(", ")));
        }
        let mut errors: Vec<_> = self.errors.iter().collect();
        errors.sort_by_key(|(process, (at, ..))| (std::cmp::Reverse(*at), **process));
        let name = |process: ProcessId| self.rt.as_ref().map(|rt| rt.process_name(process)).unwrap_or_default();
        let line = |(process, (at, verb, outcome)): (&ProcessId, &(SimTime, Verb, Outcome))| {
            format!("the last error of {}: {} -> {} at {at}", name(*process), format!("{verb:?}").to_lowercase(), told(*outcome))
        };
        lines.extend(errors.into_iter().take(REASONS_MAX).map(line));
        lines
    }

    /// The thing that the claim with this number still misses.
    fn missing(&self, number: usize) -> Option<String> {
        match &self.watching[number].judge {
            Judge::Events(_, claim) => claim.pending(),
            Judge::Grouped(place) => self.groups[*place].group.pending(number),
        }
    }

    /// Whether the claim with this number has something to wait for now.
    fn awaits(&self, number: usize) -> bool {
        match &self.watching[number].judge {
            Judge::Events(_, claim) => claim.awaits(),
            Judge::Grouped(place) => self.groups[*place].group.awaits(number),
        }
    }

    /// One claim of a group, for the tests of its system.
    pub fn of_group(def: &'static ClaimDef, group: impl FnOnce() -> Box<dyn Group>) -> Self {
        let mut claims = Self::default();
        match def.make {
            Make::Grouped(of, make) => {
                let judge = claims.judge_of_group(make(), of.name, group);
                claims.watch(Watching { def, required: true, bound: None, waited: false, judge });
            }
            Make::Events(_) => panic!("{} is no claim of a group", def.name),
        }
        claims
    }

    /// Everything that claims still miss now.
    pub fn pending(&self) -> Vec<String> {
        (0..self.watching.len()).filter_map(|number| self.missing(number)).collect()
    }

    /// The `always` claims, and whether each judged something that could have been false. Claims that need not do so are left out if they
    /// did not.
    pub fn exercised(&self) -> Vec<(&'static str, bool)> {
        let always = self.watching.iter().zip(&self.findings.judged).filter(|(watching, _)| watching.def.kind == Kind::Always);
        let counted = always.filter(|(watching, judged)| watching.required || **judged > 0);
        counted.map(|(watching, &judged)| (watching.def.name, judged > 0)).collect()
    }

    /// The `eventually` claims, and whether each had something to wait for at one of the periodic looks.
    pub fn awaited(&self) -> Vec<(&'static str, bool)> {
        let eventually = self.watching.iter().filter(|watching| watching.bound.is_some());
        eventually.map(|watching| (watching.def.name, watching.waited)).collect()
    }

    /// Every watched claim, and how often it has judged something that could have been false so far.
    pub fn judged(&self) -> impl Iterator<Item = (&'static str, u32)> {
        self.watching.iter().zip(&self.findings.judged).map(|(watching, &judged)| (watching.def.name, judged))
    }

    /// The violations, by time, and the `sometimes` and `reachable` claims that held.
    pub fn verdict(&self, excuses: &[String]) -> (Vec<Violation>, Vec<String>) {
        let mut found: Vec<&(usize, Found)> = self.findings.violations.iter().collect();
        // Claims that one event broke are reported in the order in which the plan names them.
        found.sort_by_key(|(index, found)| (found.at, found.event, *index));
        let violations: Vec<Violation> = found
            .into_iter()
            .map(|(index, found)| Violation {
                claim: self.watching[*index].def.name.to_owned(),
                kind: self.watching[*index].def.kind,
                at: Seconds::from_micros(found.at.as_micros()),
                event: found.number,
                excuse: found.excuse.filter(|excuse| excuses.iter().any(|admitted| admitted == excuse)).map(str::to_owned),
                detail: found.detail.clone(),
                needs: None,
            })
            .collect();
        let held =
            self.watching.iter().zip(&self.findings.held).filter(|(_, held)| **held).map(|(watching, _)| watching.def.name.to_owned());
        (violations, held.collect())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube_sim::trace::ProcessChange;
    use parking_lot::Mutex;

    use super::*;
    use crate::claim::{Claim, basic};

    /// Misses something while the switch is on.
    struct Switched(Arc<Mutex<bool>>);

    impl Claim for Switched {
        fn interest(&self) -> Interest {
            Interest::PROCESS
        }

        fn observe(&mut self, _: &Event<'_>, _: &mut Findings) {}

        fn pending(&self) -> Option<String> {
            self.0.lock().then(|| "it is missing".to_owned())
        }
    }

    static AWAITED: ClaimDef = ClaimDef::eventually("awaited", "what is missing comes", basic::nothing);

    /// Whether the claim counts as having waited after a run of this many events, with something missing at those that `missing` selects.
    fn waited(events: u64, missing: impl Fn(u64) -> bool) -> bool {
        let switch = Arc::new(Mutex::new(false));
        let mut claims = Claims::default();
        let judge = claims.judge_of_events(Box::new(Switched(switch.clone())));
        let bound = Some(SimTime::from_secs(1));
        claims.watch(Watching { def: &AWAITED, required: true, bound, waited: false, judge });
        for event in 0..events {
            *switch.lock() = missing(event);
            let kind = EventKind::Process { process: ProcessId(0), change: ProcessChange::Started };
            claims.observe(&Event { at: SimTime::ZERO, kind });
        }
        *switch.lock() = missing(events);
        claims.judge_bounds(SimTime::from_secs(1));
        let [("awaited", waited)] = claims.awaited()[..] else { panic!("there is one claim") };
        waited
    }

    #[test]
    fn a_claim_has_waited_if_something_was_missing_at_a_look_or_at_its_bound() {
        assert!(!waited(1_000, |_| false));
        assert!(waited(1_000, |event| event < 10), "the first event is looked at");
        assert!(waited(1_000, |event| (500..600).contains(&event)), "no longer than an eighth of the events goes by without a look");
        assert!(waited(3, |event| event == 3), "the bound is a look, too");
    }
}
