//! The order in which requests are executed: priorities of processes, and the requests at which a process loses its priority (probabilistic
//! concurrency testing: Burckhardt et al., ASPLOS 2010).
//!
//! ```text
//!   a request gets to its server ──► any process of higher priority busy? ── no ──► a change point? ── no ──► executed
//!                                       ▲          │ yes                                │ yes
//!                                       │          ▼                                    ▼
//!                                       └── waits until they all rest, for ◄── its process has the
//!                                           a while at most                    lowest priority, and waits
//!                                                                              for another request
//! ```
//! A process is busy as long as it has a request in flight, and for a moment after the answer: its next action depends on that. The process
//! of the highest priority is not held back, so there is always progress.

use std::task::{Poll, Waker};
use std::time::Duration;

use kube_machinery::FxHashMap;
use sim_config::time::SimTime;

use super::exchanges::Phase;
use super::request::ApiRequest;
use super::{Cluster, State};
use crate::kinds::KindId;
use crate::rt::{ProcessId, ProcessState, Rt};
use crate::trace::record::Part;
use crate::trace::{EventKind, FaultChange};

/// An order of processes in which API servers execute their requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Priorities {
    /// The fault of the plan.
    pub fault: u32,
    /// The processes, highest priority first. Requests of others are not held back and hold nothing back.
    pub order: Vec<ProcessId>,
    /// The type of the objects that the requests are about; unset = all.
    pub kind: Option<KindId>,
    /// The change points, as numbers of requests: before such a request its process gets the lowest priority, and the request waits until
    /// another one of these processes has had its turn. The requests of all of them are counted together as their turns come, from 1 on.
    pub drops: Vec<u32>,
    /// The longest time for which a request is held back.
    pub at_most: Duration,
    /// The time for which a process counts as busy after it was answered.
    pub rest: Duration,
}

/// A request at a change point: it waits until another one has had its turn, even if no process is busy. A sleeping process could have gone
/// on, too.
#[derive(Clone, Copy)]
struct GivesWay {
    fault: u32,
    /// The number of turns so far.
    turns: u32,
}

/// The present state of the priorities of one fault.
struct Ranking {
    rule: Priorities,
    /// The number of requests that have had their turn.
    turns: u32,
    /// The time until which each process without a request in flight counts as busy.
    busy_until: FxHashMap<ProcessId, SimTime>,
}

impl Ranking {
    fn concerns(&self, client: ProcessId, kind: KindId) -> bool {
        self.rule.kind.is_none_or(|own| own == kind) && self.rule.order.contains(&client)
    }

    fn stays_busy(&mut self, client: ProcessId, since: SimTime) {
        let until = since + self.rule.rest;
        let known = self.busy_until.entry(client).or_insert(until);
        *known = until.max(*known);
    }
}

/// The priorities in force, and the requests that wait because of them.
#[derive(Default)]
pub(crate) struct Rankings {
    present: Vec<Ranking>,
    waiting: Vec<Waker>,
    /// The number of changes that a waiting request may depend on.
    changes: u64,
}

impl Rankings {
    /// Wakes everything that waits.
    fn changed(&mut self) {
        self.changes += 1;
        self.waiting.drain(..).for_each(Waker::wake);
    }

    /// Notes that a process is answered, or is about to be at `at`.
    pub(super) fn answered(&mut self, client: ProcessId, kind: KindId, at: SimTime) {
        let mut concerned = false;
        for ranking in self.present.iter_mut().filter(|ranking| ranking.concerns(client, kind)) {
            ranking.stays_busy(client, at);
            concerned = true;
        }
        if concerned {
            self.changed();
        }
    }

    /// Whether a request at a change point still waits for the turn of another one.
    fn is_next(&self, GivesWay { fault, turns }: GivesWay) -> bool {
        self.present.iter().any(|ranking| ranking.rule.fault == fault && ranking.turns == turns)
    }

    /// Whether some priorities apply to requests of `client` for one of these types.
    #[cfg(test)]
    pub(super) fn rank(&self, client: ProcessId, kinds: &[KindId]) -> bool {
        let about = |ranking: &Ranking| ranking.rule.kind.is_none_or(|kind| kinds.contains(&kind));
        self.present.iter().any(|ranking| ranking.rule.order.contains(&client) && about(ranking))
    }
}

