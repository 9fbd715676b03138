//! A process's client of the simulated API.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use kube_machinery::ApiError;
use kube_machinery::api::TransportError;
use sim_config::draw::{Concern, Draw};
use sim_config::time::SimTime;

use super::Cluster;
use super::connection::{Attached, Connection, Message};
use super::exchange::Reply as Answered;
use super::exchanges::Ticket;
use super::obstacle::Obstacle;
use super::request::{ApiReply, ApiRequest, Op};
use super::request_point::{Disturbance, Until};
use super::transport::{Reconnect, Transport};
use super::wait::until;
use crate::kinds::KindId;
use crate::rt::ProcessId;
use crate::trace::record::Part;
use crate::trace::{EventKind, Outcome};

/// A client of the simulated API. Clones share the connection.
#[derive(Clone)]
pub struct SimClient {
    pub(super) cluster: Arc<Cluster>,
    pub(super) process: ProcessId,
    pub(super) connection: Arc<Connection>,
    pub(super) streams_lists: bool,
}

/// Hands the request over when the caller is dropped before the answer.
struct Guard<'a> {
    client: &'a SimClient,
    attached: Attached,
    id: Option<Ticket>,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.client.cluster.abandon(id);
            self.client.hang_up(self.attached);
        }
    }
}

/// The state of a request that was sent.
enum Sent {
    /// The request travels; its answer is held up until then.
    Travels(Ticket, SimTime, Option<(u64, SimTime, Until)>),
    /// The request is held up on its way or at its server; its answer is held up until then.
    HeldUp(Ticket, Option<(u64, SimTime, Until)>),
    /// There is no exchange: this error arrives at this time.
    Fails(SimTime, TransportError),
    /// The request cannot leave: the caller waits until the obstacle is gone, and sends it then.
    Waits(Obstacle),
}

impl SimClient {
    /// A client of `process` like those in the programs of Kubernetes: client-go over HTTP/2, connected to a server of its choice. All
    /// clients of one life of a process share the connection, as in client-go.
    pub fn new(cluster: &Arc<Cluster>, process: ProcessId) -> Self {
        Self::with(cluster, process, Transport::default(), Reconnect::default())
    }

    /// A client of a program that is not part of Kubernetes: of the kind that the run has drawn for the process.
    pub fn of_program(cluster: &Arc<Cluster>, process: ProcessId) -> Self {
        let (transport, reconnect) = {
            let state = cluster.lock();
            let shares = state.knobs.client_shares();
            // A separate number, as below.
            shares.draw(Draw::new(state.seed, Concern::World, u64::from(process.0 + 1) << 32 | u64::from(u32::MAX - 1)))
        };
        Self::with(cluster, process, transport, reconnect)
    }

    /// A client of `process` with this transport and this way to reconnect, unless the process already has a connection in its present
    /// life.
    pub fn with(cluster: &Arc<Cluster>, process: ProcessId, transport: Transport, reconnect: Reconnect) -> Self {
        let servers = cluster.servers();
        assert!(servers > 0, "a client needs an API server to connect to");
        let incarnation = cluster.rt.incarnation(process);
        let (streams_lists, known) = {
            let state = cluster.lock();
            // A separate number, beyond those of the choices of a server.
            let mut draw = Draw::new(state.seed, Concern::World, u64::from(process.0 + 1) << 32 | u64::from(u32::MAX));
            let known = state.connections.get(&process).filter(|connection| connection.is_of(incarnation)).cloned();
            (draw.chance(state.knobs.watch_list_clients.get()), known)
        };
        let is_new = known.is_none();
        let connection = known.unwrap_or_else(|| Arc::new(Connection::new(transport, reconnect, incarnation)));
        let client = Self { cluster: cluster.clone(), process, connection, streams_lists };
        if is_new {
            client.connect();
        }
        client
    }

    /// The kind of HTTP client.
    pub fn transport(&self) -> Transport {
        self.connection.transport()
    }

