//! Watch streams (K §2.3 to §2.5): what each watcher will see, and when.
//!
//! A stream's queue holds elements with the moment at which each arrives at the client. They are put there when the
//! change is committed (or when a frozen cache goes on), so an idle watch costs nothing and a delivery costs one timer.
//! It costs none if the reader has deferred its deliveries: see [`deferred`](super::deferred).

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use kube_machinery::Status;
use kube_machinery::api::{TransportError, WatchOptions};
use sim_config::draw::unit;
use sim_config::time::SimTime;

use super::State;
use super::connection::{CutOff, Obstacle};
use super::deferred::Deferral;
use super::server::{ApiServer, Samplers};
use super::store::{Revision, in_namespace};
use super::transport::Transport;
use super::watch_element::{Element, convert, trigger_of};
use crate::kinds::{KindId, Registry};
use crate::net::Network;
use crate::rt::{ProcessId, Rt};
use crate::selector::Selector;
use crate::trace::WatchKind;

/// About how often a quiet stream gets a bookmark (K §2.3).
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// A last bookmark comes this long before the server ends the stream.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// How long events stay in a server's history at least (K §2.5).
const HISTORY_AGE: Duration = Duration::from_secs(75);

/// Where a stream begins.
pub enum Start {
    /// With what is later than a revision.
    After(Revision),
    /// With the state that the server's cache has.
    State,
    /// With this error, and that is all: the request as such was accepted (K056).
    Refused(Box<Status>),
}

/// How a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// No ERROR element, no transport error: time-out, slow consumer, cache re-initialised.
    Clean,
    /// The connection broke.
    Broken(TransportError),
}

pub(crate) struct Watcher {
    /// Tells it from earlier ones of the same number.
    pub(super) serial: u64,
    pub client: ProcessId,
    pub server: usize,
    pub kind: KindId,
    namespace: Option<Arc<str>>,
    pub(super) selector: Selector,
    /// Elements that are on their way, with their arrival; `NEVER` = the link is cut. A change is one element for all who are told of it.
    pub(super) queue: VecDeque<(SimTime, Arc<Element>)>,
    /// Whether and how its reader has deferred its deliveries.
    pub(super) deferral: Option<Deferral>,
    last_due: SimTime,
    /// How much later its client hears of everything.
    pub lag: Duration,
    /// Events up to this revision are not for this stream.
    start: Revision,
    /// Whether elements cannot get through: the link is cut or held, or the server stands still.
    stalled: bool,
    /// What a cut has stopped.
    cut_off: Option<CutOff>,
    /// What finds out that the connection is dead.
    transport: Transport,
    /// How long it was asked to last.
    life: Duration,
    /// Since when what keeps the connection alive gets no answer, in whichever direction it is lost.
    silent: Option<SimTime>,
    /// When and how it ends, once elements that arrive before have been read. `None` = at `expires`, cleanly.
    pub(super) end: Option<(SimTime, End)>,
    /// How its server has ended it, as long as the news cannot get through; `end` is then what its client finds out by itself.
    cut_end: Option<End>,
    /// The server's own time-out.
    expires: SimTime,
    bookmarks: bool,
    next_bookmark: SimTime,
    pub(super) waker: Option<Waker>,
    /// The timers that will wake the reader, the earliest last. A later one is kept in mind when an earlier one has been
    /// used up: timers cannot be taken back, and one for the stream's end per element would pile up.
    armed: Vec<SimTime>,
}

