//! Reclaim as a part of a process.

use std::fmt;
use std::sync::{Arc, Mutex};

use super::caches::Caches;
use super::database::Database;
use super::entry::PodEntry;
use super::observer::Observer;
use super::settings::ReclaimSettings;
use crate::Policy;
use crate::limiter::Limiter;
use kube_machinery::api::ObjectKey;
use kube_machinery::client::Client;
use kube_machinery::env::Env;
use kube_machinery::leader::ElectionConfig;

/// The configuration of reclaim.
#[derive(Clone, Debug)]
pub struct ReclaimConfig {
    /// The settings from its environment, and the constants of upstream's code (G §2).
    pub settings: ReclaimSettings,
    /// The mutations that are on.
    pub policy: Policy,
}

impl ReclaimConfig {
    /// The defaults for a policy.
    pub fn new(policy: Policy) -> Self {
        Self { settings: ReclaimSettings::new(&policy), policy }
    }

    /// The election that these settings describe (G §8).
    pub fn election(&self, lease: ObjectKey, identity: impl Into<String>) -> ElectionConfig {
        let ReclaimSettings { lease_duration, renew_deadline, retry_period, .. } = self.settings;
        ElectionConfig { lease_duration, renew_deadline, retry_period, ..ElectionConfig::new(lease, identity) }
    }
}

/// Reclaim in one replica of the controller.
pub struct Reclaim<C, V, K, O = ()> {
    pub(super) client: C,
    /// The client for the informer whose events are traced.
    pub(super) raw: C,
    pub(super) env: V,
    pub(super) caches: K,
    pub(super) observer: O,
    pub(super) config: Arc<ReclaimConfig>,
    pub(super) database: Arc<Mutex<Database>>,
    pub(super) limiter: Limiter,
}

impl<C, V, K, O> fmt::Debug for Reclaim<C, V, K, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reclaim").field("config", &self.config).finish_non_exhaustive()
    }
}

impl<C: Client, V: Env, K: Caches, O: Observer> Reclaim<C, V, K, O> {
    /// A replica that has just started, with empty memory.
    pub fn new(client: C, env: V, caches: K, observer: O, config: ReclaimConfig) -> Self {
        let database = Arc::new(Mutex::new(Database::new(config.settings.database, &config.policy)));
        let limiter = Limiter::new(config.settings.queue_length, config.policy.limiter_overtakes);
        let raw = client.clone();
        Self { client, raw, env, caches, observer, config: Arc::new(config), database, limiter }
    }

    /// The same replica with another client for the informer of pods whose events are traced; upstream's has its own rate limit.
    #[must_use]
    pub fn with_raw_client(self, raw: C) -> Self {
        Self { raw, ..self }
    }

    /// The same replica with `wrap(caches)` as its caches.
    pub fn with_caches<W>(self, wrap: impl FnOnce(K) -> W) -> Reclaim<C, V, W, O> {
        let Self { client, raw, env, caches, observer, config, database, limiter } = self;
        Reclaim { client, raw, env, caches: wrap(caches), observer, config, database, limiter }
    }

    /// The configuration of reclaim.
    pub fn config(&self) -> &ReclaimConfig {
        &self.config
    }

    /// The pods that are traced.
    pub fn traced(&self) -> Vec<PodEntry> {
        self.database.lock().unwrap().all()
    }
}
