//! Watch streams (K §2.3 to §2.5): the elements that each watcher will see, and their times.
//!
//! A stream's queue holds elements with the time at which each arrives at the client. They are put there when the change is committed (or
//! when a frozen cache resumes), so an idle watch costs nothing and a delivery costs one timer. It costs none if the reader has deferred
//! its deliveries: see [`deferred`](super::deferred).

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use kube_machinery::Status;
use kube_machinery::api::WatchOptions;
use sim_config::draw::unit;
use sim_config::time::SimTime;

use super::State;
use super::api_server::ApiServer;
use super::lost_events::Taken;
use super::store::{Revision, in_namespace};
use super::transport::Transport;
use super::watch_element::{Element, End, convert, trigger_of};
use super::watcher::{Deferral, Watcher};
use super::write::size_of;
use crate::kinds::{KindId, Registry};
use crate::rt::{ProcessId, Rt};
use crate::selector::Selector;
use crate::trace::{EventKind, WatchKind};

/// The least time for which events stay in a server's history (K §2.5).
const HISTORY_AGE: Duration = Duration::from_secs(75);

/// The beginning of a stream.
pub enum Start {
    /// Events after a revision.
    After(Revision),
    /// The present state of the server's cache.
    State,
    /// This error and nothing else: the request as such was accepted (K056).
    Refused(Box<Status>),
}

/// The result of reading a stream.
pub enum Next {
    /// An element; `announced`: its delivery was recorded before.
    Element {
        element: Arc<Element>,
        announced: bool,
    },
    End(End),
    /// Nothing yet: the reader has been registered.
    Wait,
}

impl State {
    /// Takes new changes of one type into every cache that can take them, and on to its watchers.
    pub fn dispatch(&mut self, rt: &Rt, registry: &Registry, kind: KindId, now: SimTime) {
        for server in 0..self.servers.len() {
            self.dispatch_on(rt, registry, server, kind, now);
        }
    }

    /// The same for one server.
    pub fn dispatch_on(&mut self, rt: &Rt, registry: &Registry, server: usize, kind: KindId, now: SimTime) {
        let buffer = self.knobs.watch_buffer as usize;
        let State { servers, store, net, watchers, deferred, samplers, degraded_samplers, etcd, recorder, size, .. } = self;
        let (request_points, held_changes) = (&mut self.request_points, &mut self.held_changes);
        let weighs = size.is_some_and(|size| size.weighs());
        let counts = request_points.is_kept() || held_changes.listens();
        let ApiServer { process, up, paused, etcd_cut, degraded, ref mut caches, ref mut load, .. } = servers[server];
        let cache = &mut caches[usize::from(kind.0)];
        if !up || paused || etcd_cut || cache.frozen || cache.lost {
            return;
        }
        let samplers = if degraded || etcd.is_degraded() { degraded_samplers } else { samplers };
        let (table, def) = (store.table(kind), registry.get(kind));
        while let Some(change) = table.change(cache.next) {
            let index = cache.next;
            cache.next += 1;
            let due = (now + samplers.cache_lag.sample(unit(cache.lag.u64())) + cache.extra_lag).max(cache.last_due);
            cache.last_due = due;
            cache.incoming.push_back((change.revision, due));
            // Visible entries are only pruned by reads; without readers the queue would keep the whole run.
            if cache.incoming.len() > 64 {
                cache.visible(now);
            }
            match cache.lost_events.take(change, now) {
                Taken::Kept => {}
                Taken::Lost => {
                    recorder.observe(now, EventKind::Lost { server: process, kind, key: &change.key, revision: change.revision });
                    continue;
                }
                Taken::LostBefore => continue,
            }
            let (before, after) = (trigger_of(def, &change.before), trigger_of(def, &change.after));
            // The element for all watchers that select every object of the type.
            let mut plain = None;
            for id in cache.watchers.concerned(before.as_deref(), after.as_deref()) {
                let watcher = &mut watchers[id];
                if change.revision <= watcher.start || !in_namespace(&change.key, watcher.namespace.as_ref()) {
                    continue;
                }
                let element = if watcher.selector.is_everything() {
                    plain.get_or_insert_with(|| convert(def, &watcher.selector, change, index).map(Arc::new)).clone()
                } else {
                    convert(def, &watcher.selector, change, index).map(Arc::new)
                };
                if let Some(element) = element {
                    load.events += 1;
                    if weighs {
                        load.event_bytes += change.after.as_ref().or(change.before.as_ref()).map_or(0, |object| size_of(def, object));
                    }
                    if counts {
                        watcher.count_change(rt, id, request_points, held_changes, recorder, now);
                    }
                    watcher.push(rt, net, process, samplers, buffer, due, element, now);
                    deferred.expect(watcher.client, watcher.last_deferred());
                }
            }
        }
    }