impl Watcher {
    /// Sends an element on its way: it leaves the server at `ready` at the earliest and arrives in order.
    #[expect(clippy::too_many_arguments, reason = "the parts of the state that a delivery needs, borrowed apart")]
    fn push(
        &mut self,
        rt: &Rt,
        net: &mut Network,
        server: ProcessId,
        samplers: &Samplers,
        buffer: usize,
        ready: SimTime,
        element: Arc<Element>,
        now: SimTime,
    ) {
        // What was accepted before it expired is on its way, whenever it arrives.
        if self.end.is_some() || ready >= self.expires && buffer < usize::MAX {
            return;
        }
        if self.is_full(buffer, now) {
            // A slow consumer is cut off cleanly; what is in the buffers still arrives (K054).
            self.finish(net, rt, server, End::Clean, now);
            return;
        }
        let (fate, block) = net.send(server, self.client, now);
        let due = match Obstacle::passes(fate) {
            Ok((delay, _)) if !self.stalled => (ready + delay + self.lag + samplers.watch_lag.sample(unit(block[2]))).max(self.last_due),
            passes => {
                self.stalls(passes.err(), now);
                SimTime::NEVER
            }
        };
        if due != SimTime::NEVER {
            self.last_due = due;
        }
        self.queue.push_back((due, element));
        // A reader that takes one element after the other is woken for the first; one that leaves them only if it cannot, or if none would
        // come.
        let is_cut = due == SimTime::NEVER;
        let wakes = if self.deferral.is_some() { is_cut || !self.is_deferred() } else { self.queue.len() == 1 };
        if wakes {
            self.arm(rt, if is_cut { self.dead_at() } else { due });
        }
    }

    /// Something cannot leave: for this obstacle on its way, or because its server stands still.
    fn stalls(&mut self, obstacle: Option<Obstacle>, now: SimTime) {
        if obstacle == Some(Obstacle::Cut) && self.cut_off.is_none_or(|cut_off| cut_off.again <= now) {
            self.cut_off = Some(CutOff { since: now, again: SimTime::NEVER });
        }
        self.stalled = true;
        if obstacle.is_some() || self.transport.pings() {
            self.silent.get_or_insert(now);
        }
    }

    /// When its client finds the connection dead; never, as long as it is not silent.
    fn dead_at(&self) -> SimTime {
        self.silent.map_or(SimTime::NEVER, |since| self.transport.watch_dead_at(since, self.last_due, self.life))
    }

    /// How its client learns that the connection is dead, at `at`.
    fn dies(&self, at: SimTime) -> Option<(SimTime, End)> {
        Some((at, End::Broken(self.transport.lost())))
    }

    /// When the last of its elements arrives, if its client has deferred them; else never.
    fn last_deferred(&self) -> SimTime {
        self.deferral.as_ref().and(self.queue.back()).map_or(SimTime::NEVER, |&(due, _)| due)
    }

    /// Ends the stream: the client learns of it when the news has travelled, which is sent again after a cut, or by its own keep-alive.
    fn finish(&mut self, net: &mut Network, rt: &Rt, server: ProcessId, end: End, now: SimTime) {
        if self.end.is_none() {
            self.end_after(rt, net, server, now, end, now);
        }
    }

    /// The news that the stream has ended leaves the server at `ready`.
    fn end_after(&mut self, rt: &Rt, net: &mut Network, server: ProcessId, ready: SimTime, end: End, now: SimTime) {
        let (at, end) = match Obstacle::passes(net.send(server, self.client, now).0) {
            Ok((delay, _)) if !self.stalled => ((ready + delay).max(self.last_due), end),
            passes => {
                self.stalls(passes.err(), now);
                self.cut_end = Some(end);
                (self.dead_at(), End::Broken(self.transport.lost()))
            }
        };
        self.end = Some((at, end));
        self.arm(rt, at);
    }

    /// Takes back what was put on its way but is not yet in the server's cache, which has everything up to `visible`.
    fn recall(&mut self, visible: Revision, now: SimTime) {
        while self.queue.back().is_some_and(|(_, element)| element.revision > visible) {
            self.queue.pop_back();
        }
        self.last_due = self.last_arrival(now);
    }

