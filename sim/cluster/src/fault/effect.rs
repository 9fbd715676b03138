//! The effects of an active fault on the cluster, and their end.
//!
//! ```text
//!   fault ──inject──► effects ──apply──► parts of the cluster in the state that the fault wants ──revert──► as they are without faults
//! ```
//! Several effects may affect the same part of the cluster; [`Effect::excludes`] says which one decides then.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use super::drawn::{Aim, Drawn};
use super::subject::Subject;
use super::timing::{Lasts, Trigger, Wait};
use super::{Blocks, Parameters};
use crate::cluster::Cluster;
use crate::rt::ProcessId;

/// A kind of fault; its parameters are the fields of the type that implements it. One file in `fault/kinds/` contains everything about it,
/// and one line of that module's list registers it.
pub trait Inject: Parameters {
    /// The real event that it stands for, with the sections of the reference.
    const EVENT: &'static str;

    /// The duration of the fault.
    const LASTS: Lasts<Self>;

    /// The trigger that starts it.
    const BEGINS: Trigger<Wait<Self>>;

    /// The way swarms draw it.
    const DRAWN: Drawn<Aim<Self::Draft>>;

    /// The subject that texts name besides its kind.
    fn subject(&self) -> Subject;

    /// The messages and actions that it blocks while it lasts. Suppressed heartbeats of nodes and bounds of claims are derived from it.
    fn blocks(&self) -> Blocks;

    /// Starts the fault. Immediate effects happen here; lasting ones are returned, and applied in this order.
    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect>;

    /// Prepares the cluster at the beginning of a run, if that is needed before the fault.
    fn prepare(&self, cluster: &Arc<Cluster>) {
        let _ = cluster;
    }
}

/// The circumstances under which a fault begins.
pub struct Injection<'a> {
    /// The cluster that it hits.
    pub cluster: &'a Arc<Cluster>,
    /// The number of the fault in its plan.
    pub index: u32,
    /// The process that reached the point which the fault waited for.
    pub reached_by: Option<ProcessId>,
    /// The effects of the faults that are active already.
    pub active: &'a [ActiveEffect],
}

/// One part of the cluster that a fault keeps in a certain state.
pub trait Effect: Any + Debug + Send + Sync {
    /// Puts the part into that state.
    fn apply(&self, cluster: &Arc<Cluster>);

    /// Returns the part to its state without faults.
    fn revert(&self, cluster: &Arc<Cluster>);

    /// The relation of this effect and `other` when both are applied, which is symmetric.
    fn excludes(&self, other: &Self) -> Overlap;

    /// Whether it has affected anything so far. An effect that waits for messages returns false before the first; one that reports each
    /// request that it hits to the trace (`FaultChange::Fired`) always returns false.
    fn has_observable_effect(&self, cluster: &Cluster) -> bool;
}

/// The relation of two effects of one type that are active at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// They affect different parts of the cluster, or add up: each is reverted separately.
    Separate,
    /// They keep the same part in the same state: the last to end reverts it.
    SameState,
    /// They keep the same part in different states: the last to begin decides. When it ends, the one before it is applied again.
    LastWins,
}

/// An effect of any type while its fault is active.
#[derive(Clone, Debug)]
pub struct ActiveEffect(Arc<dyn AnyEffect>);

impl<E: Effect> From<E> for ActiveEffect {
    fn from(effect: E) -> Self {
        Self(Arc::new(effect))
    }
}

impl ActiveEffect {
    /// Puts the affected part into the state that the effect wants: [`Effect::apply`].
    pub(super) fn apply(&self, cluster: &Arc<Cluster>) {
        self.0.apply(cluster);
    }

    /// Whether it has affected anything so far: [`Effect::has_observable_effect`].
    pub(super) fn has_observable_effect(&self, cluster: &Cluster) -> bool {
        self.0.has_observable_effect(cluster)
    }

    /// Ends the effect, while `others` remain active, in the order in which they began.
    pub(super) fn end(&self, cluster: &Arc<Cluster>, others: &[ActiveEffect]) {
        let overlaps = others.iter().rev().map(|other| (other, self.0.excludes(&*other.0)));
        match overlaps.into_iter().find(|(_, overlap)| *overlap != Overlap::Separate) {
            Some((other, Overlap::LastWins)) => other.apply(cluster),
            Some(_) => {}
            None => self.0.revert(cluster),
        }
    }

    /// The effect, if it is of this type.
    pub fn downcast_ref<E: Effect>(&self) -> Option<&E> {
        self.0.as_any().downcast_ref()
    }
}

/// [`Effect`] with its type erased.
trait AnyEffect: Debug + Send + Sync {
    fn apply(&self, cluster: &Arc<Cluster>);
    fn revert(&self, cluster: &Arc<Cluster>);
    fn excludes(&self, other: &dyn AnyEffect) -> Overlap;
    fn has_observable_effect(&self, cluster: &Cluster) -> bool;
    fn as_any(&self) -> &dyn Any;
}

impl<E: Effect> AnyEffect for E {
    fn apply(&self, cluster: &Arc<Cluster>) {
        Effect::apply(self, cluster);
    }

    fn revert(&self, cluster: &Arc<Cluster>) {
        Effect::revert(self, cluster);
    }

    /// The overlap with an effect of any type; effects of different types affect different parts of the cluster.
    fn excludes(&self, other: &dyn AnyEffect) -> Overlap {
        other.as_any().downcast_ref().map_or(Overlap::Separate, |other| Effect::excludes(self, other))
    }

    fn has_observable_effect(&self, cluster: &Cluster) -> bool {
        Effect::has_observable_effect(self, cluster)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
