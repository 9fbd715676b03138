//! A request and its reply as two messages that live outside the client's task.
//!
//! A client that crashes, gives up or stands still does not take its request with it: what was sent is still executed
//! (K §2.13). So the request is kept here; whoever gets to the moment of its execution first carries it out: the
//! client's own task in the common case, the world's timeline if that task is gone or paused.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use kube_machinery::ApiError;
use kube_machinery::api::TransportError;
use parking_lot::MutexGuard;
use sim_config::time::SimTime;
use slab::Slab;

use super::request::{ApiReply, ApiRequest};
use super::serve::Served;
use super::server_time::ServerTime;
use super::{Cluster, State};
use crate::kinds::KindId;
use crate::net::{Block, Fate};
use crate::rt::ProcessId;

/// How far an exchange has come.
pub(crate) enum Phase {
    /// The request is on its way to a server that has only so much capacity.
    Arrives(ApiRequest),
    /// It is there and waits, for a seat or for a processor.
    Waits(ApiRequest),
    /// It is on its way, on the wire or to etcd; nothing else has to be waited for.
    InFlight(ApiRequest),
    /// A task of the server is at work.
    Serving,
    /// The server has answered; the reply has not been read.
    Done { result: Result<ApiReply, ApiError>, at: SimTime },
}

pub(crate) struct Exchange {
    pub client: ProcessId,
    /// What the request is about.
    pub kind: KindId,
    pub server: usize,
    /// The incarnation of the server that the connection leads to.
    pub incarnation: u32,
    /// When the server passes a write on to etcd; never, as long as that is not known.
    pub proposed: SimTime,
    /// When the request is executed, or arrives where it has to wait.
    pub at: SimTime,
    /// What etcd takes for the write or the quorum read; 0 for what is read from the watch cache.
    pub stored: Duration,
    /// From the execution until the answer leaves the server.
    pub answer: Duration,
    /// Before that no answer leaves.
    pub due: SimTime,
    /// The server has crashed between the two, and etcd carries the write out all the same (K §2.13).
    pub outlives_server: bool,
    pub block: Block,
    pub phase: Phase,
    /// Whoever waits for the result.
    pub waker: Option<Waker>,
    /// Nobody will ever read the result.
    pub abandoned: bool,
    /// The caller has hung up, which its server hears of unless the way there is cut (K108).
    pub hung_up: bool,
}

impl Exchange {
    /// It may be held back at its server, until `latest` at most.
    pub(super) fn may_wait(&mut self, latest: SimTime) {
        self.at = latest;
        // Nothing of it is at etcd before its turn comes.
        self.proposed = self.proposed.max(latest);
    }
}

/// A reply that leaves its server.
pub struct Reply {
    pub result: Result<ApiReply, ApiError>,
    /// When it leaves the server, in model time.
    pub at: SimTime,
    /// What becomes of it on its way.
    pub fate: Fate,
}

/// Names one exchange. Its slot is used again, the ticket is not: work that goes on after its caller was answered
/// must not answer somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket {
    slot: usize,
    serial: u64,
}

/// The exchanges that are not over.
#[derive(Default)]
pub(crate) struct Exchanges {
    slots: Slab<(u64, Exchange)>,
    issued: u64,
}

impl Exchanges {
    pub(crate) fn insert(&mut self, exchange: Exchange) -> Ticket {
        self.issued += 1;
        Ticket { serial: self.issued, slot: self.slots.insert((self.issued, exchange)) }
    }

    pub(crate) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut Exchange> {
        self.slots.get_mut(ticket.slot).filter(|(serial, _)| *serial == ticket.serial).map(|(_, exchange)| exchange)
    }

    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<Exchange> {
        self.get_mut(ticket)?;
        Some(self.slots.remove(ticket.slot).1)
    }

    /// Has whoever waits for an answer to `client` look around.
    pub(crate) fn wake(&self, client: ProcessId) {
        for (_, exchange) in self.iter().filter(|(_, exchange)| exchange.client == client) {
            if let Some(waker) = &exchange.waker {
                waker.wake_by_ref();
            }
        }
    }

    /// Nobody will read the result of an exchange, and its server hears of that.
    pub(crate) fn give_up(&mut self, ticket: Ticket) {
        if let Some(exchange) = self.get_mut(ticket) {
            (exchange.abandoned, exchange.hung_up) = (true, true);
        }
    }

