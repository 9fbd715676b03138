//! The turns that an actor has left.

use std::collections::VecDeque;

use kube_sim::rt::Rt;
use parking_lot::Mutex;
use sim_config::time::SimTime;

/// The turns of an actor, one after the other, each not before its time. They survive crashes of the actor, as a work queue outside it
/// would.
///
/// ```text
///   next() ──► … the actor works … ──► end()
///                     │ crash
///                     └─► next(): the same turn again, unless give_up() comes first
/// ```
#[derive(Debug)]
pub struct Turns<T>(Mutex<Left<T>>);

#[derive(Debug)]
struct Left<T> {
    turns: VecDeque<(SimTime, T)>,
    /// Whether the first turn is in progress.
    begun: bool,
}

impl<T: Clone> Turns<T> {
    /// A queue of these turns, in order.
    pub fn new(turns: impl IntoIterator<Item = (SimTime, T)>) -> Self {
        Self(Mutex::new(Left { turns: turns.into_iter().collect(), begun: false }))
    }

    /// Waits for the time of the first turn that has not ended, and begins it; `None` = all have ended.
    pub async fn next(&self, rt: &Rt) -> Option<T> {
        let at = self.0.lock().turns.front()?.0;
        rt.sleep_until(at).await;
        let mut left = self.0.lock();
        left.begun = true;
        left.turns.front().map(|(_, turn)| turn.clone())
    }

    /// Ends the turn in progress. Returns whether it was the last.
    pub fn end(&self) -> bool {
        let mut left = self.0.lock();
        if std::mem::take(&mut left.begun) {
            left.turns.pop_front();
        }
        left.turns.is_empty()
    }

    /// Ends the turn that a crash interrupted, and returns whether there was one: for an actor that does not begin it again.
    pub fn give_up(&self) -> bool {
        let begun = self.0.lock().begun;
        self.end();
        begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_comes_again_until_it_has_ended_or_is_given_up() {
        kube_sim::rt::run(1, async |rt| {
            let turns = Turns::new([1, 5, 9].map(|second| (SimTime::from_secs(second), second)));
            assert!(!turns.give_up(), "nothing is in hand yet");
            assert_eq!((turns.next(&rt).await, rt.now()), (Some(1), SimTime::from_secs(1)));
            // After a crash the actor asks again.
            assert_eq!((turns.next(&rt).await, rt.now()), (Some(1), SimTime::from_secs(1)));
            assert!(!turns.end());
            assert_eq!((turns.next(&rt).await, rt.now()), (Some(5), SimTime::from_secs(5)));
            assert!(turns.give_up());
            assert_eq!((turns.next(&rt).await, rt.now()), (Some(9), SimTime::from_secs(9)));
            assert!(turns.end());
            assert_eq!(turns.next(&rt).await, None);
        });
    }
}
