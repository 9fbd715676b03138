//! The endpoints as commits leave them.

use std::net::IpAddr;
use std::sync::Arc;

use ipam_spiderpool::names::FINALIZER;
use ipam_spiderpool::{IPAllocationDetail, SpiderEndpoint};
use kube_machinery::{FxHashMap, ObjectKey};
use sim_config::time::SimTime;

use super::{Pod, Said, View};

/// One commit of an endpoint.
#[derive(Clone, Debug)]
pub(crate) struct EndpointChange {
    /// The writer, and the time.
    pub(in super::super) said: Said,
    /// Whether it was written by hand.
    pub(in super::super) by_hand: bool,
    /// Whether the writer is a replica of Spiderpool's controller.
    pub(in super::super) by_replica: bool,
    /// The endpoint as `NAMESPACE/NAME`: that of its pod, or of the VMI that keeps the addresses (A §5.2).
    pub(in super::super) key: Arc<str>,
    /// The moment since which it had belonged to the pod before the commit.
    pub(in super::super) of_pod_since: u64,
    /// The state before the commit; `None` = there was no such endpoint.
    pub(in super::super) before: Option<Arc<SpiderEndpoint>>,
    /// The state after the commit.
    pub(in super::super) after: Option<Arc<SpiderEndpoint>>,
}

/// The time at which an endpoint was written for its pod, and the revision up to which its writer had certainly been shown the pods. The
/// endpoint keeps the owner that the pod had then.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Written {
    moment: u64,
    pub(in super::super) at: SimTime,
    pub(in super::super) shown_pods: u64,
}

/// All endpoints, by `NAMESPACE/NAME`.
#[derive(Debug, Default)]
pub(in super::super) struct Endpoints {
    by_key: FxHashMap<Arc<str>, Arc<SpiderEndpoint>>,
    /// The write since which each endpoint has belonged to its pod.
    since: FxHashMap<Arc<str>, Written>,
    /// The endpoints that are being deleted: by whom, and since when.
    marked: FxHashMap<Arc<str>, Said>,
}

impl Endpoints {
    /// The endpoint of this `NAMESPACE/NAME` as of its last commit; `None` = there is none.
    pub(in super::super) fn get(&self, key: &str) -> Option<&Arc<SpiderEndpoint>> {
        self.by_key.get(key)
    }

    /// All endpoints, in arbitrary order.
    pub(in super::super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<SpiderEndpoint>)> {
        self.by_key.iter()
    }

    /// The moment since which an endpoint has belonged to its pod; 0 = since before the run.
    pub(in super::super) fn of_pod_since(&self, endpoint: &SpiderEndpoint) -> u64 {
        self.written(endpoint).map_or(0, |written| written.moment)
    }

    /// The write that made an endpoint that of its pod; `None` = before the run.
    pub(in super::super) fn written(&self, endpoint: &SpiderEndpoint) -> Option<Written> {
        self.since.get(ObjectKey::of(endpoint).as_str()).copied()
    }

    /// The process that marked an endpoint for deletion, and the time.
    pub(in super::super) fn marked(&self, endpoint: &SpiderEndpoint) -> Option<Said> {
        self.marked.get(ObjectKey::of(endpoint).as_str()).copied()
    }

    /// Takes in a version of an endpoint, `None` if it is gone. `shown_pods`: the revision up to which the writer had certainly been shown
    /// the pods.
    pub(super) fn see(&mut self, key: &str, said: Said, after: Option<Arc<SpiderEndpoint>>, shown_pods: u64) -> EndpointChange {
        let key: Arc<str> = self.by_key.get_key_value(key).map_or_else(|| key.into(), |(key, _)| key.clone());
        let before = match &after {
            Some(after) => self.by_key.insert(key.clone(), after.clone()),
            None => self.by_key.remove(&key),
        };
        let of_pod_since = self.since.get(&key).map_or(0, |written| written.moment);
        match &after {
            None => drop(self.since.remove(&key)),
            Some(after) if before.as_ref().is_none_or(|before| uid_of(before) != uid_of(after)) => {
                self.since.insert(key.clone(), Written { moment: said.moment, at: said.at, shown_pods });
            }
            Some(_) => {}
        }
        if after.as_ref().is_none_or(|after| after.metadata.deletion_timestamp.is_none()) {
            self.marked.remove(&key);
        } else if !self.marked.contains_key(&key) {
            self.marked.insert(key.clone(), said);
        }
        EndpointChange { said, by_hand: false, by_replica: false, key, of_pod_since, before, after }
    }
}

impl View {
    /// The endpoint of a pod, under any of its names.
    pub(in super::super) fn endpoint_of(&self, pod: &Pod) -> Option<(&Arc<SpiderEndpoint>, bool)> {
        let found = pod.names().find_map(|name| Some((name, self.endpoints.get(name)?)));
        found.map(|(name, endpoint)| (endpoint, self.changes.touched_endpoint(name)))
    }

    /// The write that made the endpoint that of a pod; `None` = the pod has no endpoint, or had it before the run.
    pub(in super::super) fn endpoint_written(&self, uid: &str) -> Option<Written> {
        let (endpoint, _) = self.endpoint_of(self.pods.get(uid)?)?;
        self.endpoints.written(endpoint).filter(|_| uid_of(endpoint) == uid)
    }
}

/// The UID of the pod that an endpoint is for; empty if it does not say.
pub(in super::super) fn uid_of(endpoint: &SpiderEndpoint) -> &str {
    endpoint.status.as_ref().map_or("", |status| &status.current.uid)
}

/// Whether an endpoint is being deleted and held only by the finalizers of others, so that Spiderpool has done its part (GL9).
pub(in super::super) fn is_held_by_others(endpoint: &SpiderEndpoint) -> bool {
    let meta = &endpoint.metadata;
    let mut finalizers = meta.finalizers.iter().flatten().peekable();
    meta.deletion_timestamp.is_some() && finalizers.peek().is_some() && finalizers.all(|name| name != FINALIZER)
}

/// The addresses of an endpoint: entry, pool, address. Entries that cannot be parsed are left out.
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
