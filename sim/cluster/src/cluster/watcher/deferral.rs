//! A stream whose deliveries wait for their reader ([`deferred`](super::super::deferred)).

use sim_config::time::SimTime;

use super::Watcher;
use crate::cluster::watch_element::event_of;
use crate::trace::recorder::Recorder;

/// How a stream defers its deliveries.
pub(crate) struct Deferral {
    /// How many elements at the front of its queue its client was told of.
    pub(in crate::cluster) told: usize,
    /// Its client stands still, or has since then: only what had arrived by this time is left to whoever reads the backlog.
    pub(in crate::cluster) held_at: Option<SimTime>,
}

impl Deferral {
    /// An element leaves the queue. Returns whether the client was told of it.
    pub(in crate::cluster) fn hands_out(&mut self) -> bool {
        let was_told = self.told > 0;
        self.told -= usize::from(was_told);
        was_told
    }

    /// The reader has run.
    pub(in crate::cluster) fn go_on(&mut self) {
        self.held_at = None;
    }
}

impl Watcher {
    /// Whether its reader is not woken for elements.
    pub(in crate::cluster) fn is_deferred(&self) -> bool {
        self.deferral.as_ref().is_some_and(|deferral| deferral.held_at.is_none())
    }

    /// The time up to which what arrives is left to whoever reads the backlog; `None` = nothing is.
    pub(in crate::cluster) fn left_until(&self, now: SimTime) -> Option<SimTime> {
        let deferral = self.deferral.as_ref()?;
        let until = deferral.held_at.map_or(now, |held_at| held_at.min(now));
        Some(self.end.map_or(until, |(at, _)| at.min(until)))
    }

    /// Whether its client has at least `buffer` elements yet to read, or would have if it had been told of each.
    pub(in crate::cluster) fn is_full(&self, buffer: usize, now: SimTime) -> bool {
        // They arrive in order: as many are unread as there are from the first on that has not arrived.
        self.queue.len().checked_sub(buffer).is_some_and(|read| {
            let arrived = |until| self.queue.get(read).is_some_and(|&(due, _)| due <= until);
            !self.left_until(now).is_some_and(arrived)
        })
    }

    /// Tells its client of what has arrived. Returns when the next element arrives that its client was not told of.
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
