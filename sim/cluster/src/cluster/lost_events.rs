//! Changes that never reach one watch cache: a bug that watch caches have had (K §3.2, §9.2 B15, K182).
//!
//! The cache goes on with later changes. It keeps the previous state of the object whose change it lost, until the object changes again or
//! the cache starts again.

use std::time::Duration;

use kube_machinery::ObjectKey;
use sim_config::time::SimTime;

use super::State;
use super::store::{Change, Revision};
use crate::kinds::KindId;
use crate::object::Obj;

/// The longest time until a server has compared a cache with etcd: every 5 minutes and up to half as much again (K182).
pub const CACHE_COMPARED_AFTER: Duration = Duration::from_secs(450);

/// The changes that one cache has lost and will lose.
#[derive(Default)]
pub(crate) struct LostEvents {
    /// Whether the next change that the cache takes will be lost.
    loses_next: bool,
    lost: Vec<Lost>,
}

/// A change that was lost.
struct Lost {
    key: ObjectKey,
    revision: Revision,
    at: SimTime,
    /// The state that the cache has instead; unset = nothing.
    before: Option<Obj>,
    /// The revision of the next change of the object, which the cache has.
    until: Option<Revision>,
}

/// The outcome of a change that reaches a cache.
pub(super) enum Taken {
    Kept,
    Lost,
    /// The cache was frozen, and now gets again a change that it had lost before.
    LostBefore,
}

impl LostEvents {
    /// Takes `change` into the cache at `now`.
    pub(super) fn take(&mut self, change: &Change, now: SimTime) -> Taken {
        if !self.loses_next && self.lost.is_empty() {
            return Taken::Kept;
        }
        if self.has_lost(change.revision) {
            return Taken::LostBefore;
        }
        for lost in self.lost.iter_mut().filter(|lost| lost.until.is_none() && lost.key == change.key) {
            lost.until = Some(change.revision);
        }
        if std::mem::take(&mut self.loses_next) {
            let (key, before) = (change.key.clone(), change.before.clone());
            self.lost.push(Lost { key, revision: change.revision, at: now, before, until: None });
            return Taken::Lost;
        }
        Taken::Kept
    }

    /// Whether the change that took `revision` was lost.
    pub(super) fn has_lost(&self, revision: Revision) -> bool {
        self.lost.iter().any(|lost| lost.revision == revision)
    }

    /// The objects with changes that are missing at `visible`, and the states that the cache has instead.
    pub(super) fn missed_at(&self, visible: Revision) -> impl Iterator<Item = (&ObjectKey, Option<&Obj>)> {
        let missed = self.lost.iter().filter(move |lost| lost.revision <= visible && lost.until.is_none_or(|until| visible < until));
        missed.map(|lost| (&lost.key, lost.before.as_ref()))
    }

    /// Whether its content differs or will differ from etcd's.
    pub(crate) fn is_wrong(&self) -> bool {
        self.loses_next || self.lacks_any()
    }

    /// Whether it has lost anything since it started.
    pub(super) fn lacks_any(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Whether its server has found by `now` that it differs from etcd, and no longer lists from it what can be listed from etcd.
    pub(super) fn are_found(&self, now: SimTime) -> bool {
        self.lost.iter().any(|lost| lost.until.is_none() && lost.at + CACHE_COMPARED_AFTER <= now)
    }

    /// Forgets the lost changes: the cache starts again from a list.
    pub(super) fn forget(&mut self) {
        self.lost.clear();
    }
}

impl State {
    /// Makes the cache of `kind` on `server` lose the next change, or no longer.
    pub(super) fn lose_next_event(&mut self, server: usize, kind: KindId, loses: bool) {
        self.servers[server].caches[usize::from(kind.0)].lost_events.loses_next = loses;
    }
}
