//! client-go's reflector (K §4.1).
//!
//! ```text
//!             ┌── a stream of the state, if the client asks for one ── its last bookmark ──┐
//!  begins, or │                           │ cannot be had                               ▼
//!  after a gap┴──────────────────────► list ──► store ──► watch, again and again ──► store, watch goes on
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::Shared;
use super::source::{PAGE_SIZE, Source};
use crate::api::{ApiError, List, Object, ObjectKey, Reason, TransportError, WatchEvent};
use crate::client::{Client, WatchStream};
use crate::env::Env;
use crate::race::{Either, race};
use crate::retry::GrowingBackoff;

/// The duration below which a watch without a single event counts as an error.
const SHORT_WATCH: Duration = Duration::from_secs(1);

/// The next step after a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Watch,
    BackOffThenWatch,
    List,
}

/// Decides how to handle a watch that could not be opened, or an error inside a watch.
fn after_error(error: &ApiError, open: bool) -> Next {
    match error {
        _ if error.reason() == Some(Reason::TooManyRequests) => Next::BackOffThenWatch,
        // The server is down, so no change is known: resume at the same version.
        ApiError::Transport(TransportError::Refused) if !open => Next::BackOffThenWatch,
        // client-go treats a broken connection as the end of the stream, unless its health check detected it.
        ApiError::Transport(TransportError::Reset | TransportError::Deadline) if open => Next::Watch,
        _ => Next::List,
    }
}

/// The result of streaming the state.
enum Streamed<K> {
    /// The whole state; changes follow.
    State(List<K>),
    /// The stream ended early; `quiet` = without a single event.
    Cut { quiet: bool },
}

/// Reads the state at the beginning of a stream, up to the bookmark that marks it as complete.
async fn initial_state<K: Object>(stream: &mut impl WatchStream<K>) -> Result<Streamed<K>, ApiError> {
    let mut objects = BTreeMap::new();
    let mut quiet = true;
    while let Some(event) = stream.next().await {
        match event? {
            WatchEvent::Error(status) => return Err(ApiError::Status(status)),
            WatchEvent::Added(object) | WatchEvent::Modified(object) => drop(objects.insert(ObjectKey::of(&*object), object)),
            WatchEvent::Deleted(object) => drop(objects.remove(&ObjectKey::of(&*object))),
            WatchEvent::Bookmark { resource_version, initial_events_end: true } => {
                let items = objects.into_values().collect();
                return Ok(Streamed::State(List { items, resource_version, continue_token: None, remaining: None }));
            }
            WatchEvent::Bookmark { .. } => {}
        }
        quiet = false;
    }
    Ok(Streamed::Cut { quiet })
}

pub(super) struct Reflector<K, C, V> {
    pub(super) source: Source<C>,
    pub(super) env: V,
    pub(super) shared: Arc<Shared<K>>,
    pub(super) resync: Option<Duration>,
    pub(super) backoff: GrowingBackoff,
    /// Whether the last list's version was unavailable: the next list requests the most recent state, whatever its version.
    pub(super) version_unavailable: bool,
}

impl<K: Object, C: Client, V: Env> Reflector<K, C, V> {
    pub(super) async fn run(mut self) {
        loop {
            if let Ok(stream) = self.fill().await {
                self.watch_with_resync(stream).await;
            }
            self.back_off().await;
        }
    }

    async fn back_off(&mut self) {
        let sleep = self.backoff.sleep(self.env.monotonic(), || self.env.random_unit());
        self.env.sleep(sleep).await;
    }

    /// The version for the next list: any state at first, then nothing older than what was seen (K150).
    fn list_version(&self) -> Option<String> {
        if self.version_unavailable { None } else { Some(self.shared.version().unwrap_or_else(|| "0".to_owned())) }
    }

    /// Brings the store to a current or former state of the server, and returns the stream that continues from it, if there is one.
    async fn fill(&mut self) -> Result<Option<C::Watch<K>>, ApiError> {
        if self.source.client.streams_lists()
            && let Some(stream) = self.watch_list().await
        {
            return Ok(Some(stream));
        }
        // A list may succeed where the stream failed.
        self.list().await.map(|()| None)
    }

