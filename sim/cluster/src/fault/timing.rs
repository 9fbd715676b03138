//! With what faults of a kind begin, and how long they last.

use std::sync::Arc;

use sim_config::time::Span;

use crate::cluster::Cluster;

/// With what a fault begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger<R> {
    /// With its window: at its time, or at the change that it waits for.
    Window,
    /// With a request of a process that it waits for by itself, whatever its window says (`Cluster::add_write_point`). A kind says how, as
    /// a [`Wait`]; a fault says which, as a number.
    Request(R),
}

impl<R> Trigger<R> {
    /// The same with `change` of what it says about the request.
    pub fn map<S>(self, change: impl FnOnce(R) -> S) -> Trigger<S> {
        match self {
            Self::Window => Trigger::Window,
            Self::Request(request) => Trigger::Request(change(request)),
        }
    }

    /// Whether the fault waits for a request.
    pub fn is_request(&self) -> bool {
        matches!(self, Self::Request(_))
    }
}

/// How faults of a kind wait for a request.
pub struct Wait<F> {
    /// Which of the requests that it counts, from 1 over the whole run.
    pub nth: fn(&F) -> u32,
    /// Waits from now on; the number is that of the fault in its plan.
    pub arm: fn(&F, u32, &Arc<Cluster>),
}

/// How long faults of a kind last.
pub enum Lasts<F> {
    /// As long as the window says.
    Window,
    /// They are over at once, so that a plan gives them no duration.
    Instant,
    /// They are over at once, but may leave something down: how long until that is up again by itself.
    Recovers(fn(&F) -> Option<Span>),
}

impl<F> Lasts<F> {
    /// How long what `fault` leaves down stays so, if it does and ends by itself.
    pub(super) fn recovers_after(&self, fault: &F) -> Option<Span> {
        match self {
            Self::Window | Self::Instant => None,
            Self::Recovers(after) => after(fault),
        }
    }
}
