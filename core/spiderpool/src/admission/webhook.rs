//! The webhooks: reading what exists, and judging.

use std::sync::Arc;

use super::{AdmissionSettings, Admitted, Denial, Listed, Live, Request, Rules, Verdict, mutate};
use crate::address_set::AddressSets;
use crate::ranges::{IpRange, IpSet};
use crate::{Policy, SpiderIPPool, SpiderSubnet};
use kube_machinery::api::{ApiError, ListOptions, Object};
use kube_machinery::client::{Client, ClientExt};
use kube_machinery::env::Env;
use kube_machinery::informer::{Informer, InformerOptions, StoreReader};
use kube_machinery::time_limit::TimeLimited;

/// The webhooks of one replica of the controller. Every replica serves them, whoever leads (A §0).
///
/// Defaults come from a cache of subnets, which may be behind: a pool may then have no owner until the controller adopts it. Rules are
/// asked of lists that are read for the request. Nothing is remembered between requests but what texts of stored objects mean, so a request
/// may be judged any number of times (K120).
pub struct Webhook<C, V: Env> {
    client: TimeLimited<C>,
    settings: AdmissionSettings,
    policy: Policy,
    subnets: StoreReader<SpiderSubnet>,
    informer: Informer<SpiderSubnet, V>,
    addresses: AddressSets,
}

/// What was read for a request, and the cached subnets.
struct Seen<'a> {
    listed: Listed,
    cached: Vec<Arc<SpiderSubnet>>,
    addresses: &'a AddressSets,
}

impl Live for Seen<'_> {
    fn pools(&self) -> &[Arc<SpiderIPPool>] {
        &self.listed.pools
    }

    fn subnets(&self) -> &[Arc<SpiderSubnet>] {
        &self.listed.subnets
    }

    fn subnets_for_defaults(&self) -> &[Arc<SpiderSubnet>] {
        &self.cached
    }

    fn shared_addresses(&self, mine: &IpSet, pool: &SpiderIPPool, policy: &Policy) -> Option<IpRange> {
        self.addresses.of_pool(pool, policy).0.first_shared(mine)
    }
}

impl<C: Client, V: Env> Webhook<C, V> {
    /// Starts the cache of subnets.
    pub fn start(client: C, env: V, settings: AdmissionSettings, policy: Policy) -> Self {
        let patience = policy.server_timeout();
        let client = TimeLimited::new(client, patience);
        let informer = Informer::start(client.clone(), env, InformerOptions { patience, ..InformerOptions::default() });
        Self { client, settings, policy, subnets: informer.store(), informer, addresses: AddressSets::default() }
    }

    /// Completes when the cache of subnets is filled; a replica serves from then on.
    pub async fn synced(&self) {
        self.informer.synced().await;
    }

    /// The mutating webhook: the new object with its defaults; nothing for a deletion. It reads nothing but the cache.
    pub fn mutate<K: Admitted>(&self, request: &Request<'_, K>) -> Option<Arc<K>> {
        let seen = Seen { listed: Listed::default(), cached: self.cached(), addresses: &self.addresses };
        mutate(request, &self.rules(&seen))
    }

    /// The validating webhook: judges a request whose new object was defaulted before.
    ///
    /// # Errors
    /// Why the request is refused.
    pub async fn validate<K: Admitted>(&self, request: &Request<'_, K>) -> Result<(), Denial> {
        let failed = |error: ApiError| Denial::Internal(format!("what exists cannot be listed: {error}"));
        let listed = match request {
            // A deletion is compared with nothing.
            Request::Delete(_) => Listed::default(),
            _ => Listed { pools: self.list().await.map_err(failed)?, subnets: self.list().await.map_err(failed)? },
        };
        self.addresses.keep(&listed.pools);
        let seen = Seen { listed, cached: Vec::new(), addresses: &self.addresses };
        K::check(request, &self.rules(&seen))
    }

    /// Both, one after the other.
    pub async fn review<K: Admitted>(&self, request: &Request<'_, K>) -> Verdict<K> {
        let defaulted = self.mutate(request);
        let denial = self.validate(&request.with_new(defaulted.as_ref())).await.err();
        Verdict { defaulted, denial }
    }

    fn rules<'a>(&'a self, seen: &'a Seen<'_>) -> Rules<'a> {
        Rules { live: seen, settings: &self.settings, policy: &self.policy }
    }

    /// The cached subnets in the order of their names.
    fn cached(&self) -> Vec<Arc<SpiderSubnet>> {
        if !self.settings.enable_spider_subnet {
            return Vec::new();
        }
        let mut subnets = self.subnets.list();
        subnets.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
        subnets
    }

    async fn list<K: Object>(&self) -> Result<Vec<Arc<K>>, ApiError> {
        Ok(self.client.list(None, ListOptions::default()).await?.items)
    }
}
