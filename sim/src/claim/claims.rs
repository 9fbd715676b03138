//! The claims of a run at work.

use std::collections::BTreeMap;

use ipam_reports::Seconds;
use ipam_reports::finding::{Kind, Violation};
use kube_machinery::api::Verb;

use super::findings::Findings;
use super::pool::{self, PoolClaim};
use super::spiderpool::{self, IpamClaim};
use super::{ALL, Claim, ClaimDef, ClaimName, Context, Make};
use crate::kinds::KindId;
use crate::object::{Obj, key_of};
use crate::rt::{ProcessId, Rt};
use crate::time::SimTime;
use crate::trace::{Event, EventKind, Interest, Outcome};
use crate::workload::OutOfReach;

/// How many processes tell their last error when something does not come true.
const REASONS_MAX: usize = 4;

/// How a call ended, in words.
fn told(outcome: Outcome) -> String {
    match outcome {
        Outcome::Ok => "ok".to_owned(),
        Outcome::Http(code, reason) => format!("{code} {reason:?}"),
        Outcome::Transport(error) => error.to_string(),
    }
}

struct Watching {
    def: &'static ClaimDef,
    interest: Interest,
    bound: Option<SimTime>,
    judge: Judge,
}

enum Judge {
    Events(Box<dyn Claim>),
    Pool(Box<dyn PoolClaim>),
    Ipam(Box<dyn IpamClaim>),
}

impl Watching {
    /// What is still missing.
    fn pending(&self, pool: Option<&pool::View>, ipam: Option<&spiderpool::View>) -> Option<String> {
        match &self.judge {
            Judge::Events(claim) => claim.pending(),
            Judge::Pool(claim) => claim.pending(pool?),
            Judge::Ipam(claim) => claim.pending(ipam?),
        }
    }
}

/// The claims of a run.
#[derive(Default)]
pub struct Claims {
    watching: Vec<Watching>,
    interest: Interest,
    /// Those that look at events themselves, by their place in `watching`: most events mean nothing to the others.
    of_events: Vec<usize>,
    /// Those and the ones about a pool.
    of_pool: Vec<usize>,
    /// Those and the ones about Spiderpool that look at this kind of what is seen.
    of_sights: [Vec<usize>; spiderpool::Sights::KINDS],
    pub(super) findings: Findings,
    /// What the claims about a pool know of it, if there are such.
    pool: Option<Box<pool::View>>,
    /// What the claims about Spiderpool know of it, if there are such.
    ipam: Option<Box<spiderpool::View>>,
    /// Who is down or cut off for good.
    lost: Vec<String>,
    /// The last error of each process: when, what it had asked, how that ended.
    errors: BTreeMap<ProcessId, (SimTime, Verb, Outcome)>,
    /// For names; only where there is something to wait for.
    rt: Option<Rt>,
}

impl Claims {
    /// The claims that a plan names. The one about panics belongs to every run.
    pub fn new(context: &Context<'_>) -> Self {
        let check = &context.plan.check;
        let always_on = ALL.iter().filter(|def| def.name == "no-process-panics");
        let named = check.always.iter().chain(&check.sometimes).map(ClaimName::def).filter(|def| def.name != "no-process-panics");
        let unbounded = always_on.chain(named).map(|def| (def, None));
        let bounded = check.eventually.iter().map(|eventually| (eventually.claim.def(), Some(context.plan.heal_at + eventually.within.0)));
        let lost = context.plan.lost_for_good();
        let mut claims = Self { lost: lost.iter().cloned().collect(), rt: Some(context.rt.clone()), ..Self::default() };
        let out_of_reach = OutOfReach::of(context.plan.workload.work(), &context.plan.op, lost);
        for (def, bound) in unbounded.chain(bounded) {
            match def.make {
                Make::Events(make) => claims.watch_events(def, bound, make(context)),
                Make::Pool(make) => claims.watch_pool(def, bound, make(), context.rt, &out_of_reach),
                Make::Ipam(make) => {
                    let terms = || spiderpool::Terms::of(context.plan);
                    let view = || Box::new(spiderpool::View::new(context.rt, context.registry, out_of_reach.clone(), terms()));
                    claims.watch_ipam(def, bound, make(), view);
                }
            }
        }
        claims
    }

    /// Whether [`begin`](Self::begin) has to be told what there is when the run begins.
    pub fn want_beginning(&self) -> bool {
        self.ipam.is_some()
    }

    /// These objects are there when the run begins.
    pub fn begin(&mut self, objects: &[(KindId, Obj)]) {
        let Some(view) = &mut self.ipam else { return };
        for (kind, object) in objects {
            view.begin(*kind, &key_of(object), object);
        }
    }

    fn watch_events(&mut self, def: &'static ClaimDef, bound: Option<SimTime>, claim: Box<dyn Claim>) {
        self.watch(Watching { def, interest: claim.interest(), bound, judge: Judge::Events(claim) });
    }

    fn watch_pool(
        &mut self,
        def: &'static ClaimDef,
        bound: Option<SimTime>,
        claim: Box<dyn PoolClaim>,
        rt: &Rt,
        out_of_reach: &OutOfReach,
    ) {
        self.pool.get_or_insert_with(|| Box::new(pool::View::new(rt, out_of_reach.clone())));
        self.watch(Watching { def, interest: pool::View::INTEREST, bound, judge: Judge::Pool(claim) });
    }

    fn watch_ipam(
        &mut self,
        def: &'static ClaimDef,
        bound: Option<SimTime>,
        claim: Box<dyn IpamClaim>,
        view: impl FnOnce() -> Box<spiderpool::View>,
    ) {
        self.ipam.get_or_insert_with(view);
        self.watch(Watching { def, interest: spiderpool::View::INTEREST, bound, judge: Judge::Ipam(claim) });
    }

