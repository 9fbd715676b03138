//! What faults do to the cluster: the harness's controls over API servers and etcd (K §9.2 B).

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, Waker};
use std::time::Duration;

use ipam_core::api::TransportError;

use super::admission::{Forbidden, Webhook};
use super::exchange::{Phase, Ticket};
use super::server::ApiFault;
use super::store::Revision;
use super::watch::End;
use super::{Fabric, State, WritePoint};
use crate::kinds::KindId;
use crate::rt::ProcessId;
use crate::time::SimTime;
use crate::trace::{EventKind, ProcessChange};

/// Why etcd does not answer (K §3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtcdTrouble {
    /// It stands still (a slow disk): requests wait and go on.
    Paused,
    /// A leader is being elected: requests wait; some are answered with `leader changed` although they commit.
    Electing,
    /// No majority: requests fail after etcd's own time-out; some commit when the majority is back.
    NoQuorum,
}

#[derive(Default)]
pub(crate) struct Etcd {
    pub trouble: Option<EtcdTrouble>,
    /// Whether every step takes as long as on an overloaded disk.
    pub degraded: bool,
    waiting: Vec<Waker>,
}

impl Etcd {
    pub(crate) fn is_degraded(&self) -> bool {
        self.degraded
    }
}

impl State {
    /// Takes changes into the caches of one server that could not be taken before.
    fn catch_up(&mut self, fabric: &Fabric, server: usize) {
        let now = fabric.rt.now();
        for (kind, _) in fabric.registry.iter() {
            self.dispatch_on(&fabric.rt, &fabric.registry, server, kind, now);
        }
    }

    /// Fills the caches of servers that could not list while etcd was out of their reach.
    fn initialize_waiting(&mut self, now: SimTime) {
        for server in 0..self.servers.len() {
            if self.servers[server].up && self.servers[server].ready_at == SimTime::NEVER && self.reaches_etcd(server) {
                self.servers[server].ready_at = now;
                self.restart_caches(server, None);
            }
        }
    }

    /// Caches of one server start again from a list of the present state.
    fn restart_caches(&mut self, server: usize, kind: Option<KindId>) {
        let State { servers, store, .. } = self;
        for (id, cache) in servers[server].caches.iter_mut().enumerate() {
            if kind.is_none_or(|kind| usize::from(kind.0) == id) {
                cache.restart(store.revision(), store.table(KindId(id as u16)).next_index());
            }
        }
    }

    fn wake_etcd_waiters(&mut self) {
        for waker in self.etcd.waiting.drain(..) {
            waker.wake();
        }
    }

    /// Whether requests through `server` reach etcd.
    pub(crate) fn reaches_etcd(&self, server: usize) -> bool {
        self.etcd.trouble.is_none() && !self.servers[server].etcd_cut
    }
}

