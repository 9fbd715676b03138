//! The queue for changes of pools: the requests of one process take turns (A §5.6).
//!
//! ```text
//!   asked:   A{p,q}  B{p}  C{r}        granted: A, C        when A is done: B
//! ```
//!
//! A request waits until all of its tickets are free, then takes all of them at once. In the hardened form no request overtakes one that
//! waits for one of the same tickets, so that every request gets its turn (A L7); upstream grants any request whose tickets are all free.
//!
//! A request that returns tickets checks the first waiter for each of them, so a grant costs O(t log n) for t tickets and n waiting
//! requests. Where overtaking is allowed, it checks all that wait for one of them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;

use kube_machinery::FxHashMap;
use kube_machinery::env::Env;
use kube_machinery::race::{Either, race};

/// The queue of one process. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Limiter {
    state: Arc<Mutex<State>>,
    /// The maximum number of waiting requests.
    capacity: usize,
    overtakes: bool,
}

#[derive(Debug, Default)]
struct State {
    /// The number of requests for tickets so far.
    turns: u64,
    /// The tickets that are held or waited for.
    tickets: FxHashMap<Arc<str>, Ticket>,
    /// The waiting requests by turn, which is their order of arrival.
    waiting: FxHashMap<u64, Waiting>,
}

#[derive(Debug, Default)]
struct Ticket {
    /// The number of holders: one, or negative if a ticket was returned that nobody held. Any number but zero blocks other requests.
    granted: i32,
    /// The turns of the requests that wait for the ticket.
    wanted: BTreeSet<u64>,
}

#[derive(Debug)]
struct Waiting {
    tickets: Vec<Arc<str>>,
    grant: oneshot::Sender<()>,
}

/// The reason why no tickets were granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The queue is full.
    Full,
    /// The deadline passed before the tickets were granted.
    Late,
}

/// A place in the queue, then the granted tickets. Dropping it returns them.
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

    /// The same queue with another limit of waiting requests.
    #[cfg(test)]
    pub(super) fn with_capacity(self, capacity: usize) -> Self {
        Self { capacity, ..self }
    }

    /// Returns tickets that were never granted, as upstream does after a refusal: a holder loses its ticket to the next request, and a
    /// ticket that nobody holds is granted to nobody from now on (G §1.4).
    pub(super) fn give_back_ungranted(&self, tickets: &[Arc<str>]) {
        let mut state = self.state.lock().unwrap();
        tickets.iter().for_each(|ticket| state.count(ticket, -1));
        state.grant_next(tickets, self.overtakes);
    }

    /// The turn of the next request.
    pub(super) fn next_turn(&self) -> u64 {
        self.state.lock().unwrap().turns
    }

    /// Waits for tickets, at most until `deadline`. Requests without any ticket take turns among themselves.
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
            if state.waiting.is_empty() && wanted.iter().all(|ticket| !state.tickets.contains_key(ticket)) {
                wanted.iter().for_each(|ticket| state.count(ticket, 1));
                return Ok(Tickets { state: Arc::clone(&self.state), overtakes: self.overtakes, turn, held: wanted });
            }
            let (grant, granted) = oneshot::channel();
            state.wait(turn, Waiting { tickets: wanted.clone(), grant });
            state.grant_if_next(turn, self.overtakes);
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
        let known = self.tickets.entry(ticket.clone()).or_default();
        known.granted += by;
        if known.is_unknown() {
            self.tickets.remove(ticket);
        }
    }

    /// Adds a waiting request, which wants at least one ticket. Turns only grow.
    fn wait(&mut self, turn: u64, waiting: Waiting) {
        for ticket in &waiting.tickets {
            self.tickets.entry(ticket.clone()).or_default().wanted.insert(turn);
        }
        self.waiting.insert(turn, waiting);
    }

    /// Removes a waiting request, if it is there.
    fn leave(&mut self, turn: u64) -> Option<Waiting> {
        let waiting = self.waiting.remove(&turn)?;
        for ticket in &waiting.tickets {
            if let Some(known) = self.tickets.get_mut(ticket) {
                known.wanted.remove(&turn);
                if known.is_unknown() {
                    self.tickets.remove(ticket);
                }
            }
        }
        Some(waiting)
    }

    /// Grants tickets to all requests whose turn has come, now that fewer hold or want those in `changed`. No other request's turn can have
    /// come.
    fn grant_next(&mut self, changed: &[Arc<str>], overtakes: bool) {
        let free = changed.iter().filter_map(|ticket| self.tickets.get(ticket)).filter(|ticket| ticket.granted == 0);
        let first = free.flat_map(|ticket| ticket.wanted.iter().take(if overtakes { usize::MAX } else { 1 }));
        let turns: BTreeSet<u64> = first.copied().collect();
        turns.into_iter().for_each(|turn| self.grant_if_next(turn, overtakes));
    }

    /// Grants tickets to a waiting request, if it is its turn.
    fn grant_if_next(&mut self, turn: u64, overtakes: bool) {
        let is_next = |ticket: &Ticket| ticket.granted == 0 && (overtakes || ticket.wanted.first() == Some(&turn));
        let wanted = &self.waiting[&turn].tickets;
        if !wanted.iter().all(|ticket| self.tickets.get(ticket).is_none_or(is_next)) {
            return;
        }
        let Some(Waiting { tickets, grant }) = self.leave(turn) else { return };
        tickets.iter().for_each(|ticket| self.count(ticket, 1));
        // A receiver that is gone has a `Tickets` that is about to be dropped.
        let _ = grant.send(());
    }
}

