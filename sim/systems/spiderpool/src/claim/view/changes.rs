//! Changes by hand and changes of namespaces and nodes: some excuse a violation, some change what pods may have.

use std::net::IpAddr;
use std::sync::Arc;

use ipam_spiderpool::SpiderEndpoint;
use ipam_spiderpool::names::FINALIZER;
use k8s_openapi::api::core::v1::{Namespace, Node};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_machinery::{FxHashMap, FxHashSet};

use super::View;
use super::endpoints::{EndpointChange, addresses_of};
use super::pools::PoolChange;

/// Edits by hand, and the last changes of namespaces and nodes that matter to selection.
#[derive(Debug, Default)]
pub(in super::super) struct Changes {
    /// The addresses whose records or endpoint entries were made, changed or removed by hand, until they are recorded anew.
    addresses: FxHashSet<IpAddr>,
    /// The pools whose finalizer was removed by hand.
    pools: FxHashSet<Arc<str>>,
    /// The pools whose ranges were set by hand.
    ranges: FxHashSet<Arc<str>>,
    /// The endpoints that were changed by hand, as `NAMESPACE/NAME`.
    endpoints: FxHashSet<Arc<str>>,
    /// The revision of the last change of each namespace that matters to selection.
    namespaces: FxHashMap<Arc<str>, u64>,
    /// The revision of the last change of each node that matters to selection.
    nodes: FxHashMap<Arc<str>, u64>,
}

/// The prefixes of the names of processes that are part of the cluster.
const SYSTEM: [&str; 8] =
    ["kubelet", "scheduler", "controller-manager", "spiderpool-", "apiserver-", "kube-", "node-lifecycle", "garbage-collector"];

/// Whether a process with this name is part of the cluster, so that its writes are not by hand.
pub(super) fn is_system(name: &str) -> bool {
    SYSTEM.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether Spiderpool's finalizer was present and no longer is.
fn loses_finalizer(before: Option<&ObjectMeta>, after: Option<&ObjectMeta>) -> bool {
    let has = |meta: Option<&ObjectMeta>| meta.is_some_and(|meta| meta.finalizers.iter().flatten().any(|name| name == FINALIZER));
    has(before) && !has(after)
}

impl Changes {
    /// Whether the record or the endpoint entry of an address was edited by hand since it was last recorded anew.
    pub(in super::super) fn touched(&self, address: IpAddr) -> bool {
        self.addresses.contains(&address)
    }

    /// Records that the record of an address was made anew, so that earlier edits by hand no longer matter.
    pub(super) fn is_made_anew(&mut self, address: IpAddr) {
        self.addresses.remove(&address);
    }

    /// Whether the finalizer of a pool was removed by hand.
    pub(in super::super) fn touched_pool(&self, pool: &str) -> bool {
        self.pools.contains(pool)
    }

    /// Whether the ranges of a pool were ever set by hand.
    pub(in super::super) fn touched_ranges(&self, pool: &str) -> bool {
        self.ranges.contains(pool)
    }

    /// Whether an endpoint was changed by hand.
    pub(in super::super) fn touched_endpoint(&self, key: &str) -> bool {
        self.endpoints.contains(key)
    }

    /// The revision of the last change of a namespace that matters to selection; 0 = not in this run.
    pub(super) fn of_namespace(&self, name: &str) -> u64 {
        self.namespaces.get(name).copied().unwrap_or(0)
    }

    /// The revision of the last change of a node that matters to selection; 0 = not in this run.
    pub(super) fn of_node(&self, name: &str) -> u64 {
        self.nodes.get(name).copied().unwrap_or(0)
    }

    pub(super) fn see_pool(&mut self, change: &PoolChange) {
        if !change.by_hand {
            return;
        }
        self.addresses.extend(change.edits.iter().filter_map(|edit| edit.key.address()));
        if change.moved && change.after.is_some() && !self.ranges.contains(&change.pool) {
            self.ranges.insert(change.pool.clone());
        }
        let [before, after] = [&change.before, &change.after].map(|object| object.as_ref().map(|object| &object.metadata));
        if loses_finalizer(before, after) {
            self.pools.insert(change.pool.clone());
        }
    }

    pub(super) fn see_endpoint(&mut self, change: &EndpointChange) {
        if !change.by_hand {
            return;
        }
        let [before, after] = [&change.before, &change.after].map(Option::as_deref);
        let same_status = before.and_then(|object| object.status.as_ref()) == after.and_then(|object| object.status.as_ref());
        if same_status && !loses_finalizer(before.map(|object| &object.metadata), after.map(|object| &object.metadata)) {
            return;
        }
        self.endpoints.insert(change.key.clone());
        for object in [before, after].into_iter().flatten() {
            self.addresses.extend(addresses_of(object).map(|(.., address)| address));
        }
    }

    pub(super) fn see_namespace(&mut self, name: &str, revision: u64, before: Option<&Namespace>, after: Option<&Namespace>) {
        let [before, after] = [before, after].map(|object| object.map(|object| (&object.metadata.annotations, &object.metadata.labels)));
        if before != after {
            self.namespaces.insert(name.into(), revision);
        }
    }

    pub(super) fn see_node(&mut self, name: &str, revision: u64, before: Option<&Node>, after: Option<&Node>) {
        let [before, after] = [before, after].map(|object| object.map(|object| &object.metadata.labels));
        if before != after {
            self.nodes.insert(name.into(), revision);
        }
    }
}

impl View {
    /// Forgets edits by hand of an address that is recorded while nothing else has it.
    pub(super) fn forget_hands(&mut self, change: &PoolChange) {
        let made = change.edits.iter().filter(|edit| edit.before.is_none() && edit.after.is_some());
        for address in made.filter_map(|edit| edit.key.address()) {
            let is_named = |endpoint: &Arc<SpiderEndpoint>| addresses_of(endpoint).any(|(.., named)| named == address);
            if self.changes.touched(address)
                && self.sandboxes.answering(address).next().is_none()
                && self.pools.holders(address).count() == 1
                && !self.endpoints.iter().any(|(_, endpoint)| is_named(endpoint))
            {
                self.changes.is_made_anew(address);
            }
        }
    }
}
