//! Claims that share a view: the state of their system is derived once for each event.

use std::any::Any;

use kube_sim::kinds::KindId;
use kube_sim::object::Obj;
use kube_sim::trace::{Event, Interest};
use sim_config::time::SimTime;

use super::{Context, Findings};

/// The definition of a group of claims.
pub struct GroupDef {
    /// Its name, unique among groups.
    pub name: &'static str,
    /// Makes the view of a run, without claims.
    pub make: fn(&Context<'_>) -> Box<dyn Group>,
}

/// The claims of a run that share a view, and that view.
///
/// Each claim has a number among all claims of the run. The group sets it in the findings ([`Findings::asks`]) before it asks the claim.
pub trait Group: Send {
    /// The events that the view needs.
    fn interest(&self) -> Interest;

    /// Adds the claim with this number, as [`Make::Grouped`](super::Make::Grouped) made it.
    fn add(&mut self, number: usize, claim: Box<dyn Any + Send>);

    /// Whether [`begin`](Self::begin) needs the objects that exist when the run begins.
    fn wants_beginning(&self) -> bool {
        false
    }

    /// Takes an object that exists when the run begins.
    fn begin(&mut self, kind: KindId, object: &Obj) {
        let _ = (kind, object);
    }

    /// Updates the view with an event, and asks the claims that look at it in the order of their numbers.
    fn observe(&mut self, event: &Event<'_>, findings: &mut Findings);

    /// Advances the time without an event.
    fn tick(&mut self, now: SimTime) {
        let _ = now;
    }

    /// See [`Claim::overdue`](super::Claim::overdue); `number` is that of the claim.
    fn overdue(&mut self, number: usize, at: SimTime, findings: &mut Findings);

    /// See [`Claim::pending`](super::Claim::pending); `number` is that of the claim.
    fn pending(&self, number: usize) -> Option<String>;

    /// See [`Claim::awaits`](super::Claim::awaits); `number` is that of the claim.
    fn awaits(&self, number: usize) -> bool {
        self.pending(number).is_some()
    }
}
