//! The watch cache of one type on one API server (K §2.4, §2.5).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use kube_machinery::ObjectKey;
use sim_config::draw::{Concern, Draw};
use sim_config::time::SimTime;

use super::lost_events::LostEvents;
use super::store::{Revision, Table};
use super::watchers::Watchers;
use crate::kinds::KindId;
use crate::object::Obj;

/// The watch cache of one type on one server: a prefix of the store's history.
pub(crate) struct Cache {
    /// The revision after which a watch can start, but not after an older one. At first, that of the list with which the cache began.
    pub oldest: Revision,
    /// The number of the first change in the history.
    pub history: u64,
    /// The number of the next change to take from the store.
    pub next: u64,
    /// The changes taken, and the time at which each becomes visible here; oldest first.
    pub incoming: VecDeque<(Revision, SimTime)>,
    /// The revision that is visible here.
    visible: Revision,
    /// The time at which the last change taken becomes visible.
    pub last_due: SimTime,
    /// Whether it takes no changes at present (K §9.2 B1).
    pub frozen: bool,
    /// Whether it has to start again and waits to list from etcd (K §2.5, re-initialisation).
    pub lost: bool,
    /// The changes that it lacks.
    pub(crate) lost_events: LostEvents,
    /// Additional lag of every change.
    pub extra_lag: Duration,
    pub(crate) lag: Draw,
    pub(crate) watchers: Watchers,
}

impl Cache {
    pub(crate) fn new(seed: u64, server: u32, kind: KindId, initial: Revision, next: u64) -> Self {
        Self {
            oldest: initial,
            history: next,
            next,
            incoming: VecDeque::new(),
            visible: initial,
            last_due: SimTime::ZERO,
            frozen: false,
            lost: false,
            lost_events: LostEvents::default(),
            extra_lag: Duration::ZERO,
            lag: Draw::new(seed, Concern::CacheLag, u64::from(server) << 32 | u64::from(kind.0)),
            watchers: Watchers::default(),
        }
    }

    /// The revision visible at `now`. `now` must not go back.
    pub(crate) fn visible(&mut self, now: SimTime) -> Revision {
        while let Some(&(revision, due)) = self.incoming.front()
            && due <= now
        {
            self.visible = revision;
            self.incoming.pop_front();
        }
        self.visible
    }

    /// The last change taken, and the time at which it is or was visible; without changes in flight, the revision visible at `now`.
    pub(crate) fn taken(&mut self, now: SimTime) -> (Revision, SimTime) {
        let visible = self.visible(now);
        self.incoming.back().copied().unwrap_or((visible, now))
    }

    /// Takes in etcd's progress report: every change up to `revision` is visible here (K §2.2, progress).
    pub(crate) fn advance(&mut self, revision: Revision) {
        self.visible = self.visible.max(revision);
    }

    /// The time at which the cache will have every change up to `revision`, if nothing delays it.
    pub(crate) fn reaches(&self, revision: Revision) -> SimTime {
        self.incoming.iter().rev().find(|(incoming, _)| *incoming <= revision).map_or(SimTime::ZERO, |&(_, due)| due)
    }

    /// Starts again from a list at `initial`; the caller has to notify the watchers.
    pub(crate) fn restart(&mut self, initial: Revision, next: u64) {
        self.oldest = initial;
        self.history = next;
        self.next = next;
        self.incoming.clear();
        self.visible = initial;
        self.frozen = false;
        self.lost = false;
        self.lost_events.forget();
    }
}

impl Cache {
    /// The state of the object called `key` in the cache at `visible`.
    pub(super) fn get<'a>(&'a self, table: &'a Table, key: &ObjectKey, visible: Revision) -> Option<&'a Obj> {
        let missed = self.lost_events.missed_at(visible).filter(|(lost, _)| *lost == key).last();
        missed.map_or_else(|| table.get_at(key, visible), |(_, before)| before)
    }

    /// The objects in the cache at `visible`, by storage key.
    pub(super) fn all<'a>(&'a self, table: &'a Table, visible: Revision) -> Vec<(&'a ObjectKey, &'a Obj)> {
        let mut missed = self.lost_events.missed_at(visible).peekable();
        if missed.peek().is_none() {
            return table.at(visible);
        }
        let mut state: BTreeMap<_, _> = table.at(visible).into_iter().collect();
        for (key, before) in missed {
            match before {
                Some(object) => state.insert(key, object),
                None => state.remove(key),
            };
        }
        state.into_iter().collect()
    }
}
