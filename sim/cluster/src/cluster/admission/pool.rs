//! The connections of API servers to the processes that serve webhooks (K199, K200).
//!
//! ```text
//!  call ──► an idle connection, the last one that was used ──────────────────────────────► the process at its other end
//!       └─► none is idle: dial the Service ──► one of its endpoints ──► TCP, TLS ──► call ──► the connection is idle for up to 90 s
//! ```
//! They are HTTP/1.1: one call at a time on each, and a call that is abandoned closes its connection. So a process that died silently
//! behind a connection costs each connection one time-out, even if the Service no longer routes to it; no pings are sent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sim_config::time::SimTime;

use super::Webhook;
use super::call::{Certificate, Failed, WebhookFailure};
use crate::cluster::connection::HANDSHAKE;
use crate::cluster::obstacle::Obstacle;
use crate::cluster::{Cluster, State};
use crate::rt::{HostId, ProcessId, ProcessState};
use crate::trace::{EventKind, FaultChange};

/// The time for which an idle connection is kept (K199).
const IDLE_MAX: Duration = Duration::from_secs(90);
/// The number of idle connections that are kept; further ones are closed when they become idle (K199).
const IDLE_MOST: usize = 25;

/// A connection of an API server.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    /// The process at its other end.
    pub endpoint: ProcessId,
    /// The life of that process as a server of webhooks in which the connection was made.
    pub life: u32,
    /// The life of the API server in which the connection was made.
    server_life: u32,
    /// The time since which it has been idle.
    idle_since: SimTime,
    /// Whether its other end went down with its host, without closing the connection.
    lost: bool,
}

/// Idle connections by API server and URL, the most recently used last; and the hosts that do not answer.
#[derive(Default)]
pub struct Pool {
    idle: BTreeMap<(usize, Arc<str>), Vec<Connection>>,
    dark: Vec<HostId>,
}

impl State {
    /// Takes the idle connection for a call. Those that were closed or reset meanwhile are dropped, if that could be noticed.
    fn idle_connection(&mut self, cluster: &Cluster, server: usize, hook: &Webhook) -> Option<Connection> {
        let process = self.servers[server].process;
        let (now, life) = (cluster.rt.now(), cluster.rt.incarnation(process));
        while let Some(connection) = self.hook_pool.idle.get_mut(&(server, hook.url.clone()))?.pop() {
            let endpoint = connection.endpoint;
            let is_closed = hook.service.handler(endpoint, connection.life).is_none();
            let is_known = !connection.lost && !self.net.is_cut(endpoint, process) && !self.is_dark(cluster, endpoint);
            if connection.server_life == life && now < connection.idle_since + IDLE_MAX && !(is_closed && is_known) {
                return Some(connection);
            }
        }
        None
    }

    /// Whether nothing answers at the address of a process, not even its host.
    pub(super) fn is_dark(&self, cluster: &Cluster, process: ProcessId) -> bool {
        !self.hook_pool.dark.is_empty() && self.hook_pool.dark.contains(&cluster.rt.host_of(process))
    }
}

impl Cluster {
    /// Takes the power from a host: it closes no connection, and refuses none.
    pub fn darken(&self, host: HostId) {
        let mut state = self.lock();
        for process in self.rt.processes_of(host) {
            state.webhooks.iter().for_each(|hook| hook.service.host_lost(process));
        }
        state.hook_pool.dark.push(host);
        let idle = state.hook_pool.idle.values_mut().flatten();
        idle.filter(|connection| self.rt.host_of(connection.endpoint) == host).for_each(|connection| connection.lost = true);
    }

    /// Gives a host its power back.
    pub fn lighten(&self, host: HostId) {
        let mut state = self.lock();
        state.hook_pool.dark.retain(|dark| *dark != host);
        state.net.wake_waiting();
    }

