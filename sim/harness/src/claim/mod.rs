//! Claims: properties of a run, checked at the event that could break them.
//!
//! A claim observes typed events and never reaches into an actor. To add one: a row in a table of `catalogue` and a type that implements
//! [`Claim`] in its own file. The claims of a system can share a view of it: see [`group`].

pub mod basic;
mod budget;
pub mod catalogue;
pub mod claims;
pub mod closure;
mod deleted_pods_go;
pub mod findings;
mod foreign_finalizers;
pub mod group;
mod lease;

use std::any::Any;

use ipam_reports::finding::Kind;
use kube_sim::kinds::Registry;
use kube_sim::rt::Rt;
use kube_sim::trace::{Event, Interest};
use sim_config::time::SimTime;

use crate::operation::Operation;
use crate::plan::Plan;
use crate::registered::Registered;
use crate::workload::OutOfReach;

pub use catalogue::{BUDGET, COMMON, SPEND};
pub use claims::Claims;
pub use closure::{awaiting, observing};
pub use findings::Findings;
pub use group::{Group, GroupDef};

/// A claim that observes events.
pub trait Claim: Send {
    /// The events that it observes.
    fn interest(&self) -> Interest;

    /// Observes an event of one of these kinds, and reports to `findings`.
    fn observe(&mut self, event: &Event<'_>, findings: &mut Findings);

    /// Judges a deadline that the claim set by [`Findings::expect_by`]. All events until then were observed.
    fn overdue(&mut self, _at: SimTime, _findings: &mut Findings) {}

    /// Only for `eventually`: the thing that is still missing; `None` = the claim holds now.
    fn pending(&self) -> Option<String> {
        None
    }

    /// Only for `eventually`: whether there is something to wait for now, be it missing or still within its time.
    fn awaits(&self) -> bool {
        self.pending().is_some()
    }
}

/// The information from which a claim is made.
pub struct Context<'a> {
    /// The runtime, for names and clocks.
    pub rt: &'a Rt,
    /// The plan of the run that is judged.
    pub plan: &'a Plan,
    /// The types that the cluster serves.
    pub registry: &'a Registry,
    /// The pods and nodes that are not waited for.
    pub out_of_reach: OutOfReach,
}

impl<'a> Context<'a> {
    /// The operations of the plan, without those of actors that are not waited for.
    pub fn awaited_ops<O: Operation>(&self) -> impl Iterator<Item = &'a O> {
        let ops = self.plan.op.iter().filter(|op| !self.out_of_reach.names.contains(&op.common.actor));
        ops.filter_map(|op| op.kind.get())
    }
}

/// A claim of the catalogue.
#[derive(Clone, Copy)]
pub struct ClaimDef {
    /// Its name, in the present tense.
    pub name: &'static str,
    /// Whether it must always hold, come true eventually, or be seen in one run of many.
    pub kind: Kind,
    /// The claim itself, in a sentence.
    pub about: &'static str,
    /// The property of the reference that it checks.
    pub reference: Option<&'static str>,
    /// The constructor of the claim.
    pub make: Make,
}

impl ClaimDef {
    /// A claim of this kind that observes events.
    pub const fn new(kind: Kind, name: &'static str, about: &'static str, make: fn(&Context<'_>) -> Box<dyn Claim>) -> Self {
        Self { name, kind, about, reference: None, make: Make::Events(make) }
    }

    /// A claim that must hold at every moment.
    pub const fn always(name: &'static str, about: &'static str, make: fn(&Context<'_>) -> Box<dyn Claim>) -> Self {
        Self::new(Kind::Always, name, about, make)
    }

    /// A claim that must come true, and stay so, once faults are over.
    pub const fn eventually(name: &'static str, about: &'static str, make: fn(&Context<'_>) -> Box<dyn Claim>) -> Self {
        Self::new(Kind::Eventually, name, about, make)
    }

    /// A claim that must hold in at least one run of many.
    pub const fn sometimes(name: &'static str, about: &'static str, make: fn(&Context<'_>) -> Box<dyn Claim>) -> Self {
        Self::new(Kind::Sometimes, name, about, make)
    }

    /// The same claim with the property of the reference that it checks.
    #[must_use]
    pub const fn citing(mut self, property: &'static str) -> Self {
        self.reference = Some(property);
        self
    }
}

/// The constructor of a claim.
#[derive(Clone, Copy)]
pub enum Make {
    /// A claim that observes events.
    Events(fn(&Context<'_>) -> Box<dyn Claim>),
    /// A claim that shares the view of a group. The box holds what [`Group::add`] of that group takes.
    Grouped(&'static GroupDef, fn() -> Box<dyn Any + Send>),
}

/// Claims of one subject, which a scenario can name as a whole.
#[derive(Clone, Copy)]
pub struct ClaimSuite {
    /// The name of the system, alone or with the subject after a slash: `counter`, `counter/values`.
    pub name: &'static str,
    /// The claims, in the order in which they are listed.
    pub claims: &'static [ClaimDef],
}

/// The claims with their code, by suite, in the order in which they are listed.
pub(crate) static SUITES: Registered<Vec<ClaimSuite>> = Registered::new();

/// The claim with this name.
pub fn find(name: &str) -> Option<&'static ClaimDef> {
    SUITES.get().iter().flat_map(|suite| suite.claims).find(|def| def.name == name)
}
