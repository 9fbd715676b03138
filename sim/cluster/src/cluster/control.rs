//! The effects of faults on the cluster: the harness's controls over API servers and etcd (K §9.2 B).

use std::sync::Arc;
use std::time::Duration;

use kube_machinery::api::TransportError;
use sim_config::time::SimTime;

use super::admission::{Forbidden, HookFault, Service, Webhook};
use super::api_server::ApiServer;
use super::cache_lag::{CacheLag, lag_of};
use super::change_point::ChangePoint;
use super::exchanges::Phase;
use super::server::ApiFault;
use super::store::Revision;
use super::watch_element::End;
use super::{Cluster, State, WritePoint};
use crate::kinds::KindId;
use crate::net::Side;
use crate::rt::ProcessId;
use crate::trace::{EventKind, ProcessChange};

/// The time for which an API server that does not renew its lease stays among the endpoints of the `kubernetes` service (K155).
const ENDPOINT_LEASE: Duration = Duration::from_secs(15);
/// The interval at which API servers compact etcd (K §9.2 B12).
const COMPACTION_EVERY: Duration = Duration::from_secs(300);

impl State {
    /// Takes the changes into the caches of one server that could not be taken in before.
    fn catch_up(&mut self, cluster: &Cluster, server: usize) {
        let now = cluster.rt.now();
        for (kind, _) in cluster.registry.iter() {
            self.dispatch_on(&cluster.rt, &cluster.registry, server, kind, now);
        }
    }

    /// Stops the caches of one type (or of all) on one server at their present state.
    fn hold_caches(&mut self, cluster: &Cluster, server: usize, only: Option<KindId>) {
        let now = cluster.rt.now();
        for (kind, _) in cluster.registry.iter().filter(|(kind, _)| only.is_none_or(|only| only == *kind)) {
            self.hold_cache(server, kind, now);
        }
    }

    /// Makes the caches of one type (or of all) on one server start again; their watches have been ended.
    fn lose_caches(&mut self, server: usize, only: Option<KindId>) {
        for (id, cache) in self.servers[server].caches.iter_mut().enumerate() {
            cache.lost |= only.is_none_or(|kind| usize::from(kind.0) == id);
        }
    }

    fn fill_lost_caches(&mut self, server: usize, now: SimTime) {
        let State { servers, store, recorder, .. } = self;
        let ApiServer { process, ref mut caches, .. } = servers[server];
        for (kind, cache) in (0..).map(KindId).zip(caches).filter(|(_, cache)| cache.lost) {
            if cache.lost_events.lacks_any() {
                recorder.observe(now, EventKind::Relisted { server: process, kind });
            }
            cache.restart(store.revision(), store.table(kind).next_index());
        }
    }

    /// Notes which servers are down or cut off from everything, and which no longer are.
    pub(super) fn note_silence(&mut self, now: SimTime) {
        for server in &mut self.servers {
            let silent = !server.up || self.net.is_isolated(server.process);
            server.silent_since = silent.then(|| server.silent_since.unwrap_or(now));
        }
    }

    /// The numbers of the servers to which a new connection may lead (K155): all but those that have been down or cut off from everything
    /// for the duration of their lease. All, if none is left.
    pub(super) fn servers_in_service(&self, now: SimTime) -> Vec<usize> {
        let expired = |number: &usize| self.servers[*number].silent_since.is_some_and(|since| since + ENDPOINT_LEASE <= now);
        let (gone, left): (Vec<_>, Vec<_>) = (0..self.servers.len()).partition(expired);
        if left.is_empty() { gone } else { left }
    }
}

impl Cluster {
    /// Cuts one server off from etcd: writes and quorum reads through it wait, its caches stop advancing (K §9.2 B10).
    pub fn set_etcd_cut(&self, server: usize, cut: bool) {
        let mut state = self.lock();
        if cut {
            state.hold_caches(self, server, None);
        }
        state.servers[server].etcd_cut = cut;
        state.wake_etcd_waiters();
        state.catch_up(self, server);
    }