    /// Connects to server `number` from the next request on.
    pub fn connect_to(&self, number: usize) {
        self.connection.lead_to(number);
    }

    /// The number of the server that the connection leads to.
    pub fn server(&self) -> usize {
        self.connection.server()
    }

    /// The cluster of the API.
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// The process that this client belongs to.
    pub fn process(&self) -> ProcessId {
        self.process
    }

    /// The time at which the caller gives up, with `timeout` measured by the clock of its host.
    fn deadline(&self, timeout: Option<Duration>) -> SimTime {
        timeout.map_or(SimTime::NEVER, |timeout| self.cluster.rt.now() + self.cluster.rt.clock_of(self.process).to_model(timeout))
    }

    /// Puts a request on its way. `first`: it was not held back before.
    fn send_once(&self, request: &mut Option<ApiRequest>, server: usize, first: bool) -> Sent {
        let mut state = self.cluster.lock();
        let now = self.cluster.rt.now();
        let process = state.servers[server].process;
        if first && let Some(ApiRequest { kind, op, call, .. }) = request {
            state.tell(self.process, now);
            let event = EventKind::Request { client: self.process, server: process, verb: op.verb(), kind: *kind, key: op.key() };
            state.recorder.observe_of(Part::of(*call), now, event);
        }
        if first && let Some(request) = request {
            state.count_request(&self.cluster, request, now);
            match state.begins_when_sent(request.call) {
                // This request already finds the link cut.
                Some((fault, true)) => {
                    drop(state);
                    self.cluster.fire(fault, self.process);
                    state = self.cluster.lock();
                }
                Some((fault, false)) => self.cluster.fire_soon(fault, self.process),
                None => {}
            }
        }
        let (after, again, block) = match self.transmit(&mut state, server) {
            Err(obstacle) => return Sent::Waits(obstacle),
            // The refusal comes back as fast as the request arrived. A request sent earlier to a server that is down by now is answered
            // with a reset.
            Ok((after, ..)) if !state.servers[server].up => {
                return Sent::Fails(now + after * 2, if first { TransportError::Refused } else { TransportError::Reset });
            }
            Ok(delivered) => delivered,
        };
        let request = request.take().unwrap_or_else(|| unreachable!("a request is sent once"));
        let befalls = state.struck(request.call, now, |disturbance| match disturbance {
            Disturbance::Lost(_) | Disturbance::Late { .. } | Disturbance::AnswerLate(_) => Some(disturbance),
            // A process that is paused while sending has sent the request when it resumes.
            Disturbance::Pause { after: false, lasts } => {
                Some(Disturbance::Late { until: Until { at_most: lasts, writes: 0 }, reset: false })
            }
            _ => None,
        });
        if let Some(Disturbance::Lost(silence)) = befalls {
            return Sent::Fails(now + after + silence, TransportError::Reset);
        }
        if let Some(Disturbance::Late { until, .. } | Disturbance::AnswerLate(until)) = befalls {
            state.hold_up(&request, until);
        }
        let call = request.call;
        let times = state.server_time(server, &request.op, &block).over(after);
        let proposed = now + after + times.processing;
        // A copy that arrives later is executed without a caller (K §2.13).
        let copy = again.map(|again| {
            let (copy, at) = state.travels(&self.cluster, request.clone(), server, block, now + again + times.processing, &times);
            if let Some(exchange) = state.exchanges.get_mut(copy) {
                exchange.abandoned = true;
            }
            (copy, at)
        });
        if let Some(Disturbance::Late { until, reset }) = befalls {
            let (id, latest) = state.travels(&self.cluster, request, server, block, proposed + until.at_most, &times);
            if reset && let Some(exchange) = state.exchanges.get_mut(id) {
                exchange.abandoned = true;
            }
            drop(state);
            self.hold_until(id, call, process, until, latest);
            return if reset { Sent::Fails(now + after, TransportError::Reset) } else { Sent::HeldUp(id, None) };
        }
        let rank = state.rank(&request, now);
        let kind = request.kind;
        let (id, at) = state.travels(&self.cluster, request, server, block, proposed, &times);
        let latest = rank.map(|at_most| at + at_most);
        if let (Some(latest), Some(exchange)) = (latest, state.exchanges.get_mut(id)) {
            exchange.may_wait(latest);
        }
        drop(state);
        if let Some((copy, at)) = copy {
            let cluster = self.cluster.clone();
            self.cluster.rt.at(at, move || cluster.execute(copy));
        }
        let answer_late = match befalls {
            Some(Disturbance::AnswerLate(until)) => Some((call, now, until)),
            _ => None,
        };
        match latest {
            Some(latest) => {
                self.hold_back_from(id, call, kind, process, at, latest);
                Sent::HeldUp(id, answer_late)
            }
            None => Sent::Travels(id, at, answer_late),
        }
    }

