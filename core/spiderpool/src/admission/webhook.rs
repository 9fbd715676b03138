//! The webhooks: they read the existing objects, and judge.

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

/// The webhooks of one replica of the controller. Every replica serves them, whichever leads (A §0).
///
/// Defaults come from a cache of subnets, which may lag: a pool may then have no owner until the controller adopts it. Rules are evaluated
/// on lists that are read for the request. Only the parsed texts of stored objects are remembered between requests, so a request may be
/// judged any number of times (K120).
pub struct Webhook<C, V: Env> {
    client: TimeLimited<C>,
    settings: AdmissionSettings,
    policy: Policy,
    subnets: StoreReader<SpiderSubnet>,
    informer: Informer<SpiderSubnet, V>,
    addresses: AddressSets,
}

/// The objects that were read for a request, and the cached subnets.
struct Seen<'a> {
    listed: &'a Listed,
    cached: &'a [Arc<SpiderSubnet>],
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
        self.cached
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

    /// The subnets that defaults are taken from, sorted by name: those of the cache.
    pub fn subnets_for_defaults(&self) -> Vec<Arc<SpiderSubnet>> {
        if !self.settings.enable_spider_subnet {
            return Vec::new();
        }
        let mut subnets = self.subnets.list();
        subnets.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
        subnets
    }

    /// The mutating webhook, with [these subnets](Self::subnets_for_defaults): the new object with its defaults; `None` for a deletion. It
    /// reads nothing.
    pub fn mutate<K: Admitted>(&self, request: &Request<'_, K>, subnets: &[Arc<SpiderSubnet>]) -> Option<Arc<K>> {
        mutate(request, &self.rules(&Seen { listed: &Listed::default(), cached: subnets, addresses: &self.addresses }))
    }

    /// Lists the objects that a request is compared with, for the validating webhook.
    ///
    /// # Errors
    /// They cannot be listed, so that no decision is possible ([`Denial::Internal`]).
    pub async fn list_for<K: Admitted>(&self, request: &Request<'_, K>) -> Result<Listed, Denial> {
        let failed = |error: ApiError| Denial::Internal(format!("what exists cannot be listed: {error}"));
        match request {
            // A deletion is compared with nothing.
            Request::Delete(_) => Ok(Listed::default()),
            _ => Ok(Listed { pools: self.list().await.map_err(failed)?, subnets: self.list().await.map_err(failed)? }),
        }
    }

    /// The validating webhook, with the lists that were [read](Self::list_for) for the request: judges a request whose new object is
    /// defaulted.
    ///
    /// # Errors
    /// The reason why the request is refused.
    pub fn validate<K: Admitted>(&self, request: &Request<'_, K>, listed: &Listed) -> Result<(), Denial> {
        self.addresses.keep(&listed.pools);
        K::check(request, &self.rules(&Seen { listed, cached: &[], addresses: &self.addresses }))
    }

    /// Both webhooks, one after the other.
    pub async fn review<K: Admitted>(&self, request: &Request<'_, K>) -> Verdict<K> {
        let defaulted = self.mutate(request, &self.subnets_for_defaults());
        let request = request.with_new(defaulted.as_ref());
        let denial = match self.list_for(&request).await {
            Ok(listed) => self.validate(&request, &listed).err(),
            Err(denial) => Some(denial),
        };
        Verdict { defaulted, denial }
    }

    fn rules<'a>(&'a self, seen: &'a Seen<'_>) -> Rules<'a> {
        Rules { live: seen, settings: &self.settings, policy: &self.policy }
    }

    async fn list<K: Object>(&self) -> Result<Vec<Arc<K>>, ApiError> {
        Ok(self.client.list(None, ListOptions::default()).await?.items)
    }
}
