//! The client's end of a watch.

use std::sync::Arc;
use std::task::Poll;

use kube_machinery::api::WatchEvent;
use kube_machinery::{ApiError, Backlog, Object, WatchStream};

use super::client::SimClient;
use super::deferred::SimBacklog;
use super::watch::Next;
use super::watch_element::{End, event_of};
use crate::kinds::{KindId, Served};
use crate::object::AnyObject;

/// An open watch on objects of a type that is known only by its registration. Dropping it closes the stream.
pub struct AnyWatch {
    client: SimClient,
    kind: KindId,
    /// The number of times that the connection had broken when the stream was opened on it.
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

    /// The next element; `None` = the stream has ended. An error ends it, too.
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
