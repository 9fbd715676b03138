//! A scripted API server of one type.

use std::any::Any;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::env::TestEnv;
use super::watch::{Events, TestWatch};
use crate::api::{ApiError, Object, Reply, Request, WatchOptions};
use crate::client::Client;
use crate::env::Env;

/// A scripted server's answer to one request, and its delay.
pub struct Answer<K> {
    /// The time until the client gets the answer.
    pub after: Duration,
    /// The reply, or the error.
    pub result: Result<Reply<K>, ApiError>,
}

impl<K> Answer<K> {
    /// An immediate answer with `result`, success or error.
    pub fn now(result: Result<Reply<K>, ApiError>) -> Self {
        Self { after: Duration::ZERO, result }
    }

    /// An immediate answer with the object, as for reads and most writes.
    pub fn object(object: impl Into<Arc<K>>) -> Self {
        Self::now(Ok(Reply::Object(object.into())))
    }

    /// An immediate error: a Status, or a failure of the transport.
    pub fn error(error: impl Into<ApiError>) -> Self {
        Self::now(Err(error.into()))
    }
}

type OnSend<K> = Box<dyn FnMut(Request<K>) -> Answer<K> + Send>;
type OnWatch<K> = Box<dyn FnMut(WatchOptions) -> Result<Events<K>, ApiError> + Send>;

struct Server<K> {
    on_send: Mutex<OnSend<K>>,
    on_watch: Mutex<OnWatch<K>>,
}

/// A client of a server with one type that is scripted by two closures. A request is carried out when it is sent.
pub struct TestClient<O> {
    env: TestEnv,
    server: Arc<Server<O>>,
    streams_lists: bool,
}

impl<O> Clone for TestClient<O> {
    fn clone(&self) -> Self {
        Self { env: self.env.clone(), server: self.server.clone(), streams_lists: self.streams_lists }
    }
}

impl<O: Object> TestClient<O> {
    /// A client whose requests are answered by `on_send`, and whose watches are opened by `on_watch`.
    pub fn new(
        env: &TestEnv,
        on_send: impl FnMut(Request<O>) -> Answer<O> + Send + 'static,
        on_watch: impl FnMut(WatchOptions) -> Result<Events<O>, ApiError> + Send + 'static,
    ) -> Self {
        let server = Server { on_send: Mutex::new(Box::new(on_send)), on_watch: Mutex::new(Box::new(on_watch)) };
        Self { env: env.clone(), server: Arc::new(server), streams_lists: false }
    }

    /// The same client, with informers that start with a watch-list stream.
    #[must_use]
    pub fn streaming_lists(self) -> Self {
        Self { streams_lists: true, ..self }
    }

    /// A client for a test that opens no watch.
    ///
    /// # Panics
    /// If a watch is opened.
    pub fn without_watch(env: &TestEnv, on_send: impl FnMut(Request<O>) -> Answer<O> + Send + 'static) -> Self {
        Self::new(env, on_send, |_| unreachable!("the test opens no watch"))
    }
}

fn cast<A: Any, B: Any>(value: A) -> B {
    let boxed: Box<dyn Any> = Box::new(value);
    *boxed.downcast().expect("the scripted server knows one type")
}

impl<O: Object> Client for TestClient<O> {
    type Watch<K: Object> = TestWatch<K>;

    async fn send<K: Object>(&self, request: Request<K>) -> Result<Reply<K>, ApiError> {
        let answer: Answer<K> = cast((self.server.on_send.lock().unwrap())(cast(request)));
        if answer.after > Duration::ZERO {
            self.env.sleep(answer.after).await;
        }
        answer.result
    }

    async fn watch<K: Object>(&self, _namespace: Option<Arc<str>>, options: WatchOptions) -> Result<TestWatch<K>, ApiError> {
        let events: Events<K> = cast((self.server.on_watch.lock().unwrap())(options)?);
        Ok(TestWatch::new(events))
    }

    fn streams_lists(&self) -> bool {
        self.streams_lists
    }
}
