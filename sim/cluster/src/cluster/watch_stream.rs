//! The client's end of a watch.

use std::sync::Arc;
use std::task::Poll;

use kube_machinery::api::WatchEvent;
use kube_machinery::{ApiError, Backlog, Object, WatchStream};

use super::client::SimClient;
use super::deferred::SimBacklog;
use super::watch::Next;
use super::watch_element::Element;
use super::watcher::End;
use crate::kinds::{KindId, Served};
use crate::object::{AnyObject, Obj};
use crate::rt::ProcessId;
use crate::trace::{EventKind, WatchKind};

/// An open watch on objects of a type that is known only by its registration. Dropping it closes the stream.
pub struct AnyWatch {
    client: SimClient,
    kind: KindId,
    /// How often the connection had broken when the stream was opened on it.
    breaks: usize,
    id: usize,
    over: bool,
}

impl Drop for AnyWatch {
    fn drop(&mut self) {
        let cluster = &self.client.cluster;
        cluster.lock().close_watch(&cluster.registry, self.id);
    }
}

impl AnyWatch {
    pub(super) fn new(client: SimClient, kind: KindId, breaks: usize, id: usize) -> Self {
        Self { client, kind, breaks, id, over: false }
    }

    /// The next element; `None` = the stream is over. After an error it is over, too.
    pub async fn next(&mut self) -> Option<Result<WatchEvent<dyn AnyObject>, ApiError>> {
        if self.over {
            return None;
        }
        let cluster = &self.client.cluster;
        let next = std::future::poll_fn(|cx| {
            let mut state = cluster.lock();
            let now = cluster.rt.now();
            match state.poll_watch(&cluster.rt, self.id, cx.waker(), now) {
                Next::Wait => Poll::Pending,
                Next::Element { element, announced } => {
                    if !announced {
                        state.recorder.observe(now, event_of(self.client.process, self.kind, &element));
                    }
                    Poll::Ready(Ok(element))
                }
                Next::End(end) => Poll::Ready(Err(end)),
            }
        })
        .await;
        let element = match next {
            Ok(element) => element,
            Err(end) => {
                self.over = true;
                return match end {
                    End::Clean => None,
                    End::Broken(error) => {
                        self.client.reconnect(self.breaks, error);
                        Some(Err(error.into()))
                    }
                };
            }
        };
        Some(Ok(Arc::unwrap_or_clone(element).into_event()))
    }
}

/// That a client is told of an element.
pub(super) fn event_of(client: ProcessId, kind: KindId, element: &Element) -> EventKind<'_> {
    let Element { what, revision, ref object, .. } = *element;
    EventKind::Deliver { client, kind, what, revision, object: object.as_ref() }
}

impl Element {
    /// As its client gets it.
    pub(super) fn into_event(self) -> WatchEvent<dyn AnyObject> {
        let some = |object: Option<Obj>| object.unwrap_or_else(|| unreachable!("a change carries an object"));
        match self.what {
            WatchKind::Added => WatchEvent::Added(some(self.object)),
            WatchKind::Modified => WatchEvent::Modified(some(self.object)),
            WatchKind::Deleted => WatchEvent::Deleted(some(self.object)),
            what @ (WatchKind::Bookmark | WatchKind::InitialEventsEnd) => {
                let initial_events_end = what == WatchKind::InitialEventsEnd;
                WatchEvent::Bookmark { resource_version: self.revision.to_string(), initial_events_end }
            }
            WatchKind::Error => WatchEvent::Error(self.status.unwrap_or_else(|| unreachable!("an error carries a status"))),
        }
    }
}

/// An open watch on the simulated API. Dropping it closes the stream.
pub struct SimWatch<K> {
    watch: AnyWatch,
    served: Served<K>,
}

impl<K> SimWatch<K> {
    pub(super) fn new(watch: AnyWatch, served: Served<K>) -> Self {
        Self { watch, served }
    }
}

impl<K: Object> WatchStream<K> for SimWatch<K> {
    async fn next(&mut self) -> Option<Result<WatchEvent<K>, ApiError>> {
        Some(self.watch.next().await?.map(|event| self.served.event(event)))
    }

    fn backlog(&self) -> Option<Arc<dyn Backlog<K>>> {
        let backlog = SimBacklog::of(&self.watch.client.cluster, self.watch.id, self.served)?;
        Some(Arc::new(backlog))
    }
}
