//! The requests in flight or being served, with their answers until these are read.

use std::task::Waker;
use std::time::Duration;

use kube_machinery::ApiError;
use sim_config::time::SimTime;
use slab::Slab;

use super::request::{ApiReply, ApiRequest};
use crate::kinds::KindId;
use crate::net::Block;
use crate::rt::ProcessId;

/// The progress of an exchange.
pub(crate) enum Phase {
    /// The request travels to a server with a limited capacity.
    Arrives(ApiRequest),
    /// The request waits at the server, for a seat or for a processor.
    Waits(ApiRequest),
    /// The request travels, on the wire or to etcd; there is nothing else to wait for.
    InFlight(ApiRequest),
    /// A task of the server works on it.
    Serving,
    /// The server has answered; the reply has not been read.
    Done { result: Result<ApiReply, ApiError>, at: SimTime },
}

pub(crate) struct Exchange {
    pub client: ProcessId,
    /// The type that the request is about.
    pub kind: KindId,
    pub server: usize,
    /// The incarnation of the server that the connection leads to.
    pub incarnation: u32,
    /// The time at which the server passes a write on to etcd; never, as long as that is not known.
    pub proposed: SimTime,
    /// The time at which the request is executed, or arrives where it has to wait.
    pub at: SimTime,
    /// The time that etcd takes for the write or the quorum read; 0 for reads from the watch cache.
    pub stored: Duration,
    /// The time from the execution until the answer leaves the server.
    pub answer: Duration,
    /// The time before which no answer leaves.
    pub due: SimTime,
    /// Whether etcd carries the write out although the server has crashed between `proposed` and `at` (K §2.13).
    pub outlives_server: bool,
    pub block: Block,
    pub phase: Phase,
    /// The task that waits for the result.
    pub waker: Option<Waker>,
    /// Whether the result will never be read.
    pub abandoned: bool,
    /// Whether the caller has hung up, which its server notices unless the way there is cut (K108).
    pub hung_up: bool,
}

impl Exchange {
    /// Allows the request to be held back at its server, until `latest` at most.
    pub(super) fn may_wait(&mut self, latest: SimTime) {
        self.at = latest;
        // Nothing is sent to etcd before its turn comes.
        self.proposed = self.proposed.max(latest);
    }
}

/// Identifies one exchange. Its slot is used again, the ticket is not: work that goes on after its caller was answered must not answer
/// another caller.
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

    /// Wakes all tasks that wait for an answer to `client`.
    pub(crate) fn wake(&self, client: ProcessId) {
        for (_, exchange) in self.iter().filter(|(_, exchange)| exchange.client == client) {
            if let Some(waker) = &exchange.waker {
                waker.wake_by_ref();
            }
        }
    }

    /// Marks an exchange whose result will never be read, and lets its server notice.
    pub(crate) fn give_up(&mut self, ticket: Ticket) {
        if let Some(exchange) = self.get_mut(ticket) {
            (exchange.abandoned, exchange.hung_up) = (true, true);
        }
    }

    /// Discards the transactions that crashed servers have sent to etcd.
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
