//! The endpoints as commits leave them.

use std::net::IpAddr;
use std::sync::Arc;

use ipam_core::FxHashMap;
use ipam_core::spiderpool::{IPAllocationDetail, SpiderEndpoint};

use super::Said;

/// One commit of an endpoint.
#[derive(Clone, Debug)]
pub(in crate::claim) struct EndpointChange {
    /// Who wrote, and when.
    pub(in super::super) said: Said,
    /// Whether that is a person.
    pub(in super::super) by_hand: bool,
    /// `NAMESPACE/NAME`.
    pub(in super::super) key: Arc<str>,
    /// What was there.
    pub(in super::super) before: Option<Arc<SpiderEndpoint>>,
    /// What is there now.
    pub(in super::super) after: Option<Arc<SpiderEndpoint>>,
}

/// All endpoints, by `NAMESPACE/NAME`.
#[derive(Debug, Default)]
pub(in super::super) struct Endpoints(FxHashMap<Arc<str>, Arc<SpiderEndpoint>>);

impl Endpoints {
    /// One of them.
    pub(in super::super) fn get(&self, key: &str) -> Option<&Arc<SpiderEndpoint>> {
        self.0.get(key)
    }

    /// All of them, in no order.
    pub(in super::super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<SpiderEndpoint>)> {
        self.0.iter()
    }

    /// Takes in a version of an object, `None` if it is gone.
    pub(super) fn see(&mut self, key: &str, said: Said, after: Option<Arc<SpiderEndpoint>>) -> EndpointChange {
        let key: Arc<str> = self.0.get_key_value(key).map_or_else(|| key.into(), |(key, _)| key.clone());
        let before = match &after {
            Some(after) => self.0.insert(key.clone(), after.clone()),
            None => self.0.remove(&key),
        };
        EndpointChange { said, by_hand: false, key, before, after }
    }
}

/// The UID of the pod that an endpoint is for; empty if it does not say.
pub(in super::super) fn uid_of(endpoint: &SpiderEndpoint) -> &str {
    endpoint.status.as_ref().map_or("", |status| &status.current.uid)
}

/// The addresses of an endpoint: entry, pool, address. What cannot be read is left out.
pub(in super::super) fn addresses_of(endpoint: &SpiderEndpoint) -> impl Iterator<Item = (&IPAllocationDetail, &str, IpAddr)> {
    let details = endpoint.status.iter().flat_map(|status| &status.current.ips);
    details.flat_map(|detail| {
        let of = |address: &Option<String>, pool: &Option<String>| -> Option<IpAddr> {
            pool.as_ref()?;
            address.as_ref()?.split('/').next()?.parse().ok()
        };
        let v4 = of(&detail.ipv4, &detail.ipv4_pool).map(|ip| (detail, detail.ipv4_pool.as_deref().unwrap_or_default(), ip));
        let v6 = of(&detail.ipv6, &detail.ipv6_pool).map(|ip| (detail, detail.ipv6_pool.as_deref().unwrap_or_default(), ip));
        v4.into_iter().chain(v6)
    })
}
