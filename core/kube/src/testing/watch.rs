//! A watch that a test feeds.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tokio::sync::mpsc;

use crate::api::{ApiError, Object, WatchEvent};
use crate::client::{Backlog, WatchStream};

/// The end of a watch that a test writes to; dropped, the watch ends cleanly.
pub type Feed<K> = mpsc::UnboundedSender<Result<WatchEvent<K>, ApiError>>;
/// The end of a watch that a client reads from.
pub type Events<K> = mpsc::UnboundedReceiver<Result<WatchEvent<K>, ApiError>>;

/// The stream fed by a test; a dropped feed is a clean end. It can be deferred; after its reader has run, the written elements are in its
/// backlog.
pub struct TestWatch<K> {
    arrived: Arc<Mutex<Arrived<K>>>,
}

/// The elements that a test wrote.
struct Arrived<K> {
    events: Events<K>,
    backlog: VecDeque<WatchEvent<K>>,
    deferred: bool,
    reader: Option<Waker>,
}

impl<K> TestWatch<K> {
    /// A stream fed through the other end of `events`.
    pub fn new(events: Events<K>) -> Self {
        Self { arrived: Arc::new(Mutex::new(Arrived { events, backlog: VecDeque::new(), deferred: false, reader: None })) }
    }
}

impl<K> Arrived<K> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<WatchEvent<K>, ApiError>>> {
        loop {
            if !self.deferred
                && let Some(event) = self.backlog.pop_front()
            {
                return Poll::Ready(Some(Ok(event)));
            }
            match self.events.poll_recv(context) {
                Poll::Ready(Some(Ok(event))) if self.deferred && !matches!(event, WatchEvent::Error(_)) => self.backlog.push_back(event),
                Poll::Pending => {
                    self.reader = Some(context.waker().clone());
                    return Poll::Pending;
                }
                ready => return ready,
            }
        }
    }
}

impl<K: Object> WatchStream<K> for TestWatch<K> {
    async fn next(&mut self) -> Option<Result<WatchEvent<K>, ApiError>> {
        poll_fn(|context| self.arrived.lock().unwrap().poll(context)).await
    }

    fn backlog(&self) -> Option<Arc<dyn Backlog<K>>> {
        Some(self.arrived.clone())
    }
}

impl<K> std::fmt::Debug for Arrived<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arrived").field("deferred", &self.deferred).finish_non_exhaustive()
    }
}

impl<K: Object> Backlog<K> for Mutex<Arrived<K>> {
    fn defer(&self, deferred: bool) {
        let mut arrived = self.lock().unwrap();
        arrived.deferred = deferred;
        arrived.reader.take().into_iter().for_each(Waker::wake);
    }

    fn has_arrived(&self) -> bool {
        let arrived = self.lock().unwrap();
        arrived.deferred && !arrived.backlog.is_empty()
    }

    fn take(&self, take: &mut dyn FnMut(WatchEvent<K>)) {
        if self.has_arrived() {
            let backlog = std::mem::take(&mut self.lock().unwrap().backlog);
            backlog.into_iter().for_each(take);
        }
    }
}