    /// Makes every step of one server take as long as under overload, or no longer.
    pub fn set_server_degraded(&self, server: usize, degraded: bool) {
        self.lock().servers[server].degraded = degraded;
    }

    /// Freezes or unfreezes the watch cache of one type (or of all) on one server (K §9.2 B1, K053).
    pub fn set_frozen(&self, server: usize, kind: Option<KindId>, frozen: bool) {
        let mut state = self.lock();
        if frozen {
            state.hold_caches(self, server, kind);
        }
        for (id, cache) in state.servers[server].caches.iter_mut().enumerate() {
            if kind.is_none_or(|kind| usize::from(kind.0) == id) {
                cache.frozen = frozen;
            }
        }
        state.catch_up(self, server);
    }

    /// Keeps the next change of a type from the watch cache of one server (K §9.2 B15).
    pub fn lose_event(&self, server: usize, kind: KindId) {
        self.lock().lose_next_event(server, kind, true);
    }

    /// Repairs, as an upgrade would, the bug by which the watch cache of one server has lost changes: the caches of the type start again on
    /// all servers, so that all clients list that missed a change, even those that have since left that server.
    pub fn repair_cache(self: &Arc<Self>, server: usize, kind: KindId) {
        {
            let mut state = self.lock();
            state.lose_next_event(server, kind, false);
            // Restarts take time, in which leases are written: every client's revision is too old for the new caches, so it has to list.
            state.store.burn(1);
        }
        (0..self.servers()).for_each(|server| self.forget_history(server, Some(kind)));
    }

    /// Adds to the lag of the watch cache of one type (or of all) on one server (K §9.2 B2).
    pub fn set_extra_lag(&self, server: usize, kind: Option<KindId>, lag: Duration) {
        for (id, cache) in self.lock().servers[server].caches.iter_mut().enumerate() {
            if kind.is_none_or(|kind| usize::from(kind.0) == id) {
                cache.extra_lag = lag;
            }
        }
    }

    /// Delays the events of the watches of `client` on one type (or on all) by `lag`, also on watches that it opens from now on. Lists are
    /// not delayed. [`Duration::ZERO`] lifts it.
    pub fn set_cache_lag(&self, client: ProcessId, kind: Option<KindId>, lag: Duration) {
        let mut state = self.lock();
        state.cache_lags.retain(|known| (known.client, known.kind) != (client, kind));
        if !lag.is_zero() {
            state.cache_lags.push(CacheLag { client, kind, lag });
        }
        let State { watchers, cache_lags, .. } = &mut *state;
        for (_, watcher) in watchers.iter_mut().filter(|(_, watcher)| watcher.client == client) {
            watcher.lag = lag_of(cache_lags, client, watcher.kind);
        }
    }

    /// Ends watches cleanly; they can be resumed (K §9.2 B3). `None` = of every type, of every client.
    pub fn close_watches(&self, server: usize, kind: Option<KindId>, client: Option<ProcessId>) {
        let now = self.rt.now();
        self.lock().end_streams(&self.rt, server, kind, client, End::Clean, now);
    }

    /// Breaks the watches of `client` and directs its connection to `server` from now on (K §9.2 B6). Requests in flight are still
    /// answered, as after a GOAWAY.
    pub fn move_connection(&self, client: ProcessId, server: usize) {
        let now = self.rt.now();
        let mut state = self.lock();
        if let Some(connection) = state.connections.get(&client) {
            connection.move_to(server);
        }
        for number in 0..state.servers.len() {
            state.end_streams(&self.rt, number, None, Some(client), End::Broken(TransportError::Reset), now);
        }
    }