    /// Ensures that a held-up request is executed in the end: its server may die before that, and its caller may be gone.
    fn hold_until(&self, id: Ticket, call: u64, server: ProcessId, until: Until, latest: SimTime) {
        let (cluster, since) = (self.cluster.clone(), self.cluster.rt.now());
        self.cluster.rt.spawn(server, async move {
            cluster.hold(call, since, until).await;
            cluster.execute(id);
        });
        let cluster = self.cluster.clone();
        self.cluster.rt.at(latest, move || cluster.execute(id));
    }

    /// Ensures that a request that reaches its server at `at` is executed when its turn comes, by priority: its server may die before that,
    /// and its caller may be gone.
    fn hold_back_from(&self, id: Ticket, call: u64, kind: KindId, server: ProcessId, at: SimTime, latest: SimTime) {
        let (cluster, client) = (self.cluster.clone(), self.process);
        self.cluster.rt.spawn(server, async move {
            cluster.rt.sleep_until(at).await;
            cluster.hold_back(call, client, kind, latest).await;
            cluster.execute(id);
        });
        let cluster = self.cluster.clone();
        self.cluster.rt.at(latest, move || cluster.execute(id));
    }

    /// Makes a request about objects of a type that is known only by its registration; the caller waits as long as it takes.
    ///
    /// # Errors
    /// The error of the server, or of the way there and back.
    pub async fn call(&self, kind: KindId, op: Op) -> Result<ApiReply, ApiError> {
        self.call_as(kind, op, None).await
    }

    /// Like [`SimClient::call`], with `manager` as the manager of the fields that the request writes; unset = the name of the process.
    ///
    /// # Errors
    /// As [`SimClient::call`].
    pub async fn call_as(&self, kind: KindId, op: Op, manager: Option<Arc<str>>) -> Result<ApiReply, ApiError> {
        let request = ApiRequest { client: self.process, kind, op, call: self.cluster.next_call(), manager };
        Box::pin(self.exchange(request, None)).await
    }

    /// One request, one answer.
    pub(super) async fn exchange(&self, request: ApiRequest, timeout: Option<Duration>) -> Result<ApiReply, ApiError> {
        let cluster = &self.cluster;
        let attached = self.attach();
        let verb = request.op.verb();
        let (kind, key, call) = (request.kind, request.op.key().cloned(), request.call);
        let deadline = self.deadline(timeout);
        let result = self.exchange_until(request, attached, deadline).await;
        if let Err(ApiError::Transport(error)) = &result
            && (*error != TransportError::Deadline || !self.transport().multiplexes())
        {
            self.reconnect(attached.breaks, *error);
        }
        let outcome = Outcome::of(&result);
        let event = EventKind::Answer { client: self.process, verb, kind, key: key.as_ref(), outcome };
        let object = result.as_ref().ok().and_then(ApiReply::object);
        let mut state = cluster.lock();
        state.tell(self.process, cluster.rt.now());
        state.recorder.observe_of(Part { object, ..Part::of(call) }, cluster.rt.now(), event);
        drop(state);
        result
    }

