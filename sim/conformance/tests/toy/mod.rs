//! A server that answers from a script, under a clock that jumps to the next event.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use api_conformance::{Answer, EventStream, Identity, Json, RequestError, Server};

/// The present time, and the times that something waits for.
#[derive(Default)]
pub(crate) struct Clock {
    now: Cell<Duration>,
    wanted: RefCell<BTreeSet<Duration>>,
}

impl Clock {
    async fn until(&self, time: Duration) {
        std::future::poll_fn(|_| {
            if self.now.get() >= time {
                return Poll::Ready(());
            }
            self.wanted.borrow_mut().insert(time);
            Poll::Pending
        })
        .await;
    }

    /// Runs a future to its end; when it waits, the clock jumps.
    pub(crate) fn run<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return value;
            }
            let next = self.wanted.borrow_mut().pop_first().expect("somebody waits for what never comes");
            self.now.set(self.now.get().max(next));
        }
    }
}

/// The reaction of the server to a request.
pub(crate) enum Reaction {
    /// Answers after a while.
    Answers(Duration, u16, Vec<(&'static str, &'static str)>, Vec<u8>),
    /// Breaks the connection before an answer.
    Breaks,
    /// Takes the request and never answers.
    Hangs,
    /// Opens a stream of lines, each at its time from now on; a last line without text ends it.
    Streams(Vec<(f64, &'static str)>),
}

/// An answer of JSON.
pub(crate) fn json(status: u16, body: &str) -> Reaction {
    Reaction::Answers(Duration::ZERO, status, vec![("content-type", "application/json")], body.as_bytes().to_vec())
}

/// A request as the server saw it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    pub at: f64,
    pub line: String,
    pub headers: Vec<(String, String)>,
    pub body: Option<String>,
    pub identity: Identity,
}

/// The server, and the requests that it saw.
pub(crate) struct Toy<F> {
    pub clock: Rc<Clock>,
    pub seen: RefCell<Vec<Seen>>,
    react: F,
}

impl<F: Fn(&Seen) -> Reaction> Toy<F> {
    pub(crate) fn new(react: F) -> Self {
        Self { clock: Rc::default(), seen: RefCell::default(), react }
    }

    /// The lines of the requests so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.seen.borrow().iter().map(|seen| seen.line.clone()).collect()
    }

    fn see(&self, line: String, headers: &[(String, String)], body: Option<Vec<u8>>, identity: Identity) -> Reaction {
        let body = body.map(|body| String::from_utf8(body).unwrap());
        let seen = Seen { at: self.clock.now.get().as_secs_f64(), line, headers: headers.to_vec(), body, identity };
        let reaction = (self.react)(&seen);
        self.seen.borrow_mut().push(seen);
        reaction
    }
}

/// A stream of the script.
pub(crate) struct Lines {
    clock: Rc<Clock>,
    from: Duration,
    left: std::vec::IntoIter<(f64, &'static str)>,
    next: Option<(f64, &'static str)>,
}

impl EventStream for Lines {
    async fn next(&mut self) -> Option<Vec<u8>> {
        let Some((at, line)) = self.next else { return std::future::pending().await };
        self.clock.until(self.from + Duration::from_secs_f64(at)).await;
        if line.is_empty() {
            return None;
        }
        self.next = self.left.next();
        Some(line.as_bytes().to_vec())
    }
}

impl<F: Fn(&Seen) -> Reaction> Server for Toy<F> {
    type Stream = Lines;

    async fn request(
        &self,
        method: &str,
        target: &str,
        headers: &[(String, String)],
        body: Option<Vec<u8>>,
        identity: Identity,
    ) -> Result<Answer, RequestError> {
        match self.see(format!("{method} {target}"), headers, body, identity) {
            Reaction::Answers(after, status, headers, body) => {
                self.clock.until(self.clock.now.get() + after).await;
                let headers = headers.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
                Ok(Answer { status, headers, body })
            }
            Reaction::Breaks => Err(RequestError::Connection),
            Reaction::Hangs => std::future::pending().await,
            Reaction::Streams(_) => panic!("a stream for no watch"),
        }
    }

    async fn watch(&self, target: &str, headers: &[(String, String)], identity: Identity) -> Result<(Answer, Option<Lines>), RequestError> {
        match self.see(format!("WATCH {target}"), headers, None, identity) {
            Reaction::Streams(lines) => {
                let mut left = lines.into_iter();
                let next = left.next();
                let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
                let stream = Lines { clock: self.clock.clone(), from: self.clock.now.get(), left, next };
                Ok((Answer { status: 200, headers, body: Vec::new() }, Some(stream)))
            }
            Reaction::Answers(_, status, _, body) => Ok((Answer { status, headers: Vec::new(), body }, None)),
            Reaction::Breaks => Err(RequestError::Connection),
            Reaction::Hangs => std::future::pending().await,
        }
    }

    async fn sleep(&self, duration: Duration) {
        self.clock.until(self.clock.now.get() + duration).await;
    }

    fn elapsed(&self) -> Duration {
        self.clock.now.get()
    }

    async fn compact(&self, revision: u64, announce: bool) {
        self.see(format!("COMPACT {revision} {announce}"), &[], None, Identity::Admin);
    }
}

/// The steps of a record as one line each.
pub(crate) fn told(steps: &[Json]) -> Vec<String> {
    steps.iter().map(Json::line).collect()
}