    /// Notifies every stream that a link has changed, or a server has been paused or resumed.
    pub fn check_streams(&mut self, rt: &Rt, now: SimTime) {
        let State { servers, net, watchers, deferred, samplers, .. } = self;
        for (_, watcher) in watchers.iter_mut() {
            watcher.check(rt, net, &servers[watcher.server], samplers, now);
            deferred.expect(watcher.client, now);
        }
    }

    /// Stops the cache of one type on one server at its present state: changes that were taken but have not arrived are given back, to be
    /// taken again when the cache resumes.
    pub fn hold_cache(&mut self, server: usize, kind: KindId, now: SimTime) {
        let State { servers, store, watchers, .. } = self;
        let cache = &mut servers[server].caches[usize::from(kind.0)];
        let visible = cache.visible(now);
        cache.incoming.clear();
        cache.next = store.table(kind).index_after(visible);
        for id in cache.watchers.all() {
            watchers[id].recall(visible, now);
        }
    }

    /// Ends the streams of one server (and one type), each when the end reaches its client.
    pub fn end_streams(&mut self, rt: &Rt, server: usize, kind: Option<KindId>, client: Option<ProcessId>, end: End, now: SimTime) {
        let State { servers, net, watchers, .. } = self;
        let from = servers[server].process;
        for cache in &mut servers[server].caches {
            let visible = cache.visible(now);
            for id in cache.watchers.all() {
                let watcher = &mut watchers[id];
                if kind.is_some_and(|kind| watcher.kind != kind) || client.is_some_and(|client| watcher.client != client) {
                    continue;
                }
                if watcher.end.is_none() {
                    // Changes that the cache does not have by now can no longer be sent.
                    watcher.recall(visible, now);
                    if end == End::Clean {
                        watcher.cut_short(now);
                    }
                    watcher.finish(net, rt, from, end, now);
                }
            }
        }
    }