    async fn exchange_until(&self, request: ApiRequest, attached: Attached, deadline: SimTime) -> Result<ApiReply, ApiError> {
        let cluster = &self.cluster;
        let rt = &cluster.rt;
        let server = attached.server;
        let gave_up = || Err(TransportError::Deadline.into());
        let since = rt.now();
        let mut request = Some(request);
        let mut first = true;
        let (id, at, answer_late) = loop {
            match self.send_once(&mut request, server, std::mem::take(&mut first)) {
                Sent::Travels(id, at, answer_late) => break (id, Some(at), answer_late),
                Sent::HeldUp(id, answer_late) => break (id, None, answer_late),
                Sent::Fails(at, error) => {
                    rt.sleep_until(at.min(deadline)).await;
                    return if deadline < at { gave_up() } else { Err(error.into()) };
                }
                Sent::Waits(obstacle) => {
                    if let Some(error) = self.wait_for_way(Message::Request, obstacle, since, deadline, attached).await {
                        // If no connection was made, the request was never sent.
                        let was_sent =
                            matches!(error, TransportError::Deadline | TransportError::ConnectionLost) && obstacle != Obstacle::Dial;
                        if let Some(request) = request.take_if(|_| was_sent) {
                            self.leave_behind(request, attached, obstacle, since);
                        }
                        return Err(error.into());
                    }
                }
            }
        };
        let mut guard = Guard { client: self, attached, id: Some(id) };
        let own = match at {
            Some(at) if deadline < at => {
                rt.sleep_until(deadline).await;
                return gave_up();
            }
            Some(at) => {
                rt.sleep_until(at).await;
                cluster.execute_own(id)
            }
            None => None,
        };
        let reply = match own {
            Some(reply) => reply,
            None => self.served(id, deadline, attached).await?,
        };
        let Answered { result, at: mut left, mut fate } = reply;
        guard.id = None;
        if let Some((call, since, until_then)) = answer_late {
            if !until(rt.sleep_until(deadline), cluster.hold(call, since, until_then), deadline).await {
                return gave_up();
            }
            left = left.max(rt.now());
        }
        // The answer travels: its link may differ from that of the request.
        let since = left;
        loop {
            match Obstacle::passes(fate) {
                Ok((after, _)) => {
                    let at = left + after;
                    rt.sleep_until(at.min(deadline)).await;
                    let broke = self.broke_under(attached);
                    return if deadline < at { gave_up() } else { broke.map_or(result, |error| Err(error.into())) };
                }
                Err(obstacle) => {
                    if let Some(error) = self.wait_for_way(Message::Answer, obstacle, since, deadline, attached).await {
                        return Err(error.into());
                    }
                    left = left.max(rt.now());
                    let mut state = cluster.lock();
                    let from = state.servers[server].process;
                    fate = state.net.send(from, self.process, left).0;
                }
            }
        }
    }

    /// Waits until the server has served exchange `id`.
    async fn served(&self, id: Ticket, deadline: SimTime, attached: Attached) -> Result<Answered, TransportError> {
        let cluster = &self.cluster;
        loop {
            let patience = self.patience(deadline, attached);
            let mut reply = None;
            let done = std::future::poll_fn(|cx| {
                let mut state = cluster.lock();
                reply = state.take_reply(id);
                match state.exchanges.get_mut(id) {
                    _ if reply.is_some() => return Poll::Ready(()),
                    Some(exchange) => exchange.waker = Some(cx.waker().clone()),
                    // A crash point: this process is being taken down.
                    None => {}
                }
                // The connection has fallen silent, or is heard again.
                if self.patience(deadline, attached) == patience { Poll::Pending } else { Poll::Ready(()) }
            });
            until(cluster.rt.sleep_until(patience.0), done, patience.0).await;
            if let Some(reply) = reply {
                return Ok(reply);
            }
            let (ends_at, error) = self.patience(deadline, attached);
            if ends_at <= cluster.rt.now() {
                return Err(error);
            }
        }
    }
}