    /// What crashed servers have sent to etcd is not carried out there any more.
    pub(crate) fn forget_proposals(&mut self) {
        for (_, (_, exchange)) in &mut self.slots {
            exchange.outlives_server = false;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Ticket, &Exchange)> {
        self.slots.iter().map(|(slot, (serial, exchange))| (Ticket { slot, serial: *serial }, exchange))
    }
}

impl State {
    /// Puts a request on its way to a server that passes it on to etcd at `proposed`. Returns when it is to be executed, or arrives
    /// where it has to wait.
    pub(super) fn travels(
        &mut self,
        cluster: &Cluster,
        request: ApiRequest,
        server: usize,
        block: Block,
        proposed: SimTime,
        times: &ServerTime,
    ) -> (Ticket, SimTime) {
        let limited = self.size.is_some();
        let at = if limited { proposed } else { proposed + times.stored };
        let ticket = self.exchanges.insert(Exchange {
            client: request.client,
            kind: request.kind,
            server,
            incarnation: cluster.rt.incarnation(self.servers[server].process),
            proposed: if limited { SimTime::NEVER } else { proposed },
            at,
            stored: times.stored,
            answer: times.answer,
            due: times.due(proposed),
            outlives_server: false,
            block,
            phase: if limited { Phase::Arrives(request) } else { Phase::InFlight(request) },
            waker: None,
            abandoned: false,
            hung_up: false,
        });
        (ticket, at)
    }

    /// Takes the result of an exchange that is done and puts it on its way to the client.
    pub fn take_reply(&mut self, ticket: Ticket) -> Option<Reply> {
        if !matches!(self.exchanges.get_mut(ticket)?.phase, Phase::Done { .. }) {
            return None;
        }
        let Exchange { client, kind, server, answer, due, phase, .. } = self.exchanges.remove(ticket)?;
        let Phase::Done { result, at } = phase else { unreachable!("just checked") };
        let from = self.servers[server].process;
        let left = (at + answer + self.answer_of(server, &result)).max(due);
        let fate = self.net.send(from, client, left).0;
        let way = if let Fate::Deliver { after, .. } = fate { after } else { Duration::ZERO };
        self.rankings.answered(client, kind, left + way);
        Some(Reply { result, at: left, fate })
    }

    /// Stores the result of an exchange that is being served; nothing happens if it has one or is gone.
    pub fn complete(&mut self, ticket: Ticket, result: Result<ApiReply, ApiError>, at: SimTime) {
        let Some(exchange) = self.exchanges.get_mut(ticket) else { return };
        if matches!(exchange.phase, Phase::Done { .. }) {
            return;
        }
        self.rankings.answered(exchange.client, exchange.kind, at);
        if exchange.abandoned {
            self.exchanges.remove(ticket);
            return;
        }
        exchange.phase = Phase::Done { result, at };
        if let Some(waker) = exchange.waker.take() {
            waker.wake();
        }
    }
}

impl Cluster {
    /// Carries out the request of an exchange, if nobody has yet. On return the exchange is done or being served.
    pub fn execute(self: &Arc<Self>, ticket: Ticket) {
        drop(self.execute_held(ticket));
    }

    /// The same for the client itself, which goes on with the reply if it is there at once: the common case, in which
    /// the lock is taken but once.
    pub fn execute_own(self: &Arc<Self>, ticket: Ticket) -> Option<Reply> {
        self.execute_held(ticket)?.take_reply(ticket)
    }

