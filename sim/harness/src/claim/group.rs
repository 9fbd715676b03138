//! Claims that share a view: what is known of their system is worked out once for each event.

use std::any::Any;

use kube_sim::kinds::KindId;
use kube_sim::object::Obj;
use kube_sim::trace::{Event, Interest};
use sim_config::time::SimTime;

use super::{Context, Findings};

/// How the claims of a group come together.
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
    /// Which events the view has to see.
    fn interest(&self) -> Interest;

    /// Takes in a claim with this number, as [`Make::Grouped`](super::Make::Grouped) made it.
    fn add(&mut self, number: usize, claim: Box<dyn Any + Send>);

    /// Whether [`begin`](Self::begin) is told what there is when the run begins.
    fn wants_beginning(&self) -> bool {
        false
    }

    /// This object is there when the run begins.
    fn begin(&mut self, kind: KindId, object: &Obj) {
        let _ = (kind, object);
    }

    /// Something happened: the view takes it in, and the claims that look at it are asked in order of their numbers.
    fn observe(&mut self, event: &Event<'_>, findings: &mut Findings);

    /// Time has passed without events.
    fn tick(&mut self, now: SimTime) {
        let _ = now;
    }

    /// See [`Claim::overdue`](super::Claim::overdue). `number`: which claim.
    fn overdue(&mut self, number: usize, at: SimTime, findings: &mut Findings);

    /// See [`Claim::pending`](super::Claim::pending). `number`: which claim.
    fn pending(&self, number: usize) -> Option<String>;

    /// See [`Claim::awaits`](super::Claim::awaits). `number`: which claim.
    fn awaits(&self, number: usize) -> bool {
        self.pending(number).is_some()
    }
}
