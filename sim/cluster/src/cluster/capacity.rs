//! How much an API server does at a time (K §2.11): seats that requests take, and processors that those with a seat wait for.
//!
//! ```text
//!  arrives ─► a seat? ─► a processor? ─► works ─► etcd ─► works again ─► answers, leaves its seat
//!               │ no        │ no
//!               │           └► in the order of arrival
//!               └► waits, client by client in turn; 429 when too many of its client wait, or for too long
//! ```
//! Without a [`Capacity`] every request is worked on at once, whatever else there is to do: the latency of a server then does not depend
//! on its load.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use kube_machinery::ApiError;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::time::{SimTime, Span};

use super::exchange::{Phase, Ticket};
use super::request::{ApiReply, Op};
use super::{Fabric, State};
use crate::net::{Delay, Sampler, high};
use crate::rt::ProcessId;

/// How long a request waits for a seat: a quarter of the time that a request may take (K §2.11).
const SEAT_WAIT: Duration = Duration::from_secs(15);

/// How much one API server does at a time. A request keeps a processor busy before etcd has it, and again if its answer takes work; what
/// etcd takes is part of the delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Capacity {
    /// Processors: how many requests are worked on at the same time, at least 1.
    pub width: u32,
    /// What a get, a list or the opening of a watch keeps a processor busy.
    pub read: Delay,
    /// The same for a write.
    pub write: Delay,
    /// What a write that is refused with 409 takes more, once etcd has answered: the server reads the object again to say why.
    pub conflict: Delay,
    /// What each object of a list, or of the first events of a watch, takes more.
    pub object: Span,
    /// What sending a change to one watcher takes: a write of what many watch costs the server more.
    pub event: Span,
    /// How many requests a server takes on at the same time, whether they work, wait for a processor or for etcd: 400 that read and 200
    /// that write, which priority and fairness puts together. At least 1.
    pub seats: u32,
    /// How many requests of one client wait for a seat; the next one gets 429.
    pub queue: u32,
}

impl Default for Capacity {
    fn default() -> Self {
        Self {
            width: 2,
            read: Delay::lognormal_us(800, 3_000, 50_000),
            write: Delay::lognormal_us(1_200, 4_000, 50_000),
            conflict: Delay::lognormal_us(400, 1_500, 20_000),
            object: Span::micros(20),
            event: Span::micros(20),
            seats: 600,
            queue: 50,
        }
    }
}

impl Capacity {
    /// What no server can be: the key of the value, what is wrong with it, and what would be right.
    pub fn problem(&self) -> Option<(&'static str, String, String)> {
        let most = super::serve::MUTATING_DEADLINE;
        let of = |key| move |found: String, right: String| Some((key, found, right));
        if self.width == 0 {
            return of("width")("`cluster.capacity.width` is 0: nothing is ever worked on".to_owned(), "at least 1".to_owned());
        }
        if self.seats == 0 {
            return of("seats")("`cluster.capacity.seats` is 0: every request is refused".to_owned(), "at least 1".to_owned());
        }
        let times = [
            ("read", self.read),
            ("write", self.write),
            ("conflict", self.conflict),
            ("object", Delay::Constant(self.object)),
            ("event", Delay::Constant(self.event)),
        ];
        times.into_iter().find(|(_, delay)| delay.sampler().most() >= most).and_then(|(key, _)| {
            let found = format!("`cluster.capacity.{key}` may be longer than a request may take");
            of(key)(found, format!("less than {} s", most.as_secs()))
        })
    }
}

/// A [`Capacity`] made ready for drawing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    width: u32,
    read: Sampler,
    write: Sampler,
    conflict: Sampler,
    object: Duration,
    event: Duration,
    seats: usize,
    queue: usize,
}

impl Size {
    pub(crate) fn new(capacity: &Capacity) -> Self {
        Self {
            width: capacity.width.max(1),
            read: capacity.read.sampler(),
            write: capacity.write.sampler(),
            conflict: capacity.conflict.sampler(),
            object: capacity.object.0,
            event: capacity.event.0,
            seats: capacity.seats.max(1) as usize,
            queue: capacity.queue as usize,
        }
    }

    /// What a request takes before etcd has it.
    fn before(&self, op: &Op, quantile: f64) -> Duration {
        if op.verb().is_write() { self.write } else { self.read }.sample(quantile)
    }

