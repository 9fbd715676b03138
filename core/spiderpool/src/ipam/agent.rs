//! The agent: one process on each node that gives pods their addresses and takes them back.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::answer::{AddAnswer, DelOutcome};
use super::caches::Caches;
use super::drawn::Drawn;
use super::error::IpamError;
use super::failure_cache::FailureCache;
use super::neighbours::Neighbours;
use super::observer::{Observer, Step};
use super::op::Op;
use super::pool_addresses::AddressBook;
use super::request::{AddRequest, BatchRequest, DelRequest};
use super::settings::AgentConfig;
use crate::limiter::Limiter;
use kube_machinery::client::Client;
use kube_machinery::env::Env;

/// The agent of one node. Clones are the same process: they share its limiter and its failure cache.
///
/// Every operation may be dropped at any point; what it has sent may still take effect. An operation whose caller gave up is
/// to be driven on: its deadline is in the request, and a roll-back has time of its own.
pub struct Agent<C, V, K, O = ()> {
    pub(super) client: C,
    pub(super) env: V,
    pub(super) caches: K,
    pub(super) observer: O,
    pub(super) config: Arc<AgentConfig>,
    /// Turns at pools.
    pub(super) limiter: Limiter,
    /// Turns at pods.
    pub(super) pods: Limiter,
    /// When the process started.
    pub(super) began: Duration,
    pub(super) failures: FailureCache,
    pub(super) addresses: AddressBook,
    pub(super) neighbours: Neighbours,
}

impl<C: Clone, V: Clone, K: Clone, O: Clone> Clone for Agent<C, V, K, O> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            env: self.env.clone(),
            caches: self.caches.clone(),
            observer: self.observer.clone(),
            config: self.config.clone(),
            limiter: self.limiter.clone(),
            pods: self.pods.clone(),
            began: self.began,
            failures: self.failures.clone(),
            addresses: self.addresses.clone(),
            neighbours: self.neighbours.clone(),
        }
    }
}

impl<C, V, K, O> fmt::Debug for Agent<C, V, K, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent").field("config", &self.config).finish_non_exhaustive()
    }
}

impl<C: Client, V: Env, K: Caches, O: Observer> Agent<C, V, K, O> {
    /// An agent that has just started and remembers nothing.
    pub fn new(client: C, env: V, caches: K, observer: O, config: AgentConfig) -> Self {
        let limiter = Limiter::new(config.settings.queue_length, config.policy.limiter_overtakes);
        let (pods, began) = (Limiter::new(usize::MAX, false), env.monotonic());
        let (failures, addresses, neighbours) = (FailureCache::default(), AddressBook::default(), Neighbours::default());
        Self { client, env, caches, observer, config: Arc::new(config), limiter, pods, began, failures, addresses, neighbours }
    }

    /// When an operation ends whose caller gives up at `deadline`.
    pub(super) fn end(&self, deadline: Option<Duration>) -> Option<Duration> {
        let own = self.config.settings.operation_timeout.map(|timeout| self.env.monotonic() + timeout);
        match (deadline, own) {
            (Some(deadline), Some(own)) => Some(deadline.min(own)),
            (deadline, own) => deadline.or(own),
        }
    }

    /// What it remembers of ADDs that failed, by the UID of the pod.
    pub fn remembered(&self) -> BTreeMap<Arc<str>, Vec<Drawn>> {
        self.failures.all()
    }

    /// What it was told.
    pub fn config(&self) -> &AgentConfig {
        &self.config
    }

    /// Gives a NIC of a pod its addresses (A §5.2).
    ///
    /// # Errors
    /// The NIC has none now. The runtime is to come again.
    pub async fn add(&self, request: &AddRequest) -> Result<AddAnswer, IpamError> {
        let began = self.env.monotonic();
        self.observer.observe(Step::AddBegun { request });
        let deadline = self.end(request.deadline).filter(|_| !self.config.policy.limiter_ignores_deadline);
        let op = Op::new(self, &request.pod_uid, deadline);
        let mut uid: Arc<str> = "".into();
        let result = match op.turn(&request.pod).await {
            Ok(_turn) => op.add(request, &mut uid).await,
            Err(error) => Err(error),
        };
        let took = self.env.monotonic().saturating_sub(began);
        self.observer.observe(Step::AddEnded { request, uid: &uid, result: result.as_ref(), effort: &op.effort(), took });
        result
    }

    /// Takes back the addresses of a pod, unless they are kept for a purpose (A §7.1).
    ///
    /// # Errors
    /// Something may be left, for a further DEL or for reclaim. Upstream's plugin tells the runtime that all is well.
    pub async fn del(&self, request: &DelRequest) -> Result<DelOutcome, IpamError> {
        let began = self.env.monotonic();
        self.observer.observe(Step::DelBegun { request });
        let mut op = Op::new(self, &request.pod_uid, self.end(request.deadline));
        let result = match op.turn(&request.pod).await {
            Ok(_turn) => op.del(request).await,
            Err(error) => Err(error),
        };
        let took = self.env.monotonic().saturating_sub(began);
        self.observer.observe(Step::DelEnded { request, result: result.as_ref().copied(), effort: &op.effort(), took });
        result
    }

    /// Takes back all addresses of a pod that runs, because one of them does not work (A §7.3). Its next ADD gets others.
    ///
    /// # Errors
    /// Something may be left.
    pub async fn release_ips(&self, request: &BatchRequest) -> Result<(), IpamError> {
        let began = self.env.monotonic();
        self.observer.observe(Step::BatchBegun { request });
        let op = Op::new(self, &request.pod_uid, self.end(request.deadline));
        let result = match op.turn(&request.pod).await {
            Ok(_turn) => op.release_ips(request).await,
            Err(error) => Err(error),
        };
        let took = self.env.monotonic().saturating_sub(began);
        self.observer.observe(Step::BatchEnded { request, result: result.as_ref().copied(), effort: &op.effort(), took });
        result
    }
}
