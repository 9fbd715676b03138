//! Faults that hit exactly one request: the n-th matching one of a client (K §2.13).
//!
//! ```text
//!  a client sends ── counted here ──► the n-th is struck ──► lost, late: on its way          ──► refused, stale: by its server
//!                                     (by its call)          crash: before or after its execution     answer late: on its way back
//! ```
//! Requests are counted when they are sent, so that one that never arrives counts, too. Heartbeats of unobstructed nodes are not sent, and
//! do not count.

use std::task::{Poll, Waker};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube_machinery::api::Verb;
use kube_machinery::{FxHashMap, ObjectKey};
use sim_config::time::SimTime;

use super::request::{ApiRequest, Op};
use super::server::InjectedFault;
use super::{Cluster, State};
use crate::kinds::KindId;
use crate::object::Obj;
use crate::rt::ProcessId;
use crate::trace::record::Part;
use crate::trace::{EventKind, FaultChange};

/// The effect of a fault on one request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Disturbance {
    /// Its server answers with an injected fault.
    InjectedFault(InjectedFault),
    /// The request does not reach its server; after this time the connection breaks.
    Lost(Duration),
    /// The request reaches its server late, and is executed then like any other.
    Late {
        /// The time at which it reaches its server.
        until: Until,
        /// Whether the connection breaks at once, so that its caller does not wait for it.
        reset: bool,
    },
    /// The answer arrives late.
    AnswerLate(Until),
    /// A read from the server's cache: it goes to a server whose cache has not seen the last changes of the objects. With a single server
    /// the fault has no effect: a cache does not go back.
    Stale {
        /// The number of the last changes that the cache lacks, at least one.
        changes: u32,
    },
    /// The caller crashes before its server executes the request, or right after its execution.
    Crash {
        /// Whether it crashes after the execution instead of before it.
        after: bool,
    },
    /// The caller is paused when it sends the request, or when it is executed. A request that is sent at the pause reaches its server when
    /// the process resumes.
    Pause {
        /// Whether it is paused from the execution on instead of from the sending.
        after: bool,
        /// The length of the pause, in model time.
        lasts: Duration,
    },
    /// The caller is cut off from all others before it sends the request, or right after its execution, so that no answer arrives.
    Cut {
        /// Whether it is cut off after the execution instead of before the sending.
        after: bool,
    },
    /// The caller is affected as it sends the request; the request itself is not.
    Beside,
}

/// The end of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Until {
    /// The longest time of the hold.
    pub at_most: Duration,
    /// The number of writes of the same object by others that end the hold; 0 = writes do not end it. A list covers every object of its
    /// type.
    pub writes: u32,
}

/// A fault that waits for the n-th of some requests of a client.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestPoint {
    /// The fault of the plan.
    pub fault: u32,
    /// The client whose requests are counted.
    pub client: ProcessId,
    /// The verbs that count; empty = all.
    pub verbs: Vec<Verb>,
    /// The type; unset = all.
    pub kind: Option<KindId>,
    /// The number of the request, counting from 1 over the whole run.
    pub nth: u32,
    /// The effect on the request.
    pub disturbance: Disturbance,
}

/// A sent request in the log, if one is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentRequest {
    /// The process that sent it.
    pub client: ProcessId,
    /// The number of the request among those of its process, counting from 1.
    pub nth: u32,
    /// The time at which it was sent.
    pub at: SimTime,
    /// The verb of the request.
    pub verb: Verb,
    /// Whether it reads from the server's cache, at any revision.
    pub from_cache: bool,
    /// The number of writes of the same object by others after it was sent.
    pub later_writes: u32,
    /// Whether its process holds a lease when it sends it.
    pub leads: bool,
    /// Whether a fault that waited for it struck it.
    pub struck: bool,
}

/// A change sent to a watch, in the log, if one is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentChange {
    /// The process whose watch it is.
    pub client: ProcessId,
    /// The number of the change among those sent to the watches of its process, counting from 1.
    pub nth: u32,
    /// The time at which the server had it ready to send.
    pub at: SimTime,
    /// Whether a fault that waited for it struck it.
    pub struck: bool,
}