impl Ticket {
    fn is_unknown(&self) -> bool {
        self.granted == 0 && self.wanted.is_empty()
    }
}

impl Tickets {
    fn give_up(&mut self) {
        let mut state = self.state.lock().unwrap();
        if state.leave(self.turn).is_none() {
            self.held.iter().for_each(|ticket| state.count(ticket, -1));
        }
        let held = std::mem::take(&mut self.held);
        state.grant_next(&held, self.overtakes);
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
    use std::collections::BTreeMap;

    use kube_machinery::testing::TestEnv;
    use proptest::prelude::*;

    use super::*;

    fn names(tickets: &[&str]) -> Vec<Arc<str>> {
        tickets.iter().map(|name| Arc::from(*name)).collect()
    }

    /// The order of the grants for requests that arrive one after the other and hold their tickets for one second each.
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
            assert!(limiter.state.lock().unwrap().tickets.is_empty());
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
            assert!(limiter.state.lock().unwrap().tickets.is_empty());
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

    /// The naive form: a request that returns tickets walks along all waiting requests in order of arrival.
    #[derive(Default)]
    struct Plain {
        granted: BTreeMap<Arc<str>, i32>,
        waiting: BTreeMap<u64, Vec<Arc<str>>>,
    }

    impl Plain {
        fn count(&mut self, ticket: &Arc<str>, by: i32) {
            *self.granted.entry(ticket.clone()).or_default() += by;
            self.granted.retain(|_, count| *count != 0);
        }

        fn grant(&mut self, overtakes: bool) -> Vec<u64> {
            let (mut wanted_earlier, mut turns) = (BTreeSet::new(), Vec::new());
            for (turn, tickets) in &self.waiting {
                let free = |ticket: &Arc<str>| !self.granted.contains_key(ticket) && (overtakes || !wanted_earlier.contains(ticket));
                if tickets.iter().all(free) {
                    self.granted.extend(tickets.iter().map(|ticket| (ticket.clone(), 1)));
                    turns.push(*turn);
                } else {
                    wanted_earlier.extend(tickets.iter().cloned());
                }
            }
            turns.iter().for_each(|turn| drop(self.waiting.remove(turn)));
            turns
        }
    }

    /// A step of the test; tickets are bits. A request asks for some, an earlier one gives up or returns its own, or somebody returns
    /// tickets that were never granted.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Ask(u8),
        GiveUp(usize),
        GiveBack(u8),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            6 => (1u8..16).prop_map(Step::Ask),
            5 => any::<usize>().prop_map(Step::GiveUp),
            1 => (1u8..16).prop_map(Step::GiveBack),
        ];
        prop::collection::vec(step, 0..60)
    }

    proptest! {
        #[test]
        fn tickets_are_granted_as_by_a_walk_along_all_who_wait(steps in steps(), overtakes: bool) {
            let all = names(&["p", "q", "r", "s"]);
            let of = |bits: u8| -> Vec<Arc<str>> {
                all.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1).map(|(_, name)| name.clone()).collect()
            };
            let (mut state, mut plain) = (State::default(), Plain::default());
            let mut asked: BTreeMap<u64, (Vec<Arc<str>>, oneshot::Receiver<()>)> = BTreeMap::new();
            for (turn, step) in (0..).zip(steps) {
                let expected = match step {
                    Step::Ask(bits) => {
                        let (grant, granted) = oneshot::channel();
                        asked.insert(turn, (of(bits), granted));
                        state.wait(turn, Waiting { tickets: of(bits), grant });
                        state.grant_if_next(turn, overtakes);
                        plain.waiting.insert(turn, of(bits));
                        plain.grant(overtakes)
                    }
                    Step::GiveUp(_) if asked.is_empty() => continue,
                    Step::GiveUp(which) => {
                        let turn = *asked.keys().nth(which % asked.len()).unwrap();
                        let (tickets, _) = asked.remove(&turn).unwrap();
                        if state.leave(turn).is_none() {
                            tickets.iter().for_each(|ticket| state.count(ticket, -1));
                        }
                        state.grant_next(&tickets, overtakes);
                        if plain.waiting.remove(&turn).is_none() {
                            tickets.iter().for_each(|ticket| plain.count(ticket, -1));
                        }
                        plain.grant(overtakes)
                    }
                    Step::GiveBack(bits) => {
                        of(bits).iter().for_each(|ticket| state.count(ticket, -1));
                        state.grant_next(&of(bits), overtakes);
                        of(bits).iter().for_each(|ticket| plain.count(ticket, -1));
                        plain.grant(overtakes)
                    }
                };
                let granted: Vec<u64> =
                    asked.iter_mut().filter_map(|(turn, (_, granted))| granted.try_recv().is_ok().then_some(*turn)).collect();
                prop_assert_eq!(granted, expected);
                prop_assert!(state.waiting.keys().copied().collect::<BTreeSet<_>>().into_iter().eq(plain.waiting.keys().copied()));
                let held = state.tickets.iter().filter(|(_, known)| known.granted != 0);
                let counts: BTreeMap<_, _> = held.map(|(name, known)| (name.clone(), known.granted)).collect();
                prop_assert_eq!(&counts, &plain.granted);
                prop_assert!(state.tickets.values().all(|known| !known.is_unknown()));
            }
        }
    }
}
