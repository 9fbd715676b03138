//! kube-rs's watcher with its default backoff, feeding a store (K §4.7).
//!
//! Differs from client-go in harmful ways: a relist does not report objects that vanished, does not carry the last version (so with
//! [`ListSemantic::Any`] it can go back in time), and a watch that cannot be opened is retried at the same version forever, even if the
//! server answers that the version is gone.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use super::source::{PAGE_SIZE, Source};
use super::{ListSemantic, Shared};
use crate::api::{Object, WatchEvent};
use crate::client::{Client, WatchStream};
use crate::env::Env;
use crate::race::{Either, race};
use crate::retry::GrowingBackoff;

const WATCH_TIMEOUT_SECONDS: u32 = 290;

/// The watcher's timeout for a stream that is silent beyond the timeout requested from the server.
const IDLE_GUARD: Duration = Duration::from_secs(295);

/// The next step after a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Watch,
    List,
}

pub(super) struct Watcher<K, C, V> {
    pub(super) source: Source<C>,
    pub(super) env: V,
    pub(super) shared: Arc<Shared<K>>,
    pub(super) semantic: ListSemantic,
    pub(super) backoff: GrowingBackoff,
}

impl<K: Object, C: Client, V: Env> Watcher<K, C, V> {
    pub(super) async fn run(mut self) {
        loop {
            let version = match self.semantic {
                ListSemantic::Any => Some("0"),
                ListSemantic::MostRecent => None,
            };
            match self.source.list(version, PAGE_SIZE, false).await {
                Ok(list) => {
                    self.shared.swap(list);
                    self.watch().await;
                }
                Err(_) => self.back_off().await,
            }
        }
    }

    async fn back_off(&mut self) {
        let sleep = self.backoff.sleep(self.env.monotonic(), || self.env.random_unit());
        self.env.sleep(sleep).await;
    }

    /// Watches repeatedly until the server reports, inside a stream, that the version is gone.
    async fn watch(&mut self) {
        loop {
            let version = self.shared.version().expect("a watch comes after a list");
            match self.source.watch(&version, WATCH_TIMEOUT_SECONDS).await {
                Ok(stream) => {
                    if self.consume(stream).await == Next::List {
                        return;
                    }
                }
                Err(_) => self.back_off().await,
            }
        }
    }

    async fn consume(&mut self, mut stream: C::Watch<K>) -> Next {
        let mut heard = self.env.monotonic();
        // One sleep for many events: checked, and renewed, only when it has passed.
        let mut guard = pin!(self.env.sleep(IDLE_GUARD));
        loop {
            match race(stream.next(), guard.as_mut()).await {
                Either::Left(Some(Ok(WatchEvent::Error(status)))) => {
                    self.back_off().await;
                    if status.code == 410 {
                        return Next::List;
                    }
                }
                Either::Left(Some(Ok(event))) => {
                    self.shared.apply(event);
                    heard = self.env.monotonic();
                }
                Either::Left(Some(Err(_))) => {
                    self.back_off().await;
                    return Next::Watch;
                }
                Either::Left(None) => return Next::Watch,
                Either::Right(()) => {
                    let silent = self.env.monotonic().saturating_sub(heard);
                    if silent >= IDLE_GUARD {
                        return Next::Watch;
                    }
                    guard.set(self.env.sleep(IDLE_GUARD - silent));
                }
            }
        }
    }
}
