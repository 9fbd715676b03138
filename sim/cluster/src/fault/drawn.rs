//! Whether swarms draw faults of a kind, and at what they aim them.

use super::Targeting;

/// The fault with targets that fit a workload; `None` if the workload has nothing that the fault could be about.
pub type Aim<D> = fn(&Targeting<'_>) -> Option<D>;

/// Whether and how swarms draw faults of a kind. A kind says with it how they are aimed, as an [`Aim`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawn<A> {
    /// By every swarm whose workload has something that the fault could be about.
    ByDefault(A),
    /// By swarms that name the kind, if their workload has something that the fault could be about.
    IfNamed(A),
    /// Only with parameters that the swarm states (`swarm.tune`), for this reason.
    IfTuned(&'static str),
}

impl<A> Drawn<A> {
    /// How the fault is aimed at a workload, unless the swarm has to state that.
    pub fn aim(self) -> Option<A> {
        match self {
            Self::ByDefault(aim) | Self::IfNamed(aim) => Some(aim),
            Self::IfTuned(_) => None,
        }
    }

    /// The same with `change` of how the fault is aimed.
    pub fn map<B>(self, change: impl FnOnce(A) -> B) -> Drawn<B> {
        match self {
            Self::ByDefault(aim) => Drawn::ByDefault(change(aim)),
            Self::IfNamed(aim) => Drawn::IfNamed(change(aim)),
            Self::IfTuned(reason) => Drawn::IfTuned(reason),
        }
    }
}
