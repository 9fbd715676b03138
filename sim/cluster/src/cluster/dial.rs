//! The life of a client's connection: the client dials, waits until the way is free, gives up a dead connection and leaves what it sent
//! behind (K §4.4, K159).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kube_machinery::api::TransportError;
use sim_config::draw::{Concern, Draw};
use sim_config::time::SimTime;

use super::client::SimClient;
use super::connection::{Attached, HANDSHAKE, Message};
use super::obstacle::Obstacle;
use super::request::ApiRequest;
use super::transport::Reconnect;
use super::wait::until;
use super::{Cluster, State};
use crate::net::Block;

/// The time after which a connection attempt to a silent address fails (K §4.4).
const DIAL_TIMEOUT: Duration = Duration::from_secs(30);
/// A request that its server has passed to etcd within this time is not stopped by its caller's hang-up, if both were sent at once: the
/// hang-up waits until the request is acknowledged, and an idle host delays the acknowledgement for this long (K159).
const HANG_UP: Duration = Duration::from_millis(40);
/// The time for which a closed connection goes on sending its buffer: until after the retry that comes 51 s after the first attempt (K159).
const GOES_ON: Duration = Duration::from_secs(60);
impl SimClient {
    /// Makes the first connection of a process in its present life.
    pub(super) fn connect(&self) {
        self.choose_server();
        let now = self.cluster.rt.now();
        let mut state = self.cluster.lock();
        let apart = state.is_apart(self.process, self.connection.server());
        // Most processes are already connected at the beginning of a run.
        self.connection.line.lock().ready_at = (!apart).then_some(now);
        state.connections.insert(self.process, self.connection.clone());
    }

    /// Hangs up on a request that its caller gave up: over HTTP/1.1 that closes its connection.
    pub(super) fn hang_up(&self, attached: Attached) {
        if !self.connection.transport.multiplexes() {
            self.reconnect(attached.breaks, TransportError::Deadline);
        }
    }

    /// The connection for the next request, a new one if the present one was found dead.
    pub(super) fn attach(&self) -> Attached {
        let connection = &self.connection;
        if connection.transport.multiplexes() && connection.dead_at(connection.server()) <= self.cluster.rt.now() {
            self.reconnect(connection.breaks.load(Ordering::Relaxed), TransportError::ConnectionLost);
        }
        let load = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        Attached { server: connection.server(), breaks: load(&connection.breaks), severed: load(&connection.severed) }
    }

