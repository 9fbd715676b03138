//! A process's client of the simulated API: one connection to one API server at a time, with all its requests and
//! watches on it (K §3.1).

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use kube_machinery::api::{Reply, Request, TransportError, Verb, WatchOptions};
use kube_machinery::{ApiError, Client, Object};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sim_config::draw::{Concern, Draw};
use sim_config::time::SimTime;

use super::exchange::{Exchange, Phase, Reply as Answered, Ticket};
use super::request::{ApiReply, ApiRequest, Op};
use super::request_point::{Disturbance, Until};
use super::watch::KEEPALIVE;
use super::watch_stream::{AnyWatch, SimWatch};
use super::{Fabric, State};
use crate::kinds::KindId;
use crate::net::{Block, Fate, high, low};
use crate::rt::ProcessId;
use crate::trace::record::Part;
use crate::trace::{EventKind, Outcome};

/// How long a connection attempt to a silent address takes to fail (K §4.4).
pub(super) const DIAL_TIMEOUT: Duration = Duration::from_secs(30);

/// Which API server a client turns to when its connection broke.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reconnect {
    /// Any that is in service, at random: a load balancer, or the `kubernetes` service (K155).
    #[default]
    Random,
    /// The same one: a client that is configured with an address.
    Sticky,
}

/// A client of the simulated API. Clones share the connection.
#[derive(Clone)]
pub struct SimClient {
    pub(super) fabric: Arc<Fabric>,
    pub(super) process: ProcessId,
    connection: Arc<Connection>,
    reconnect: Reconnect,
}

#[derive(Default)]
pub struct Connection {
    /// The number of the server that it leads to.
    pub(super) server: AtomicUsize,
    /// How often a server was chosen.
    attempts: AtomicUsize,
    /// How often it broke. All requests and watches on it break together, and it is replaced once.
    pub(super) breaks: AtomicUsize,
    /// Since when requests on it end without an answer because nothing gets through.
    silent: Mutex<Option<SimTime>>,
}

/// Hands the request over when the caller goes away before the answer.
struct Guard<'a> {
    fabric: &'a Arc<Fabric>,
    id: Option<Ticket>,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.fabric.abandon(id);
        }
    }
}

/// What became of a request that was sent.
enum Sent {
    /// It is on its way; its answer is held up until then.
    Travels(Ticket, SimTime, Option<(u64, SimTime, Until)>),
    /// It is held up on its way.
    HeldUp(Ticket),
    /// There is no exchange: this error comes at this time.
    Fails(SimTime, TransportError),
    /// The link is held.
    Held,
}

/// How long a server takes.
struct ServerTime {
    /// Its own part.
    processing: Duration,
    /// Etcd's part.
    stored: Duration,
    /// Until the answer leaves.
    answer: Duration,
}

impl State {
    /// How long the steps of a request take on the server.
    fn server_time(&self, server: usize, op: &Op, block: &Block) -> ServerTime {
        let degraded = self.servers[server].degraded;
        let own = if degraded { &self.degraded_samplers } else { &self.samplers };
        let etcd = if degraded || self.etcd.is_degraded() { &self.degraded_samplers } else { &self.samplers };
        let from_cache = match op {
            Op::Get { resource_version, .. } => resource_version.is_some(),
            Op::List { options, .. } => options.resource_version.as_deref().is_some_and(|version| !version.is_empty()),
            _ => false,
        };
        let (stored, answer) = match op {
            _ if from_cache => (Duration::ZERO, Duration::ZERO),
            Op::Get { .. } | Op::List { .. } => (etcd.quorum_read.sample(low(block[2])), etcd.quorum_read_answer.sample(low(block[2]))),
            _ => (etcd.commit.sample(low(block[2])), etcd.commit_answer.sample(low(block[2]))),
        };
        ServerTime { processing: own.processing.sample(high(block[2])), stored, answer }
    }
}

impl SimClient {
    /// A client of `process`, connected to a server of its own choice.
    pub fn new(fabric: &Arc<Fabric>, process: ProcessId) -> Self {
        let servers = fabric.servers();
        assert!(servers > 0, "a client needs an API server to connect to");
        let client = Self { fabric: fabric.clone(), process, connection: Arc::default(), reconnect: Reconnect::default() };
        client.reconnect(0);
        fabric.lock().connections.insert(process, client.connection.clone());
        client
    }

    /// The same client with another way to reconnect.
    pub fn reconnecting(mut self, reconnect: Reconnect) -> Self {
        self.reconnect = reconnect;
        self
    }

    /// Connects to server `number` from the next request on.
    pub fn connect_to(&self, number: usize) {
        self.connection.server.store(number, Ordering::Relaxed);
    }

    /// The number of the server that the connection leads to.
    pub fn server(&self) -> usize {
        self.connection.server.load(Ordering::Relaxed)
    }

