//! The connections of a client to API servers: over HTTP/2 one for all of its requests and watches (K §3.1, §4.4), over HTTP/1.1 one for
//! each (K180).
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

/// The number of one-way messages of a handshake: two round trips, of TCP and of TLS 1.3 (K161).
pub(super) const HANDSHAKE: u32 = 4;

/// The destination of the requests of a process, in one of its lives. Clients that were made from the same configuration share it.
pub struct Connection {
    /// The way it detects that it is dead, and whether requests share it.
    pub(super) transport: Transport,
    pub(super) reconnect: Reconnect,
    /// The life of the process that it belongs to.
    pub(super) incarnation: u32,
    /// The number of the server that it leads to.
    pub(super) server: AtomicUsize,
    /// The number of times that a server was chosen.
    pub(super) attempts: AtomicUsize,
    /// The number of times that it was replaced, by itself or by a fault. Many requests may find that it is broken, but it is replaced
    /// once.
    pub(super) breaks: AtomicUsize,
    /// The number of times that everything on it broke.
    pub(super) severed: AtomicUsize,
    pub(super) line: Mutex<Line>,
}

/// The TCP connection itself; over HTTP/1.1 the one that the next request uses.
#[derive(Default)]
pub(super) struct Line {
    /// The end of its handshake; `None` = it is yet to be dialled.
    pub(super) ready_at: Option<SimTime>,
    /// The servers that do not answer keep-alives, whichever direction loses them, and the time since which they do not. Over HTTP/2 these
    /// are the servers of this connection and of earlier ones that may still carry requests.
    pub(super) silent: Vec<(usize, SimTime)>,
    /// The error that broke the previous connection.
    pub(super) broke: Option<TransportError>,
}

/// The connection that a request uses, as it was when the request began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attached {
    /// The number of the server.
    pub server: usize,
    /// Identifies the connection for [`SimClient::reconnect`].
    pub breaks: usize,
    pub(super) severed: usize,
}

/// A message on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// A message from the client, which notices that it is not acknowledged.
    Request,
    /// A message from the server. Its client has nothing to send.
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

    /// The kind of client that it belongs to.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// Whether it belongs to the present life of its process.
    pub(super) fn is_of(&self, incarnation: u32) -> bool {
        self.incarnation == incarnation
    }

    /// The number of the server that it leads to.
    pub fn server(&self) -> usize {
        self.server.load(Ordering::Relaxed)
    }

    /// Directs it to server `number` from the next request on.
    pub fn lead_to(&self, number: usize) {
        self.server.store(number, Ordering::Relaxed);
        self.line.lock().is_heard(number);
    }

    /// Replaces it by a new connection to server `number`; requests and watches on the present one go on, as after a GOAWAY.
    pub fn move_to(&self, number: usize) {
        self.lead_to(number);
        self.breaks.fetch_add(1, Ordering::Relaxed);
        self.line.lock().ready_at = None;
    }

    /// The time at which the client detects that its connection to `server` is dead.
    pub(super) fn dead_at(&self, server: usize) -> SimTime {
        self.line.lock().silent_since(server).map_or(SimTime::NEVER, |since| self.transport.dead_at(since))
    }

    /// The error that ended the requests on `attached`, if everything on it broke since.
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
    /// Whether messages are cut from `client` to `server` or back.
    pub(super) fn is_apart(&mut self, client: ProcessId, server: usize) -> bool {
        let process = self.servers[server].process;
        self.net.is_cut(client, process) || self.net.is_cut(process, client)
    }

    /// Checks every connection after a link has changed, or a server has been paused or resumed.
    pub(super) fn check_connections(&mut self, now: SimTime) {
        let State { connections, servers, net, exchanges, .. } = &*self;
        for (&client, connection) in connections.iter() {
            let Connection { transport, line, .. } = &**connection;
            let leads_to = connection.server();
            let mut line = line.lock();
            for (number, server) in servers.iter().enumerate() {
                let silent = server.paused && transport.pings() || net.blocks(client, server.process) || net.blocks(server.process, client);
                // Over HTTP/2 nothing is on the present connection before it is dialled. A connection that leads elsewhere is an earlier
                // one.
                let is_used = number != leads_to || line.ready_at.is_some() || !transport.multiplexes();
                match line.silent_since(number) {
                    None if silent && is_used => {
                        line.silent.push((number, now));
                        // Requests that wait for an answer will not wait longer than the connection lasts.
                        exchanges.wake(client);
                    }
                    // If it was found dead meanwhile, it stays dead until it is needed.
                    Some(since) if !silent && (now < transport.dead_at(since) || !transport.multiplexes()) => {
                        line.is_heard(number);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Breaks everything on the connection of `client`.
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
