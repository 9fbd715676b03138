//! The present work of an API server with a [`Capacity`](super::capacity::Capacity), and its way through seats and processors.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use kube_machinery::ApiError;
use parking_lot::Mutex;
use sim_config::time::SimTime;

use super::capacity::{ServerWork, Size};
use super::exchanges::{Phase, Ticket};
use super::request::ApiReply;
use super::time_sharing::{Machine, TimeSharing};
use super::{Cluster, State};
use crate::net::{high, low};
use crate::rt::ProcessId;

/// The time that a request waits for a seat: a quarter of the time that a request may take (K §2.11).
const SEAT_WAIT: Duration = Duration::from_secs(15);

/// A piece of work for a processor.
struct Job {
    since: SimTime,
    takes: Duration,
    of: JobOf,
}

enum JobOf {
    /// A request, which then goes to etcd.
    Request(Ticket),
    /// The answer of a request.
    Answer { ticket: Ticket, result: Result<ApiReply, ApiError> },
    /// An answer that its client takes in.
    Intake { ticket: Ticket, result: Result<ApiReply, ApiError> },
    /// The opening of a watch.
    Caller(Arc<Turn>),
    /// Changes on their way to watchers, which do not wait for it.
    Events,
}

impl JobOf {
    /// Whether the server does it, and not other programs on its machine.
    fn is_of_server(&self) -> bool {
        !matches!(self, JobOf::Intake { .. } | JobOf::Events)
    }
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

/// The present work of a server with a [`Capacity`].
#[derive(Default)]
pub(crate) struct Load {
    /// The number of busy processors.
    busy: u32,
    /// The jobs that wait for one, in the order of arrival.
    jobs: VecDeque<Job>,
    /// The concurrent jobs, if processors share their time.
    shared: TimeSharing<Job>,
    /// The number of these jobs that belong to requests, which may run concurrently only up to a limit.
    side_by_side: usize,
    /// The number of times that the end of the next of these jobs was scheduled.
    settings: u64,
    /// The number of changes to watchers that no processor has sent yet.
    pub(super) events: u32,
    /// The size of these changes in bytes, if the size costs time.
    pub(super) event_bytes: usize,
    /// The requests that have a seat.
    seated: BTreeSet<Ticket>,
    /// Requests that wait for a seat, by client; the client in front is next.
    waiting: VecDeque<(ProcessId, VecDeque<(Ticket, SimTime)>)>,
}

impl Load {
    /// Gives a job its share of the processors.
    fn share(&mut self, machine: Machine, job: Job, now: SimTime) {
        self.side_by_side += usize::from(job.of.is_of_server());
        self.shared.add(machine, now, job.takes, job);
    }

    fn waiting_of(&mut self, client: ProcessId) -> &mut VecDeque<(Ticket, SimTime)> {
        let found = self.waiting.iter().position(|(one, _)| *one == client);
        let index = found.unwrap_or_else(|| {
            self.waiting.push_back((client, VecDeque::new()));
            self.waiting.len() - 1
        });
        &mut self.waiting[index].1
    }

    /// Takes a request out of the wait for a seat. Returns whether it waited.
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

    /// The request that gets the next free seat. Its client goes to the end of the line.
    fn next_waiting(&mut self) -> Option<(Ticket, SimTime)> {
        let (client, mut of_client) = self.waiting.pop_front()?;
        let next = of_client.pop_front();
        if !of_client.is_empty() {
            self.waiting.push_back((client, of_client));
        }
        next
    }
}

/// The answer of a server that has no room for the request.
fn too_many() -> ApiError {
    ApiError::Plain { code: 429, text: "Too many requests, please try again later.", retry_after: Some(1) }
}

impl State {
    /// Takes in a request that has arrived: it gets a seat, waits for one, or is refused.
    pub(super) fn take_on(&mut self, cluster: &Arc<Cluster>, size: Size, ticket: Ticket, now: SimTime) {
        let Some(exchange) = self.exchanges.get_mut(ticket) else { return };
        let (client, server) = (exchange.client, exchange.server);
        let placeholder = Phase::Serving;
        let Phase::Arrives(request) = std::mem::replace(&mut exchange.phase, placeholder) else { unreachable!("it has just arrived") };
        exchange.phase = Phase::Waits(request);
        let load = &mut self.servers[server].load;
        if load.seated.len() < size.seats {
            self.seat(cluster, size, ticket, now, now);
            return;
        }
        let of_client = load.waiting_of(client);
        if of_client.len() >= size.queue {
            self.work.refused += 1;
            self.complete(ticket, Err(too_many()), now);
            return;
        }
        of_client.push_back((ticket, now));
        let cluster = cluster.clone();
        let rt = cluster.rt.clone();
        rt.at(now + SEAT_WAIT, move || cluster.lock().stop_waiting(ticket, now + SEAT_WAIT));
    }