/// A message that a client sends or is sent, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Logged {
    /// A request that a process sends to an API server.
    Request(SentRequest),
    /// A change of an object that an API server sends to a watch.
    Change(SentChange),
}

impl Logged {
    /// The process that sends the message, or receives it.
    pub fn client(&self) -> ProcessId {
        match self {
            Logged::Request(request) => request.client,
            Logged::Change(change) => change.client,
        }
    }

    /// The time at which it was sent.
    pub fn at(&self) -> SimTime {
        match self {
            Logged::Request(request) => request.at,
            Logged::Change(change) => change.at,
        }
    }

    /// Whether a fault that waited for it struck it.
    pub fn is_struck(&self) -> bool {
        match self {
            Logged::Request(request) => request.struck,
            Logged::Change(change) => change.struck,
        }
    }
}

/// An object, or all of a type.
type Object = (KindId, Option<ObjectKey>);

fn object_of(kind: KindId, op: &Op) -> Object {
    let key = match op {
        Op::Create { namespace, body, .. } => body.meta().name.as_deref().map(|name| match namespace {
            Some(namespace) => ObjectKey::namespaced(namespace, name),
            None => ObjectKey::cluster(name),
        }),
        op => op.key().cloned(),
    };
    (kind, key)
}

/// Whether a write of `key` is one of the object.
fn is_about((kind, wanted): &Object, of: KindId, key: &ObjectKey) -> bool {
    *kind == of && wanted.as_ref().is_none_or(|wanted| wanted == key)
}

/// A request that is held up until others have written.
struct HeldUp {
    call: u64,
    client: ProcessId,
    object: Object,
    writes: u32,
    waker: Option<Waker>,
}

/// A row of the log.
enum Row {
    Sent(SentRequest, Object),
    Change(SentChange),
    Written(ProcessId, KindId, ObjectKey),
}

/// The faults that begin at a request when it is executed.
#[derive(Clone, Copy, Default)]
pub(super) struct AtExecution {
    /// The fault that crashes the caller before the execution.
    pub crash_before: Option<u32>,
    /// The fault that begins after the execution.
    pub after: Option<u32>,
    /// Whether that fault keeps the answer from leaving.
    pub stops_answer: bool,
}

/// The faults that wait for requests, and the requests that they struck.
#[derive(Default)]
pub(crate) struct RequestPoints {
    /// The waiting faults, each with the number of requests that matched so far.
    waiting: Vec<(RequestPoint, u32)>,
    /// The struck calls by number, each with its fault and the effect.
    struck: Vec<(u64, u32, Disturbance)>,
    held_up: Vec<HeldUp>,
    log: Option<Log>,
}

/// All requests and writes, in their order.
#[derive(Default)]
struct Log {
    rows: Vec<Row>,
    /// The number of requests that each client has sent.
    sent: FxHashMap<ProcessId, u32>,
    /// The number of changes sent to each client.
    changes: FxHashMap<ProcessId, u32>,
}

impl RequestPoints {
    /// Whether requests and writes have to be reported here, which is rare.
    pub(crate) fn listens(&self) -> bool {
        !self.waiting.is_empty() || !self.held_up.is_empty() || self.log.is_some()
    }

    /// The effect on a call, and the fault that causes it.
    fn disturbance(&self, call: u64) -> Option<(u32, Disturbance)> {
        self.struck.iter().find(|(struck, ..)| *struck == call).map(|&(_, fault, disturbance)| (fault, disturbance))
    }

    /// Whether a log is kept.
    pub(super) fn is_kept(&self) -> bool {
        self.log.is_some()
    }

    /// Logs a change that is sent to a watch of `client`.
    pub(super) fn log_change(&mut self, client: ProcessId, at: SimTime, struck: bool) {
        if let Some(Log { rows, changes, .. }) = &mut self.log {
            let nth = changes.entry(client).or_insert(0);
            *nth += 1;
            rows.push(Row::Change(SentChange { client, nth: *nth, at, struck }));
        }
    }

    /// Whether some request was struck.
    pub(crate) fn has_struck(&self) -> bool {
        !self.struck.is_empty()
    }

