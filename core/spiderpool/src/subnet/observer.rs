//! Observer callbacks for each step of an operation.

use super::upkeep::Upkeep;
use super::want::{Plan, Refusal, Want, Write};
use crate::SpiderIPPool;
use kube_machinery::api::ApiError;

/// Looks on and changes nothing. Called between two steps: it must neither wait nor call back.
pub trait Observer: Clone + Send + Sync + 'static {
    /// A step was just done, or is about to be.
    fn observe(&self, step: Step<'_>);
}

/// Nobody looks on.
impl Observer for () {
    fn observe(&self, _: Step<'_>) {}
}

/// One step, and what it is about.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// It was decided what to write for a workload.
    Planned {
        /// The workload and the pool.
        want: Want<'a>,
        /// What is written next.
        plan: &'a Plan,
    },
    /// Nothing can be written for a workload.
    Refused {
        /// The workload and the pool.
        want: Want<'a>,
        /// Why not; [`Refusal::may_pass`] tells whether waiting may help.
        refusal: &'a Refusal,
    },
    /// A write of a plan was sent.
    Wrote {
        /// The workload and the pool.
        want: Want<'a>,
        /// What was sent; it is known to be carried out only without an `error`.
        write: &'a Write,
        /// Why it did not go well, if it did not.
        error: Option<&'a ApiError>,
    },
    /// A subnet is looked after: this is about to be written.
    Upkeep {
        /// What is to be written, or deleted.
        write: &'a Upkeep,
    },
    /// An auto pool is about to be deleted.
    Reclaimed {
        /// The pool, as it was last read.
        pool: &'a SpiderIPPool,
    },
    /// A workload is given up (`application-given-up`).
    GivenUp {
        /// The UID of the workload.
        uid: &'a str,
    },
}
