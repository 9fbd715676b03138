//! Deliveries that are deferred until they are read.
//!
//! ```text
//!  commit ──► queue of the stream, each element with its arrival ──► a timer and a poll for each      (with a listener)
//!                                                               └──► taken when its process reads it  (without one)
//! ```
//! Most caches of a cluster are read only now and then: an agent on each node keeps all objects of a type, of which it needs a few when a
//! pod comes. The content of such a cache at a moment is what has arrived by then, whether it is notified at once or takes the changes when
//! it is read. So arrivals are drawn as usual, when the change is committed, and nothing happens at the moment of arrival.
//!
//! Observers of a run must not see the difference either. An element is *announced* to a process before its next action: the event is
//! recorded then, before the request or the note, so that a claim about what an agent had been shown when it acted finds the same as if
//! each delivery had been a separate event.
//!
//! Nothing is announced to a paused process, and what it finds when it resumes depends on which of its tasks runs first. So from the pause
//! until their readers have run, its streams behave like those with listeners.

use std::fmt;
use std::sync::{Arc, Weak};

use kube_machinery::api::WatchEvent;
use kube_machinery::{Backlog, Object};
use sim_config::time::SimTime;

use super::watch_element::Element;
use super::watcher::{Deferral, Watcher};
use super::{Cluster, State};
use crate::kinds::Served;
use crate::rt::ProcessId;

/// The streams of each process that defer their deliveries.
#[derive(Default)]
pub(crate) struct Deferred {
    by_process: Vec<OfProcess>,
}

/// The streams of one process.
struct OfProcess {
    watches: Vec<usize>,
    /// The time before which there is nothing to announce to the process.
    nothing_before: SimTime,
}

impl Deferred {
    fn add(&mut self, process: ProcessId, watch: usize) {
        let index = process.0 as usize;
        if self.by_process.len() <= index {
            self.by_process.resize_with(index + 1, || OfProcess { watches: Vec::new(), nothing_before: SimTime::NEVER });
        }
        let of = &mut self.by_process[index];
        of.watches.push(watch);
        of.nothing_before = SimTime::ZERO;
    }

    pub(super) fn remove(&mut self, process: ProcessId, watch: usize) {
        if let Some(of) = self.by_process.get_mut(process.0 as usize) {
            of.watches.retain(|&other| other != watch);
        }
    }

    /// Notes that an element for a process arrives at `due`.
    pub(super) fn expect(&mut self, process: ProcessId, due: SimTime) {
        if let Some(of) = self.by_process.get_mut(process.0 as usize) {
            of.nothing_before = of.nothing_before.min(due);
        }
    }

    fn of(&self, process: ProcessId) -> &[usize] {
        self.by_process.get(process.0 as usize).map_or(&[], |of| &of.watches)
    }
}

impl State {
    /// Announces to a process, before its next action, the elements that have arrived.
    pub(crate) fn tell(&mut self, process: ProcessId, now: SimTime) {
        let State { deferred, watchers, recorder, .. } = self;
        let Some(of) = deferred.by_process.get_mut(process.0 as usize) else { return };
        if now >= of.nothing_before {
            let next = of.watches.iter().map(|&id| watchers[id].tell(recorder, now));
            of.nothing_before = next.min().unwrap_or(SimTime::NEVER);
        }
    }

    /// Suspends the deferral on the streams of a process that is paused now.
    pub(super) fn hold_deferred(&mut self, cluster: &Cluster, process: ProcessId, now: SimTime) {
        let State { deferred, watchers, .. } = self;
        for &id in deferred.of(process) {
            let watcher = &mut watchers[id];
            let read = watcher.left_until(now).map_or(0, |until| watcher.queue.partition_point(|&(due, _)| due <= until));
            let next = watcher.queue.get(read).map(|&(due, _)| due);
            if let Some(deferral) = &mut watcher.deferral {
                deferral.held_at.get_or_insert(now);
            }
            if let Some(due) = next {
                watcher.arm(&cluster.rt, due);
            }
        }
    }