    fn count(&mut self, request: SentRequest, object: Object, call: u64) {
        let SentRequest { client, verb, .. } = request;
        let matches = |point: &RequestPoint| {
            point.client == client
                && (point.verbs.is_empty() || point.verbs.contains(&verb))
                && point.kind.is_none_or(|kind| kind == object.0)
        };
        for (point, seen) in self.waiting.iter_mut().filter(|(point, _)| matches(point)) {
            *seen += 1;
            if *seen == point.nth {
                self.struck.push((call, point.fault, point.disturbance));
            }
        }
        let struck = self.disturbance(call).is_some();
        if let Some(Log { rows, sent, .. }) = &mut self.log {
            let nth = sent.entry(client).or_insert(0);
            *nth += 1;
            rows.push(Row::Sent(SentRequest { nth: *nth, struck, ..request }, object));
        }
    }

    /// Takes in a write of an object.
    pub(crate) fn written(&mut self, client: ProcessId, kind: KindId, key: &ObjectKey) {
        if let Some(log) = &mut self.log {
            log.rows.push(Row::Written(client, kind, key.clone()));
        }
        for held in self.held_up.iter_mut().filter(|held| held.client != client && is_about(&held.object, kind, key)) {
            held.writes = held.writes.saturating_sub(1);
            if held.writes == 0
                && let Some(waker) = held.waker.take()
            {
                waker.wake();
            }
        }
    }
}

impl State {
    /// Counts a request that is sent for the first time. A fault that waited for it strikes it.
    pub(super) fn count_request(&mut self, cluster: &Cluster, request: &ApiRequest, now: SimTime) {
        if request.op.verb().is_write() {
            self.let_go_at_write(cluster, request.client, now);
        }
        if !self.request_points.listens() {
            return;
        }
        let leads = self.request_points.is_kept() && self.holds_a_lease(cluster, request.client);
        let ApiRequest { client, kind, ref op, call, .. } = *request;
        let version = match op {
            Op::Get { resource_version, .. } => resource_version.as_deref(),
            Op::List { options, .. } => options.resource_version.as_deref(),
            _ => None,
        };
        let (verb, from_cache) = (op.verb(), version == Some("0"));
        let sent = SentRequest { client, nth: 0, at: now, verb, from_cache, later_writes: 0, leads, struck: false };
        self.request_points.count(sent, object_of(kind, op), call);
    }

    /// Whether a process holds a lease by its own name, other than that of a node.
    fn holds_a_lease(&self, cluster: &Cluster, process: ProcessId) -> bool {
        let name = cluster.rt.process_name(process);
        self.leases_of(cluster, &name).next().is_some()
    }

    /// The leases whose holder has this name, other than those of nodes.
    pub(crate) fn leases_of(&self, cluster: &Cluster, holder: &str) -> impl Iterator<Item = &ObjectKey> {
        let table = self.store.table(cluster.registry.id::<Lease>());
        let of = move |object: &Obj| {
            let lease: Option<&Lease> = object.as_any().downcast_ref();
            lease.and_then(|lease| lease.spec.as_ref()?.holder_identity.as_deref()) == Some(holder)
        };
        let all = table.range(std::ops::Bound::Unbounded);
        all.filter(move |(key, object)| key.namespace() != Some("kube-node-lease") && of(object)).map(|(key, _)| key)
    }

    /// Like [`State::count_request`], for the request that opens a watch.
    pub(super) fn count_watch(&mut self, client: ProcessId, kind: KindId, call: u64, now: SimTime) {
        if self.request_points.listens() {
            let sent =
                SentRequest { client, nth: 0, at: now, verb: Verb::Watch, from_cache: false, later_writes: 0, leads: false, struck: false };
            self.request_points.count(sent, (kind, None), call);
        }
    }

    /// The effect on a call, as far as `is` accepts it; the fault then counts as fired.
    pub(super) fn struck<T>(&mut self, call: u64, now: SimTime, is: impl FnOnce(Disturbance) -> Option<T>) -> Option<T> {
        if self.request_points.struck.is_empty() {
            return None;
        }
        let (index, disturbance) = self.request_points.disturbance(call)?;
        let found = is(disturbance)?;
        let part = Part { call: Some(call), object: None };
        self.recorder.observe_of(part, now, EventKind::Fault { index, change: FaultChange::Fired });
        Some(found)
    }

