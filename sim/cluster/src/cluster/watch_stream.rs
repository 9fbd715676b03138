//! The client's end of a watch.

use std::sync::Arc;
use std::task::Poll;

use kube_machinery::api::WatchEvent;
use kube_machinery::{ApiError, Object, WatchStream};

use super::client::SimClient;
use super::watch::{End, Next};
use crate::kinds::{KindId, Served};
use crate::object::{AnyObject, Obj};
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
        let fabric = &self.client.fabric;
        fabric.lock().close_watch(&fabric.registry, self.id);
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
        let fabric = &self.client.fabric;
        let next = std::future::poll_fn(|cx| {
            let mut state = fabric.lock();
            let now = fabric.rt.now();
            match state.poll_watch(&fabric.rt, self.id, cx.waker(), now) {
                Next::Wait => Poll::Pending,
                Next::Element(element) => {
                    let event = EventKind::Deliver {
                        client: self.client.process,
                        kind: self.kind,
                        what: element.what,
                        revision: element.revision,
                        object: element.object.as_ref(),
                    };
                    state.recorder.observe(now, event);
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
                        self.client.reconnect(self.breaks);
                        Some(Err(error.into()))
                    }
                };
            }
        };
        let some = |object: Option<Obj>| object.unwrap_or_else(|| unreachable!("a change carries an object"));
        Some(Ok(match element.what {
            WatchKind::Added => WatchEvent::Added(some(element.object)),
            WatchKind::Modified => WatchEvent::Modified(some(element.object)),
            WatchKind::Deleted => WatchEvent::Deleted(some(element.object)),
            WatchKind::Bookmark => {
                WatchEvent::Bookmark { resource_version: element.revision.to_string(), initial_events_end: element.initial_events_end }
            }
            WatchKind::Error => WatchEvent::Error(element.status.unwrap_or_else(|| unreachable!("an error carries a status"))),
        }))
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
        let event = match self.watch.next().await? {
            Ok(event) => event,
            Err(error) => return Some(Err(error)),
        };
        let typed = |object| -> Arc<K> { self.served.typed(object) };
        Some(Ok(match event {
            WatchEvent::Added(object) => WatchEvent::Added(typed(object)),
            WatchEvent::Modified(object) => WatchEvent::Modified(typed(object)),
            WatchEvent::Deleted(object) => WatchEvent::Deleted(typed(object)),
            WatchEvent::Bookmark { resource_version, initial_events_end } => WatchEvent::Bookmark { resource_version, initial_events_end },
            WatchEvent::Error(status) => WatchEvent::Error(status),
        }))
    }
}