impl State {
    /// Notes that a request leaves. Returns the time for which it may be held back at its server, if priorities apply to it.
    pub(super) fn rank(&mut self, request: &ApiRequest, now: SimTime) -> Option<Duration> {
        let mut at_most = None;
        for ranking in self.rankings.present.iter_mut().filter(|ranking| ranking.concerns(request.client, request.kind)) {
            ranking.stays_busy(request.client, now);
            at_most = at_most.max(Some(ranking.rule.at_most));
        }
        at_most
    }

    /// Counts the turn of a request. If that is a change point, its process loses its priority and gives way.
    fn take_turn(&mut self, client: ProcessId, kind: KindId) -> Option<GivesWay> {
        let (mut concerned, mut gives_way) = (false, None);
        for ranking in self.rankings.present.iter_mut().filter(|ranking| ranking.concerns(client, kind)) {
            concerned = true;
            ranking.turns += 1;
            if ranking.rule.drops.contains(&ranking.turns) {
                let order = &mut ranking.rule.order;
                order.retain(|process| *process != client);
                order.push(client);
                gives_way = Some(GivesWay { fault: ranking.rule.fault, turns: ranking.turns });
            }
        }
        if concerned {
            self.rankings.changed();
        }
        gives_way
    }

    /// The time until which a request has to wait for processes of higher priority, and the fault that orders them; [`SimTime::NEVER`] =
    /// until something changes. `None` = it need not wait.
    fn yields(&self, rt: &Rt, client: ProcessId, kind: KindId) -> Option<(SimTime, u32)> {
        let now = rt.now();
        let under_way = |process: ProcessId, ranking: &Ranking| {
            self.exchanges.iter().any(|(_, exchange)| {
                let is_open = !exchange.abandoned && !matches!(exchange.phase, Phase::Done { .. });
                exchange.client == process && is_open && ranking.concerns(process, exchange.kind)
            })
        };
        let until = |process: ProcessId, ranking: &Ranking| match ranking.busy_until.get(&process) {
            _ if rt.state(process) != ProcessState::Running => SimTime::ZERO,
            _ if under_way(process, ranking) => SimTime::NEVER,
            Some(&until) => until,
            None => SimTime::ZERO,
        };
        let of = |ranking: &Ranking| {
            let higher = ranking.rule.order.iter().take_while(|process| **process != client);
            higher.map(|&process| until(process, ranking)).max().map(|until| (until, ranking.rule.fault))
        };
        let all = self.rankings.present.iter().filter(|ranking| ranking.concerns(client, kind)).filter_map(of);
        all.max().filter(|(until, _)| *until > now)
    }
}

impl Cluster {
    /// Makes the requests of some processes execute in the order of their priorities from now on.
    pub fn add_priorities(&self, rule: Priorities) {
        self.lock().rankings.present.push(Ranking { rule, turns: 0, busy_until: FxHashMap::default() });
    }

    /// Ends the priorities of one fault of the plan: the requests that they hold back are executed.
    pub fn remove_priorities(&self, fault: u32) {
        let mut state = self.lock();
        state.rankings.present.retain(|ranking| ranking.rule.fault != fault);
        state.rankings.changed();
    }

    /// Waits until it is the turn of a request that is at its server, at the latest until `latest`. `call`: the request.
    pub(super) async fn hold_back(&self, call: u64, client: ProcessId, kind: KindId, latest: SimTime) {
        let (mut is_told, mut had_its_turn, mut gives_way) = (false, false, None);
        loop {
            let (until, seen) = {
                let mut state = self.lock();
                let now = self.rt.now();
                let to_next = gives_way.filter(|&way| state.rankings.is_next(way)).map(|way: GivesWay| (SimTime::NEVER, way.fault));
                let waits = to_next.or_else(|| state.yields(&self.rt, client, kind)).filter(|_| now < latest);
                let Some((until, index)) = waits else {
                    gives_way = if had_its_turn { None } else { state.take_turn(client, kind) };
                    if gives_way.is_none() {
                        return;
                    }
                    had_its_turn = true;
                    continue;
                };
                if !is_told {
                    let part = Part { call: Some(call), object: None };
                    state.recorder.observe_of(part, now, EventKind::Fault { index, change: FaultChange::Fired });
                    is_told = true;
                }
                (until.min(latest), state.rankings.changes)
            };
            let mut sleep = std::pin::pin!(self.rt.sleep_until(until));
            std::future::poll_fn(|context| {
                let mut state = self.lock();
                if state.rankings.changes != seen {
                    return Poll::Ready(());
                }
                state.rankings.waiting.push(context.waker().clone());
                drop(state);
                sleep.as_mut().poll(context)
            })
            .await;
        }
    }
}
