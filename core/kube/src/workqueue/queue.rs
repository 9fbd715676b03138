//! The order of items: the part of a work queue without workers and clocks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// The pure queue, to which the time is passed.
#[derive(Clone, Debug)]
pub struct Queue<T> {
    ready: VecDeque<T>,
    /// The items to be processed: those in `ready`, and those added while they were processed.
    dirty: BTreeSet<T>,
    processing: BTreeSet<T>,
    /// The waiting items by the time at which they become ready, then in the order in which they were added.
    waiting: BTreeMap<(Duration, u64), T>,
    /// The place of each waiting item in `waiting`.
    places: BTreeMap<T, (Duration, u64)>,
    places_made: u64,
    shutting_down: bool,
}

impl<T: Ord + Clone> Default for Queue<T> {
    fn default() -> Self {
        Self {
            ready: VecDeque::new(),
            dirty: BTreeSet::new(),
            processing: BTreeSet::new(),
            waiting: BTreeMap::new(),
            places: BTreeMap::new(),
            places_made: 0,
            shutting_down: false,
        }
    }
}

impl<T: Ord + Clone> Queue<T> {
    /// Queues `item` unless it is queued already. While it is processed it is only marked.
    pub fn add(&mut self, item: T) {
        if self.shutting_down || !self.dirty.insert(item.clone()) {
            return;
        }
        if !self.processing.contains(&item) {
            self.ready.push_back(item);
        }
    }

    /// Queues `item` at the time `at`. Of several times for one item the earliest counts.
    pub fn add_at(&mut self, item: T, at: Duration) {
        if self.shutting_down {
            return;
        }
        if let Some(place) = self.places.get(&item) {
            if place.0 <= at {
                return;
            }
            self.waiting.remove(place);
        }
        self.places_made += 1;
        let place = (at, self.places_made);
        self.places.insert(item.clone(), place);
        self.waiting.insert(place, item);
    }

    /// Queues every item whose time has come, and returns the time of the next one.
    pub fn wake(&mut self, now: Duration) -> Option<Duration> {
        while let Some(first) = self.waiting.first_entry() {
            if first.key().0 > now {
                return Some(first.key().0);
            }
            let item = first.remove();
            self.places.remove(&item);
            self.add(item);
        }
        None
    }

    /// Hands out the item that has been ready the longest. It must be given back with [`done`](Self::done).
    pub fn take(&mut self) -> Option<T> {
        let item = self.ready.pop_front()?;
        self.dirty.remove(&item);
        self.processing.insert(item.clone());
        Some(item)
    }

    /// Ends the processing of `item`, successful or not. If it was added meanwhile, it is queued now.
    pub fn done(&mut self, item: &T) {
        if let Some(item) = self.processing.take(item)
            && self.dirty.contains(&item)
        {
            self.ready.push_back(item);
        }
    }

    /// The number of ready items.
    pub fn len(&self) -> usize {
        self.ready.len()
    }

    /// Whether no item is ready.
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// Shuts the queue down: it accepts no more items. Ready items can still be taken; waiting ones are dropped.
    pub fn shut_down(&mut self) {
        self.shutting_down = true;
        self.waiting.clear();
        self.places.clear();
    }

    /// Whether nothing more will come: shut down, nothing ready, and no item being processed that was added again.
    pub fn is_over(&self) -> bool {
        self.shutting_down && self.dirty.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_item_queued_twice_is_processed_once() {
        let mut queue = Queue::default();
        queue.add("a");
        queue.add("b");
        queue.add("a");
        assert_eq!((queue.take(), queue.take(), queue.take()), (Some("a"), Some("b"), None));
    }

    #[test]
    fn an_item_added_while_it_is_processed_is_processed_again_afterwards() {
        let mut queue = Queue::default();
        queue.add("a");
        queue.take();
        queue.add("a");
        queue.add("a");
        assert_eq!(queue.take(), None);
        queue.done(&"a");
        assert_eq!((queue.take(), queue.take()), (Some("a"), None));
        queue.done(&"a");
        assert_eq!(queue.take(), None);
    }

    #[test]
    fn of_two_times_for_one_item_the_earlier_counts() {
        let mut queue = Queue::default();
        queue.add_at("a", 3 * SECOND);
        queue.add_at("b", 2 * SECOND);
        queue.add_at("a", SECOND);
        queue.add_at("a", 4 * SECOND);
        assert_eq!(queue.wake(Duration::ZERO), Some(SECOND));
        assert_eq!(queue.wake(5 * SECOND), None);
        assert_eq!((queue.take(), queue.take(), queue.take()), (Some("a"), Some("b"), None));
    }

    #[derive(Clone, Debug)]
    enum Act {
        Add(u8),
        AddAt(u8, u8),
        Pass(u8),
        Take,
        Done,
    }

    proptest! {
        /// No item is processed twice at once; and every item is taken after it was added.
        #[test]
        fn nothing_is_lost_and_nothing_is_held_twice(acts in prop::collection::vec(prop_oneof![
            (0u8..4).prop_map(Act::Add),
            (0u8..4, 0u8..5).prop_map(|(item, delay)| Act::AddAt(item, delay)),
            (0u8..5).prop_map(Act::Pass),
            Just(Act::Take),
            Just(Act::Done),
        ], 0..60)) {
            let mut queue = Queue::default();
            let (mut now, mut held, mut owed) = (Duration::ZERO, Vec::new(), BTreeSet::new());
            for act in acts {
                match act {
                    Act::Add(item) => {
                        queue.add(item);
                        owed.insert(item);
                    }
                    Act::AddAt(item, delay) => {
                        queue.add_at(item, now + MS * u32::from(delay));
                        owed.insert(item);
                    }
                    Act::Pass(time) => now += MS * u32::from(time),
                    Act::Take => {
                        queue.wake(now);
                        if let Some(item) = queue.take() {
                            prop_assert!(!held.contains(&item), "{item} is held twice");
                            held.push(item);
                            if !queue.places.contains_key(&item) {
                                owed.remove(&item);
                            }
                        }
                    }
                    Act::Done => {
                        if let Some(item) = held.pop() {
                            queue.done(&item);
                        }
                    }
                }
            }
            held.iter().for_each(|item| queue.done(item));
            queue.wake(Duration::MAX);
            while let Some(item) = queue.take() {
                owed.remove(&item);
                queue.done(&item);
            }
            prop_assert!(owed.is_empty(), "lost: {owed:?}");
        }
    }
}
