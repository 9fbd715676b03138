//! The watches that a change may concern.
//!
//! A cluster of many nodes has two watches on pods per node that select only the pods of that node. As in Kubernetes' cacher, they are
//! found by the value of their type's trigger field, so that a change of a pod costs the same however many nodes there are.

use std::sync::Arc;

use kube_machinery::FxHashMap;

/// The watches on one type of one server, by their numbers.
#[derive(Default)]
pub(crate) struct Watchers {
    /// The watches that every change may concern.
    general: Vec<usize>,
    /// The watches that select objects by one value of the type's trigger field.
    triggered: FxHashMap<Arc<str>, Vec<usize>>,
}

impl Watchers {
    /// Adds a watch; `trigger`: the only value of the trigger field that it selects.
    pub(crate) fn add(&mut self, id: usize, trigger: Option<&str>) {
        match trigger {
            None => self.general.push(id),
            Some(value) => self.triggered.entry(value.into()).or_default().push(id),
        }
    }

    /// Removes a watch that was added with `trigger`.
    pub(crate) fn remove(&mut self, id: usize, trigger: Option<&str>) {
        let Some(value) = trigger else { return self.general.retain(|&other| other != id) };
        if let Some(ids) = self.triggered.get_mut(value) {
            ids.retain(|&other| other != id);
            if ids.is_empty() {
                self.triggered.remove(value);
            }
        }
    }

    /// The watches that a change may concern, given the trigger field's values before and after.
    pub(crate) fn concerned(&self, before: Option<&str>, after: Option<&str>) -> impl Iterator<Item = usize> {
        let of = |value: Option<&str>| value.and_then(|value| self.triggered.get(value)).into_iter().flatten();
        let second = after.filter(|after| before != Some(*after));
        self.general.iter().chain(of(before)).chain(of(second)).copied()
    }

    /// All of them, in the order of their numbers.
    pub(crate) fn all(&self) -> Vec<usize> {
        let mut all: Vec<usize> = self.general.iter().chain(self.triggered.values().flatten()).copied().collect();
        all.sort_unstable();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn concerned(watchers: &Watchers, before: Option<&str>, after: Option<&str>) -> Vec<usize> {
        watchers.concerned(before, after).collect()
    }

    #[test]
    fn a_change_concerns_those_who_want_the_value_before_or_after_and_those_who_want_all() {
        let mut watchers = Watchers::default();
        for (id, trigger) in [(0, Some("a")), (1, Some("b")), (2, None), (3, Some("")), (4, Some("a"))] {
            watchers.add(id, trigger);
        }
        assert_eq!(concerned(&watchers, None, Some("a")), [2, 0, 4]);
        assert_eq!(concerned(&watchers, Some("a"), Some("a")), [2, 0, 4]);
        assert_eq!(concerned(&watchers, Some(""), Some("b")), [2, 3, 1]);
        assert_eq!(concerned(&watchers, Some("c"), None), [2]);
        assert_eq!(watchers.all(), [0, 1, 2, 3, 4]);
        watchers.remove(0, Some("a"));
        watchers.remove(2, None);
        assert_eq!(concerned(&watchers, Some("b"), Some("a")), [1, 4]);
    }
}