    /// The cluster whose API it is.
    pub fn fabric(&self) -> &Arc<Fabric> {
        &self.fabric
    }

    /// The process that this client belongs to.
    pub fn process(&self) -> ProcessId {
        self.process
    }

    /// The connection that had broken `breaks` times broke again: the next request may go elsewhere.
    pub(super) fn reconnect(&self, breaks: usize) {
        let known = &self.connection.breaks;
        if known.compare_exchange(breaks, breaks + 1, Ordering::Relaxed, Ordering::Relaxed).is_err() || self.reconnect == Reconnect::Sticky
        {
            return;
        }
        let (seed, servers) = {
            let state = self.fabric.lock();
            (state.seed, state.servers_in_service(self.fabric.rt.now()))
        };
        // The n-th choice of a process depends on nothing else that happens in the run.
        let nth = self.connection.attempts.fetch_add(1, Ordering::Relaxed);
        let mut draw = Draw::new(seed, Concern::World, u64::from(self.process.0 + 1) << 32 | nth as u64);
        self.connect_to(servers[draw.below(servers.len() as u64) as usize]);
    }

    /// Whether a connection on which a request that began then got no answer in time is found dead by now: its pings are not answered
    /// either, however short the requests' own deadlines are (K §2.5, §4.4).
    fn is_silent(&self, server: usize, began: SimTime) -> bool {
        let cut = {
            let mut state = self.fabric.lock();
            let process = state.servers[server].process;
            state.net.is_cut(self.process, process) || state.net.is_cut(process, self.process)
        };
        let mut silent = self.connection.silent.lock();
        *silent = if cut { Some(silent.unwrap_or(began)) } else { None };
        silent.is_some_and(|since| self.fabric.rt.now() >= since + KEEPALIVE)
    }

    /// When the caller gives up, by the clock of its host.
    fn deadline(&self, timeout: Option<Duration>) -> SimTime {
        timeout.map_or(SimTime::NEVER, |timeout| self.fabric.rt.now() + self.fabric.rt.clock_of(self.process).to_model(timeout))
    }

    /// Puts a request on its way. `first`: it was not held back before.
    fn send_once(&self, request: &mut Option<ApiRequest>, server: usize, first: bool) -> Sent {
        let mut state = self.fabric.lock();
        let now = self.fabric.rt.now();
        let process = state.servers[server].process;
        if first && let Some(ApiRequest { kind, op, call, .. }) = request {
            state.tell(self.process, now);
            let event = EventKind::Request { client: self.process, server: process, verb: op.verb(), kind: *kind, key: op.key() };
            state.recorder.observe_of(Part::of(*call), now, event);
        }
        if first && let Some(request) = request {
            state.count_request(request, now);
        }
        let (fate, block) = state.net.send(self.process, process);
        match fate {
            Fate::Held => Sent::Held,
            Fate::Lost if !state.servers[server].up => Sent::Fails(now + DIAL_TIMEOUT, TransportError::Refused),
            Fate::Lost => Sent::Fails(now + KEEPALIVE, TransportError::ConnectionLost),
            // The refusal comes back as fast as the request went there.
            Fate::Deliver { after, .. } if !state.servers[server].up => Sent::Fails(now + after * 2, TransportError::Refused),
            Fate::Deliver { after, again } => {
                let request = request.take().unwrap_or_else(|| unreachable!("a request is sent once"));
                let befalls = state.struck(request.call, now, |disturbance| match disturbance {
                    Disturbance::Lost(_) | Disturbance::Late { .. } | Disturbance::AnswerLate(_) => Some(disturbance),
                    _ => None,
                });
                if let Some(Disturbance::Lost(silence)) = befalls {
                    return Sent::Fails(now + after + silence, TransportError::Reset);
                }
                if let Some(Disturbance::Late { until, .. } | Disturbance::AnswerLate(until)) = befalls {
                    state.hold_up(&request, until);
                }
                let call = request.call;
                let ServerTime { processing, stored, answer } = state.server_time(server, &request.op, &block);
                let proposed = now + after + processing;
                let at = proposed + stored;
                let limited = state.size.is_some();
                let incarnation = self.fabric.rt.incarnation(process);
                let mut insert = |request, proposed, at, abandoned| {
                    state.exchanges.insert(Exchange {
                        client: self.process,
                        server,
                        incarnation,
                        proposed: if limited { SimTime::NEVER } else { proposed },
                        at: if limited { proposed } else { at },
                        stored,
                        answer,
                        outlives_server: false,
                        block,
                        phase: if limited { Phase::Arrives(request) } else { Phase::InFlight(request) },
                        waker: None,
                        abandoned,
                        hung_up: false,
                    })
                };
                // A copy that arrives later is executed for nobody (K §2.13).
                let copy = again.map(|again| {
                    let proposed = now + again + processing;
                    let at = proposed + stored;
                    (insert(request.clone(), proposed, at, true), if limited { proposed } else { at })
                });
                if let Some(Disturbance::Late { until, reset }) = befalls {
                    let latest = at + until.at_most;
                    let id = insert(request, proposed + until.at_most, latest, reset);
                    drop(state);
                    self.hold_until(id, call, process, until, latest);
                    return if reset { Sent::Fails(now + after, TransportError::Reset) } else { Sent::HeldUp(id) };
                }
                let id = insert(request, proposed, at, false);
                drop(state);
                if let Some((copy, at)) = copy {
                    let fabric = self.fabric.clone();
                    self.fabric.rt.at(at, move || fabric.execute(copy));
                }
                let answer_late = match befalls {
                    Some(Disturbance::AnswerLate(until)) => Some((call, now, until)),
                    _ => None,
                };
                Sent::Travels(id, if limited { proposed } else { at }, answer_late)
            }
        }
    }

