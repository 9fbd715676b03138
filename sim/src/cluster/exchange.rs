//! A request and its reply as two messages that live outside the client's task.
//!
//! A client that crashes, gives up or stands still does not take its request with it: what was sent is still executed
//! (K §2.13). So the request is kept here; whoever gets to the moment of its execution first carries it out: the
//! client's own task in the common case, the world's timeline if that task is gone or paused.

use std::sync::Arc;
use std::task::Waker;

use ipam_core::ApiError;
use ipam_core::api::TransportError;

use parking_lot::MutexGuard;

use super::request::{ApiReply, ApiRequest};
use super::serve::Served;
use super::{Fabric, State};
use crate::net::{Block, Fate};
use crate::rt::ProcessId;
use crate::time::SimTime;

/// How far an exchange has come.
pub(crate) enum Phase {
    /// The request is on its way.
    InFlight(ApiRequest),
    /// A task of the server is at work.
    Serving,
    /// The server has answered; the reply has not been read.
    Done { result: Result<ApiReply, ApiError>, at: SimTime },
}

/// An exchange as somebody knows it who may outlive it: its place may belong to another one by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub id: usize,
    pub serial: u64,
}

pub(crate) struct Exchange {
    /// Counts exchanges.
    pub serial: u64,
    pub client: ProcessId,
    pub server: usize,
    /// The incarnation of the server that the connection leads to.
    pub incarnation: u32,
    /// When the request is executed.
    pub at: SimTime,
    pub block: Block,
    pub phase: Phase,
    /// Whoever waits for the result.
    pub waker: Option<Waker>,
    /// Nobody will ever read the result.
    pub abandoned: bool,
}

/// A reply that leaves its server.
pub(crate) struct Reply {
    pub result: Result<ApiReply, ApiError>,
    /// When it left.
    pub at: SimTime,
    /// What becomes of it on its way.
    pub fate: Fate,
}

impl State {
    /// Takes the result of an exchange that is done and puts it on its way to the client.
    pub(crate) fn take_reply(&mut self, id: usize) -> Option<Reply> {
        if !matches!(self.exchanges.get(id)?.phase, Phase::Done { .. }) {
            return None;
        }
        let Exchange { client, server, phase, .. } = self.exchanges.remove(id);
        let Phase::Done { result, at } = phase else { unreachable!("just checked") };
        let from = self.servers[server].process;
        Some(Reply { result, at, fate: self.net.send(from, client).0 })
    }

    /// Stores the result of an exchange that is being served; nothing happens if it has one or is gone.
    pub(crate) fn complete(&mut self, ticket: Ticket, result: Result<ApiReply, ApiError>, at: SimTime) {
        let Some(exchange) = self.exchanges.get_mut(ticket.id).filter(|exchange| exchange.serial == ticket.serial) else { return };
        if matches!(exchange.phase, Phase::Done { .. }) {
            return;
        }
        if exchange.abandoned {
            self.exchanges.remove(ticket.id);
            return;
        }
        exchange.phase = Phase::Done { result, at };
        if let Some(waker) = exchange.waker.take() {
            waker.wake();
        }
    }
}

impl Fabric {
    /// Carries out the request of exchange `id`, if nobody has yet. On return the exchange is done or being served.
    pub(crate) fn execute(self: &Arc<Self>, id: usize) {
        drop(self.execute_held(id));
    }

    /// The same for the client itself, which goes on with the reply if it is there at once: the common case, in which
    /// the lock is taken but once.
    pub(crate) fn execute_own(self: &Arc<Self>, id: usize) -> Option<Reply> {
        let mut state = self.execute_held(id)?;
        // A server that crashes with this request does so before the reply is on its way.
        if state.pending_server_crashes.is_empty() { state.take_reply(id) } else { None }
    }

    /// Carries out a request and returns the lock, unless it had to be released.
    fn execute_held(self: &Arc<Self>, id: usize) -> Option<MutexGuard<'_, State>> {
        let mut state = self.lock();
        let now = self.rt.now();
        let Some(exchange) = state.exchanges.get_mut(id) else { return Some(state) };
        if !matches!(exchange.phase, Phase::InFlight(_)) {
            return Some(state);
        }
        let Phase::InFlight(request) = std::mem::replace(&mut exchange.phase, Phase::Serving) else { unreachable!("just checked") };
        let (client, server, incarnation, block) = (exchange.client, exchange.server, exchange.incarnation, exchange.block);
        let ticket = Ticket { id, serial: exchange.serial };
        let process = state.servers[server].process;
        if !state.servers[server].up || incarnation != self.rt.incarnation(process) {
            state.complete(ticket, Err(TransportError::Reset.into()), now);
            return Some(state);
        }
        let (before, after) = state.write_points_at(&request);
        if let Some(fault) = before {
            // The client dies on the way to this write: nobody executes it.
            state.exchanges.remove(id);
            drop(state);
            self.fire(fault, client);
            return None;
        }
        match state.serve(self, server, request, block, now) {
            Served::Now(result) => {
                state.complete(ticket, result, now);
                if let Some(fault) = after {
                    // The lock is still held here.
                    let fabric = self.clone();
                    self.rt.at(now, move || fabric.fire(fault, client));
                }
                Some(state)
            }
            Served::Later(request, mishap) => {
                drop(state);
                let fabric = self.clone();
                self.rt.spawn(process, async move {
                    fabric.clone().serve_slowly(ticket, server, request, mishap).await;
                    if let Some(fault) = after {
                        fabric.fire(fault, client);
                    }
                });
                None
            }
        }
    }

    /// Tells the plan's triggers.
    fn fire(&self, fault: u32, client: ProcessId) {
        let hook = self.on_fault.lock().clone();
        if let Some(hook) = hook {
            hook(fault, client);
        }
    }

    /// The client no longer reads exchange `id`. A request on its way is still executed.
    pub(crate) fn abandon(self: &Arc<Self>, id: usize) {
        let mut state = self.lock();
        let Some(exchange) = state.exchanges.get_mut(id) else { return };
        match exchange.phase {
            Phase::Done { .. } => {
                state.exchanges.remove(id);
            }
            Phase::Serving => exchange.abandoned = true,
            Phase::InFlight(_) => {
                exchange.abandoned = true;
                let at = exchange.at;
                drop(state);
                self.execute_at(id, at);
            }
        }
    }

    /// Has the timeline execute what a client that now stands still has sent.
    pub(crate) fn detach_requests(self: &Arc<Self>, client: ProcessId) {
        let in_flight: Vec<(usize, SimTime)> = self
            .lock()
            .exchanges
            .iter()
            .filter(|(_, exchange)| exchange.client == client && matches!(exchange.phase, Phase::InFlight(_)))
            .map(|(id, exchange)| (id, exchange.at))
            .collect();
        for (id, at) in in_flight {
            self.execute_at(id, at);
        }
    }

    fn execute_at(self: &Arc<Self>, id: usize, at: SimTime) {
        let fabric = self.clone();
        self.rt.at(at, move || fabric.execute(id));
    }
}
