//! Unfinished work: addresses that are pre-allocated for a pool and are not in it (A W21).
//!
//! An agent that crashes between its two writes leaves them so until the next pod of its third-party workload comes, which may be never. A
//! workload of any kind leaves them if it does not ask for the pool any more, or has another one by now. The upkeep of the subnet notes
//! what a pool lacks, and gives it back if the same is still lacking some time later. The give-back keeps away any writer that is about to
//! enlarge an existing pool. Nothing keeps away the creation of a pool, so the wait is as long as a creation may take, also after another
//! writer has resumed the work and held the subnet for it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::subnet::shares::held_at;
use crate::{PoolIPPreAllocation, SpiderSubnet};
use kube_machinery::api::ObjectKey;

/// The maximum time from the write of the subnet to that of the pool: longer than a write that was sent can commit late (K §2.13).
const PATIENCE: Duration = Duration::from_secs(40);

/// The note on each pool that lacks something, by its name.
type Notes = BTreeMap<String, Note>;

/// The pre-allocation when the pool first lacked part of it, the version at which the subnet was held last, and the start, on the monotonic
/// clock.
struct Note {
    ips: Vec<String>,
    held_at: Option<String>,
    since: Duration,
}

/// The notes on each subnet, kept while the controller leads.
#[derive(Default)]
pub(super) struct Unfinished(Mutex<BTreeMap<ObjectKey, Notes>>);

/// One check of a subnet.
pub(super) struct Look {
    now: Duration,
    held_at: Option<String>,
    before: Notes,
    after: RefCell<Notes>,
}

impl Unfinished {
    fn with<R>(&self, change: impl FnOnce(&mut BTreeMap<ObjectKey, Notes>) -> R) -> R {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Begins to check a subnet.
    pub(super) fn look(&self, subnet: &SpiderSubnet, now: Duration) -> Look {
        let before = self.with(|notes| notes.remove(&ObjectKey::of(subnet))).unwrap_or_default();
        Look { now, held_at: held_at(subnet).map(str::to_owned), before, after: RefCell::default() }
    }

    /// Keeps the notes, and returns the delay until the next check.
    pub(super) fn keep(&self, subnet: &ObjectKey, look: Look) -> Option<Duration> {
        let notes = look.after.into_inner();
        let oldest = notes.values().map(|note| note.since).min()?;
        self.with(|all| all.insert(subnet.clone(), notes));
        Some(PATIENCE.saturating_sub(look.now.saturating_sub(oldest)))
    }

    /// Clears the notes: every pool of the subnet has its whole pre-allocation.
    pub(super) fn none(&self, subnet: &ObjectKey) {
        self.with(|notes| notes.remove(subnet));
    }
}

impl Look {
    /// Notes that a pool lacks part of its pre-allocation, and returns whether it has for long.
    pub(super) fn is_left(&self, pool: &str, entry: &PoolIPPreAllocation) -> bool {
        let is_same = |note: &&Note| note.ips == entry.ips && note.held_at == self.held_at;
        let since = self.before.get(pool).filter(is_same).map_or(self.now, |note| note.since);
        let is_left = self.now.saturating_sub(since) >= PATIENCE;
        // A pre-allocation that is being given back is forgotten: if the same is made again before the next check, its time starts anew.
        if !is_left {
            self.after.borrow_mut().insert(pool.to_owned(), Note { ips: entry.ips.clone(), held_at: self.held_at.clone(), since });
        }
        is_left
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_lacks_the_same_for_long_is_left() {
        let notes = Unfinished::default();
        let subnet = |held_at: u64| -> SpiderSubnet {
            let metadata = json!({"name": "s", "annotations": {"ipam.spidernet.io/held-at": held_at.to_string()}});
            serde_json::from_value(json!({"metadata": metadata, "spec": {"subnet": "10.0.0.0/24"}})).unwrap()
        };
        let key = ObjectKey::cluster("s");
        let entry = |ip: &str| PoolIPPreAllocation { ips: vec![ip.to_owned()], application: None };
        let look = |seconds: u64, held_at: u64, ip: &str| {
            let look = notes.look(&subnet(held_at), Duration::from_secs(seconds));
            let left = look.is_left("p", &entry(ip));
            (left, notes.keep(&key, look).map(|wait| wait.as_secs()))
        };
        assert_eq!(look(100, 1, "10.0.0.1"), (false, Some(40)));
        assert_eq!(look(110, 1, "10.0.0.1"), (false, Some(30)));
        assert_eq!(look(120, 1, "10.0.0.2"), (false, Some(40)), "somebody is at work");
        assert_eq!(look(130, 2, "10.0.0.2"), (false, Some(40)), "somebody goes on with it");
        assert_eq!(look(170, 2, "10.0.0.2"), (true, None));
        assert_eq!(look(180, 2, "10.0.0.2"), (false, Some(40)), "it was given back, and somebody begins anew");
        notes.none(&key);
        assert_eq!(look(190, 2, "10.0.0.2"), (false, Some(40)));
        assert_eq!(notes.keep(&key, notes.look(&subnet(2), Duration::from_secs(240))), None);
        assert_eq!(look(250, 2, "10.0.0.2"), (false, Some(40)), "it was there meanwhile");
    }
}