    fn watch(&mut self, watching: Watching) {
        self.interest = self.interest.and(watching.interest);
        if watching.bound.is_some() {
            // For the reasons.
            self.interest = self.interest.and(Interest::ANSWER);
        }
        let place = self.watching.len();
        let sights = match &watching.judge {
            Judge::Events(_) => {
                self.of_events.push(place);
                self.of_pool.push(place);
                None
            }
            Judge::Pool(_) => {
                self.of_pool.push(place);
                None
            }
            Judge::Ipam(claim) => Some(claim.sights()),
        };
        for (kind, asked) in self.of_sights.iter_mut().enumerate() {
            if sights.is_none_or(|sights| sights.has(kind)) {
                asked.push(place);
            }
        }
        self.watching.push(watching);
        self.findings.held.push(false);
        self.findings.judged.push(false);
        self.findings.kept.push([0; 2]);
    }

    /// Something happened.
    pub fn observe(&mut self, event: &Event<'_>) {
        let kind = event.kind.interest();
        if !self.interest.meets(kind) {
            return;
        }
        self.judge_due(event.at, false);
        self.findings.at = event.at;
        if let EventKind::Answer { client, verb, outcome, .. } = event.kind
            && outcome != Outcome::Ok
        {
            self.errors.insert(client, (event.at, verb, outcome));
        }
        let pool = self.pool.as_deref_mut().and_then(|view| view.see(event).map(|seen| (seen, &*view)));
        let ipam = self.ipam.as_deref_mut().and_then(|view| view.see(event));
        let asked = match (&pool, &ipam) {
            (_, Some(seen)) => &self.of_sights[seen.kind()],
            (Some(_), None) => &self.of_pool,
            (None, None) => &self.of_events,
        };
        for &index in asked {
            let watching = &mut self.watching[index];
            self.findings.current = index;
            match (&mut watching.judge, &pool, ipam.as_ref().zip(self.ipam.as_deref())) {
                (Judge::Events(claim), ..) if watching.interest.meets(kind) => claim.observe(event, &mut self.findings),
                (Judge::Pool(claim), Some((seen, view)), _) => claim.observe(seen, view, &mut self.findings),
                (Judge::Ipam(claim), _, Some((seen, view))) => claim.observe(seen, view, &mut self.findings),
                _ => {}
            }
        }
        if let (Some(seen), Some(view)) = (ipam, &mut self.ipam) {
            view.settle(&seen);
        }
    }

    /// Asks the claims that wait for what must have happened before `now`, or by `now` if the run is at its end.
    fn judge_due(&mut self, now: SimTime, at_the_end: bool) {
        while let Some((at, index)) = self.findings.next_due(now, at_the_end) {
            (self.findings.at, self.findings.current) = (at, index);
            match (&mut self.watching[index].judge, &self.pool, &mut self.ipam) {
                (Judge::Events(claim), ..) => claim.overdue(at, &mut self.findings),
                (Judge::Pool(claim), Some(view), _) => claim.overdue(at, view, &mut self.findings),
                (Judge::Ipam(claim), _, Some(view)) => {
                    view.tick(at);
                    claim.overdue(at, view, &mut self.findings);
                }
                _ => {}
            }
        }
    }

    /// The run is over.
    pub fn end(&mut self, now: SimTime) {
        self.judge_due(now, true);
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
        self.judge_due(now, false);
        self.findings.at = now;
        if let Some(view) = &mut self.ipam {
            view.tick(now);
        }
        for (index, watching) in self.watching.iter().enumerate().filter(|(_, watching)| watching.bound == Some(now)) {
            if let Some(missing) = watching.pending(self.pool.as_deref(), self.ipam.as_deref()) {
                self.findings.current = index;
                let reasons = self.reasons();
                self.findings.violated(|| [vec![missing], reasons].concat());
            }
        }
    }

    /// What may keep somebody waiting: who is gone for good, and what the processes met last.
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

    /// One claim about a pool, for its tests.
    #[cfg(test)]
    pub(super) fn of_pool(def: &'static ClaimDef, rt: &Rt) -> Self {
        let mut claims = Self::default();
        match def.make {
            Make::Pool(make) => claims.watch_pool(def, None, make(), rt, &OutOfReach::default()),
            Make::Events(_) | Make::Ipam(_) => panic!("{} is no claim about a pool", def.name),
        }
        claims
    }

    /// One claim about Spiderpool, for its tests.
    #[cfg(test)]
    pub(super) fn of_spiderpool(def: &'static ClaimDef, view: spiderpool::View) -> Self {
        let mut claims = Self::default();
        match def.make {
            Make::Ipam(make) => claims.watch_ipam(def, None, make(), || Box::new(view)),
            Make::Events(_) | Make::Pool(_) => panic!("{} is no claim about Spiderpool", def.name),
        }
        claims
    }

    /// What claims still miss now, for their tests.
    #[cfg(test)]
    pub(super) fn pending(&self) -> Vec<String> {
        self.watching.iter().filter_map(|watching| watching.pending(self.pool.as_deref(), self.ipam.as_deref())).collect()
    }

    /// The `always` claims, and whether each looked at something that could have been false.
    pub fn judged(&self) -> Vec<(&'static str, bool)> {
        let always = self.watching.iter().zip(&self.findings.judged).filter(|(watching, _)| watching.def.kind == Kind::Always);
        always.map(|(watching, &judged)| (watching.def.name, judged)).collect()
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