    /// Looks at both directions of the connection, after either may have changed. A client that gets no answer to its
    /// pings gives the connection up, even if nothing was to be said (K §2.5, §4.4).
    fn check(&mut self, rt: &Rt, net: &mut Network, server: &ApiServer, samplers: &Samplers, now: SimTime) {
        if self.end.is_some_and(|(at, _)| self.cut_end.is_none() || at <= now) {
            return;
        }
        let cut_end = self.cut_end.take();
        if cut_end.is_some() {
            self.end = None;
        }
        let stalled = server.paused || net.is_cut(server.process, self.client);
        // What was sent again by now has arrived, and says nothing about the next cut.
        self.cut_off = self.cut_off.filter(|cut_off| cut_off.again > now);
        let ready = self.cut_off.map_or(now, |cut_off| Obstacle::Cut.passed(cut_off.since, now));
        let is_cut = net.is_cut(server.process, self.client) || net.is_cut(self.client, server.process);
        if is_cut || stalled && self.transport.pings() {
            self.silent.get_or_insert(now);
            self.arm(rt, self.dead_at());
        } else {
            let dead_at = self.dead_at();
            if self.silent.take().is_some() && ready >= dead_at {
                // Given up long ago, although the reader has not looked since; or it will be, before anything is sent again.
                self.end = self.dies(dead_at);
                self.arm(rt, dead_at);
                return;
            }
        }
        if !stalled && std::mem::take(&mut self.stalled) {
            self.cut_off = self.cut_off.map(|cut_off| CutOff { again: ready, ..cut_off });
            for (due, element) in std::mem::take(&mut self.queue) {
                if due == SimTime::NEVER {
                    // It was accepted before, so the buffer does not count.
                    self.push(rt, net, server.process, samplers, usize::MAX, ready, element, now);
                } else {
                    self.queue.push_back((due, element));
                }
            }
            if let Some(waker) = &self.waker {
                waker.wake_by_ref();
            }
        }
        self.stalled |= stalled;
        if stalled && let Some(cut_off) = &mut self.cut_off {
            // Cut once more before anything was sent again.
            for (due, _) in self.queue.iter_mut().filter(|(due, _)| *due >= cut_off.again) {
                *due = SimTime::NEVER;
            }
            cut_off.again = SimTime::NEVER;
            self.last_due = self.last_arrival(now);
        }
        if let Some(end) = cut_end {
            self.end_after(rt, net, server.process, ready, end, now);
        }
    }

    /// When the last of its elements arrives that is on its way.
    fn last_arrival(&self, now: SimTime) -> SimTime {
        self.queue.iter().rev().map(|&(due, _)| due).find(|&due| due != SimTime::NEVER).unwrap_or(now)
    }

    /// When the next bookmark is due: about once a minute, and shortly before the server ends the stream (K §2.3).
    fn bookmark_after(&self, now: SimTime) -> SimTime {
        let last = SimTime::from_micros(self.expires.as_micros().saturating_sub(BOOKMARK_BEFORE_END.as_micros() as u64));
        let regular = now + BOOKMARK_EVERY;
        if last > now { regular.min(last) } else { regular }
    }

    /// Makes sure that the reader, if it waits, is woken at `at` or earlier.
    pub(super) fn arm(&mut self, rt: &Rt, at: SimTime) {
        if at != SimTime::NEVER
            && self.armed.last().is_none_or(|&earliest| at < earliest)
            && let Some(waker) = &self.waker
        {
            rt.wake_at(waker, at);
            self.armed.push(at);
        }
    }
}

