//! The PeerPod controller: releases the VMs of Pods that are gone (B §5.2).

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::owners::PeerPodOwners;
use super::peer_pod::PeerPod;
use crate::driver::{PoolSettings, VmPool};
use crate::observer::Observer;
use crate::outcome::Context;
use crate::reclaim::Suspects;
use crate::vm::VmAccess;
use kube_machinery::api::ObjectKey;
use kube_machinery::client::Client;
use kube_machinery::env::Env;
use kube_machinery::informer::{Index, Informer, InformerOptions, StoreReader};
use kube_machinery::leader::{Election, ElectionConfig, ElectionConfigError, Phase};
use kube_machinery::race::race;
use kube_machinery::workqueue::WorkQueue;

/// Returns the pool's current settings; `None` = they are unavailable, and nothing can be released.
pub type SettingsSource = Arc<dyn Fn() -> Option<PoolSettings> + Send + Sync>;

/// The settings of a PeerPod controller.
#[derive(Clone)]
pub struct ControllerSettings {
    /// The source of the pool's current configuration. Asked at the first release and from then on whenever the pool is used; with
    /// `byom-controller-configuration-frozen` only once.
    pub pool: SettingsSource,
    /// The initial settings. Only the policy, the retries and the times are used.
    pub initial: PoolSettings,
    /// The leader election, if there are several replicas.
    pub election: Option<ElectionConfig>,
    /// The interval at which records are compared with PeerPods, and the list of available addresses with the configuration. Default 5
    /// minutes. Never with `byom-leaks-kept`.
    pub reclaim_every: Duration,
}

impl ControllerSettings {
    /// The defaults for a pool whose configuration never changes.
    pub fn new(pool: PoolSettings) -> Self {
        let settings = pool.clone();
        let source: SettingsSource = Arc::new(move || Some(settings.clone()));
        Self { pool: source, initial: pool, election: None, reclaim_every: Duration::from_secs(5 * 60) }
    }
}

impl fmt::Debug for ControllerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerSettings").field("election", &self.election).field("reclaim_every", &self.reclaim_every).finish()
    }
}

/// The index of PeerPods by the UID of the Pod that owns them.
pub(super) const BY_OWNER: &str = "owner";

pub(super) type Pool<C, V, M, B> = VmPool<C, V, M, PeerPodOwners<C, V, B>>;

/// One replica of the PeerPod controller.
///
/// One worker takes PeerPods from a queue, one after the other; failed ones are requeued. In the hardened form every release has a time
/// limit, so a VM that hangs delays the others by no more than the time of one operation.
pub struct PeerPodController<C, V, M, B = ()> {
    client: C,
    pub(super) env: V,
    vms: M,
    pub(super) owners: PeerPodOwners<C, V, B>,
    pub(super) settings: ControllerSettings,
    /// The pool, made at the first release.
    pool: Mutex<Option<Pool<C, V, M, B>>>,
}

impl<C, V, M, B> fmt::Debug for PeerPodController<C, V, M, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PeerPodController").field(&self.settings).finish()
    }
}

impl<C: Client, V: Env, M: VmAccess, B: Observer> PeerPodController<C, V, M, B> {
    /// A replica that has not started yet.
    pub fn new(client: C, env: V, vms: M, observer: B, settings: ControllerSettings) -> Self {
        let owners = PeerPodOwners::new(client.clone(), env.clone(), observer, &settings.initial);
        Self { client, env, vms, owners, settings, pool: Mutex::new(None) }
    }

    /// Runs the controller until leadership is lost: then the process must exit, as upstream's does, and be restarted. Without an election
    /// it never ends. Work in progress when leadership is lost is dropped at its next suspension point.
    ///
    /// # Errors
    /// The configuration of the election is invalid.
    ///
    /// # Panics
    /// If upstream's process crashes here ([`Env::crash`], B W18).
    pub async fn run(&self) -> Result<Phase, ElectionConfigError> {
        let by_owner = Index::new(BY_OWNER, |peer_pod: &PeerPod, value| peer_pod.owner_uid().into_iter().for_each(value));
        let options = InformerOptions { indexes: vec![by_owner], ..InformerOptions::default() };
        let informer = Informer::start(self.client.clone(), self.env.clone(), options);
        let queue = WorkQueue::new(self.env.clone());
        informer.add_handler({
            let queue = queue.clone();
            move |notification| queue.add(notification.key())
        });
        let work = async {
            informer.synced().await;
            race(self.worker(&informer.store(), &queue), self.reclaimer()).await;
        };
        let Some(config) = self.settings.election.clone() else {
            work.await;
            unreachable!("nobody shuts the queue down");
        };
        let election = Election::start(self.client.clone(), self.env.clone(), config)?;
        let end = election.lead(work).await;
        Ok(end.expect_err("nobody shuts the queue down"))
    }

    async fn worker(&self, store: &StoreReader<PeerPod>, queue: &WorkQueue<ObjectKey, V>) {
        while let Some(key) = queue.next().await {
            match self.reconcile(&key, store).await {
                Ok(()) => queue.forget(&key),
                Err(_) => queue.add_rate_limited(ObjectKey::clone(&key)),
            }
        }
    }

    /// Recovers the list of available addresses and reclaims records without owners, once per interval. Never ends; with `byom-leaks-kept`
    /// it only waits.
    async fn reclaimer(&self) {
        if self.settings.initial.policy.leaks_kept {
            return std::future::pending().await;
        }
        let mut suspects = Suspects::default();
        loop {
            self.env.sleep(self.settings.reclaim_every).await;
            let Some(pool) = self.pool().await else { continue };
            // Failures are retried in the next round.
            let _ = pool.recover(Context::BACKGROUND).await.or_crash(&self.env);
            let _ = pool.reclaim(&mut suspects).await.or_crash(&self.env);
        }
    }

    /// The pool with the current settings; recovered if it is new (B P0). `None` = it cannot be made.
    pub(super) async fn pool(&self) -> Option<Pool<C, V, M, B>> {
        let known = self.pool.lock().unwrap().clone();
        if let Some(pool) = known {
            if self.settings.initial.policy.controller_configuration_frozen {
                return Some(pool);
            }
            return Some(match (self.settings.pool)() {
                Some(settings) => pool.with_settings(settings),
                None => pool,
            });
        }
        let settings = (self.settings.pool)()?;
        let pool = VmPool::new(self.client.clone(), self.env.clone(), self.vms.clone(), self.owners.clone(), settings);
        // An error is only logged, and the pool is used all the same (B R5).
        let _ = pool.recover(Context::BACKGROUND).await.or_crash(&self.env);
        *self.pool.lock().unwrap() = Some(pool.clone());
        Some(pool)
    }
}