    /// Has a request that is held up executed in the end: its server may die before that, its caller need not live so long.
    fn hold_until(&self, id: Ticket, call: u64, server: ProcessId, until: Until, latest: SimTime) {
        let (fabric, since) = (self.fabric.clone(), self.fabric.rt.now());
        self.fabric.rt.spawn(server, async move {
            fabric.hold(call, since, until).await;
            fabric.execute(id);
        });
        let fabric = self.fabric.clone();
        self.fabric.rt.at(latest, move || fabric.execute(id));
    }

    /// Opens a watch on objects of a type that is known only by its registration.
    ///
    /// # Errors
    /// What the server answers, or what went wrong on the way.
    pub async fn watch_any(&self, kind: KindId, namespace: Option<Arc<str>>, options: WatchOptions) -> Result<AnyWatch, ApiError> {
        let fabric = &self.fabric;
        let call = fabric.next_call();
        {
            let mut state = fabric.lock();
            state.tell(self.process, fabric.rt.now());
            let server = state.servers[self.server()].process;
            let event = EventKind::Request { client: self.process, server, verb: Verb::Watch, kind, key: None };
            state.recorder.observe_of(Part::of(call), fabric.rt.now(), event);
            state.count_watch(self.process, kind, call, fabric.rt.now());
        }
        let breaks = self.connection.breaks.load(Ordering::Relaxed);
        let result = self.open(kind, namespace, &options, call).await;
        if let Err(ApiError::Transport(_)) = &result {
            self.reconnect(breaks);
        }
        let event = EventKind::Answer { client: self.process, verb: Verb::Watch, kind, key: None, outcome: Outcome::of(&result) };
        {
            let mut state = fabric.lock();
            state.tell(self.process, fabric.rt.now());
            state.recorder.observe_of(Part::of(call), fabric.rt.now(), event);
        }
        Ok(AnyWatch::new(self.clone(), kind, breaks, result?))
    }

    /// A request about objects of a type that is known only by its registration; the caller waits as long as it takes.
    ///
    /// # Errors
    /// What the server answers, or what went wrong on the way.
    pub async fn call(&self, kind: KindId, op: Op) -> Result<ApiReply, ApiError> {
        let request = ApiRequest { client: self.process, kind, op, call: self.fabric.next_call() };
        Box::pin(self.exchange(request, None)).await
    }

    /// One request, one answer.
    async fn exchange(&self, request: ApiRequest, timeout: Option<Duration>) -> Result<ApiReply, ApiError> {
        let fabric = &self.fabric;
        let (server, breaks) = (self.server(), self.connection.breaks.load(Ordering::Relaxed));
        let verb = request.op.verb();
        let (kind, key, call) = (request.kind, request.op.key().cloned(), request.call);
        let deadline = self.deadline(timeout);
        let began = fabric.rt.now();
        let result = self.exchange_until(request, server, deadline).await;
        let broken = match &result {
            Err(ApiError::Transport(TransportError::Deadline)) => self.is_silent(server, began),
            Err(ApiError::Transport(_)) => true,
            _ => {
                *self.connection.silent.lock() = None;
                false
            }
        };
        if broken {
            *self.connection.silent.lock() = None;
            self.reconnect(breaks);
        }
        let outcome = Outcome::of(&result);
        let event = EventKind::Answer { client: self.process, verb, kind, key: key.as_ref(), outcome };
        let object = result.as_ref().ok().and_then(ApiReply::object);
        let mut state = fabric.lock();
        state.tell(self.process, fabric.rt.now());
        state.recorder.observe_of(Part { object, ..Part::of(call) }, fabric.rt.now(), event);
        drop(state);
        result
    }

