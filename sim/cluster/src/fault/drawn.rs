//! The kinds of faults that swarms draw, and the targets that they choose.

use super::Targeting;

/// Returns the fault with targets that fit a workload; `None` if the workload has nothing that the fault could affect.
pub type Aim<D> = fn(&Targeting<'_>) -> Option<D>;

/// The way swarms draw faults of a kind, which also gives their targets, as an [`Aim`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawn<A> {
    /// Drawn by every swarm whose workload has something that the fault could affect.
    ByDefault(A),
    /// Drawn by swarms that name the kind, if their workload has something that the fault could affect.
    IfNamed(A),
    /// Drawn only with parameters that the swarm states (`swarm.tune`), for this reason.
    IfTuned(&'static str),
}

impl<A> Drawn<A> {
    /// The aim of the fault at a workload, unless the swarm has to state it.
    pub fn aim(self) -> Option<A> {
        match self {
            Self::ByDefault(aim) | Self::IfNamed(aim) => Some(aim),
            Self::IfTuned(_) => None,
        }
    }

    /// The same with `change` applied to the aim.
    pub fn map<B>(self, change: impl FnOnce(A) -> B) -> Drawn<B> {
        match self {
            Self::ByDefault(aim) => Drawn::ByDefault(change(aim)),
            Self::IfNamed(aim) => Drawn::IfNamed(change(aim)),
            Self::IfTuned(reason) => Drawn::IfTuned(reason),
        }
    }
}
