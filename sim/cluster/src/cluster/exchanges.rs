//! The requests that are on their way or at work, with their answers as long as nobody has read them.

use std::task::Waker;
use std::time::Duration;

use kube_machinery::ApiError;
use sim_config::time::SimTime;
use slab::Slab;

use super::request::{ApiReply, ApiRequest};
use crate::kinds::KindId;
use crate::net::Block;
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
