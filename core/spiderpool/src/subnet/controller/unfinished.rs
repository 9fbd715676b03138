//! What agents have begun and not finished: addresses that are set aside for a pool of a third-party workload and are not in it (A W21).
//!
//! An agent that dies between its two writes leaves them so until the next pod of the workload comes, which may be never. Whoever looks
//! after the subnet notes what a pool lacks, and gives it back when the same is still lacking some time later. That is a matter of courtesy
//! only: the give-back keeps away whoever is about to finish after all.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::subnet::resource::PoolIPPreAllocation;
use kube_machinery::api::ObjectKey;

/// How long one may take from the write of the subnet to that of the pool.
const PATIENCE: Duration = Duration::from_secs(30);

/// By pool, what was set aside for it when it first lacked some of it, and since when, on the monotonic clock.
type Notes = BTreeMap<String, (Vec<String>, Duration)>;

/// The notes on each subnet, for as long as the controller leads.
#[derive(Default)]
pub(super) struct Unfinished(Mutex<BTreeMap<ObjectKey, Notes>>);

/// One look at a subnet.
pub(super) struct Look {
    now: Duration,
    before: Notes,
    after: RefCell<Notes>,
}

impl Unfinished {
    fn with<R>(&self, change: impl FnOnce(&mut BTreeMap<ObjectKey, Notes>) -> R) -> R {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Begins to look at a subnet.
    pub(super) fn look(&self, subnet: &ObjectKey, now: Duration) -> Look {
        let before = self.with(|notes| notes.remove(subnet)).unwrap_or_default();
        Look { now, before, after: RefCell::default() }
    }

    /// Keeps what was noted, and says when to look again.
    pub(super) fn keep(&self, subnet: &ObjectKey, look: Look) -> Option<Duration> {
        let notes = look.after.into_inner();
        let oldest = notes.values().map(|(_, since)| *since).min()?;
        self.with(|all| all.insert(subnet.clone(), notes));
        let left = PATIENCE.saturating_sub(look.now.saturating_sub(oldest));
        // What is overdue is being given back.
        Some(if left.is_zero() { PATIENCE } else { left })
    }

    /// Every pool of the subnet has what is set aside for it.
    pub(super) fn none(&self, subnet: &ObjectKey) {
        self.with(|notes| notes.remove(subnet));
    }
}

impl Look {
    /// Notes that a pool lacks some of what is set aside for it, and says whether it has for long.
    pub(super) fn is_left(&self, pool: &str, entry: &PoolIPPreAllocation) -> bool {
        let since = self.before.get(pool).filter(|(ips, _)| *ips == entry.ips).map_or(self.now, |(_, since)| *since);
        self.after.borrow_mut().insert(pool.to_owned(), (entry.ips.clone(), since));
        self.now.saturating_sub(since) >= PATIENCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lacks_the_same_for_long_is_left() {
        let (notes, subnet) = (Unfinished::default(), ObjectKey::cluster("s"));
        let entry = |ip: &str| PoolIPPreAllocation { ips: vec![ip.to_owned()], application: None };
        let look = |seconds: u64, ip: &str| {
            let look = notes.look(&subnet, Duration::from_secs(seconds));
            let left = look.is_left("p", &entry(ip));
            (left, notes.keep(&subnet, look).map(|wait| wait.as_secs()))
        };
        assert_eq!(look(100, "10.0.0.1"), (false, Some(30)));
        assert_eq!(look(110, "10.0.0.1"), (false, Some(20)));
        assert_eq!(look(120, "10.0.0.2"), (false, Some(30)), "somebody is at work");
        assert_eq!(look(150, "10.0.0.2"), (true, Some(30)));
        notes.none(&subnet);
        assert_eq!(look(190, "10.0.0.2"), (false, Some(30)));
        assert_eq!(notes.keep(&subnet, notes.look(&subnet, Duration::from_secs(230))), None);
        assert_eq!(look(240, "10.0.0.2"), (false, Some(30)), "it was there meanwhile");
    }
}
