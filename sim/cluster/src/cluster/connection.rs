//! The connections of a client to API servers: over HTTP/2 one with all of its requests and watches on it (K §3.1, §4.4), over HTTP/1.1 one
//! for each (K180).
//!
//! ```text
//!  cut shorter than 25 s:  what was sent waits in its host's buffer ──► sent again ──► arrives late, also if its caller gave up
//!  cut longer than that,
//!  over HTTP/2:            pings without an answer ──► everything on the connection ends ──► a new one is dialled
//!                          (until 51 s after the first time even then what was sent may arrive)
//! ```

use std::sync::atomic::{AtomicUsize, Ordering};

use kube_machinery::api::TransportError;
use parking_lot::Mutex;
use sim_config::time::SimTime;

use super::State;
use super::transport::{Reconnect, Transport};
use super::watch_element::End;
use crate::rt::ProcessId;

/// A handshake, in messages of one way: two round trips, of TCP and of TLS 1.3 (K161).
pub(super) const HANDSHAKE: u32 = 4;

/// Where the requests of a process go, in one of its lives. Clients that were made from the same configuration share it.
pub struct Connection {
    /// How it finds out that it is dead, and what shares it.
    pub(super) transport: Transport,
    pub(super) reconnect: Reconnect,
    /// The life of the process that it belongs to.
    pub(super) incarnation: u32,
    /// The number of the server that it leads to.
    pub(super) server: AtomicUsize,
    /// How often a server was chosen.
    pub(super) attempts: AtomicUsize,
    /// How often it was replaced, by itself or by a fault. Many on it may find that it is broken, and it is replaced once.
    pub(super) breaks: AtomicUsize,
    /// How often everything on it broke.
    pub(super) severed: AtomicUsize,
    pub(super) line: Mutex<Line>,
}

/// The TCP connection itself; over HTTP/1.1 that which is at hand for the next request.
#[derive(Default)]
pub(super) struct Line {
    /// When its handshake is over; `None` = it is yet to be dialled.
    pub(super) ready_at: Option<SimTime>,
    /// The servers that do not answer what keeps connections alive, in whichever direction it is lost, and since when. Over HTTP/2 it is
    /// those that the connection and the ones before it lead to, on which requests may still be.
    pub(super) silent: Vec<(usize, SimTime)>,
    /// Why the one before broke.
    pub(super) broke: Option<TransportError>,
}

/// A connection as a request finds it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attached {
    /// The number of the server.
    pub server: usize,
    /// Names the connection to [`SimClient::reconnect`].
    pub breaks: usize,
    pub(super) severed: usize,
}

/// What is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// From the client, who notices that it is not acknowledged.
    Request,
    /// From the server. Its client has nothing to send.
    Answer,
}

impl Connection {
    /// The connection of a process in its life number `incarnation`, not yet made.
    pub(super) fn new(transport: Transport, reconnect: Reconnect, incarnation: u32) -> Self {
        Self {
            transport,
            reconnect,
            incarnation,
            server: AtomicUsize::default(),
            attempts: AtomicUsize::default(),
            breaks: AtomicUsize::default(),
            severed: AtomicUsize::default(),
            line: Mutex::default(),
        }
    }

    /// What kind of client it is of.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// Whether it is of the present life of its process.
    pub(super) fn is_of(&self, incarnation: u32) -> bool {
        self.incarnation == incarnation
    }

    /// The number of the server that it leads to.
    pub fn server(&self) -> usize {
        self.server.load(Ordering::Relaxed)
    }

    /// It leads to server `number` from the next request on.
    pub fn lead_to(&self, number: usize) {
        self.server.store(number, Ordering::Relaxed);
        self.line.lock().is_heard(number);
    }

    /// A new connection to server `number` takes its place; what is on the present one goes on, as after a GOAWAY.
    pub fn move_to(&self, number: usize) {
        self.lead_to(number);
        self.breaks.fetch_add(1, Ordering::Relaxed);
        self.line.lock().ready_at = None;
    }

    /// When the client finds dead what leads to `server`.
    pub(super) fn dead_at(&self, server: usize) -> SimTime {
        self.line.lock().silent_since(server).map_or(SimTime::NEVER, |since| self.transport.dead_at(since))
    }

    /// How what `attached` it ended, if everything on it broke since.
    pub(super) fn broke_under(&self, attached: Attached) -> Option<TransportError> {
        let severed = self.severed.load(Ordering::Relaxed) != attached.severed;
        severed.then(|| self.line.lock().broke.unwrap_or(TransportError::Reset))
    }
}

impl Line {
    fn silent_since(&self, server: usize) -> Option<SimTime> {
        self.silent.iter().find(|(silent, _)| *silent == server).map(|&(_, since)| since)
    }

    pub(super) fn is_heard(&mut self, server: usize) {
        self.silent.retain(|(silent, _)| *silent != server);
    }
}

impl State {
    /// Whether nothing gets from `client` to `server` or back.
    pub(super) fn is_apart(&mut self, client: ProcessId, server: usize) -> bool {
        let process = self.servers[server].process;
        self.net.is_cut(client, process) || self.net.is_cut(process, client)
    }

    /// Looks at every connection after a link has changed, or a server stands still or goes on.
    pub(super) fn check_connections(&mut self, now: SimTime) {
        let State { connections, servers, net, exchanges, .. } = &*self;
        for (&client, connection) in connections.iter() {
            let Connection { transport, line, .. } = &**connection;
            let leads_to = connection.server();
            let mut line = line.lock();
            for (number, server) in servers.iter().enumerate() {
                let silent = server.paused && transport.pings() || net.blocks(client, server.process) || net.blocks(server.process, client);
                // Over HTTP/2 nothing is on the present connection before it is dialled. What leads elsewhere is one before it.
                let is_used = number != leads_to || line.ready_at.is_some() || !transport.multiplexes();
                match line.silent_since(number) {
                    None if silent && is_used => {
                        line.silent.push((number, now));
                        // Who waits for an answer will not wait longer than the connection lasts.
                        exchanges.wake(client);
                    }
                    // Found dead meanwhile, although nobody has needed it since: it stays what it is until then.
                    Some(since) if !silent && (now < transport.dead_at(since) || !transport.multiplexes()) => {
                        line.is_heard(number);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Everything on the connection of `client` breaks.
    pub(super) fn sever(&mut self, client: ProcessId, error: TransportError, now: SimTime) {
        for (_, watcher) in self.watchers.iter_mut().filter(|(_, watcher)| watcher.client == client) {
            if watcher.end.is_none_or(|(at, _)| at > now) {
                watcher.end = Some((now, End::Broken(error)));
                if let Some(waker) = &watcher.waker {
                    waker.wake_by_ref();
                }
            }
        }
        self.deferred.expect(client, now);
        self.exchanges.wake(client);
        self.net.wake_waiting();
    }
}