    /// The effect on a call.
    pub(super) fn disturbance(&self, call: u64) -> Option<Disturbance> {
        self.request_points.disturbance(call).map(|(_, disturbance)| disturbance)
    }

    /// The faults that begin when a call is executed.
    pub(super) fn begins_at_execution(&self, call: u64) -> AtExecution {
        if self.request_points.struck.is_empty() {
            return AtExecution::default();
        }
        match self.request_points.disturbance(call) {
            Some((fault, Disturbance::Crash { after: false })) => AtExecution { crash_before: Some(fault), ..AtExecution::default() },
            Some((fault, Disturbance::Crash { after: true } | Disturbance::Pause { after: true, .. })) => {
                AtExecution { after: Some(fault), ..AtExecution::default() }
            }
            Some((fault, Disturbance::Cut { after: true })) => {
                AtExecution { after: Some(fault), stops_answer: true, ..AtExecution::default() }
            }
            _ => AtExecution::default(),
        }
    }

    /// The fault that begins when a call is sent, and whether it begins before the request leaves.
    pub(super) fn begins_when_sent(&self, call: u64) -> Option<(u32, bool)> {
        if self.request_points.struck.is_empty() {
            return None;
        }
        match self.request_points.disturbance(call)? {
            (fault, Disturbance::Cut { after: false }) => Some((fault, true)),
            (fault, Disturbance::Pause { after: false, .. } | Disturbance::Beside) => Some((fault, false)),
            _ => None,
        }
    }

    /// Begins to count the writes of others for a request that is held up.
    pub(super) fn hold_up(&mut self, request: &ApiRequest, until: Until) {
        if until.writes > 0 {
            let object = object_of(request.kind, &request.op);
            let (client, call) = (request.client, request.call);
            self.request_points.held_up.push(HeldUp { call, client, object, writes: until.writes, waker: None });
        }
    }
}

impl Cluster {
    /// Makes a fault wait for a request.
    pub fn add_request_point(&self, point: RequestPoint) {
        self.lock().request_points.waiting.push((point, 0));
    }

    /// Removes all faults that wait for a request. Those that have struck stay.
    pub fn clear_request_points(&self) {
        let mut state = self.lock();
        state.request_points.waiting.clear();
        state.held_changes.stop_waiting();
    }

    /// Starts to log every request.
    pub fn keep_requests(&self) {
        self.lock().request_points.log.get_or_insert_default();
    }

    /// All requests and all changes for watches in the order in which they were sent, if they were logged.
    pub fn take_requests(&self) -> Option<Vec<Logged>> {
        let log = self.lock().request_points.log.take()?.rows;
        let later = |position: usize, client: ProcessId, object: &Object| {
            let others = log[position..]
                .iter()
                .filter(|row| matches!(row, Row::Written(writer, kind, key) if *writer != client && is_about(object, *kind, key)));
            others.count() as u32
        };
        let sent = log.iter().enumerate().filter_map(|(position, row)| match row {
            Row::Sent(sent, object) => {
                Some(Logged::Request(SentRequest { later_writes: later(position, sent.client, object), ..sent.clone() }))
            }
            Row::Change(change) => Some(Logged::Change(change.clone())),
            Row::Written(..) => None,
        });
        Some(sent.collect())
    }

    /// Waits until `until`, for the request of `call` that has been held up since `from`.
    pub(super) async fn hold(&self, call: u64, from: SimTime, until: Until) {
        let mut sleep = std::pin::pin!(self.rt.sleep_until(from + until.at_most));
        std::future::poll_fn(|context| {
            let mut state = self.lock();
            let held = state.request_points.held_up.iter_mut().find(|held| held.call == call);
            if let Some(held) = held {
                if held.writes == 0 {
                    return Poll::Ready(());
                }
                held.waker = Some(context.waker().clone());
            }
            drop(state);
            sleep.as_mut().poll(context)
        })
        .await;
        self.lock().request_points.held_up.retain(|held| held.call != call);
    }
}
