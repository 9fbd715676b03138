//! Who may change which pools now: requests of one process take turns (A §5.6).
//!
//! ```text
//!   asked:   A{p,q}  B{p}  C{r}        granted: A, C        when A is done: B
//! ```
//!
//! A request waits until nobody has any of its tickets, then takes all of them at once. In the hardened form nobody overtakes
//! a request that waits for one of the same tickets, so that everybody's turn comes (A L7); upstream lets pass whoever finds
//! all tickets free.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;

use kube_machinery::env::Env;
use kube_machinery::race::{Either, race};

/// The queue of one process. Clones are the same queue.
#[derive(Clone, Debug)]
pub(super) struct Limiter {
    state: Arc<Mutex<State>>,
    /// How many may wait.
    capacity: usize,
    overtakes: bool,
}

#[derive(Debug, Default)]
struct State {
    /// How often tickets were asked for.
    turns: u64,
    /// How often each is granted: once, or less than never if one was given back that nobody had. Any count blocks the others.
    granted: BTreeMap<Arc<str>, i32>,
    /// Those who wait, in the order in which they came.
    waiting: BTreeMap<u64, Waiting>,
}

#[derive(Debug)]
struct Waiting {
    tickets: Vec<Arc<str>>,
    grant: oneshot::Sender<()>,
}

/// Why there are no tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// Too many wait.
    Full,
    /// The deadline passed.
    Late,
}

/// A place in the queue, then the tickets. They are given back when it is dropped.
#[derive(Debug)]
#[must_use]
pub(super) struct Tickets {
    state: Arc<Mutex<State>>,
    overtakes: bool,
    turn: u64,
    held: Vec<Arc<str>>,
}

impl Limiter {
    pub(super) fn new(capacity: usize, overtakes: bool) -> Self {
        Self { state: Arc::default(), capacity, overtakes }
    }

    /// The same queue for somebody with another patience.
    #[cfg(test)]
    pub(super) fn with_capacity(self, capacity: usize) -> Self {
        Self { capacity, ..self }
    }

    /// Gives back tickets that were never granted, as upstream does after a refusal: whoever has one loses it to the next, and one that
    /// nobody has is nobody's from now on (G §1.4).
    pub(super) fn give_back_ungranted(&self, tickets: &[Arc<str>]) {
        let mut state = self.state.lock().unwrap();
        tickets.iter().for_each(|ticket| state.count(ticket, -1));
        state.grant(self.overtakes);
    }

    /// The number that the next request gets.
    pub(super) fn next_turn(&self) -> u64 {
        self.state.lock().unwrap().turns
    }

    /// Waits for tickets, no longer than until `deadline`. Requests without any ticket take turns among themselves.
    pub(super) async fn take(&self, env: &impl Env, tickets: &[Arc<str>], deadline: Option<Duration>) -> Result<Tickets, Refused> {
        let (mut tickets, granted) = {
            let mut state = self.state.lock().unwrap();
            let turn = state.turns;
            state.turns += 1;
            if state.waiting.len() >= self.capacity {
                return Err(Refused::Full);
            }
            let mut wanted: Vec<Arc<str>> = tickets.to_vec();
            if wanted.is_empty() {
                wanted.push("".into());
            }
            wanted.sort();
            wanted.dedup();
            // The common case: nobody waits, so nobody is overtaken.
            if state.waiting.is_empty() && wanted.iter().all(|ticket| !state.granted.contains_key(ticket)) {
                wanted.iter().for_each(|ticket| state.count(ticket, 1));
                return Ok(Tickets { state: Arc::clone(&self.state), overtakes: self.overtakes, turn, held: wanted });
            }
            let (grant, granted) = oneshot::channel();
            state.waiting.insert(turn, Waiting { tickets: wanted.clone(), grant });
            state.grant(self.overtakes);
            (Tickets { state: Arc::clone(&self.state), overtakes: self.overtakes, turn, held: wanted }, granted)
        };
        let end = async {
            match deadline {
                Some(deadline) => env.sleep(deadline.saturating_sub(env.monotonic())).await,
                None => std::future::pending().await,
            }
        };
        match race(granted, end).await {
            Either::Left(_) => Ok(tickets),
            Either::Right(()) => {
                tickets.give_up();
                Err(Refused::Late)
            }
        }
    }
}

impl State {
    fn count(&mut self, ticket: &Arc<str>, by: i32) {
        let count = self.granted.entry(ticket.clone()).or_default();
        *count += by;
        if *count == 0 {
            self.granted.remove(ticket);
        }
    }

