//! client-go's reflector (K §4.1).

use std::sync::Arc;
use std::time::Duration;

use super::Shared;
use super::source::{PAGE_SIZE, Source};
use crate::api::{ApiError, Object, Reason, TransportError, WatchEvent};
use crate::client::{Client, WatchStream};
use crate::env::Env;
use crate::race::race;
use crate::retry::GrowingBackoff;

/// A watch that ends before this without a single event counts as an error.
const SHORT_WATCH: Duration = Duration::from_secs(1);

/// How to go on after a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Watch,
    BackOffThenWatch,
    List,
}

/// What to do about a watch that could not be opened, or an error inside a watch.
fn after_error(error: &ApiError, open: bool) -> Next {
    match error {
        _ if error.reason() == Some(Reason::TooManyRequests) => Next::BackOffThenWatch,
        // Nobody listens, so nothing is known to have changed: go on where it ended.
        ApiError::Transport(TransportError::Refused) if !open => Next::BackOffThenWatch,
        // client-go takes a broken connection for the end of the stream, unless its health check found it.
        ApiError::Transport(TransportError::Reset | TransportError::Deadline) if open => Next::Watch,
        _ => Next::List,
    }
}

pub(super) struct Reflector<K, C, V> {
    pub(super) source: Source<C>,
    pub(super) env: V,
    pub(super) shared: Arc<Shared<K>>,
    pub(super) resync: Option<Duration>,
    pub(super) backoff: GrowingBackoff,
    /// The last list's version could not be had: ask for the most recent state, whatever its version.
    pub(super) version_unavailable: bool,
}

impl<K: Object, C: Client, V: Env> Reflector<K, C, V> {
    pub(super) async fn run(mut self) {
        loop {
            if self.list().await.is_ok() {
                self.watch_with_resync().await;
            }
            self.back_off().await;
        }
    }

    async fn back_off(&mut self) {
        let sleep = self.backoff.sleep(self.env.monotonic(), || self.env.random_unit());
        self.env.sleep(sleep).await;
    }

    /// What to ask a list for: any state at first, then nothing older than what was seen (K150).
    fn list_version(&self) -> Option<String> {
        if self.version_unavailable { None } else { Some(self.shared.version().unwrap_or_else(|| "0".to_owned())) }
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

    async fn list_at(&self, version: Option<String>) -> Result<crate::api::List<K>, ApiError> {
        // A version other than "0" can only be served from the server's cache without a limit.
        let limit = if version.as_deref().is_none_or(|version| version == "0") { PAGE_SIZE } else { 0 };
        self.source.list(version.as_deref(), limit, true).await
    }

    async fn watch_with_resync(&mut self) {
        let Some(period) = self.resync else { return self.watch().await };
        let (env, shared) = (self.env.clone(), self.shared.clone());
        let resync = async move {
            loop {
                env.sleep(period).await;
                shared.resync();
            }
        };
        race(self.watch(), resync).await;
    }

    /// Watches again and again until a new list is due.
    async fn watch(&mut self) {
        loop {
            let started = self.env.monotonic();
            let timeout_seconds = (300.0 * (1.0 + self.env.random_unit())) as u32;
            let version = self.shared.version().expect("a watch comes after a list");
            let next = match self.source.watch(&version, timeout_seconds).await {
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
        let short = quiet && self.env.monotonic().saturating_sub(started) < SHORT_WATCH;
        if next == Next::Watch && short { Next::List } else { next }
    }
}
