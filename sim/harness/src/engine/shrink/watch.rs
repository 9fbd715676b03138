//! Observers of shrinking.

use super::size;
use crate::engine::progress::{Progress, WorkerCounter};
use crate::plan::Plan;

/// Observes shrinking, and may stop it.
pub trait Watch {
    /// Whether the result so far is enough.
    fn stop(&self) -> bool {
        false
    }

    /// Notes that a candidate was run, and whether it failed.
    fn ran(&self, failed: bool) {
        let _ = failed;
    }

    /// Notes that a smaller plan was found.
    fn smaller(&self, plan: &Plan) {
        let _ = plan;
    }
}

/// Counts candidates on the counter of a stage of [`Unit::Candidates`](crate::engine::progress::Unit::Candidates), reports the size of the
/// plan, and stops when the progress asks for it.
pub struct ProgressWatch<'a> {
    /// The receiver of reports.
    pub progress: &'a dyn Progress,
    /// The counter of candidates.
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