    async fn exchange_until(&self, request: ApiRequest, server: usize, deadline: SimTime) -> Result<ApiReply, ApiError> {
        let fabric = &self.fabric;
        let rt = &fabric.rt;
        let gave_up = || Err(TransportError::Deadline.into());
        let mut request = Some(request);
        let mut first = true;
        let (id, at, answer_late) = loop {
            match self.send_once(&mut request, server, std::mem::take(&mut first)) {
                Sent::Travels(id, at, answer_late) => break (id, Some(at), answer_late),
                Sent::HeldUp(id) => break (id, None, None),
                Sent::Fails(at, error) => {
                    rt.sleep_until(at.min(deadline)).await;
                    return if deadline < at { gave_up() } else { Err(error.into()) };
                }
                Sent::Held => {
                    if !until(rt.sleep_until(deadline), fabric.network_change(), deadline).await {
                        return gave_up();
                    }
                }
            }
        };
        let mut guard = Guard { fabric, id: Some(id) };
        let own = match at {
            Some(at) if deadline < at => {
                rt.sleep_until(deadline).await;
                return gave_up();
            }
            Some(at) => {
                rt.sleep_until(at).await;
                fabric.execute_own(id)
            }
            None => None,
        };
        let reply = match own {
            Some(reply) => Some(reply),
            None => self.served(id, deadline).await,
        };
        let Some(Answered { result, at: mut left, mut fate }) = reply else { return gave_up() };
        guard.id = None;
        if let Some((call, since, until_then)) = answer_late {
            if !until(rt.sleep_until(deadline), fabric.hold(call, since, until_then), deadline).await {
                return gave_up();
            }
            left = left.max(rt.now());
        }
        // The answer travels: its link may differ from that of the request.
        loop {
            match fate {
                Fate::Deliver { after, .. } => {
                    let at = left + after;
                    rt.sleep_until(at.min(deadline)).await;
                    return if deadline < at { gave_up() } else { result };
                }
                Fate::Lost => {
                    let at = left + KEEPALIVE;
                    rt.sleep_until(at.min(deadline)).await;
                    return if deadline < at { gave_up() } else { Err(TransportError::ConnectionLost.into()) };
                }
                Fate::Held => {
                    if !until(rt.sleep_until(deadline), fabric.network_change(), deadline).await {
                        return gave_up();
                    }
                    let mut state = fabric.lock();
                    let from = state.servers[server].process;
                    fate = state.net.send(from, self.process).0;
                }
            }
        }
    }

    /// Waits until the server has served exchange `id`; `None` = not before the deadline.
    async fn served(&self, id: Ticket, deadline: SimTime) -> Option<Answered> {
        let fabric = &self.fabric;
        let mut reply = None;
        let done = std::future::poll_fn(|cx| {
            let mut state = fabric.lock();
            reply = state.take_reply(id);
            match state.exchanges.get_mut(id) {
                _ if reply.is_some() => return Poll::Ready(()),
                Some(exchange) => exchange.waker = Some(cx.waker().clone()),
                // A crash point: this process is being taken down.
                None => {}
            }
            Poll::Pending
        });
        until(fabric.rt.sleep_until(deadline), done, deadline).await;
        reply
    }
}

/// Waits for `future`, but not beyond the deadline. Returns whether it completed.
async fn until(sleep: crate::rt::Sleep, future: impl Future<Output = ()>, deadline: SimTime) -> bool {
    let mut future = std::pin::pin!(future);
    let mut sleep = std::pin::pin!(sleep);
    std::future::poll_fn(|cx| {
        if future.as_mut().poll(cx).is_ready() {
            Poll::Ready(true)
        } else if deadline != SimTime::NEVER && sleep.as_mut().poll(cx).is_ready() {
            Poll::Ready(false)
        } else {
            Poll::Pending
        }
    })
    .await
}

impl Client for SimClient {
    type Watch<K: Object> = SimWatch<K>;

    fn send<K: Object>(&self, request: Request<K>) -> impl Future<Output = Result<Reply<K>, ApiError>> + Send {
        let served = self.fabric.registry.served::<K>();
        let Request { call, timeout } = request;
        let request = ApiRequest { client: self.process, kind: served.kind, op: Op::of(call, served), call: self.fabric.next_call() };
        // In a box of its own: every future that sends something holds one of these, some hold several, and they are moved about.
        let exchange = Box::pin(self.exchange(request, timeout));
        async move { exchange.await.map(|reply| reply.typed(served)) }
    }

    async fn watch<K: Object>(&self, namespace: Option<Arc<str>>, options: WatchOptions) -> Result<SimWatch<K>, ApiError> {
        let served = self.fabric.registry.served::<K>();
        let watch = self.watch_any(served.kind, namespace, options).await?;
        Ok(SimWatch::new(watch, served))
    }
}