    /// Opens a stream. The caller has checked that the server is up and its caches are ready.
    ///
    #[expect(clippy::too_many_arguments, reason = "one call site; the parts of a request")]
    pub fn open_watch(
        &mut self,
        rt: &Rt,
        registry: &Registry,
        client: ProcessId,
        server: usize,
        kind: KindId,
        namespace: Option<Arc<str>>,
        selector: Selector,
        options: &WatchOptions,
        from: Start,
        lifetime: Duration,
        now: SimTime,
    ) -> usize {
        let process = self.servers[server].process;
        self.watches_opened += 1;
        let mut watcher = Watcher {
            serial: self.watches_opened,
            client,
            server,
            kind,
            namespace,
            selector,
            queue: VecDeque::new(),
            deferral: None,
            last_due: now,
            lag: super::cache_lag::lag_of(&self.cache_lags, client, kind),
            start: 0,
            stalled: false,
            held_until: None,
            cut_off: None,
            transport: self.connections.get(&client).map_or_else(Transport::default, |connection| connection.transport()),
            life: lifetime,
            silent: None,
            end: None,
            cut_end: None,
            expires: now + lifetime,
            bookmarks: options.allow_bookmarks,
            next_bookmark: now,
            waker: None,
            armed: Vec::new(),
        };
        watcher.next_bookmark = watcher.bookmark_after(now);
        let oldest = self.oldest_start(server, kind, now);
        // The initial state is sent as fast as the client reads: it does not count against the buffer.
        let buffer = usize::MAX;
        let id = self.watchers.vacant_key();
        let State { servers, store, net, samplers, request_points, held_changes, recorder, .. } = &mut *self;
        let counts = request_points.is_kept() || held_changes.listens();
        let cache = &mut servers[server].caches[usize::from(kind.0)];
        let visible = cache.visible(now);
        let table = store.table(kind);
        let def = registry.get(kind);
        let refused = match from {
            Start::After(from) if from < oldest => {
                let text = format!("too old resource version: {from} ({oldest})");
                Some(Box::new(Status::new(kube_machinery::Reason::Expired, text)))
            }
            Start::Refused(ref status) => Some(status.clone()),
            _ => None,
        };
        match refused {
            Some(status) => {
                let element = Element { what: WatchKind::Error, revision: 0, object: None, status: Some(status), change: None };
                watcher.push(rt, net, process, samplers, buffer, now, Arc::new(element), now);
                watcher.finish(net, rt, process, End::Clean, now);
            }
            None => {
                if matches!(from, Start::State) {
                    for (key, object) in cache.all(table, visible) {
                        if in_namespace(key, watcher.namespace.as_ref()) && watcher.selector.matches(def, &**object) {
                            let revision = crate::object::resource_version(&**object).parse().unwrap_or(0);
                            let what = WatchKind::Added;
                            let element = Element { what, revision, object: Some(object.clone()), status: None, change: None };
                            watcher.push(rt, net, process, samplers, buffer, now, Arc::new(element), now);
                        }
                    }
                    // Without bookmarks the end of the initial events is not marked.
                    if options.send_initial_events && options.allow_bookmarks {
                        let what = WatchKind::InitialEventsEnd;
                        let element = Element { what, revision: visible, object: None, status: None, change: None };
                        watcher.push(rt, net, process, samplers, buffer, now, Arc::new(element), now);
                    }
                }
                watcher.start = match from {
                    Start::After(revision) => revision,
                    Start::State | Start::Refused(_) => visible,
                };
                // Changes that the cache has taken; later ones come by dispatch.
                let mut index = table.index_after(watcher.start);
                while index < cache.next
                    && let Some(change) = table.change(index)
                {
                    let number = index;
                    index += 1;
                    if cache.lost_events.has_lost(change.revision) {
                        continue;
                    }
                    let due = cache.incoming.iter().find(|(revision, _)| *revision == change.revision).map_or(now, |&(_, due)| due);
                    if in_namespace(&change.key, watcher.namespace.as_ref())
                        && let Some(element) = convert(def, &watcher.selector, change, number)
                    {
                        if counts {
                            watcher.count_change(rt, id, request_points, held_changes, recorder, now);
                        }
                        watcher.push(rt, net, process, samplers, buffer, due, Arc::new(element), now);
                    }
                }
            }
        }
        watcher.check(rt, net, &servers[server], samplers, now);
        let id = self.watchers.insert(watcher);
        let trigger = def.trigger.and_then(|field| self.watchers[id].selector.required(field));
        self.servers[server].caches[usize::from(kind.0)].watchers.add(id, trigger);
        id
    }

    /// The oldest revision from which a watch can start on this server (K §2.5, history window).
    pub fn oldest_start(&mut self, server: usize, kind: KindId, now: SimTime) -> Revision {
        let window = u64::from(self.knobs.history_events);
        let cache = &mut self.servers[server].caches[usize::from(kind.0)];
        let table = self.store.table(kind);
        while cache.history + window < cache.next
            && let Some(change) = table.change(cache.history)
            && change.at + HISTORY_AGE < now
        {
            cache.oldest = change.revision;
            cache.history += 1;
        }
        cache.oldest
    }

