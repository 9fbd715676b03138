//! What a fault that has begun does to the cluster, and how that is taken back.
//!
//! ```text
//!   fault ──inject──► effects ──apply──► parts of the cluster in the state that the fault wants ──revert──► as they are without faults
//! ```
//! Several effects may keep the same part of the cluster; [`Effect::excludes`] says who decides then.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use super::drawn::{Aim, Drawn};
use super::subject::Subject;
use super::timing::{Lasts, Trigger, Wait};
use super::{Blocks, Parameters};
use crate::cluster::Cluster;
use crate::rt::ProcessId;

/// A kind of fault; its parameters are the fields of the type that implements it. One file in `fault/kinds/` holds all there is to know
/// of it, and one line of that module's list registers it.
pub trait Inject: Parameters {
    /// The real event that it stands for, with the sections of the reference.
    const EVENT: &'static str;

    /// How long it lasts.
    const LASTS: Lasts<Self>;

    /// With what it begins.
    const BEGINS: Trigger<Wait<Self>>;

    /// Whether and how swarms draw it.
    const DRAWN: Drawn<Aim<Self::Draft>>;

    /// What a text about it names besides its kind.
    fn subject(&self) -> Subject;

    /// What it keeps from arriving while it lasts. Suppressed heartbeats of nodes and bounds of claims follow from it.
    fn blocks(&self) -> Blocks;

    /// Begins. What is over at once is done here; what lasts is returned, and applied in this order.
    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect>;

    /// Prepares the cluster when a run begins, for what has to be known before the fault.
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

/// One part of the cluster that a fault keeps in the state it wants.
pub trait Effect: Any + Debug + Send + Sync {
    /// Brings that state about.
    fn apply(&self, cluster: &Arc<Cluster>);

    /// Brings the part back to what it is without faults.
    fn revert(&self, cluster: &Arc<Cluster>);

    /// Who decides when both this effect and `other` are applied. The relation is symmetric.
    fn excludes(&self, other: &Self) -> Overlap;

    /// Whether anything has met the effect so far. What waits for messages has none before one comes; what tells the trace of each request
    /// that it hits (`FaultChange::Fired`) says no here.
    fn has_observable_effect(&self, cluster: &Cluster) -> bool;
}

/// How two effects of one type relate that hold at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// They are about different parts of the cluster, or add up: each is reverted for itself.
    Separate,
    /// They keep the same part in the same state: the last to end reverts it.
    SameState,
    /// They keep the same part in states of their own: the last to begin decides. When it ends, the one before it is applied again.
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
    /// Brings about the state that the effect wants: [`Effect::apply`].
    pub(super) fn apply(&self, cluster: &Arc<Cluster>) {
        self.0.apply(cluster);
    }

    /// Whether anything has met the effect so far: [`Effect::has_observable_effect`].
    pub(super) fn has_observable_effect(&self, cluster: &Cluster) -> bool {
        self.0.has_observable_effect(cluster)
    }

    /// Ends, while `others` hold on, in the order in which they began.
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

    /// Effects of different types are about different parts of the cluster.
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