    /// Refuses a request that has waited for a seat for too long, if it still waits.
    fn stop_waiting(&mut self, ticket: Ticket, now: SimTime) {
        let Some(exchange) = self.exchanges.get_mut(ticket) else { return };
        let server = exchange.server;
        if self.servers[server].load.leave_line(ticket) {
            self.work.refused += 1;
            self.complete(ticket, Err(too_many()), now);
        }
    }

    /// Gives a seat to a request, which then needs a processor.
    fn seat(&mut self, cluster: &Arc<Cluster>, size: Size, ticket: Ticket, since: SimTime, now: SimTime) {
        let Some(exchange) = self.exchanges.get_mut(ticket) else { return };
        let Phase::Waits(request) = &exchange.phase else { unreachable!("it waits") };
        let takes = size.before(cluster.registry.get(request.kind), &request.op, high(exchange.block[2]));
        let server = exchange.server;
        self.servers[server].load.seated.insert(ticket);
        self.work.requests += 1;
        self.work_on(cluster, size, server, Job { since, takes, of: JobOf::Request(ticket) }, now);
    }

    /// Frees the seat of a request, if it has one, for the next request.
    fn leave_seat(&mut self, cluster: &Arc<Cluster>, size: Size, server: usize, ticket: Ticket, now: SimTime) {
        if !self.servers[server].load.seated.remove(&ticket) {
            return;
        }
        while self.servers[server].load.seated.len() < size.seats
            && let Some((next, since)) = self.servers[server].load.next_waiting()
        {
            self.seat(cluster, size, next, since, now);
        }
    }

    /// Ends the work on a request without an answer, as far as its server can see: its caller is gone. What was sent to etcd goes on.
    pub(super) fn drop_out(&mut self, cluster: &Arc<Cluster>, server: usize, ticket: Ticket, now: SimTime) {
        if let Some(size) = self.size {
            self.leave_seat(cluster, size, server, ticket, now);
        }
    }

    /// Makes the server of a request notice that its caller has hung up: the request loses its seat, or its place in the line.
    pub(super) fn hear_hang_up(&mut self, cluster: &Arc<Cluster>, ticket: Ticket, now: SimTime) {
        let Some(size) = self.size.filter(|_| self.has_hung_up(Some(ticket))) else { return };
        let Some(exchange) = self.exchanges.get_mut(ticket) else { return };
        let server = exchange.server;
        if self.servers[server].load.leave_line(ticket) {
            self.exchanges.remove(ticket);
        } else if matches!(exchange.phase, Phase::Serving) {
            self.leave_seat(cluster, size, server, ticket, now);
        }
    }

    /// Gives a job to a free processor, or makes it wait for one.
    fn work_on(&mut self, cluster: &Arc<Cluster>, size: Size, server: usize, job: Job, now: SimTime) {
        if let Some(machine) = size.shared {
            let load = &mut self.servers[server].load;
            if job.of.is_of_server() && load.side_by_side >= size.side_by_side {
                load.jobs.push_back(job);
            } else {
                load.share(machine, job, now);
                self.expect_done(cluster, machine, server);
            }
        } else if self.servers[server].load.busy < size.width {
            self.servers[server].load.busy += 1;
            self.begin(cluster, server, job, now);
        } else {
            self.servers[server].load.jobs.push_back(job);
        }
    }

    /// Schedules the end of the next job of processors that share their time.
    fn expect_done(&mut self, cluster: &Arc<Cluster>, machine: Machine, server: usize) {
        let load = &mut self.servers[server].load;
        load.settings += 1;
        let setting = load.settings;
        let Some(at) = load.shared.next(machine) else { return };
        let incarnation = cluster.rt.incarnation(self.servers[server].process);
        let shared = cluster.clone();
        cluster.rt.at(at, move || shared.shared_are_done(server, incarnation, setting));
    }

