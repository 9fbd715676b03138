//! The timers of a run.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::task::Waker;

use sim_config::time::SimTime;
use slab::Slab;

/// The latest time at which anything can be due, in microseconds: 2,284 years.
const HORIZON: u64 = (1 << 56) - 1;
/// The number of microseconds within which a timer is due soon.
const SOON: u64 = 100_000;
/// The number of cancelled timers from which on it is worth clearing them away.
const CLEARED: usize = 64;

/// Something that the world itself does at a time.
pub(super) type Action = Box<dyn FnOnce() + Send>;

/// The effect of a timer.
pub(super) enum Due {
    /// Wakes a task, which continues.
    Wake(Waker),
    /// The world itself acts, not for any process.
    Act(Action),
}

/// A timer that has not fired yet. Not valid after it has fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimerId(u32);

/// Time, order among those of one time, and place: one number, because comparing numbers is most of a heap's work.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key(u128);

impl Key {
    fn new(at: u64, sequence: u64, place: u32) -> Self {
        Self(u128::from(at) << 72 | u128::from(sequence & ((1 << 40) - 1)) << 32 | u128::from(place))
    }

    fn at(self) -> SimTime {
        SimTime::from_micros((self.0 >> 72) as u64)
    }

    fn place(self) -> usize {
        (self.0 & 0xffff_ffff) as usize
    }
}

/// Timers by time; those of one time in the order in which they were set.
///
/// Setting and firing cost O(log n). Cancelling costs O(1): the key stays in the heap until its time comes, or until most of the heap are
/// such keys.
///
/// Most timers are messages on their way, due within milliseconds; most of those that wait are time-outs that will be cancelled. With two
/// heaps the former need not pass the latter on their way in and out.
#[derive(Default)]
pub(super) struct Timers {
    /// The timers that were due soon when they were set.
    soon: BinaryHeap<Reverse<Key>>,
    /// The timers that were due [`SOON`] microseconds or more after the last firing when they were set.
    later: BinaryHeap<Reverse<Key>>,
    /// The time of the last firing, in microseconds.
    fired: u64,
    /// The effects by place; nothing for a cancelled timer.
    due: Slab<Option<Due>>,
    cancelled: usize,
    sequence: u64,
}

impl Timers {
    /// Sets a timer. Returns `due` if its time never comes.
    pub(super) fn set(&mut self, at: SimTime, due: Due) -> Result<TimerId, Due> {
        if at.as_micros() > HORIZON {
            return Err(due);
        }
        let place = self.due.insert(Some(due)) as u32;
        let heap = if at.as_micros() < self.fired + SOON { &mut self.soon } else { &mut self.later };
        heap.push(Reverse(Key::new(at.as_micros(), self.sequence, place)));
        self.sequence += 1;
        Ok(TimerId(place))
    }

    /// Makes a timer that has not fired wake another task. Returns the previous effect.
    pub(super) fn wake_instead(&mut self, timer: TimerId, waker: &Waker) -> Option<Due> {
        match self.due.get_mut(timer.0 as usize) {
            Some(Some(Due::Wake(known))) if known.will_wake(waker) => None,
            Some(due) => due.replace(Due::Wake(waker.clone())),
            None => None,
        }
    }

    /// Cancels a timer that has not fired. Returns its effect.
    pub(super) fn cancel(&mut self, timer: TimerId) -> Option<Due> {
        let due = self.due.get_mut(timer.0 as usize)?.take()?;
        self.cancelled += 1;
        if self.cancelled >= CLEARED && self.cancelled > self.len() / 2 {
            let places = &mut self.due;
            for heap in [&mut self.soon, &mut self.later] {
                heap.retain(|Reverse(key)| {
                    let is_due = places[key.place()].is_some();
                    if !is_due {
                        places.remove(key.place());
                    }
                    is_due
                });
            }
            self.cancelled = 0;
        }
        Some(due)
    }

    /// The number of timers, including those that were cancelled and not cleared away.
    fn len(&self) -> usize {
        self.soon.len() + self.later.len()
    }

