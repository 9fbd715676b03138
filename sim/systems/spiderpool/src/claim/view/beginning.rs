//! Inconsistencies at the beginning of a run, as in a dump of a cluster.

use std::net::IpAddr;
use std::sync::Arc;

use ipam_spiderpool::SpiderEndpoint;
use kube_machinery::FxHashSet;

use super::{View, addresses_of, uid_of};

/// The inconsistencies that a run began with.
///
/// Nothing takes back a record of a live pod (G P-6), whatever its endpoint names, and nothing takes an address out of an endpoint whose
/// pod was answered with it (A S16): both end with the pod.
#[derive(Debug, Default)]
pub(super) struct Beginning {
    /// The records that the endpoint of their pod did not name: pool and address.
    unnamed: FxHashSet<(Arc<str>, IpAddr)>,
    /// The addresses that an endpoint named and no pool had recorded: `NAMESPACE/NAME` and address.
    unrecorded: FxHashSet<(Arc<str>, IpAddr)>,
    /// The UIDs of endpoints that were being deleted.
    terminating: FxHashSet<Arc<str>>,
}

impl Beginning {
    /// Examines the initial state.
    pub(super) fn of(view: &View) -> Self {
        let mut beginning = Self::default();
        for (name, pool) in view.pools.iter() {
            for (key, record) in pool.records().iter() {
                let (Some(address), Some(pod)) = (key.address(), view.pods.get(&record.pod_uid)) else { continue };
                let own = view.endpoint_of(pod).filter(|(endpoint, _)| uid_of(endpoint) == record.pod_uid);
                let is_named = |(_, pool, other): (_, &str, _)| *pool == **name && other == address;
                if !own.is_some_and(|(own, _)| addresses_of(own).any(is_named)) {
                    beginning.unnamed.insert((name.clone(), address));
                }
            }
        }
        for (key, endpoint) in view.endpoints.iter() {
            let unrecorded = addresses_of(endpoint).filter(|(_, pool, address)| view.pools.holder(pool, *address).is_none());
            beginning.unrecorded.extend(unrecorded.map(|(.., address)| (key.clone(), address)));
            if endpoint.metadata.deletion_timestamp.is_some() {
                beginning.terminating.extend(endpoint.metadata.uid.as_deref().map(Arc::from));
            }
        }
        beginning
    }
}

impl View {
    /// Whether a record has existed since before the run and its endpoint did not name it.
    pub(in super::super) fn began_unnamed(&self, pool: &Arc<str>, address: IpAddr) -> bool {
        let untouched = || self.pools.holder(pool, address).is_some_and(|holder| holder.since.is_none());
        !self.beginning.unnamed.is_empty() && self.beginning.unnamed.contains(&(pool.clone(), address)) && untouched()
    }

    /// Whether an endpoint named an address without a record before the run, and it has not been recorded since.
    pub(in super::super) fn began_unrecorded(&self, endpoint: &str, pool: &str, address: IpAddr) -> bool {
        let is_it = || self.beginning.unrecorded.iter().any(|(key, other)| **key == *endpoint && *other == address);
        !self.beginning.unrecorded.is_empty() && is_it() && self.pools.holder(pool, address).is_none()
    }

    /// Whether an endpoint was already being deleted when the run began, so that it is not known who asked for that.
    pub(in super::super) fn began_terminating(&self, endpoint: &SpiderEndpoint) -> bool {
        endpoint.metadata.uid.as_deref().is_some_and(|uid| self.beginning.terminating.contains(uid))
    }
}
