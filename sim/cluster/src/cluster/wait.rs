//! The waits of requests: for a cache, etcd, the network (K §2.11, §3.3, §3.4).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use kube_machinery::ApiError;
use kube_machinery::api::TransportError;
use sim_config::time::SimTime;

use super::commit::Transaction;
use super::etcd::EtcdOutage;
use super::obstacle::Obstacle;
use super::read::{Freshness, too_large};
use super::serve::Work;
use super::server_error::etcd_error;
use super::{Cluster, State};
use crate::kinds::KindId;
use crate::rt::{ProcessId, Sleep};

/// The time that a read waits for its revision (K §2.11).
const FRESHNESS_WAIT: Duration = Duration::from_secs(3);
/// The interval at which etcd reports progress to a cache that asks for it (K §2.2).
const PROGRESS_EVERY: Duration = Duration::from_millis(100);
/// The time-out of etcd's client (K §3.4).
const ETCD_TIMEOUT: Duration = Duration::from_secs(7);

impl Cluster {
    /// Waits until a read can be answered.
    pub(super) async fn wait_for(self: &Arc<Self>, server: usize, kind: KindId, freshness: &Freshness) -> Result<(), ApiError> {
        let wanted = {
            let mut state = self.lock();
            let ready = state.is_ready(server, kind, self.rt.now());
            match *freshness {
                Freshness::Any if ready => return Ok(()),
                Freshness::AtLeast(revision) if ready => Some((revision, true)),
                Freshness::Exact(revision) if state.has_snapshot(server, kind, revision, self.rt.now()) => Some((revision, true)),
                // Only etcd can tell which revision to wait for (K §3.3).
                Freshness::Latest if ready && state.knobs.consistent_list_from_cache && state.reaches_etcd(server) => {
                    let revision = state.store.revision();
                    (state.cache_reaches(server, kind, revision, self.rt.now()) != Some(self.rt.now())).then_some((revision, false))
                }
                _ => None,
            }
        };
        if let Some((revision, must)) = wanted {
            let give_up = self.rt.now() + FRESHNESS_WAIT;
            loop {
                let now = self.rt.now();
                let reaches = self.lock().cache_reaches(server, kind, revision, now);
                match reaches {
                    Some(at) if at <= now => return Ok(()),
                    _ if now >= give_up && must => {
                        let current = self.lock().servers[server].caches[usize::from(kind.0)].visible(now);
                        return Err(ApiError::Status(too_large(revision, current)));
                    }
                    // A consistent list falls back to etcd.
                    _ if now >= give_up => break,
                    Some(at) => self.rt.sleep_until(at.min(give_up)).await,
                    None => self.rt.sleep_until((now + PROGRESS_EVERY).min(give_up)).await,
                }
            }
        }
        self.read_etcd(server).await
    }

    /// Waits until a quorum read succeeds: etcd's client retries it until its time-out.
    pub(super) async fn read_etcd(self: &Arc<Self>, server: usize) -> Result<(), ApiError> {
        if self.lock().reaches_etcd(server) || self.in_time(ETCD_TIMEOUT, self.etcd_reached(server)).await {
            Ok(())
        } else {
            Err(etcd_error("etcdserver: request timed out"))
        }
    }