impl Fabric {
    /// Completes when requests through `server` reach etcd.
    pub(crate) fn etcd_reached(self: &Arc<Self>, server: usize) -> impl Future<Output = ()> + Send + 'static {
        let fabric = self.clone();
        std::future::poll_fn(move |cx| {
            let mut state = fabric.lock();
            if state.reaches_etcd(server) {
                return Poll::Ready(());
            }
            state.etcd.waiting.push(cx.waker().clone());
            Poll::Pending
        })
    }

    /// Etcd gets into trouble, or out of it.
    pub fn set_etcd_trouble(&self, trouble: Option<EtcdTrouble>) {
        let mut state = self.lock();
        state.etcd.trouble = trouble;
        state.wake_etcd_waiters();
        state.initialize_waiting(self.rt.now());
    }

    /// Every step that needs etcd takes as long as on an overloaded disk, or no longer.
    pub fn set_etcd_degraded(&self, degraded: bool) {
        self.lock().etcd.degraded = degraded;
    }

    /// Cuts one server off from etcd: writes and quorum reads through it wait, its caches stand still (K §9.2 B10).
    pub fn set_etcd_cut(&self, server: usize, cut: bool) {
        let mut state = self.lock();
        state.servers[server].etcd_cut = cut;
        state.wake_etcd_waiters();
        state.initialize_waiting(self.rt.now());
        state.catch_up(self, server);
    }

    /// Every step of one server takes as long as under overload, or no longer.
    pub fn set_server_degraded(&self, server: usize, degraded: bool) {
        self.lock().servers[server].degraded = degraded;
    }

    /// Freezes or unfreezes the watch cache of one type (or of all) on one server (K §9.2 B1, K053).
    pub fn set_frozen(&self, server: usize, kind: Option<KindId>, frozen: bool) {
        let mut state = self.lock();
        for (id, cache) in state.servers[server].caches.iter_mut().enumerate() {
            if kind.is_none_or(|kind| usize::from(kind.0) == id) {
                cache.frozen = frozen;
            }
        }
        state.catch_up(self, server);
    }

    /// Adds to the lag of the watch cache of one type (or of all) on one server (K §9.2 B2).
    pub fn set_extra_lag(&self, server: usize, kind: Option<KindId>, lag: Duration) {
        for (id, cache) in self.lock().servers[server].caches.iter_mut().enumerate() {
            if kind.is_none_or(|kind| usize::from(kind.0) == id) {
                cache.extra_lag = lag;
            }
        }
    }

    /// Ends watches cleanly; they can be resumed (K §9.2 B3). `None` = of every type, of every client.
    pub fn close_watches(&self, server: usize, kind: Option<KindId>, client: Option<ProcessId>) {
        let now = self.rt.now();
        self.lock().end_streams(&self.rt, server, kind, client, End::Clean, now);
    }

    /// The watches of `client` break and its connection leads to `server` from now on (K §9.2 B6). Requests that are on
    /// their way are still answered, as after a GOAWAY.
    pub fn move_connection(&self, client: ProcessId, server: usize) {
        let now = self.rt.now();
        let mut state = self.lock();
        if let Some(connection) = state.connections.get(&client) {
            connection.server.store(server, Ordering::Relaxed);
            connection.breaks.fetch_add(1, Ordering::Relaxed);
        }
        for number in 0..state.servers.len() {
            state.end_streams(&self.rt, number, None, Some(client), End::Broken(TransportError::Reset), now);
        }
    }

    /// The cache starts again from a list: its watches end and older revisions get 410 (K §9.2 B4). A server that does
    /// not reach etcd has nothing to start from: there only the watches end.
    pub fn forget_history(&self, server: usize, kind: Option<KindId>) {
        let now = self.rt.now();
        let mut state = self.lock();
        state.end_streams(&self.rt, server, kind, None, End::Clean, now);
        if state.reaches_etcd(server) {
            state.restart_caches(server, kind);
        }
    }

    /// Compacts the store up to `revision` and drops what nobody can ask for any more (K §9.2 B12).
    pub fn compact(&self, revision: Revision) {
        let now = self.rt.now();
        let mut state = self.lock();
        state.store.compact(revision);
        for (kind, _) in self.registry.iter() {
            let mut keep = state.store.compacted();
            for server in 0..state.servers.len() {
                let oldest = state.oldest_start(server, kind, now);
                let visible = state.servers[server].caches[usize::from(kind.0)].visible(now);
                keep = keep.min(oldest).min(visible);
            }
            state.store.drop_changes(kind, keep);
        }
    }

    /// Takes revisions that belong to no object (K §9.2 B19).
    pub fn burn_revisions(&self, revisions: u64) {
        self.lock().store.burn(revisions);
    }

    /// An API server crashes: its requests end without an answer, its streams break, its caches are lost (K §9.2 B7).
    pub fn crash_server(self: &Arc<Self>, server: usize) {
        let now = self.rt.now();
        let process = self.server_process(server);
        {
            let mut state = self.lock();
            if !state.servers[server].up {
                return;
            }
            state.end_streams(&self.rt, server, None, None, End::Broken(TransportError::Reset), now);
            state.servers[server].up = false;
            let serving: Vec<Ticket> = state
                .exchanges
                .iter()
                .filter(|(_, exchange)| exchange.server == server && matches!(exchange.phase, Phase::Serving))
                .map(|(id, exchange)| Ticket { id, serial: exchange.serial })
                .collect();
            for ticket in serving {
                state.complete(ticket, Err(TransportError::Reset.into()), now);
            }
        }
        self.crash(process);
    }

    /// The server is back; its caches are ready `initializing` later, or when it reaches etcd if that is later still, and
    /// have no history before that (K044).
    pub fn restart_server(self: &Arc<Self>, server: usize, initializing: Duration) {
        let ready_at = self.rt.now() + initializing;
        let process = self.server_process(server);
        self.start(process);
        let mut state = self.lock();
        state.servers[server].up = true;
        state.servers[server].paused = false;
        state.servers[server].ready_at = ready_at;
        state.restart_caches(server, None);
        drop(state);
        let fabric = self.clone();
        self.rt.at(ready_at, move || fabric.fill_caches(server));
    }

    /// The initial list of a restarted server.
    fn fill_caches(&self, server: usize) {
        let mut state = self.lock();
        let now = self.rt.now();
        if state.servers[server].up && state.servers[server].ready_at <= now {
            state.servers[server].ready_at = SimTime::NEVER;
            state.initialize_waiting(now);
        }
    }

    /// The next pod that `server` deletes without grace is left between the two phases: the server crashes (K102).
    pub fn crash_in_next_delete(&self, server: usize) {
        self.lock().servers[server].crash_in_delete = true;
    }

    /// Adds a mishap for some requests.
    pub fn add_api_fault(&self, fault: ApiFault) {
        self.lock().api_faults.push(fault);
    }

    /// Removes the mishaps of one fault of the plan.
    pub fn remove_api_faults(&self, fault: u32) {
        self.lock().api_faults.retain(|known| known.fault != fault);
    }

    /// Refuses some requests with 403.
    pub fn forbid(&self, rule: Forbidden) {
        self.lock().forbidden.push(rule);
    }

    /// Refuses nothing any more that `fault` asked to refuse.
    pub fn permit(&self, fault: Option<u32>) {
        self.lock().forbidden.retain(|known| known.fault != fault);
    }

    /// Registers a webhook; they are called in the order of their names.
    pub fn add_webhook(&self, webhook: Webhook) {
        let mut state = self.lock();
        let position = state.webhooks.partition_point(|known| known.name <= webhook.name);
        state.webhooks.insert(position, webhook);
    }

    /// Adds a crash point.
    pub fn add_write_point(&self, point: WritePoint) {
        self.lock().write_points.push(point);
    }

    /// Removes the crash points.
    pub fn clear_write_points(&self) {
        self.lock().write_points.clear();
    }

    // ------------------------------------------------------------------------------------------------ processes

    fn process_event(&self, process: ProcessId, change: ProcessChange) {
        let at = self.rt.now();
        self.lock().recorder.observe(at, EventKind::Process { process, change });
    }

    /// Starts a process and records it.
    pub fn start(&self, process: ProcessId) -> bool {
        // The event comes first: what the process does at once belongs to its life.
        if self.rt.state(process) == crate::rt::ProcessState::Down {
            self.process_event(process, ProcessChange::Started);
        }
        self.rt.start(process)
    }

    /// Crashes a process and records it. What it has sent is still executed.
    pub fn crash(&self, process: ProcessId) -> bool {
        if self.rt.state(process) != crate::rt::ProcessState::Down {
            self.process_event(process, ProcessChange::Crashed);
        }
        self.rt.crash(process)
    }

    /// Stops a process in its tracks and records it. What it has sent is still executed.
    pub fn pause(self: &Arc<Self>, process: ProcessId) -> bool {
        let paused = self.rt.pause(process);
        if paused {
            self.process_event(process, ProcessChange::Paused);
            self.detach_requests(process);
            self.set_server_paused(process, true);
        }
        paused
    }

    /// Lets a paused process go on and records it.
    pub fn resume(self: &Arc<Self>, process: ProcessId) -> bool {
        if self.rt.state(process) == crate::rt::ProcessState::Paused {
            self.process_event(process, ProcessChange::Resumed);
        }
        self.set_server_paused(process, false);
        self.rt.resume(process)
    }

    /// An API server that stands still takes no changes and answers nothing.
    fn set_server_paused(&self, process: ProcessId, paused: bool) {
        let mut state = self.lock();
        if let Some(server) = state.servers.iter().position(|server| server.process == process) {
            state.servers[server].paused = paused;
            state.catch_up(self, server);
        }
    }

    /// How many requests are on their way or being served; for tests.
    pub fn open_exchanges(&self) -> usize {
        self.lock().exchanges.len()
    }

    /// When, at the latest, everything visible in the store now is visible on every server; `NEVER` = some are frozen.
    pub fn caches_caught_up_at(&self, kind: KindId) -> SimTime {
        let mut state = self.lock();
        let now = self.rt.now();
        let State { servers, store, .. } = &mut *state;
        let next = store.table(kind).next_index();
        servers.iter_mut().filter(|server| server.up).fold(now, |latest, server| {
            let cache = &mut server.caches[usize::from(kind.0)];
            cache.visible(now);
            if cache.next < next { SimTime::NEVER } else { latest.max(cache.incoming.back().map_or(now, |&(_, due)| due)) }
        })
    }
}
