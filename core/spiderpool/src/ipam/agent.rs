//! The agent: the process on each node that allocates addresses to pods and releases them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::allocated_ip::AllocatedIp;
use super::caches::Caches;
use super::failure_cache::FailureCache;
use super::neighbours::Neighbours;
use super::observer::Observer;
use super::pool_addresses::AddressBook;
use super::settings::AgentConfig;
use crate::limiter::Limiter;
use kube_machinery::client::Client;
use kube_machinery::env::Env;

/// The agent of one node. Clones are the same process: they share its limiter and its failure cache.
///
/// Every operation may be dropped at any point; a request that it has sent may still take effect. An operation whose caller gave up has to
/// be driven on: its deadline is in the request, and a roll-back has its own time limit.
pub struct Agent<C, V, K, O = ()> {
    pub(super) client: C,
    pub(super) env: V,
    pub(super) caches: K,
    pub(super) observer: O,
    pub(super) config: Arc<AgentConfig>,
    /// The queue for pools: an ADD or a release waits for all of its pools at once (A §5.6).
    pub(super) limiter: Limiter,
    /// The queue for pods: operations on one pod run one after another, unless `pod-operations-overlap` is on.
    pub(super) pods: Limiter,
    /// The start of the process.
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
    /// An agent that has just started, with no memory of earlier ADDs.
    pub fn new(client: C, env: V, caches: K, observer: O, config: AgentConfig) -> Self {
        let limiter = Limiter::new(config.settings.queue_length, config.policy.limiter_overtakes);
        let (pods, began) = (Limiter::new(usize::MAX, false), env.monotonic());
        let (failures, addresses, neighbours) = (FailureCache::default(), AddressBook::default(), Neighbours::default());
        Self { client, env, caches, observer, config: Arc::new(config), limiter, pods, began, failures, addresses, neighbours }
    }

    /// The deadline of an operation whose caller gives up at `deadline`.
    pub(super) fn end(&self, deadline: Option<Duration>) -> Option<Duration> {
        let own = self.config.settings.operation_timeout.map(|timeout| self.env.monotonic() + timeout);
        match (deadline, own) {
            (Some(deadline), Some(own)) => Some(deadline.min(own)),
            (deadline, own) => deadline.or(own),
        }
    }

    /// The addresses of failed ADDs in the failure cache, by the UID of the pod.
    pub fn remembered(&self) -> BTreeMap<Arc<str>, Vec<AllocatedIp>> {
        self.failures.all()
    }

    /// The configuration of the agent.
    pub fn config(&self) -> &AgentConfig {
        &self.config
    }
}