    fn watcher_of(&mut self, id: usize, serial: u64) -> Option<&mut Watcher> {
        self.watchers.get_mut(id).filter(|watcher| watcher.serial == serial)
    }

    /// Begins or stops deferring the deliveries of a stream.
    fn defer(&mut self, cluster: &Cluster, id: usize, serial: u64, deferred: bool) {
        let Some(watcher) = self.watcher_of(id, serial) else { return };
        let client = watcher.client;
        match (deferred, watcher.deferral.is_some()) {
            // A stream that ends at once may give the reason in its last element, which is for the reader.
            (true, false) if watcher.end.is_none() => {
                watcher.deferral = Some(Deferral { told: 0, held_at: None });
                self.deferred.add(client, id);
            }
            (false, true) => {
                watcher.deferral = None;
                if let Some(&(due, _)) = watcher.queue.front() {
                    watcher.arm(&cluster.rt, due);
                }
                self.deferred.remove(client, id);
            }
            _ => {}
        }
    }

    /// Takes the elements that have arrived on a stream, without those that a later one supersedes.
    fn take_arrived(&mut self, id: usize, serial: u64, now: SimTime) -> Vec<Arc<Element>> {
        let State { watchers, store, recorder, .. } = self;
        let Some(watcher) = watchers.get_mut(id).filter(|watcher| watcher.serial == serial) else { return Vec::new() };
        let Some(until) = watcher.left_until(now) else { return Vec::new() };
        watcher.tell(recorder, now);
        let arrived = watcher.queue.partition_point(|&(due, _)| due <= until);
        if let Some(deferral) = &mut watcher.deferral {
            deferral.told = deferral.told.saturating_sub(arrived);
        }
        // With a selector, the next change of an object may be one that the stream does not deliver.
        let last = if watcher.selector.is_everything() {
            watcher.queue.range(..arrived).rev().find_map(|(_, element)| element.change)
        } else {
            None
        };
        let table = store.table(watcher.kind);
        let is_last = |element: &Arc<Element>| {
            let next = element.change.and_then(|change| table.change(change)?.changed_again);
            next.is_none_or(|next| last.is_none_or(|last| next > last))
        };
        watcher.queue.drain(..arrived).map(|(_, element)| element).filter(is_last).collect()
    }
}

/// The backlog of one stream.
pub(super) struct SimBacklog<K> {
    cluster: Weak<Cluster>,
    id: usize,
    serial: u64,
    served: Served<K>,
}

impl<K: Object> SimBacklog<K> {
    /// The backlog of stream `id`; `None` = deliveries are not deferred in this run.
    pub(super) fn of(cluster: &Arc<Cluster>, id: usize, served: Served<K>) -> Option<Self> {
        let state = cluster.lock();
        let serial = state.watchers[id].serial;
        (!state.told_at_once).then(|| Self { cluster: Arc::downgrade(cluster), id, serial, served })
    }
}

impl<K> fmt::Debug for SimBacklog<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimBacklog").field("id", &self.id).finish_non_exhaustive()
    }
}

impl<K: Object> Backlog<K> for SimBacklog<K> {
    fn defer(&self, deferred: bool) {
        if let Some(cluster) = self.cluster.upgrade() {
            cluster.lock().defer(&cluster, self.id, self.serial, deferred);
        }
    }

    fn has_arrived(&self) -> bool {
        let Some(cluster) = self.cluster.upgrade() else { return false };
        let now = cluster.rt.now();
        let mut state = cluster.lock();
        let Some(watcher) = state.watcher_of(self.id, self.serial) else { return false };
        let until = watcher.left_until(now);
        watcher.queue.front().is_some_and(|&(due, _)| until.is_some_and(|until| due <= until))
    }

    fn take(&self, take: &mut dyn FnMut(WatchEvent<K>)) {
        let Some(cluster) = self.cluster.upgrade() else { return };
        let now = cluster.rt.now();
        let arrived = cluster.lock().take_arrived(self.id, self.serial, now);
        for element in arrived {
            take(self.served.event(Arc::unwrap_or_clone(element).into_event()));
        }
    }
}
