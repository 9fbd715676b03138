//! A metric that counts what actors say.

use kube_sim::trace::{Event, Interest, Note};

use crate::system::{Figures, Metric, RunEnd};

/// Counts notes of the vocabulary `N`: each number by its name, and by which notes it counts.
pub struct NoteCounts<N>(Vec<(&'static str, fn(&N) -> bool, u32)>);

impl<N: Note> NoteCounts<N> {
    /// These numbers. Their names are unique in a run.
    pub fn new(numbers: &[(&'static str, fn(&N) -> bool)]) -> Self {
        Self(numbers.iter().map(|&(name, counts)| (name, counts, 0)).collect())
    }
}

impl<N: Note> Metric for NoteCounts<N> {
    fn interest(&self) -> Interest {
        Interest::NOTE
    }

    fn observe(&mut self, event: &Event<'_>) {
        let Some((_, note)) = event.note_of() else { return };
        for (_, counts, number) in &mut self.0 {
            *number += u32::from(counts(note));
        }
    }

    fn finish(&mut self, _: &RunEnd<'_>, figures: &mut Figures) {
        figures.values.extend(self.0.iter().map(|&(name, _, number)| (name, f64::from(number))));
    }
}