    /// Gives tickets to everybody whose turn it is.
    fn grant(&mut self, overtakes: bool) {
        let mut wanted_earlier: BTreeSet<Arc<str>> = BTreeSet::new();
        let mut turns = Vec::new();
        for (turn, waiting) in &self.waiting {
            let free = |ticket: &Arc<str>| !self.granted.contains_key(ticket) && (overtakes || !wanted_earlier.contains(ticket));
            if waiting.tickets.iter().all(free) {
                self.granted.extend(waiting.tickets.iter().map(|ticket| (ticket.clone(), 1)));
                turns.push(*turn);
            } else {
                wanted_earlier.extend(waiting.tickets.iter().cloned());
            }
        }
        for turn in turns {
            let waiting = self.waiting.remove(&turn).expect("it waits");
            // Whoever does not listen any more has a `Tickets` that is about to be dropped.
            let _ = waiting.grant.send(());
        }
    }
}

impl Tickets {
    fn give_up(&mut self) {
        let mut state = self.state.lock().unwrap();
        if state.waiting.remove(&self.turn).is_none() {
            self.held.drain(..).for_each(|ticket| state.count(&ticket, -1));
        }
        self.held.clear();
        state.grant(self.overtakes);
    }
}

impl Drop for Tickets {
    fn drop(&mut self) {
        if !self.held.is_empty() {
            self.give_up();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_machinery::testing::TestEnv;

    fn names(tickets: &[&str]) -> Vec<Arc<str>> {
        tickets.iter().map(|name| Arc::from(*name)).collect()
    }

    /// Requests that come one after the other and hold their tickets for a second each; the order of the grants.
    fn grants(overtakes: bool, requests: &[&[&str]]) -> Vec<(usize, u64)> {
        let env = TestEnv::new();
        let limiter = Limiter::new(1000, overtakes);
        let order = Arc::new(Mutex::new(Vec::new()));
        for (at, tickets) in requests.iter().enumerate() {
            let (limiter, wanted, inner, order) = (limiter.clone(), names(tickets), env.clone(), Arc::clone(&order));
            env.spawn(async move {
                let held = limiter.take(&inner, &wanted, None).await.unwrap();
                order.lock().unwrap().push((at, inner.monotonic().as_secs()));
                inner.sleep(Duration::from_secs(1)).await;
                drop(held);
            });
            env.settle();
        }
        env.advance(Duration::from_secs(60));
        assert_eq!(env.tasks_alive(), 0);
        order.lock().unwrap().clone()
    }

    #[test]
    fn nobody_overtakes_who_waits_for_the_same_pool() {
        let requests: [&[&str]; 4] = [&["p"], &["p", "q"], &["q"], &["r"]];
        assert_eq!(grants(false, &requests), [(0, 0), (3, 0), (1, 1), (2, 2)]);
        assert_eq!(grants(true, &requests), [(0, 0), (2, 0), (3, 0), (1, 1)]);
    }

    #[test]
    fn requests_without_pools_take_turns_and_a_pool_counts_once() {
        assert_eq!(grants(false, &[&[], &[], &["p", "p"]]), [(0, 0), (2, 0), (1, 1)]);
    }

    #[test]
    fn a_wait_ends_with_its_deadline_and_leaves_nothing_behind() {
        let env = TestEnv::new();
        let limiter = Limiter::new(1000, false);
        env.block_on(async {
            let held = limiter.take(&env, &names(&["p"]), None).await.unwrap();
            let late = limiter.take(&env, &names(&["p"]), Some(Duration::from_secs(3))).await;
            assert_eq!((late.unwrap_err(), env.monotonic()), (Refused::Late, Duration::from_secs(3)));
            drop(held);
            drop(limiter.take(&env, &names(&["p"]), None).await.unwrap());
            assert!(limiter.state.lock().unwrap().granted.is_empty());
        });
    }

    #[test]
    fn a_wait_that_is_dropped_passes_its_turn_on() {
        let env = TestEnv::new();
        let limiter = Limiter::new(1000, false);
        env.block_on(async {
            let held = limiter.take(&env, &names(&["p"]), None).await.unwrap();
            {
                let wanted = names(&["p", "q"]);
                let waits = limiter.take(&env, &wanted, None);
                assert!(matches!(race(waits, env.sleep(Duration::from_secs(1))).await, Either::Right(())));
            }
            drop(limiter.take(&env, &names(&["q"]), None).await.unwrap());
            drop(held);
            assert!(limiter.state.lock().unwrap().granted.is_empty());
        });
    }

    #[test]
    fn more_than_the_capacity_are_turned_away() {
        let env = TestEnv::new();
        let limiter = Limiter::new(1, false);
        env.block_on(async {
            let _held = limiter.take(&env, &names(&["p"]), None).await.unwrap();
            let (second, wanted) = (limiter.clone(), names(&["p"]));
            let inner = env.clone();
            env.spawn(async move { drop(second.take(&inner, &wanted, None).await) });
            env.sleep(Duration::from_millis(1)).await;
            assert_eq!(limiter.take(&env, &names(&["q"]), None).await.unwrap_err(), Refused::Full);
        });
    }
}