    /// Reads the state from a stream. `None` = a list is needed instead.
    async fn watch_list(&mut self) -> Option<C::Watch<K>> {
        loop {
            let started = self.env.monotonic();
            let version = if self.version_unavailable { None } else { self.shared.version() };
            let (streamed, open) = match self.in_time(self.source.watch_list(version.as_deref(), self.timeout_seconds())).await {
                Ok(mut stream) => match initial_state(&mut stream).await {
                    Ok(Streamed::State(list)) => {
                        self.version_unavailable = false;
                        self.shared.replace(list);
                        return Some(stream);
                    }
                    Ok(Streamed::Cut { quiet }) => (Ok(quiet), true),
                    Err(error) => (Err(error), true),
                },
                Err(error) => (Err(error), false),
            };
            let next = match streamed {
                Ok(quiet) if quiet && self.is_short(started) => Next::List,
                Ok(_) => Next::Watch,
                Err(error) if error.is_expired() || error.is_too_large_resource_version() => {
                    self.version_unavailable = true;
                    Next::Watch
                }
                Err(error) => after_error(&error, open),
            };
            match next {
                Next::Watch => {}
                Next::BackOffThenWatch => self.back_off().await,
                Next::List => return None,
            }
        }
    }

    /// Opens a watch by `opening`, unless that takes too long.
    async fn in_time(&self, opening: impl Future<Output = Result<C::Watch<K>, ApiError>> + Send) -> Result<C::Watch<K>, ApiError> {
        let Some(patience) = self.source.patience else { return opening.await };
        match race(opening, self.env.sleep(patience)).await {
            Either::Left(opened) => opened,
            Either::Right(()) => Err(TransportError::Deadline.into()),
        }
    }

    /// The time limit of a watch: five to ten minutes.
    fn timeout_seconds(&self) -> u32 {
        (300.0 * (1.0 + self.env.random_unit())) as u32
    }

    fn is_short(&self, started: Duration) -> bool {
        self.env.monotonic().saturating_sub(started) < SHORT_WATCH
    }

    async fn list(&mut self) -> Result<(), ApiError> {
        let first = self.list_at(self.list_version()).await;
        let list = match first {
            Err(error) if error.is_expired() || error.is_too_large_resource_version() => {
                self.version_unavailable = true;
                self.list_at(None).await?
            }
            result => result?,
        };
        self.version_unavailable = false;
        self.shared.replace(list);
        Ok(())
    }

    async fn list_at(&self, version: Option<String>) -> Result<List<K>, ApiError> {
        // A version other than "0" is served from the server's cache only without a limit.
        let limit = if version.as_deref().is_none_or(|version| version == "0") { PAGE_SIZE } else { 0 };
        self.source.list(version.as_deref(), limit, true).await
    }

    async fn watch_with_resync(&mut self, stream: Option<C::Watch<K>>) {
        let Some(period) = self.resync else { return self.watch(stream).await };
        let (env, shared) = (self.env.clone(), self.shared.clone());
        let resync = async move {
            loop {
                env.sleep(period).await;
                shared.resync();
            }
        };
        race(self.watch(stream), resync).await;
    }

    /// Watches repeatedly, at first on the `stream` that delivered the state, until a new list is due.
    async fn watch(&mut self, mut stream: Option<C::Watch<K>>) {
        loop {
            let started = self.env.monotonic();
            let opened = match stream.take() {
                Some(stream) => Ok(stream),
                None => {
                    let timeout_seconds = self.timeout_seconds();
                    let version = self.shared.version().expect("a watch comes after a list");
                    self.in_time(self.source.watch(&version, timeout_seconds)).await
                }
            };
            let next = match opened {
                Ok(stream) => self.consume(stream, started).await,
                Err(error) => after_error(&error, false),
            };
            match next {
                Next::Watch => {}
                Next::BackOffThenWatch => self.back_off().await,
                Next::List => return,
            }
        }
    }

    async fn consume(&self, mut stream: C::Watch<K>, started: Duration) -> Next {
        let following = self.shared.follow(stream.backlog());
        let next = loop {
            match stream.next().await {
                Some(Ok(WatchEvent::Error(status))) => break after_error(&ApiError::Status(status), true),
                Some(Ok(event)) => self.shared.apply(event),
                Some(Err(error)) => break after_error(&error, true),
                None => break Next::Watch,
            }
        };
        let quiet = !following.end();
        let short = quiet && self.is_short(started);
        if next == Next::Watch && short { Next::List } else { next }
    }
}