    /// Records the time that a job has waited or was slowed down by others.
    fn note_wait(&mut self, job: &Job, waited: Duration, now: SimTime) {
        self.work.worked += job.takes;
        // Nothing waits for changes to be sent, and a client that is slow itself does not wait for its server.
        if matches!(job.of, JobOf::Events | JobOf::Intake { .. }) {
            return;
        }
        self.work.waited += waited;
        if let Some(waits) = &mut self.waits {
            waits.push((now, waited));
        }
    }

    /// Starts a job on a processor.
    fn begin(&mut self, cluster: &Arc<Cluster>, server: usize, job: Job, now: SimTime) {
        let done = now + job.takes;
        self.note_wait(&job, now - job.since, now);
        let incarnation = cluster.rt.incarnation(self.servers[server].process);
        let shared = cluster.clone();
        cluster.rt.at(done, move || shared.processor_is_free(server, incarnation, job.of));
    }

    /// Makes processors send the changes to watchers that were committed since the last time.
    fn send_events(&mut self, cluster: &Arc<Cluster>, size: Size, now: SimTime) {
        for server in 0..self.servers.len() {
            let load = &mut self.servers[server].load;
            let (events, bytes) = (std::mem::take(&mut load.events), std::mem::take(&mut load.event_bytes));
            let takes = size.event.saturating_mul(events) + size.of_bytes(bytes);
            if events == 0 || takes.is_zero() {
                continue;
            }
            if size.shared.is_some() {
                for _ in 0..events {
                    self.work_on(cluster, size, server, Job { since: now, takes: takes / events, of: JobOf::Events }, now);
                }
            } else {
                self.work_on(cluster, size, server, Job { since: now, takes, of: JobOf::Events }, now);
            }
        }
    }

    /// Takes in the result of a request that was served: it is answered when a processor has written the answer.
    pub(super) fn finish(
        &mut self,
        cluster: &Arc<Cluster>,
        server: usize,
        ticket: Ticket,
        result: Result<ApiReply, ApiError>,
        now: SimTime,
    ) {
        let Some(size) = self.size else { return self.complete(ticket, result, now) };
        self.send_events(cluster, size, now);
        let takes = self
            .exchanges
            .get_mut(ticket)
            .map_or(Duration::ZERO, |exchange| size.after(cluster.registry.get(exchange.kind), &result, high(exchange.block[2])));
        if takes.is_zero() {
            self.answered(cluster, size, server, ticket, result, now);
        } else {
            self.work_on(cluster, size, server, Job { since: now, takes, of: JobOf::Answer { ticket, result } }, now);
        }
    }

    /// Completes a request whose work at the server is done.
    fn answered(
        &mut self,
        cluster: &Arc<Cluster>,
        size: Size,
        server: usize,
        ticket: Ticket,
        result: Result<ApiReply, ApiError>,
        now: SimTime,
    ) {
        let taken_in = size.client.and_then(|client| {
            let exchange = self.exchanges.get_mut(ticket)?;
            // A separate draw: the server's times use the others.
            let quantile = low(exchange.block[2].wrapping_mul(ODD).rotate_left(32));
            let of_size = size.of_answer(cluster.registry.get(exchange.kind), &result);
            Some((exchange.due.max(now), client.sample(quantile) + of_size))
        });
        let Some((at, takes)) = taken_in else {
            self.complete(ticket, result, now);
            return self.leave_seat(cluster, size, server, ticket, now);
        };
        self.leave_seat(cluster, size, server, ticket, now);
        let (shared, incarnation) = (cluster.clone(), cluster.rt.incarnation(self.servers[server].process));
        cluster.rt.at(at, move || {
            let mut state = shared.lock();
            if shared.rt.incarnation(state.servers[server].process) == incarnation && state.servers[server].up {
                state.work_on(&shared, size, server, Job { since: at, takes, of: JobOf::Intake { ticket, result } }, at);
            } else {
                // The answer had left before its server crashed.
                state.complete(ticket, result, at);
            }
        });
    }
}

/// Derives a draw of a message that is independent of the others.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Cluster {
    /// The work done by the processors of all servers so far; zero without a [`Capacity`](super::capacity::Capacity).
    pub fn server_work(&self) -> ServerWork {
        self.lock().work
    }

