//! The claims of a run at work.

use ipam_reports::Seconds;
use ipam_reports::finding::Violation;

use super::findings::Findings;
use super::pool::{PoolClaim, View};
use super::{ALL, Claim, ClaimDef, ClaimName, Context, Make};
use crate::rt::Rt;
use crate::time::SimTime;
use crate::trace::{Event, Interest};

struct Watching {
    def: &'static ClaimDef,
    interest: Interest,
    bound: Option<SimTime>,
    judge: Judge,
}

enum Judge {
    Events(Box<dyn Claim>),
    Pool(Box<dyn PoolClaim>),
}

impl Watching {
    /// What is still missing.
    fn pending(&self, pool: Option<&View>) -> Option<String> {
        match &self.judge {
            Judge::Events(claim) => claim.pending(),
            Judge::Pool(claim) => claim.pending(pool?),
        }
    }
}

/// The claims of a run.
#[derive(Default)]
pub struct Claims {
    watching: Vec<Watching>,
    interest: Interest,
    pub(super) findings: Findings,
    /// What the claims about a pool know of it, if there are such.
    pool: Option<Box<View>>,
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
            match def.make {
                Make::Events(make) => claims.watch_events(def, bound, make(context)),
                Make::Pool(make) => claims.watch_pool(def, bound, make(), context.rt),
            }
        }
        claims
    }

    fn watch_events(&mut self, def: &'static ClaimDef, bound: Option<SimTime>, claim: Box<dyn Claim>) {
        self.watch(Watching { def, interest: claim.interest(), bound, judge: Judge::Events(claim) });
    }

    fn watch_pool(&mut self, def: &'static ClaimDef, bound: Option<SimTime>, claim: Box<dyn PoolClaim>, rt: &Rt) {
        self.pool.get_or_insert_with(|| Box::new(View::new(rt)));
        self.watch(Watching { def, interest: View::INTEREST, bound, judge: Judge::Pool(claim) });
    }

    fn watch(&mut self, watching: Watching) {
        self.interest = self.interest.and(watching.interest);
        self.watching.push(watching);
        self.findings.held.push(false);
        self.findings.kept.push([0; 2]);
    }

    /// Something happened.
    pub fn observe(&mut self, event: &Event<'_>) {
        let kind = event.kind.interest();
        if !self.interest.meets(kind) {
            return;
        }
        self.findings.at = event.at;
        let pool = self.pool.as_deref_mut().and_then(|view| view.see(event).map(|seen| (seen, &*view)));
        for (index, watching) in self.watching.iter_mut().enumerate() {
            self.findings.current = index;
            match (&mut watching.judge, &pool) {
                (Judge::Events(claim), _) if watching.interest.meets(kind) => claim.observe(event, &mut self.findings),
                (Judge::Pool(claim), Some((seen, view))) => claim.observe(seen, view, &mut self.findings),
                _ => {}
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
            if let Some(missing) = watching.pending(self.pool.as_deref()) {
                self.findings.current = index;
                self.findings.violated(|| vec![missing]);
            }
        }
    }

    /// One claim about a pool, for its tests.
    #[cfg(test)]
    pub(super) fn of_pool(def: &'static ClaimDef, rt: &Rt) -> Self {
        let mut claims = Self::default();
        match def.make {
            Make::Events(_) => panic!("{} is no claim about a pool", def.name),
            Make::Pool(make) => claims.watch_pool(def, None, make(), rt),
        }
        claims
    }

    /// What claims still miss now, for their tests.
    #[cfg(test)]
    pub(super) fn pending(&self) -> Vec<String> {
        self.watching.iter().filter_map(|watching| watching.pending(self.pool.as_deref())).collect()
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