    /// Carries out a request and returns the lock, unless it had to be released.
    fn execute_held(self: &Arc<Self>, ticket: Ticket) -> Option<MutexGuard<'_, State>> {
        let mut state = self.lock();
        let now = self.rt.now();
        let Some(exchange) = state.exchanges.get_mut(ticket) else { return Some(state) };
        let (client, server, incarnation, block) = (exchange.client, exchange.server, exchange.incarnation, exchange.block);
        let arrives = matches!(exchange.phase, Phase::Arrives(_));
        if !arrives && !matches!(exchange.phase, Phase::InFlight(_)) {
            return Some(state);
        }
        if arrives
            && let Some(size) = state.size
            && state.servers[server].up
            && incarnation == self.rt.incarnation(state.servers[server].process)
        {
            state.take_on(self, size, ticket, now);
            return Some(state);
        }
        let Some(exchange) = state.exchanges.get_mut(ticket) else { return Some(state) };
        let (Phase::InFlight(request) | Phase::Arrives(request)) = std::mem::replace(&mut exchange.phase, Phase::Serving) else {
            unreachable!("just checked")
        };
        let proposed = exchange.proposed;
        let outlives_server = exchange.outlives_server;
        let process = state.servers[server].process;
        if !state.servers[server].up || incarnation != self.rt.incarnation(process) {
            if outlives_server {
                state.commit_for_crashed(self, server, request, proposed, block, now);
            }
            state.complete(ticket, Err(TransportError::Reset.into()), now);
            return Some(state);
        }
        let (write, own) = (state.write_points_at(&request), state.begins_at_execution(request.call));
        let (before, after) = (write.0.or(own.crash_before), write.1.or(own.after));
        if let Some(fault) = before {
            // The client dies on the way to this write: nobody executes it.
            state.exchanges.remove(ticket);
            state.drop_out(self, server, ticket, now);
            drop(state);
            self.fire(fault, client);
            return None;
        }
        // Where requests wait for processors, nobody has noted when etcd was asked.
        let asked_at = proposed.min(now);
        match state.serve(self, server, request, block, asked_at, now) {
            Served::Now(result) => {
                let result = state.unless_crashed(server, result);
                state.finish(self, server, ticket, result, now);
                match after {
                    // The answer has not left yet.
                    Some(fault) if own.stops_answer => {
                        drop(state);
                        self.crash_pending_servers();
                        self.fire(fault, client);
                        return None;
                    }
                    Some(fault) => self.fire_soon(fault, client),
                    None => {}
                }
                if state.pending_server_crashes.is_empty() {
                    return Some(state);
                }
                drop(state);
                self.crash_pending_servers();
                None
            }
            Served::Later(request, injected) => {
                drop(state);
                let cluster = self.clone();
                self.rt.spawn(process, async move {
                    cluster.clone().serve_slowly(ticket, server, request, injected).await;
                    if let Some(fault) = after {
                        cluster.fire(fault, client);
                    }
                });
                None
            }
        }
    }

    /// Tells the plan's triggers as soon as whoever runs now has come to rest.
    pub(super) fn fire_soon(&self, fault: u32, client: ProcessId) {
        if let Some(hook) = self.on_fault.lock().clone() {
            self.rt.at(self.rt.now(), move || hook(fault, client));
        }
    }

    /// Tells the plan's triggers.
    pub(super) fn fire(&self, fault: u32, client: ProcessId) {
        let hook = self.on_fault.lock().clone();
        if let Some(hook) = hook {
            hook(fault, client);
        }
    }

    /// The client no longer reads an exchange. A request on its way is still executed.
    pub fn abandon(self: &Arc<Self>, ticket: Ticket) {
        let mut state = self.lock();
        let Some(exchange) = state.exchanges.get_mut(ticket) else { return };
        exchange.hung_up = true;
        match exchange.phase {
            Phase::Done { .. } => {
                state.exchanges.remove(ticket);
            }
            Phase::Waits(_) | Phase::Serving => {
                exchange.abandoned = true;
                state.hear_hang_up(self, ticket, self.rt.now());
            }
            Phase::Arrives(_) | Phase::InFlight(_) => {
                exchange.abandoned = true;
                let at = exchange.at;
                drop(state);
                self.execute_at(ticket, at);
            }
        }
    }

    /// Has the timeline execute what a client that now stands still has sent.
    pub fn detach_requests(self: &Arc<Self>, client: ProcessId) {
        let in_flight: Vec<(Ticket, SimTime)> = self
            .lock()
            .exchanges
            .iter()
            .filter(|(_, exchange)| exchange.client == client && matches!(exchange.phase, Phase::Arrives(_) | Phase::InFlight(_)))
            .map(|(ticket, exchange)| (ticket, exchange.at))
            .collect();
        for (ticket, at) in in_flight {
            self.execute_at(ticket, at);
        }
    }

    fn execute_at(self: &Arc<Self>, ticket: Ticket, at: SimTime) {
        let cluster = self.clone();
        self.rt.at(at, move || cluster.execute(ticket));
    }
}