    /// Waits until a write can be proposed. `Some` = it has failed with this error: a transaction sent to etcd has been committed since, if
    /// its object was unchanged, or never will be (K §3.4, K114). `ready`: returns the transaction to send now, if there can be one.
    pub(super) async fn wait_to_write(
        self: &Arc<Self>,
        work: &Work,
        ready: impl FnOnce(&mut State) -> Option<Transaction>,
    ) -> Option<ApiError> {
        /// The probability that a request given up by its caller had reached etcd by then: of the creates sent to a frozen etcd, a quarter
        /// had (K114).
        const SENT: f64 = 0.25;
        let server = work.server;
        let (outage, sent) = {
            let mut state = self.lock();
            if state.reaches_etcd(server) {
                return None;
            }
            (state.etcd.outage, ready(&mut state))
        };
        let reached = self.in_time(ETCD_TIMEOUT, self.etcd_reached(server)).await;
        let (lost_its_leader, commits) = {
            let mut state = self.lock();
            (state.choices.chance(0.5), state.choices.chance(0.5))
        };
        let error = match (reached, outage) {
            (true, Some(EtcdOutage::Electing)) if lost_its_leader => etcd_error("etcdserver: leader changed"),
            (true, _) => {
                let mut state = self.lock();
                if !state.has_hung_up(work.ticket) {
                    return None;
                }
                if state.choices.chance(SENT)
                    && let Some(transaction) = sent
                {
                    state.commit_late(self, server, transaction, self.rt.now());
                }
                return Some(TransportError::Reset.into());
            }
            (false, Some(EtcdOutage::Electing)) => etcd_error("etcdserver: request timed out, possibly due to previous leader failure"),
            (false, _) => etcd_error("etcdserver: request timed out"),
        };
        let Some(transaction) = sent.filter(|_| commits) else { return Some(error) };
        if let Some(ticket) = work.ticket {
            self.lock().complete(ticket, Err(error.clone()), self.rt.now());
        }
        self.etcd_reached(server).await;
        self.lock().commit_late(self, server, transaction, self.rt.now());
        Some(error)
    }

    /// Whether `future` completes within `limit`.
    pub(super) async fn in_time(&self, limit: Duration, future: impl Future<Output = ()>) -> bool {
        let mut future = std::pin::pin!(future);
        let mut sleep = std::pin::pin!(self.rt.sleep(limit));
        std::future::poll_fn(|cx| {
            if future.as_mut().poll(cx).is_ready() {
                Poll::Ready(true)
            } else if sleep.as_mut().poll(cx).is_ready() {
                Poll::Ready(false)
            } else {
                Poll::Pending
            }
        })
        .await
    }

    /// Runs `future` as part of `process`: it is paused or dies with the process. `None` = it died.
    pub(super) async fn in_process<T: Send + 'static>(
        &self,
        process: ProcessId,
        future: Pin<Box<dyn Future<Output = T> + Send>>,
    ) -> Option<T> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        self.rt.spawn(process, async move {
            let _ = sender.send(future.await);
        });
        receiver.await.ok()
    }

    /// Sleeps while a message travels from one process to another.
    pub async fn travel(self: &Arc<Self>, from: ProcessId, to: ProcessId) {
        let since = self.rt.now();
        loop {
            let fate = self.lock().net.send(from, to, self.rt.now()).0;
            match Obstacle::passes(fate) {
                Ok((after, _)) => return self.rt.sleep(after).await,
                Err(obstacle) => {
                    self.network_change().await;
                    self.rt.sleep_until(obstacle.passed(since, self.rt.now())).await;
                }
            }
        }
    }

    /// Completes at the next change of a network rule.
    pub fn network_change(self: &Arc<Self>) -> impl Future<Output = ()> + Send + 'static {
        let cluster = self.clone();
        let mut registered = false;
        std::future::poll_fn(move |cx| {
            if registered {
                return Poll::Ready(());
            }
            registered = true;
            cluster.lock().net.on_change(cx.waker());
            Poll::Pending
        })
    }
}

/// Waits for `future`, but not beyond the deadline. Returns whether it completed.
pub(super) async fn until(sleep: Sleep, future: impl Future<Output = ()>, deadline: SimTime) -> bool {
    let mut future = std::pin::pin!(future);
    let mut sleep = std::pin::pin!(sleep);
    std::future::poll_fn(|cx| {
        if future.as_mut().poll(cx).is_ready() {
            Poll::Ready(true)
        } else if deadline != SimTime::NEVER && sleep.as_mut().poll(cx).is_ready() {
            Poll::Ready(false)
        } else {
            Poll::Pending
        }
    })
    .await
}