    /// Reads the next element of a stream or registers `waker`.
    pub fn poll_watch(&mut self, rt: &Rt, id: usize, waker: &Waker, now: SimTime) -> Next {
        let buffer = self.knobs.watch_buffer as usize;
        let watcher = &self.watchers[id];
        if watcher.bookmarks && now >= watcher.next_bookmark && watcher.end.is_none() {
            // Etcd reports the other changes: a bookmark covers those of other types (K049).
            let (server, kind, latest) = (watcher.server, watcher.kind, self.store.revision());
            if self.cache_reaches(server, kind, latest, now) == Some(now) {
                self.servers[server].caches[usize::from(kind.0)].advance(latest);
            }
        }
        let State { servers, watchers, deferred, net, samplers, .. } = self;
        let watcher = &mut watchers[id];
        let server = &mut servers[watcher.server];
        let dead_at = watcher.dead_at();
        if now >= dead_at && watcher.end.is_none_or(|(at, _)| at > dead_at) {
            watcher.end = watcher.dies(dead_at);
        }
        if let Some(until) = watcher.held_until.filter(|&until| until <= now) {
            watcher.let_go(rt, net, server.process, samplers, until, now);
            deferred.expect(watcher.client, until);
        }
        if watcher.end.is_none() && now >= watcher.expires {
            watcher.finish(net, rt, server.process, End::Clean, watcher.expires);
        }
        if watcher.bookmarks && now >= watcher.next_bookmark && watcher.end.is_none() {
            watcher.next_bookmark = watcher.bookmark_after(now);
            let stands_still = !server.up || server.paused;
            let cache = &mut server.caches[usize::from(watcher.kind.0)];
            // The bookmark states that everything up to the last change taken has been sent, so it leaves when the cache has that change.
            let (revision, ready) = cache.taken(now);
            // With a full buffer it is omitted: bookmarks are best effort.
            if revision > watcher.start && !cache.frozen && !stands_still && !watcher.is_full(buffer, now) {
                let element = Element { what: WatchKind::Bookmark, revision, object: None, status: None, change: None };
                watcher.push(rt, net, server.process, samplers, buffer, ready, Arc::new(element), now);
                deferred.expect(watcher.client, watcher.last_deferred());
            }
        }
        let ends_at = watcher.end.map_or(SimTime::NEVER, |(at, _)| at);
        if !watcher.is_deferred()
            && let Some(&(due, _)) = watcher.queue.front()
            && due <= now
            && due <= ends_at
            && let Some((_, element)) = watcher.queue.pop_front()
        {
            let announced = watcher.deferral.as_mut().is_some_and(Deferral::hands_out);
            return Next::Element { element, announced };
        }
        if let Some(deferral) = &mut watcher.deferral {
            deferral.go_on();
        }
        let mut wake = watcher.queue.front().map_or(SimTime::NEVER, |&(due, _)| due);
        if watcher.is_deferred() {
            wake = SimTime::NEVER;
        }
        if let Some((at, end)) = watcher.end {
            if at <= now {
                return Next::End(end);
            }
            wake = wake.min(at);
        } else {
            wake = wake.min(watcher.expires);
            if watcher.bookmarks {
                wake = wake.min(watcher.next_bookmark);
            }
            wake = wake.min(watcher.dead_at());
            wake = wake.min(watcher.held_until.unwrap_or(SimTime::NEVER));
        }
        if !watcher.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            watcher.waker = Some(waker.clone());
            watcher.armed.clear();
        }
        while watcher.armed.last().is_some_and(|&at| at <= now) {
            watcher.armed.pop();
        }
        watcher.arm(rt, wake);
        Next::Wait
    }

    /// Closes a stream of a client that is no longer interested.
    pub fn close_watch(&mut self, registry: &Registry, id: usize) {
        let watcher = self.watchers.remove(id);
        if watcher.deferral.is_some() {
            self.deferred.remove(watcher.client, id);
        }
        let trigger = registry.get(watcher.kind).trigger.and_then(|field| watcher.selector.required(field));
        self.servers[watcher.server].caches[usize::from(watcher.kind.0)].watchers.remove(id, trigger);
    }
}