    /// Makes the cache start again from a list: its watches end and older revisions get 410 (K §9.2 B4). Without etcd there is no list, and
    /// the cache is not ready until etcd is reached.
    pub fn forget_history(self: &Arc<Self>, server: usize, kind: Option<KindId>) {
        let now = self.rt.now();
        {
            let mut state = self.lock();
            if !state.servers[server].up {
                return;
            }
            state.end_streams(&self.rt, server, kind, None, End::Clean, now);
            state.lose_caches(server, kind);
        }
        self.list_lost_caches(server);
    }

    /// Compacts the store up to `revision` and drops states that can no longer be requested (K §9.2 B12).
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

    /// Compacts the store from now on every five minutes, up to the revision of the previous time, as API servers do (K §3.4, §9.2 B12).
    /// Without it a long run would keep every version of every object.
    pub fn compact_regularly(self: &Arc<Self>) {
        let (up_to, cluster) = (self.store(|store| store.revision()), Arc::downgrade(self));
        self.rt.at(self.rt.now() + COMPACTION_EVERY, move || {
            if let Some(cluster) = cluster.upgrade() {
                cluster.compact(up_to);
                cluster.compact_regularly();
            }
        });
    }

    /// Takes revisions that belong to no object (K §9.2 B19).
    pub fn burn_revisions(&self, revisions: u64) {
        self.lock().store.burn(revisions);
    }