    /// The heap whose first timer is the earliest, and that timer.
    fn first(&mut self) -> Option<(&mut BinaryHeap<Reverse<Key>>, Key)> {
        let (soon, later) = (self.soon.peek().map(|first| first.0), self.later.peek().map(|first| first.0));
        match (soon, later) {
            (Some(soon), Some(later)) if later < soon => Some((&mut self.later, later)),
            (Some(soon), _) => Some((&mut self.soon, soon)),
            (None, later) => later.map(|later| (&mut self.later, later)),
        }
    }

    /// Takes out all timers of the earliest time at which one fires, in their order, and returns that time. `None` = there is none.
    pub(super) fn fire(&mut self, into: &mut Vec<Due>) -> Option<SimTime> {
        let mut fires = None;
        while let Some((heap, key)) = self.first()
            && fires.is_none_or(|at| at == key.at())
        {
            heap.pop();
            match self.due.remove(key.place()) {
                Some(due) => {
                    fires = Some(key.at());
                    self.fired = key.at().as_micros();
                    into.push(due);
                }
                None => self.cancelled -= 1,
            }
        }
        fires
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use parking_lot::Mutex;
    use proptest::prelude::*;

    use super::*;

    /// Sets a timer, cancels the n-th that is set, or fires the next ones.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Set(u64),
        Cancel(usize),
        Fire,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        // Soon, later, and where they meet: a time later on is soon after it.
        let after = prop_oneof![4 => 0u64..9, 2 => SOON - 5..SOON + 5, 1 => 5 * SOON..5 * SOON + 5];
        let step = prop_oneof![4 => after.prop_map(Step::Set), 3 => any::<usize>().prop_map(Step::Cancel), 1 => Just(Step::Fire)];
        prop::collection::vec(step, 0..600)
    }

    proptest! {
        #[test]
        fn what_is_due_comes_by_time_and_then_in_order(steps in steps()) {
            let (mut timers, mut plain) = (Timers::default(), BTreeMap::new());
            let (fired, mut number, mut now) = (Arc::new(Mutex::new(Vec::new())), 0, 0);
            for step in steps.into_iter().chain(std::iter::repeat_n(Step::Fire, 600)) {
                match step {
                    Step::Set(after) => {
                        let (at, fired) = (now + 1 + after, fired.clone());
                        let act = Due::Act(Box::new(move || fired.lock().push(number)));
                        plain.insert((at, number), timers.set(SimTime::from_micros(at), act).ok().unwrap());
                        number += 1;
                    }
                    Step::Cancel(_) if plain.is_empty() => {}
                    Step::Cancel(which) => {
                        let key = *plain.keys().nth(which % plain.len()).unwrap();
                        prop_assert!(timers.cancel(plain.remove(&key).unwrap()).is_some());
                    }
                    Step::Fire => {
                        let mut due = Vec::new();
                        let at = timers.fire(&mut due);
                        prop_assert_eq!(at, plain.keys().next().map(|(at, _)| SimTime::from_micros(*at)));
                        let Some(at) = at else { continue };
                        now = at.as_micros();
                        for due in due {
                            let Due::Act(act) = due else { unreachable!("nobody is woken") };
                            act();
                        }
                        let expected: Vec<_> = plain.keys().filter(|(at, _)| *at == now).map(|(_, number)| *number).collect();
                        plain.retain(|(at, _), _| *at != now);
                        prop_assert_eq!(std::mem::take(&mut *fired.lock()), expected);
                    }
                }
                // Cancelled timers never outnumber the rest for long.
                prop_assert!(timers.len() <= 2 * plain.len() + CLEARED);
            }
            prop_assert!(plain.is_empty() && timers.len() == 0 && timers.due.is_empty());
        }
    }

    #[test]
    fn what_is_due_after_the_horizon_never_comes() {
        let mut timers = Timers::default();
        assert!(timers.set(SimTime::NEVER, Due::Act(Box::new(|| ()))).is_err());
        assert!(timers.set(SimTime::from_micros(HORIZON), Due::Act(Box::new(|| ()))).is_ok());
        assert_eq!(timers.fire(&mut Vec::new()), Some(SimTime::from_micros(HORIZON)));
        assert_eq!(timers.fire(&mut Vec::new()), None);
    }
}
