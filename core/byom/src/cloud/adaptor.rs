//! The adaptor: one process on each node, which starts and stops the VMs of its pods.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::owners::PeerPodOwners;
use super::proxy::AgentProxy;
use crate::decide::Recovered;
use crate::driver::{PoolSettings, VmPool};
use crate::error::PoolError;
use crate::observer::Observer;
use crate::outcome::Context;
use crate::policy::Policy;
use crate::reads::PoolStatus;
use crate::vm::VmAccess;
use kube_machinery::client::Client;
use kube_machinery::env::Env;

/// The settings of an adaptor.
#[derive(Clone, Debug)]
pub struct AdaptorSettings {
    /// The settings of the pool, with the mutations that are on.
    pub pool: PoolSettings,
    /// The time limit for the agent in a VM to become ready. Default 5 minutes.
    pub agent_timeout: Duration,
}

impl AdaptorSettings {
    /// The defaults for a pool.
    pub fn new(pool: PoolSettings) -> Self {
        Self { pool, agent_timeout: Duration::from_secs(5 * 60) }
    }
}

/// The adaptor of one node. Clones are the same process: they share the mutex of the pool and the memory of its sandboxes.
///
/// Upstream calls it CAA: the handlers of StartVM and StopVM and the start-up of the provider. Nothing outlives the process but PeerPods
/// and records.
pub struct Adaptor<C, V, M, A, B = ()> {
    pub(super) pool: VmPool<C, V, M, PeerPodOwners<C, V, B>>,
    pub(super) proxy: A,
    pub(super) agent_timeout: Duration,
}

impl<C: Clone, V: Clone, M: Clone, A: Clone, B: Clone> Clone for Adaptor<C, V, M, A, B> {
    fn clone(&self) -> Self {
        Self { pool: self.pool.clone(), proxy: self.proxy.clone(), agent_timeout: self.agent_timeout }
    }
}

impl<C, V, M, A, B> fmt::Debug for Adaptor<C, V, M, A, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Adaptor").field(&self.pool.owners).finish()
    }
}

/// The results of an adaptor's start. The adaptor goes on in any case (B R5).
#[derive(Clone, Debug)]
pub struct Started {
    /// The result of the recovery.
    pub recovered: Result<Recovered, PoolError>,
    /// The fill level of the pool after it.
    pub status: Result<PoolStatus, PoolError>,
}

impl<C: Client, V: Env, M: VmAccess, A: AgentProxy, B: Observer> Adaptor<C, V, M, A, B> {
    /// A newly started adaptor without sandboxes.
    pub fn new(client: C, env: V, vms: M, proxy: A, observer: B, settings: AdaptorSettings) -> Self {
        let AdaptorSettings { pool, agent_timeout } = settings;
        let owners = PeerPodOwners::new(client.clone(), env.clone(), observer, &pool);
        Self { pool: VmPool::new(client, env, vms, owners, pool), proxy, agent_timeout }
    }

    /// The start-up of the process before it serves: one recovery and one read of the statistics (B §1.6, §4).
    ///
    /// # Panics
    /// If upstream's process crashes here ([`Env::crash`], B W18).
    pub async fn start(&self) -> Started {
        let recovered = self.pool.recover(Context::BACKGROUND).await.or_crash(self.env());
        let status = self.pool.status(Context::BACKGROUND).await.or_crash(self.env());
        Started { recovered, status }
    }

    /// The pool as this process uses it.
    pub fn pool(&self) -> &VmPool<C, V, M, PeerPodOwners<C, V, B>> {
        &self.pool
    }

    /// The number of sandboxes it remembers: each from the beginning of StartVM to the end of StopVM, or forever.
    pub fn sandboxes(&self) -> usize {
        self.pool.owners.sandboxes().len()
    }

    pub(super) fn owners(&self) -> &PeerPodOwners<C, V, B> {
        &self.pool.owners
    }

    pub(super) fn policy(&self) -> &Policy {
        self.pool.policy()
    }

    pub(super) fn env(&self) -> &V {
        &self.pool.env
    }
}

/// Copies an ID of a release or a PeerPod into the form that the pool's operations take.
pub(super) fn shared(text: &str) -> Arc<str> {
    text.into()
}
