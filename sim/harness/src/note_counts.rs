//! A metric that counts the notes of actors.

use kube_sim::trace::{Event, Interest, Note};

use crate::system::{Figures, Metric, RunEnd};

/// The name of a number, and a test for the notes that it counts.
type Count<N> = (&'static str, fn(&N) -> bool);

/// Counts notes of the vocabulary `N`.
pub struct NoteCounts<N>(Vec<(Count<N>, u32)>);

impl<N: Note> NoteCounts<N> {
    /// A metric with these numbers, whose names are unique in a run.
    pub fn new(numbers: &[Count<N>]) -> Self {
        Self(numbers.iter().map(|&count| (count, 0)).collect())
    }
}

impl<N: Note> Metric for NoteCounts<N> {
    fn interest(&self) -> Interest {
        Interest::NOTE
    }

    fn observe(&mut self, event: &Event<'_>) {
        let Some((_, note)) = event.note_of() else { return };
        for ((_, counts), number) in &mut self.0 {
            *number += u32::from(counts(note));
        }
    }

    fn finish(&mut self, _: &RunEnd<'_>, figures: &mut Figures) {
        figures.values.extend(self.0.iter().map(|&((name, _), number)| (name, f64::from(number))));
    }
}