    /// What its answer takes.
    fn after(&self, result: &Result<ApiReply, ApiError>, quantile: f64) -> Duration {
        match result {
            Ok(ApiReply::List { items, .. }) => self.object.saturating_mul(items.len() as u32),
            Err(ApiError::Status(status)) if status.code == 409 => self.conflict.sample(quantile),
            _ => Duration::ZERO,
        }
    }
}

/// What processors of the servers did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerWork {
    /// Requests and openings of watches that were worked on.
    pub requests: u64,
    /// Those that were refused with 429, for want of a seat.
    pub refused: u64,
    /// How long they waited for a seat and for a processor, all together.
    pub waited: Duration,
    /// How long processors were busy, all together.
    pub worked: Duration,
}

/// Something that wants a processor.
struct Job {
    since: SimTime,
    takes: Duration,
    of: JobOf,
}

enum JobOf {
    /// A request that goes to etcd after that.
    Request(Ticket),
    /// The answer of a request.
    Answer { ticket: Ticket, result: Result<ApiReply, ApiError> },
    /// Whoever opens a watch.
    Caller(Arc<Turn>),
    /// Changes on their way to watchers, who do not wait for it.
    Events,
}

/// A task that waits for its processor to be done.
#[derive(Default)]
struct Turn(Mutex<(bool, Option<Waker>)>);

impl Turn {
    fn done(&self) {
        let mut state = self.0.lock();
        state.0 = true;
        if let Some(waker) = state.1.take() {
            waker.wake();
        }
    }

