//! A stream whose deliveries wait for their reader ([`deferred`](super::super::deferred)).

use sim_config::time::SimTime;

use super::Watcher;
use crate::cluster::watch_element::event_of;
use crate::trace::recorder::Recorder;

/// The state of a stream that defers its deliveries.
pub(crate) struct Deferral {
    /// The number of elements at the front of the queue that were announced to its client.
    pub(in crate::cluster) told: usize,
    /// The time at which its client was paused, if its reader has not run since: only elements that had arrived by then are left to the
    /// backlog's reader.
    pub(in crate::cluster) held_at: Option<SimTime>,
}

impl Deferral {
    /// Takes an element out of the queue. Returns whether it had been announced.
    pub(in crate::cluster) fn hands_out(&mut self) -> bool {
        let was_told = self.told > 0;
        self.told -= usize::from(was_told);
        was_told
    }

    /// Notes that the reader has run.
    pub(in crate::cluster) fn go_on(&mut self) {
        self.held_at = None;
    }
}

impl Watcher {
    /// Whether its reader is not woken for elements.
    pub(in crate::cluster) fn is_deferred(&self) -> bool {
        self.deferral.as_ref().is_some_and(|deferral| deferral.held_at.is_none())
    }

    /// The time up to which arriving elements are left to the backlog's reader; `None` = none are.
    pub(in crate::cluster) fn left_until(&self, now: SimTime) -> Option<SimTime> {
        let deferral = self.deferral.as_ref()?;
        let until = deferral.held_at.map_or(now, |held_at| held_at.min(now));
        Some(self.end.map_or(until, |(at, _)| at.min(until)))
    }

    /// Whether its client has at least `buffer` unread elements, or would have if each had been announced.
    pub(in crate::cluster) fn is_full(&self, buffer: usize, now: SimTime) -> bool {
        // They arrive in order: the unread ones are those from the first that has not arrived.
        self.queue.len().checked_sub(buffer).is_some_and(|read| {
            let arrived = |until| self.queue.get(read).is_some_and(|&(due, _)| due <= until);
            !self.left_until(now).is_some_and(arrived)
        })
    }

    /// Announces the elements that have arrived. Returns the time at which the next unannounced element arrives.
    pub(in crate::cluster) fn tell(&mut self, recorder: &mut Recorder, now: SimTime) -> SimTime {
        let Some(until) = self.left_until(now) else { return SimTime::NEVER };
        let Some(deferral) = &mut self.deferral else { return SimTime::NEVER };
        while let Some((due, element)) = self.queue.get(deferral.told) {
            if *due > until {
                return *due;
            }
            deferral.told += 1;
            recorder.observe(now, event_of(self.client, self.kind, element));
        }
        SimTime::NEVER
    }
}