    /// Replaces the connection that had been replaced `breaks` times, and on which everything broke: the next request may go elsewhere.
    pub(super) fn reconnect(&self, breaks: usize, error: TransportError) {
        let connection = &self.connection;
        if connection.breaks.compare_exchange(breaks, breaks + 1, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        // Requests in flight on a connection may have been carried out, even if the next request is refused.
        let broke = if error == TransportError::Refused { TransportError::Reset } else { error };
        let was_connected = {
            let mut line = connection.line.lock();
            let was_connected = line.ready_at.is_some() && connection.transport.multiplexes();
            line.ready_at = None;
            if was_connected {
                line.broke = Some(broke);
            }
            if connection.transport.multiplexes() {
                line.silent.clear();
            }
            was_connected
        };
        if was_connected {
            connection.severed.fetch_add(1, Ordering::Relaxed);
            self.cluster.lock().sever(self.process, broke, self.cluster.rt.now());
        }
        self.choose_server();
    }

    fn choose_server(&self) {
        let (seed, servers) = {
            let state = self.cluster.lock();
            (state.seed, state.servers_in_service(self.cluster.rt.now()))
        };
        // The n-th choice of a process depends on nothing else that happens in the run.
        let nth = self.connection.attempts.fetch_add(1, Ordering::Relaxed);
        if nth > 0 && self.connection.reconnect == Reconnect::Sticky && servers.contains(&self.connection.server()) {
            return;
        }
        let nth = u64::from(self.connection.incarnation) << 16 | nth as u64;
        let mut draw = Draw::new(seed, Concern::World, u64::from(self.process.0 + 1) << 32 | nth);
        self.connection.server.store(servers[draw.below(servers.len() as u64) as usize], Ordering::Relaxed);
    }

    /// Sends a request to `server`. Returns the time after which it arrives, and that of a copy of it.
    pub(super) fn transmit(&self, state: &mut State, server: usize) -> Result<(Duration, Option<Duration>, Block), Obstacle> {
        let now = self.cluster.rt.now();
        // A request begun before the connection was directed elsewhere makes a separate connection.
        let leads_here = server == self.connection.server();
        let ready_at = self.connection.line.lock().ready_at.filter(|_| leads_here);
        if ready_at.is_none() && state.is_apart(self.process, server) {
            return Err(Obstacle::Dial);
        }
        let to = &state.servers[server];
        let (fate, block) = state.net.send(self.process, to.process, now);
        let (after, again) = Obstacle::passes(fate)?;
        let shakes = match ready_at {
            Some(at) => at.since(now),
            // If no process listens there is no handshake, but a refusal.
            None if !to.up => Duration::ZERO,
            None => {
                let shakes = after * HANDSHAKE;
                if leads_here {
                    let mut line = self.connection.line.lock();
                    line.ready_at = Some(now + shakes);
                    if to.paused && self.connection.transport.pings() {
                        line.is_heard(server);
                        line.silent.push((server, now));
                    }
                }
                shakes
            }
        };
        Ok((after + shakes, again.map(|again| again + shakes), block))
    }

    /// Waits until a message of this connection that met `obstacle`, first sent at `since`, is sent again. `Some` = it is not sent again:
    /// its caller gives up at `deadline`, or the connection is given up.
    pub(super) async fn wait_for_way(
        &self,
        message: Message,
        obstacle: Obstacle,
        since: SimTime,
        deadline: SimTime,
        attached: Attached,
    ) -> Option<TransportError> {
        let rt = &self.cluster.rt;
        let transport = self.connection.transport;
        let dead_at = || match obstacle {
            Obstacle::Dial => since + DIAL_TIMEOUT,
            _ if message == Message::Request && !transport.multiplexes() => transport.gives_up_at(since),
            _ => self.connection.dead_at(attached.server),
        };
        let (mut again, mut lasts_until) = (SimTime::NEVER, dead_at());
        loop {
            let wake_at = again.min(deadline).min(lasts_until);
            let changed = until(rt.sleep_until(wake_at), self.cluster.network_change(), wake_at).await;
            let now = rt.now();
            if let Some(error) = self.connection.broke_under(attached) {
                return Some(error);
            }
            if now >= deadline {
                if obstacle == Obstacle::Dial {
                    // The next request dials anew, and may be directed elsewhere.
                    self.reconnect(attached.breaks, TransportError::Deadline);
                }
                return Some(TransportError::Deadline);
            }
            if now >= lasts_until {
                return Some(if obstacle == Obstacle::Dial { TransportError::Refused } else { transport.lost() });
            }
            if now >= again {
                return None;
            }
            if changed {
                again = again.min(obstacle.passed(since, now));
                // A message that is sent again only after the client's patience brings no answer to its pings, though the way is free by
                // then.
                let dead_at = dead_at();
                if dead_at != SimTime::NEVER || again < lasts_until {
                    lasts_until = dead_at;
                }
                if again <= now {
                    return None;
                }
            }
        }
    }

    /// The time at which a request stops waiting for its answer over this connection, if its caller stops at `deadline`, and the error that
    /// it ends with.
    pub(super) fn patience(&self, deadline: SimTime, attached: Attached) -> (SimTime, TransportError) {
        if let Some(error) = self.connection.broke_under(attached) {
            return (self.cluster.rt.now(), error);
        }
        let dead_at = self.connection.dead_at(attached.server);
        if dead_at < deadline { (dead_at, self.connection.transport.lost()) } else { (deadline, TransportError::Deadline) }
    }

    /// The error that ended the requests on the connection, if everything on it broke.
    pub(super) fn broke_under(&self, attached: Attached) -> Option<TransportError> {
        self.connection.broke_under(attached)
    }

    /// Waits until the error with which `server` refused a watch has arrived.
    pub(super) async fn hear_from(&self, server: usize, attached: Attached) -> Result<(), TransportError> {
        let rt = &self.cluster.rt;
        let since = rt.now();
        loop {
            let fate = {
                let mut state = self.cluster.lock();
                let from = state.servers[server].process;
                state.net.send(from, self.process, rt.now()).0
            };
            match Obstacle::passes(fate) {
                Ok((after, _)) => {
                    rt.sleep(after).await;
                    return Ok(());
                }
                Err(obstacle) => {
                    if let Some(error) = self.wait_for_way(Message::Answer, obstacle, since, SimTime::NEVER, attached).await {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Leaves a request that its caller has given up in the buffer of its host, even if the connection was found dead, followed by the
    /// hang-up. Both arrive if the way is free in time (K159).
    pub(super) fn leave_behind(&self, request: ApiRequest, attached: Attached, obstacle: Obstacle, since: SimTime) {
        let (cluster, client, connection) = (self.cluster.clone(), self.process, self.connection.clone());
        let life = cluster.rt.incarnation(client);
        let process = cluster.server_process(attached.server);
        cluster.rt.clone().spawn(process, async move {
            let rt = &cluster.rt;
            let end = since + GOES_ON;
            loop {
                if !until(rt.sleep_until(end), cluster.network_change(), end).await {
                    return;
                }
                rt.sleep_until(obstacle.passed(since, rt.now()).min(end)).await;
                // A reset or a host going down discards the buffers.
                let was_reset = connection.broke_under(attached) == Some(TransportError::Reset);
                if rt.now() >= end || was_reset || rt.incarnation(client) != life || cluster.arrives_late(&request, attached.server) {
                    return;
                }
            }
        });
    }
}

impl Cluster {
    /// Sends a request again that was left behind. Returns whether it has arrived.
    fn arrives_late(self: &Arc<Self>, request: &ApiRequest, server: usize) -> bool {
        let now = self.rt.now();
        let mut state = self.lock();
        let process = state.servers[server].process;
        let (fate, block) = state.net.send(request.client, process, now);
        let Ok((after, _)) = Obstacle::passes(fate) else { return false };
        let times = state.server_time(server, &request.op, &block).over(after);
        if times.processing < HANG_UP {
            let (ticket, at) = state.travels(self, request.clone(), server, block, now + after + times.processing, &times);
            state.exchanges.give_up(ticket);
            drop(state);
            let cluster = self.clone();
            self.rt.at(at, move || cluster.execute(ticket));
        }
        true
    }
}