    async fn wait(&self) {
        std::future::poll_fn(|cx| {
            let mut state = self.0.lock();
            if state.0 {
                return Poll::Ready(());
            }
            state.1 = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// What a server with a [`Capacity`] has to do at present.
#[derive(Default)]
pub(crate) struct Load {
    /// How many processors are busy.
    busy: u32,
    /// What waits for one, in the order of arrival.
    jobs: VecDeque<Job>,
    /// How many changes go to watchers that no processor has sent yet.
    pub(super) events: u32,
    /// The requests that have a seat.
    seated: BTreeSet<Ticket>,
    /// Requests that wait for a seat, by client; the client in front is next.
    waiting: VecDeque<(ProcessId, VecDeque<(Ticket, SimTime)>)>,
}

impl Load {
    fn waiting_of(&mut self, client: ProcessId) -> &mut VecDeque<(Ticket, SimTime)> {
        let found = self.waiting.iter().position(|(one, _)| *one == client);
        let index = found.unwrap_or_else(|| {
            self.waiting.push_back((client, VecDeque::new()));
            self.waiting.len() - 1
        });
        &mut self.waiting[index].1
    }

    /// A request waits for a seat no longer. Returns whether it did.
    fn leave_line(&mut self, ticket: Ticket) -> bool {
        let mut waited = false;
        for (_, of_client) in &mut self.waiting {
            let before = of_client.len();
            of_client.retain(|(one, _)| *one != ticket);
            waited |= of_client.len() < before;
        }
        self.waiting.retain(|(_, of_client)| !of_client.is_empty());
        waited
    }

    /// Who gets the next free seat. Its client goes to the end of the line.
    fn next_waiting(&mut self) -> Option<(Ticket, SimTime)> {
        let (client, mut of_client) = self.waiting.pop_front()?;
        let next = of_client.pop_front();
        if !of_client.is_empty() {
            self.waiting.push_back((client, of_client));
        }
        next
    }
}

/// What a server answers that takes on no more.
fn too_many() -> ApiError {
    ApiError::Plain { code: 429, text: "Too many requests, please try again later.", retry_after: Some(1) }
}

impl State {
    /// Takes a request that has arrived off its way: it has a seat, waits for one, or is refused.
    pub(super) fn take_on(&mut self, fabric: &Arc<Fabric>, size: Size, ticket: Ticket, now: SimTime) {
        let Some(exchange) = self.exchanges.get_mut(ticket) else { return };
        let (client, server) = (exchange.client, exchange.server);
        let placeholder = Phase::Serving;
        let Phase::Arrives(request) = std::mem::replace(&mut exchange.phase, placeholder) else { unreachable!("it has just arrived") };
        exchange.phase = Phase::Waits(request);
        let load = &mut self.servers[server].load;
        if load.seated.len() < size.seats {
            self.seat(fabric, size, ticket, now, now);
            return;
        }
        let of_client = load.waiting_of(client);
        if of_client.len() >= size.queue {
            self.work.refused += 1;
            self.complete(ticket, Err(too_many()), now);
            return;
        }
        of_client.push_back((ticket, now));
        let fabric = fabric.clone();
        let rt = fabric.rt.clone();
        rt.at(now + SEAT_WAIT, move || fabric.lock().stop_waiting(ticket, now + SEAT_WAIT));
    }

    /// A request has waited for a seat for too long, if it still does.
    fn stop_waiting(&mut self, ticket: Ticket, now: SimTime) {
        let Some(exchange) = self.exchanges.get_mut(ticket) else { return };
        let server = exchange.server;
        if self.servers[server].load.leave_line(ticket) {
            self.work.refused += 1;
            self.complete(ticket, Err(too_many()), now);
        }
    }

    /// A request has a seat and wants a processor.
    fn seat(&mut self, fabric: &Arc<Fabric>, size: Size, ticket: Ticket, since: SimTime, now: SimTime) {
        let Some(exchange) = self.exchanges.get_mut(ticket) else { return };
        let Phase::Waits(request) = &exchange.phase else { unreachable!("it waits") };
        let takes = size.before(&request.op, high(exchange.block[2]));
        let server = exchange.server;
        self.servers[server].load.seated.insert(ticket);
        self.work.requests += 1;
        self.work_on(fabric, size, server, Job { since, takes, of: JobOf::Request(ticket) }, now);
    }

    /// A request leaves its seat, if it has one, and whoever is next takes it.
    fn leave_seat(&mut self, fabric: &Arc<Fabric>, size: Size, server: usize, ticket: Ticket, now: SimTime) {
        if !self.servers[server].load.seated.remove(&ticket) {
            return;
        }
        while self.servers[server].load.seated.len() < size.seats
            && let Some((next, since)) = self.servers[server].load.next_waiting()
        {
            self.seat(fabric, size, next, since, now);
        }
    }

    /// The work on a request is over without an answer, as far as its server can see: its caller is gone. What was sent to etcd goes on.
    pub(super) fn drop_out(&mut self, fabric: &Arc<Fabric>, server: usize, ticket: Ticket, now: SimTime) {
        if let Some(size) = self.size {
            self.leave_seat(fabric, size, server, ticket, now);
        }
    }

    /// The server of a request hears that its caller has hung up: it waits for a seat no longer, and has none.
    pub(super) fn hear_hang_up(&mut self, fabric: &Arc<Fabric>, ticket: Ticket, now: SimTime) {
        let Some(size) = self.size.filter(|_| self.has_hung_up(Some(ticket))) else { return };
        let Some(exchange) = self.exchanges.get_mut(ticket) else { return };
        let server = exchange.server;
        if self.servers[server].load.leave_line(ticket) {
            self.exchanges.remove(ticket);
        } else if matches!(exchange.phase, Phase::Serving) {
            self.leave_seat(fabric, size, server, ticket, now);
        }
    }

    /// Gives a job to a free processor, or has it wait for one.
    fn work_on(&mut self, fabric: &Arc<Fabric>, size: Size, server: usize, job: Job, now: SimTime) {
        if self.servers[server].load.busy < size.width {
            self.servers[server].load.busy += 1;
            self.begin(fabric, server, job, now);
        } else {
            self.servers[server].load.jobs.push_back(job);
        }
    }

    /// A processor begins with a job.
    fn begin(&mut self, fabric: &Arc<Fabric>, server: usize, job: Job, now: SimTime) {
        let done = now + job.takes;
        // Nobody waits for changes to be sent.
        if !matches!(job.of, JobOf::Events) {
            self.work.waited += now - job.since;
            if let Some(waits) = &mut self.waits {
                waits.push((now, now - job.since));
            }
        }
        self.work.worked += job.takes;
        let incarnation = fabric.rt.incarnation(self.servers[server].process);
        let shared = fabric.clone();
        fabric.rt.at(done, move || shared.processor_is_free(server, incarnation, job.of));
    }

    /// Has processors send to watchers what was committed since the last time.
    fn send_events(&mut self, fabric: &Arc<Fabric>, size: Size, now: SimTime) {
        for server in 0..self.servers.len() {
            let events = std::mem::take(&mut self.servers[server].load.events);
            if events > 0 && !size.event.is_zero() {
                let takes = size.event.saturating_mul(events);
                self.work_on(fabric, size, server, Job { since: now, takes, of: JobOf::Events }, now);
            }
        }
    }

    /// A request that is served has its result: it is answered when a processor has written the answer.
    pub(super) fn finish(&mut self, fabric: &Arc<Fabric>, server: usize, ticket: Ticket, result: Result<ApiReply, ApiError>, now: SimTime) {
        let Some(size) = self.size else { return self.complete(ticket, result, now) };
        self.send_events(fabric, size, now);
        let quantile = self.exchanges.get_mut(ticket).map_or(0.5, |exchange| high(exchange.block[2]));
        let takes = size.after(&result, quantile);
        if takes.is_zero() {
            self.complete(ticket, result, now);
            self.leave_seat(fabric, size, server, ticket, now);
        } else {
            self.work_on(fabric, size, server, Job { since: now, takes, of: JobOf::Answer { ticket, result } }, now);
        }
    }
}

impl Fabric {
    /// What the processors of all servers did so far; nothing without a [`Capacity`].
    pub fn server_work(&self) -> ServerWork {
        self.lock().work
    }

    /// Keeps from now on how long each job waits.
    pub fn keep_waits(&self) {
        self.lock().waits.get_or_insert_default();
    }

    /// When each job began that waited for a seat or a processor, and for how long, if that was kept.
    pub fn take_waits(&self) -> Option<Vec<(SimTime, Duration)>> {
        self.lock().waits.take()
    }

    /// Waits until a processor of `server` has done what the opening of a watch takes.
    pub(super) async fn open_with(self: &Arc<Self>, size: Size, server: usize, quantile: f64) {
        let turn = Arc::new(Turn::default());
        {
            let (mut state, now) = (self.lock(), self.rt.now());
            state.work.requests += 1;
            let job = Job { since: now, takes: size.read.sample(quantile), of: JobOf::Caller(turn.clone()) };
            state.work_on(self, size, server, job, now);
        }
        turn.wait().await;
    }

    /// A processor has done a job and takes the next one.
    fn processor_is_free(self: &Arc<Self>, server: usize, incarnation: u32, done: JobOf) {
        let mut state = self.lock();
        let Some(size) = state.size else { return };
        let now = self.rt.now();
        if self.rt.incarnation(state.servers[server].process) != incarnation || !state.servers[server].up {
            // The server crashed with all that it had to do.
            drop(state);
            if let JobOf::Caller(turn) = done {
                turn.done();
            }
            return;
        }
        match done {
            JobOf::Request(ticket) => {
                let known = state.exchanges.get_mut(ticket).is_some_and(|exchange| matches!(exchange.phase, Phase::Waits(_)));
                if !known || state.has_hung_up(Some(ticket)) {
                    // What its caller gave up while it waited is not carried out (K108).
                    state.exchanges.remove(ticket);
                    state.leave_seat(self, size, server, ticket, now);
                } else if let Some(exchange) = state.exchanges.get_mut(ticket) {
                    if let Phase::Waits(request) = std::mem::replace(&mut exchange.phase, Phase::Serving) {
                        exchange.phase = Phase::InFlight(request);
                    }
                    (exchange.proposed, exchange.at) = (now, now + exchange.stored);
                    let (at, fabric) = (exchange.at, self.clone());
                    self.rt.at(at, move || fabric.execute(ticket));
                }
            }
            JobOf::Answer { ticket, result } => {
                state.complete(ticket, result, now);
                state.leave_seat(self, size, server, ticket, now);
            }
            JobOf::Caller(turn) => turn.done(),
            JobOf::Events => {}
        }
        match state.servers[server].load.jobs.pop_front() {
            Some(job) => state.begin(self, server, job, now),
            None => state.servers[server].load.busy -= 1,
        }
    }

    /// Whoever waits for a crashed server to open a watch goes on, and finds it down.
    pub(super) fn forget_load(load: &mut Load) {
        for job in std::mem::take(load).jobs {
            if let JobOf::Caller(turn) = job.of {
                turn.done();
            }
        }
    }
}