    /// Returns a connection for one call. [`Cluster::keep`] gives it back for later calls.
    pub(super) async fn connect_to_webhook(self: &Arc<Self>, server: usize, hook: &Webhook) -> Result<Connection, Failed> {
        let idle = self.lock().idle_connection(self, server, hook);
        match idle {
            Some(connection) => Ok(connection),
            None => self.dial(server, hook).await,
        }
    }

    /// Gives back the connection of a call that was answered.
    pub(super) fn keep(&self, server: usize, hook: &Webhook, connection: Connection) {
        let idle_since = self.rt.now();
        let mut state = self.lock();
        let idle = state.hook_pool.idle.entry((server, hook.url.clone())).or_default();
        if idle.len() < IDLE_MOST {
            idle.push(Connection { idle_since, ..connection });
        }
    }

    /// Dials one of the endpoints of the Service. If the endpoint does not answer, it goes on until the caller gives up.
    async fn dial(self: &Arc<Self>, server: usize, hook: &Webhook) -> Result<Connection, Failed> {
        let (process, endpoint) = {
            let mut state = self.lock();
            let process = state.servers[server].process;
            // The address of a Service without endpoints is refused (K197).
            (process, hook.service.pick(&mut state.choices, self.rt.now()).ok_or(Failed::Refused)?)
        };
        let way = self.reach_host(process, endpoint).await;
        let Some(life) = hook.service.life(endpoint).filter(|_| self.rt.state(endpoint) != ProcessState::Down) else {
            self.rt.sleep(way * 2).await;
            return Err(Failed::Refused);
        };
        self.rt.sleep(way * HANDSHAKE).await;
        // The kernel accepts the connection for a paused process, but TLS needs the process itself.
        self.in_process(endpoint, Box::pin(std::future::ready(()))).await.ok_or(Failed::Reset)?;
        self.verify(process, endpoint).map_err(Failed::Certificate)?;
        let server_life = self.rt.incarnation(process);
        Ok(Connection { endpoint, life, server_life, idle_since: self.rt.now(), lost: false })
    }

    /// Waits until the host of a process answers, and returns the time that a message takes there.
    async fn reach_host(self: &Arc<Self>, from: ProcessId, to: ProcessId) -> Duration {
        let since = self.rt.now();
        loop {
            let fate = {
                let mut state = self.lock();
                let silent = state.net.is_cut(to, from) || state.is_dark(self, to);
                if silent { Err(Obstacle::Dial) } else { Obstacle::passes(state.net.send(from, to, self.rt.now()).0) }
            };
            match fate {
                Ok((after, _)) => return after,
                Err(_) => {
                    self.network_change().await;
                    self.rt.sleep_until(Obstacle::Dial.passed(since, self.rt.now())).await;
                }
            }
        }
    }

    /// Checks, for the API server at `process`, the certificate that `endpoint` presents.
    fn verify(&self, process: ProcessId, endpoint: ProcessId) -> Result<(), String> {
        let wall = self.wall(process);
        let mut state = self.lock();
        let State { hook_faults, recorder, .. } = &mut *state;
        for fault in hook_faults.iter().filter(|fault| fault.servers.contains(endpoint)) {
            let WebhookFailure::Certificate(certificate) = &fault.failure else { continue };
            let Some(problem) = certificate.problem(wall) else { continue };
            recorder.observe(self.rt.now(), EventKind::Fault { index: fault.fault, change: FaultChange::Fired });
            return Err(problem);
        }
        Ok(())
    }
}

impl Certificate {
    /// The error of the certificate at `now`, in the words of Go's `crypto/x509` (K198).
    fn problem(self, now: jiff::Timestamp) -> Option<String> {
        let text = |time: jiff::Timestamp| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let problem = match self {
            Certificate::Expired { at } if now <= at => return None,
            Certificate::Expired { at } => {
                format!("certificate has expired or is not yet valid: current time {} is after {}", text(now), text(at))
            }
            Certificate::UnknownAuthority => "certificate signed by unknown authority".to_owned(),
        };
        Some(format!("tls: failed to verify certificate: x509: {problem}"))
    }
}
