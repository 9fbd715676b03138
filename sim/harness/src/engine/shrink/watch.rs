//! Who looks on while a plan shrinks.

use super::size;
use crate::engine::progress::{Progress, WorkerCounter};
use crate::plan::Plan;

/// Who looks on, and may have enough.
pub trait Watch {
    /// Whether what there is so far is enough.
    fn stop(&self) -> bool {
        false
    }

    /// A candidate was run, and whether it failed.
    fn ran(&self, failed: bool) {
        let _ = failed;
    }

    /// A smaller plan was found.
    fn smaller(&self, plan: &Plan) {
        let _ = plan;
    }
}

/// Counts candidates on the counter of a stage of [`Unit::Candidates`](crate::engine::progress::Unit::Candidates), says how small the
/// plan is, and stops when it is asked to.
pub struct ProgressWatch<'a> {
    /// Where it is told.
    pub progress: &'a dyn Progress,
    /// Where candidates are counted.
    pub counter: &'a WorkerCounter,
}

impl Watch for ProgressWatch<'_> {
    fn stop(&self) -> bool {
        self.progress.stop_requested()
    }

    fn ran(&self, failed: bool) {
        self.counter.count(failed);
    }

    fn smaller(&self, plan: &Plan) {
        self.progress.say(size(plan).to_string());
    }
}