    /// Starts to record the time that each job waits.
    pub fn keep_waits(&self) {
        self.lock().waits.get_or_insert_default();
    }

    /// The start times of the jobs that waited for a seat or a processor, each with its wait, if that was recorded.
    pub fn take_waits(&self) -> Option<Vec<(SimTime, Duration)>> {
        self.lock().waits.take()
    }

    /// Waits until a processor of `server` has done the work of opening a watch.
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

    /// Handles the end of a job: its processor takes the next one.
    fn processor_is_free(self: &Arc<Self>, server: usize, incarnation: u32, done: JobOf) {
        let mut state = self.lock();
        let Some(size) = state.size else { return };
        let now = self.rt.now();
        if self.rt.incarnation(state.servers[server].process) != incarnation || !state.servers[server].up {
            // The server crashed with all its pending work.
            drop(state);
            if let JobOf::Caller(turn) = done {
                turn.done();
            }
            return;
        }
        self.carry_on(&mut state, size, server, done, now);
        match state.servers[server].load.jobs.pop_front() {
            Some(job) => state.begin(self, server, job, now),
            None => state.servers[server].load.busy -= 1,
        }
    }

    /// Continues after a job that a processor has done.
    fn carry_on(self: &Arc<Self>, state: &mut State, size: Size, server: usize, done: JobOf, now: SimTime) {
        match done {
            JobOf::Request(ticket) => {
                let known = state.exchanges.get_mut(ticket).is_some_and(|exchange| matches!(exchange.phase, Phase::Waits(_)));
                if !known || state.has_hung_up(Some(ticket)) {
                    // A request that its caller gave up while it waited is not carried out (K108).
                    state.exchanges.remove(ticket);
                    state.leave_seat(self, size, server, ticket, now);
                } else if let Some(exchange) = state.exchanges.get_mut(ticket) {
                    if let Phase::Waits(request) = std::mem::replace(&mut exchange.phase, Phase::Serving) {
                        exchange.phase = Phase::InFlight(request);
                    }
                    (exchange.proposed, exchange.at) = (now, now + exchange.stored);
                    let (at, cluster) = (exchange.at, self.clone());
                    self.rt.at(at, move || cluster.execute(ticket));
                }
            }
            JobOf::Answer { ticket, result } => state.answered(self, size, server, ticket, result, now),
            JobOf::Intake { ticket, result } => state.complete(ticket, result, now),
            JobOf::Caller(turn) => turn.done(),
            JobOf::Events => {}
        }
    }

    /// Handles the expected end of a job of processors that share their time, unless a job was added since.
    fn shared_are_done(self: &Arc<Self>, server: usize, incarnation: u32, setting: u64) {
        let mut state = self.lock();
        let Some((size, machine)) = state.size.and_then(|size| Some((size, size.shared?))) else { return };
        let (now, here) = (self.rt.now(), &state.servers[server]);
        if here.load.settings != setting || self.rt.incarnation(here.process) != incarnation || !here.up {
            return;
        }
        while let Some(job) = state.servers[server].load.shared.done(machine, now) {
            state.note_wait(&job, (now - job.since).saturating_sub(job.takes), now);
            let load = &mut state.servers[server].load;
            load.side_by_side -= usize::from(job.of.is_of_server());
            if job.of.is_of_server()
                && let Some(next) = load.jobs.pop_front()
            {
                load.share(machine, next, now);
            }
            self.carry_on(&mut state, size, server, job.of, now);
        }
        state.expect_done(self, machine, server);
    }

    /// Wakes the tasks that wait for a crashed server to open a watch: they find it down.
    pub(super) fn forget_load(load: &mut Load) {
        let mut lost = std::mem::take(load);
        // A timer that is still set must not be mistaken for a later one.
        load.settings = lost.settings + 1;
        for job in lost.jobs.drain(..).chain(lost.shared.take()) {
            if let JobOf::Caller(turn) = job.of {
                turn.done();
            }
        }
    }
}