    /// Crashes an API server: its requests end without an answer, its streams break, its caches are lost (K §9.2 B7).
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
            state.note_silence(now);
            Cluster::forget_load(&mut state.servers[server].load);
            let (mut serving, mut proposed) = (Vec::new(), Vec::new());
            for (ticket, exchange) in state.exchanges.iter().filter(|(_, exchange)| exchange.server == server) {
                match &exchange.phase {
                    Phase::Waits(_) | Phase::Serving => serving.push(ticket),
                    Phase::InFlight(request) if request.op.verb().is_write() && exchange.proposed <= now => proposed.push(ticket),
                    Phase::Arrives(_) | Phase::InFlight(_) | Phase::Done { .. } => {}
                }
            }
            for ticket in serving {
                state.complete(ticket, Err(TransportError::Reset.into()), now);
            }
            // Etcd may carry out a transaction without the server that sent it: the broken connection does not show whether it does.
            for ticket in proposed {
                let outlives = state.choices.chance(0.5);
                if let Some(exchange) = state.exchanges.get_mut(ticket) {
                    exchange.outlives_server = outlives;
                }
            }
        }
        self.crash(process);
    }

    /// Brings a server back; its caches are ready `initializing` later and have no history before that (K044).
    pub fn restart_server(self: &Arc<Self>, server: usize, initializing: Duration) {
        let ready_at = self.rt.now() + initializing;
        let process = self.server_process(server);
        self.start(process);
        let mut state = self.lock();
        state.servers[server].up = true;
        state.note_silence(self.rt.now());
        state.servers[server].paused = false;
        state.servers[server].ready_at = ready_at;
        state.servers[server].started_at = self.rt.now();
        state.lose_caches(server, None);
        state.fill_lost_caches(server, self.rt.now());
        drop(state);
        let cluster = self.clone();
        self.rt.at(ready_at, move || {
            {
                let mut state = cluster.lock();
                // Another crash may have come in between.
                if !state.servers[server].up || state.servers[server].ready_at != ready_at {
                    return;
                }
                state.lose_caches(server, None);
            }
            cluster.list_lost_caches(server);
        });
    }

    /// Makes the initial list of caches that have none, as soon as etcd is reached.
    fn list_lost_caches(self: &Arc<Self>, server: usize) {
        let mut state = self.lock();
        if state.reaches_etcd(server) && !state.servers[server].paused {
            state.fill_lost_caches(server, self.rt.now());
            return;
        }
        let process = state.servers[server].process;
        drop(state);
        let cluster = self.clone();
        self.rt.spawn(process, async move {
            cluster.etcd_reached(server).await;
            cluster.lock().fill_lost_caches(server, cluster.rt.now());
        });
    }

    /// Makes `server` crash between the two phases of the next pod deletion without grace (K102).
    pub fn crash_in_next_delete(&self, server: usize) {
        self.lock().servers[server].crash_in_delete = true;
    }

    /// Adds an injected fault for some requests.
    pub fn add_api_fault(&self, fault: ApiFault) {
        self.lock().api_faults.push(fault);
    }

    /// Removes the injected faults of one fault of the plan.
    pub fn remove_api_faults(&self, fault: u32) {
        self.lock().api_faults.retain(|known| known.fault != fault);
    }

    /// Refuses some requests with 403.
    pub fn forbid(&self, rule: Forbidden) {
        self.lock().forbidden.push(rule);
    }

    /// Removes the refusals that `fault` added.
    pub fn permit(&self, fault: Option<u32>) {
        self.lock().forbidden.retain(|known| known.fault != fault);
    }

    /// Refuses the requests of some clients with 401, on behalf of a fault of the plan.
    pub fn reject_tokens(&self, fault: u32, clients: Side) {
        self.lock().unauthorized.push((fault, clients));
    }

    /// Accepts the tokens again that `fault` had rejected.
    pub fn accept_tokens(&self, fault: u32) {
        self.lock().unauthorized.retain(|(known, _)| *known != fault);
    }

    /// Gives new pods that do not set it a toleration of lost nodes for this time, in whole seconds: the DefaultTolerationSeconds plugin,
    /// which is off unless this is called (K §6.2).
    pub fn tolerate_by_default(&self, lasts: Duration) {
        let kind = self.registry.id::<k8s_openapi::api::core::v1::Pod>();
        self.lock().default_toleration = Some((kind, i64::try_from(lasts.as_secs()).unwrap_or(i64::MAX)));
    }

    /// Registers a webhook, after those already in its configuration (K194).
    pub fn add_webhook(&self, webhook: Webhook) {
        let mut state = self.lock();
        let position = state.webhooks.partition_point(|known| known.configuration <= webhook.configuration);
        state.webhooks.insert(position, webhook);
    }

    /// Replaces the mutating or the validating webhooks of the configuration with this name.
    pub fn configure_webhooks(&self, configuration: &str, mutating: bool, webhooks: Vec<Webhook>) {
        self.lock().webhooks.retain(|known| known.mutating != mutating || *known.configuration != *configuration);
        webhooks.into_iter().for_each(|webhook| self.add_webhook(webhook));
    }

    /// Adds a fault of webhook calls.
    pub fn add_hook_fault(&self, fault: HookFault) {
        self.lock().hook_faults.push(fault);
    }

    /// Removes the faults of webhook calls that belong to one fault of the plan.
    pub fn remove_hook_faults(&self, fault: u32) {
        self.lock().hook_faults.retain(|known| known.fault != fault);
    }

    /// Adds a crash point.
    pub fn add_write_point(&self, point: WritePoint) {
        self.lock().write_points.push(point);
    }

    /// Makes a fault wait for changes from now on.
    pub fn add_change_point(&self, point: ChangePoint) {
        self.lock().change_points.add(point);
    }

    /// Removes all waits for changes.
    pub fn clear_change_points(&self) {
        self.lock().change_points.clear();
    }

    /// The number of writes that each process has sent, by its name.
    pub fn writes(&self) -> Vec<(Arc<str>, u32)> {
        let mut writes: Vec<(ProcessId, u32)> = self.lock().writes.iter().map(|(&process, &count)| (process, count)).collect();
        writes.sort_unstable();
        writes.into_iter().map(|(process, count)| (self.rt.process_name(process), count)).collect()
    }

    /// Removes the crash points.
    pub fn clear_write_points(&self) {
        self.lock().write_points.clear();
    }

    // ------------------------------------------------------------------------------------------------ processes

    fn process_event(&self, process: ProcessId, change: ProcessChange) {
        let at = self.rt.now();
        let (is_server, services) = {
            let mut state = self.lock();
            state.recorder.observe(at, EventKind::Process { process, change });
            let services: Vec<Arc<Service>> = state.webhooks.iter().map(|hook| hook.service.clone()).collect();
            (state.servers.iter().any(|server| server.process == process), services)
        };
        // Outside the lock: dropping a handler may take it. Several webhooks may share a Service, which is then notified more than once.
        services.iter().for_each(|service| service.process_changed(process, change, at));
        self.nodes.heartbeats.process_changed(process, change, is_server, at);
    }

    /// Starts a process and records it.
    pub fn start(&self, process: ProcessId) -> bool {
        self.lock().backing_off.remove(&process);
        // The event comes first: whatever the process does at once belongs to its life.
        if self.rt.state(process) == crate::rt::ProcessState::Down {
            self.process_event(process, ProcessChange::Started);
        }
        self.rt.start(process)
    }

    /// Crashes a process and records it. Requests that it has sent are still executed. A process that is about to restart after a panic no
    /// longer does so.
    pub fn crash(&self, process: ProcessId) -> bool {
        self.lock().backing_off.remove(&process);
        if self.rt.state(process) != crate::rt::ProcessState::Down {
            self.process_event(process, ProcessChange::Crashed);
        }
        self.rt.crash(process)
    }

    /// Records that a process of the system under test panicked, and starts it again after a while.
    pub fn panicked(self: &Arc<Self>, process: ProcessId, back_off: Duration) {
        self.process_event(process, ProcessChange::Panicked);
        self.start_after(process, back_off);
    }

    /// Replaces a process: it crashes, and starts again after a while. One that is down stays down until the fault that keeps it down ends.
    pub fn restart_after(self: &Arc<Self>, process: ProcessId, down: Duration) {
        if self.rt.state(process) != crate::rt::ProcessState::Down {
            self.crash(process);
            self.start_after(process, down);
        }
    }

    /// Starts a process that went down by itself, unless it is started or kept down by other means before.
    fn start_after(self: &Arc<Self>, process: ProcessId, back_off: Duration) {
        let life = self.rt.incarnation(process);
        self.lock().backing_off.insert(process, life);
        let cluster = self.clone();
        self.rt.at(self.rt.now() + back_off, move || {
            if cluster.lock().backing_off.get(&process) == Some(&life) {
                cluster.start(process);
            }
        });
    }

    /// Whether a process is down only because it panicked a short while ago.
    pub fn backs_off(&self, process: ProcessId) -> bool {
        self.lock().backing_off.contains_key(&process)
    }

    /// Pauses a process and records it. Requests that it has sent are still executed.
    pub fn pause(self: &Arc<Self>, process: ProcessId) -> bool {
        let paused = self.rt.pause(process);
        if paused {
            self.process_event(process, ProcessChange::Paused);
            self.lock().hold_deferred(self, process, self.rt.now());
            self.detach_requests(process);
            self.set_server_paused(process, true);
        }
        paused
    }

    /// Resumes a paused process and records it.
    pub fn resume(self: &Arc<Self>, process: ProcessId) -> bool {
        if self.rt.state(process) == crate::rt::ProcessState::Paused {
            self.process_event(process, ProcessChange::Resumed);
        }
        self.set_server_paused(process, false);
        self.rt.resume(process)
    }

    /// Pauses or resumes an API server: a paused one takes in no changes and answers nothing.
    fn set_server_paused(&self, process: ProcessId, paused: bool) {
        let mut state = self.lock();
        if let Some(server) = state.servers.iter().position(|server| server.process == process) {
            if paused {
                state.hold_caches(self, server, None);
            }
            state.servers[server].paused = paused;
            state.check_streams(&self.rt, self.rt.now());
            state.check_connections(self.rt.now());
            state.catch_up(self, server);
        }
    }

    /// The number of requests in flight or being served; for tests.
    pub fn open_exchanges(&self) -> usize {
        self.lock().exchanges.len()
    }
}
