//! The triggers and durations of faults.

use std::sync::Arc;

use sim_config::time::Span;

use crate::cluster::Cluster;

/// The trigger of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger<R> {
    /// Its window: its time, or the change that it waits for.
    Window,
    /// A request of a process, which the fault itself waits for, whatever its window says (`Cluster::add_write_point`). For a kind it
    /// contains a [`Wait`]; for a fault the number of the request.
    Request(R),
}

impl<R> Trigger<R> {
    /// The same trigger with `change` applied to the part about the request.
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

/// The way faults of a kind wait for a request.
pub struct Wait<F> {
    /// The number of the request, counting from 1 over the whole run.
    pub nth: fn(&F) -> u32,
    /// Starts to wait; the number is that of the fault in its plan.
    pub arm: fn(&F, u32, &Arc<Cluster>),
}

/// The duration of faults of a kind.
pub enum Lasts<F> {
    /// The duration of the window.
    Window,
    /// They are instantaneous, so a plan gives them no duration.
    Instant,
    /// They are instantaneous, but may leave something down: the time until that is up again without help.
    Recovers(fn(&F) -> Option<Span>),
}

impl<F> Lasts<F> {
    /// The time for which `fault` leaves something down, if it does and that ends without help.
    pub(super) fn recovers_after(&self, fault: &F) -> Option<Span> {
        match self {
            Self::Window | Self::Instant => None,
            Self::Recovers(after) => after(fault),
        }
    }
}
