//! The changes that a controller waits to see in its informer before it acts again on the same object (K §7.2).
//!
//! Without them, a controller whose informer has not yet reported the pods that it has just made would make them once more.

use std::collections::BTreeSet;
use std::time::Duration;

use kube_machinery::FxHashMap;

use super::Item;

/// The time after which a controller acts on what it sees, even if changes that it expected are missing.
pub(super) const TIMEOUT: Duration = Duration::from_secs(300);

#[derive(Debug)]
struct Expectation {
    creations: usize,
    deletions: BTreeSet<Box<str>>,
    since: Duration,
}

/// The expectations of all controllers.
#[derive(Debug, Default)]
pub(super) struct Expectations {
    of: FxHashMap<Item, Expectation>,
}

impl Expectations {
    /// Expects `creations` new pods of `item`, and the end of the pods with these UIDs.
    pub(super) fn expect<'u>(&mut self, item: &Item, creations: usize, deletions: impl IntoIterator<Item = &'u str>, now: Duration) {
        let deletions: BTreeSet<Box<str>> = deletions.into_iter().map(Box::from).collect();
        if creations > 0 || !deletions.is_empty() {
            self.of.insert(item.clone(), Expectation { creations, deletions, since: now });
        }
    }

    /// Notes that `count` pods were seen, or were not created after all.
    pub(super) fn created(&mut self, item: &Item, count: usize) {
        self.change(item, |expectation| expectation.creations = expectation.creations.saturating_sub(count));
    }

    /// Notes that the pod with this UID is going, or could not be deleted.
    pub(super) fn deleted(&mut self, item: &Item, uid: &str) {
        self.change(item, |expectation| {
            expectation.deletions.remove(uid);
        });
    }

    fn change(&mut self, item: &Item, change: impl FnOnce(&mut Expectation)) {
        if self.of.is_empty() {
            return;
        }
        if let Some(expectation) = self.of.get_mut(item) {
            change(expectation);
            if expectation.creations == 0 && expectation.deletions.is_empty() {
                self.of.remove(item);
            }
        }
    }

    /// The time left to wait; `None` = everything was seen, or the expectation timed out.
    pub(super) fn left(&self, item: &Item, now: Duration) -> Option<Duration> {
        let waited = now.saturating_sub(self.of.get(item)?.since);
        TIMEOUT.checked_sub(waited).filter(|left| !left.is_zero())
    }

    /// Drops the expectations of `item`, which is gone: a successor of its name starts without any.
    pub(super) fn forget(&mut self, item: &Item) {
        self.of.remove(item);
    }
}

#[cfg(test)]
mod tests {
    use kube_machinery::ObjectKey;

    use super::super::Kind;
    use super::*;

    #[test]
    fn a_controller_waits_until_everything_was_seen_or_it_took_too_long() {
        let item = Kind::Job.item(ObjectKey::namespaced("default", "web"));
        let mut expectations = Expectations::default();
        let second = Duration::from_secs(1);
        expectations.expect(&item, 2, ["a"], second);
        expectations.created(&item, 2);
        assert_eq!(expectations.left(&item, second * 11), Some(second * 290));
        expectations.deleted(&item, "b");
        assert!(expectations.left(&item, second * 11).is_some());
        expectations.deleted(&item, "a");
        assert_eq!(expectations.left(&item, second * 11), None);
        expectations.expect(&item, 1, [], second);
        assert_eq!(expectations.left(&item, second + TIMEOUT), None);
    }
}
