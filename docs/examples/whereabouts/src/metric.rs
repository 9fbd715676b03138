//! What is counted in a run.

use kube_sim::trace::{Event, EventKind, Interest};
use sim_harness::system::{Figures, Metric, RunEnd};

use crate::note::Said;

/// How many addresses were given, and how many the reconciler took back.
#[derive(Default)]
pub struct Addresses {
    given: u32,
    reconciled: u32,
}

impl Metric for Addresses {
    fn interest(&self) -> Interest {
        Interest::NOTE
    }

    fn observe(&mut self, event: &Event<'_>) {
        let EventKind::Note { note, .. } = event.kind else { return };
        match note.downcast_ref() {
            Some(Said::Given { .. }) => self.given += 1,
            Some(Said::Reconciled { .. }) => self.reconciled += 1,
            _ => {}
        }
    }

    fn finish(&mut self, _: &RunEnd<'_>, figures: &mut Figures) {
        figures.values.push(("addresses-given", f64::from(self.given)));
        figures.values.push(("addresses-reconciled", f64::from(self.reconciled)));
    }
}
