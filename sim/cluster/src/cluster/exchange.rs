//! A request and its reply as two messages that live outside the client's task.
//!
//! A client that crashes, gives up or is paused does not take its request with it: a request that was sent is still executed (K §2.13). So
//! the request is kept here, and carried out by whichever reaches the moment of its execution first: the client's own task in the common
//! case, the world's timeline if that task is gone or paused.

use std::sync::Arc;
use std::time::Duration;

use kube_machinery::ApiError;
use kube_machinery::api::TransportError;
use parking_lot::MutexGuard;
use sim_config::time::SimTime;

use super::exchanges::{Exchange, Phase, Ticket};
use super::request::{ApiReply, ApiRequest};
use super::serve::Served;
use super::server_time::ServerTime;
use super::{Cluster, State};
use crate::net::{Block, Fate};
use crate::rt::ProcessId;

/// A reply that leaves its server.
pub struct Reply {
    pub result: Result<ApiReply, ApiError>,
    /// The time at which it leaves the server, in model time.
    pub at: SimTime,
    /// Its fate on the way.
    pub fate: Fate,
}

impl State {
    /// Puts a request on its way to a server that passes it on to etcd at `proposed`. Returns the time at which it is to be executed, or
    /// arrives where it has to wait.
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
    /// Carries out the request of an exchange, if that has not been done yet. On return the exchange is done or being served.
    pub fn execute(self: &Arc<Self>, ticket: Ticket) {
        drop(self.execute_held(ticket));
    }

    /// The same for the client itself, which goes on with the reply if it is there at once: the common case, in which the lock is taken
    /// only once.
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
            // The client dies before this write is executed, so it never is.
            state.exchanges.remove(ticket);
            state.drop_out(self, server, ticket, now);
            drop(state);
            self.fire(fault, client);
            return None;
        }
        // If requests wait for processors, the time of the request to etcd was not noted.
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

    /// Notifies the plan's triggers as soon as the running task has yielded.
    pub(super) fn fire_soon(&self, fault: u32, client: ProcessId) {
        if let Some(hook) = self.on_fault.lock().clone() {
            self.rt.at(self.rt.now(), move || hook(fault, client));
        }
    }

    /// Notifies the plan's triggers.
    pub(super) fn fire(&self, fault: u32, client: ProcessId) {
        let hook = self.on_fault.lock().clone();
        if let Some(hook) = hook {
            hook(fault, client);
        }
    }

    /// Marks that the client no longer reads an exchange. A request in flight is still executed.
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

    /// Makes the timeline execute the requests that a client sent before it was paused.
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
