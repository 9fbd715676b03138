//! Observer callbacks for each step of an operation.

use super::upkeep::Upkeep;
use super::want::{Plan, Refusal, Want, Write};
use crate::SpiderIPPool;
use kube_machinery::api::ApiError;

/// Observes and changes nothing. Called between two steps: it must neither wait nor call back.
pub trait Observer: Clone + Send + Sync + 'static {
    /// Called when a step was just done or is about to be.
    fn observe(&self, step: Step<'_>);
}

/// The observer that ignores everything.
impl Observer for () {
    fn observe(&self, _: Step<'_>) {}
}

/// One step, with the objects it concerns.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// The next writes for a workload were decided.
    Planned {
        /// The workload and the pool.
        want: Want<'a>,
        /// The writes that come next.
        plan: &'a Plan,
    },
    /// Nothing can be written for a workload.
    Refused {
        /// The workload and the pool.
        want: Want<'a>,
        /// The reason; [`Refusal::may_pass`] tells whether waiting may help.
        refusal: &'a Refusal,
    },
    /// A write of a plan was sent.
    Wrote {
        /// The workload and the pool.
        want: Want<'a>,
        /// The write that was sent; it is known to be carried out only without an `error`.
        write: &'a Write,
        /// The error, if the write failed or its outcome is unknown.
        error: Option<&'a ApiError>,
    },
    /// Upkeep of a subnet: this is about to be written.
    Upkeep {
        /// The object to be written or deleted.
        write: &'a Upkeep,
    },
    /// An auto pool is about to be deleted.
    Reclaimed {
        /// The pool, as it was last read.
        pool: &'a SpiderIPPool,
    },
    /// The controller gives up a workload (`application-given-up`).
    GivenUp {
        /// The UID of the workload.
        uid: &'a str,
    },
}