/// What a reader finds.
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
    /// Takes new changes of every type into every cache that can take them, and on to its watchers.
    pub fn dispatch(&mut self, rt: &Rt, registry: &Registry, kind: KindId, now: SimTime) {
        for server in 0..self.servers.len() {
            self.dispatch_on(rt, registry, server, kind, now);
        }
    }

    /// The same for one server.
    pub fn dispatch_on(&mut self, rt: &Rt, registry: &Registry, server: usize, kind: KindId, now: SimTime) {
        let buffer = self.knobs.watch_buffer as usize;
        let State { servers, store, net, watchers, deferred, samplers, degraded_samplers, etcd, .. } = self;
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
            if cache.lost_events.loses(change) {
                continue;
            }
            let (before, after) = (trigger_of(def, &change.before), trigger_of(def, &change.after));
            // The element of everybody who takes each object of the type.
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
                    watcher.push(rt, net, process, samplers, buffer, due, element, now);
                    deferred.expect(watcher.client, watcher.last_deferred());
                }
            }
        }
    }

    /// Tells every stream that a link has changed, or a server stands still or goes on.
    pub fn check_streams(&mut self, rt: &Rt, now: SimTime) {
        let State { servers, net, watchers, deferred, samplers, .. } = self;
        for (_, watcher) in watchers.iter_mut() {
            watcher.check(rt, net, &servers[watcher.server], samplers, now);
            deferred.expect(watcher.client, now);
        }
    }

    /// Stops the cache of one type on one server at what it has now: changes that were taken but have not arrived
    /// are given back, to be taken again when the cache goes on.
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

    /// Ends the streams of one server (and one type), each when the news reaches its client.
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
                    // Nobody can send what the cache did not have by now.
                    watcher.recall(visible, now);
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
            lag: super::control::lag_of(&self.cache_lags, client, kind),
            start: 0,
            stalled: false,
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
        let State { servers, store, net, samplers, .. } = &mut *self;
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
                let element = Element {
                    what: WatchKind::Error,
                    revision: 0,
                    object: None,
                    status: Some(status),
                    initial_events_end: false,
                    change: None,
                };
                watcher.push(rt, net, process, samplers, buffer, now, Arc::new(element), now);
                watcher.finish(net, rt, process, End::Clean, now);
            }
            None => {
                if matches!(from, Start::State) {
                    for (key, object) in cache.all(table, visible) {
                        if in_namespace(key, watcher.namespace.as_ref()) && watcher.selector.matches(def, &**object) {
                            let revision = crate::object::resource_version(&**object).parse().unwrap_or(0);
                            let element = Element {
                                what: WatchKind::Added,
                                revision,
                                object: Some(object.clone()),
                                status: None,
                                initial_events_end: false,
                                change: None,
                            };
                            watcher.push(rt, net, process, samplers, buffer, now, Arc::new(element), now);
                        }
                    }
                    // Without bookmarks nobody is told where the initial events end.
                    if options.send_initial_events && options.allow_bookmarks {
                        let element = Element {
                            what: WatchKind::Bookmark,
                            revision: visible,
                            object: None,
                            status: None,
                            initial_events_end: true,
                            change: None,
                        };
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
            // Etcd tells what there is besides: a bookmark covers what other types did (K049).
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
        if watcher.end.is_none() && now >= watcher.expires {
            watcher.finish(net, rt, server.process, End::Clean, watcher.expires);
        }
        if watcher.bookmarks && now >= watcher.next_bookmark && watcher.end.is_none() {
            watcher.next_bookmark = watcher.bookmark_after(now);
            let stands_still = !server.up || server.paused;
            let cache = &mut server.caches[usize::from(watcher.kind.0)];
            // It says that everything up to the last change taken has been sent, so it leaves when the cache has that.
            let (revision, ready) = cache.taken(now);
            // A full buffer does without: bookmarks are best effort.
            if revision > watcher.start && !cache.frozen && !stands_still && !watcher.is_full(buffer, now) {
                let element =
                    Element { what: WatchKind::Bookmark, revision, object: None, status: None, initial_events_end: false, change: None };
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

    /// The client is no longer interested.
    pub fn close_watch(&mut self, registry: &Registry, id: usize) {
        let watcher = self.watchers.remove(id);
        if watcher.deferral.is_some() {
            self.deferred.remove(watcher.client, id);
        }
        let trigger = registry.get(watcher.kind).trigger.and_then(|field| watcher.selector.required(field));
        self.servers[watcher.server].caches[usize::from(watcher.kind.0)].watchers.remove(id, trigger);
    }
}
