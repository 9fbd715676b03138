//! What plugins have given back because somebody outside answers on it (A §7.3), as endpoints tell of it.

use std::net::IpAddr;
use std::sync::Arc;

use ipam_spiderpool::SpiderEndpoint;
use kube_machinery::{FxHashMap, FxHashSet};

use super::view::{EndpointChange, addresses_of, uid_of};

/// What the agent writes into an endpoint in the same write in which it takes out what a plugin has given back.
pub(super) const CONFLICTING: &str = "ipam.spidernet.io/conflicting-ips";

/// What plugins have given back, and no endpoint of the pod has named since. What tells of it goes with the endpoint, and the record may
/// outlive that.
#[derive(Default)]
pub(super) struct GivenBack {
    by_uid: FxHashMap<Arc<str>, FxHashSet<IpAddr>>,
}

impl GivenBack {
    /// Takes in a write of an endpoint: what it takes out and tells of a conflict for, and what it names again.
    pub(super) fn observe(&mut self, change: &EndpointChange) {
        let Some(after) = &change.after else { return };
        let uid = uid_of(after);
        let is_named = |address: &IpAddr| addresses_of(after).any(|(.., named)| named == *address);
        if let Some(given_back) = self.by_uid.get_mut(uid) {
            given_back.retain(|address| !is_named(address));
        }
        let told = conflicting(after);
        let is_told_anew = |before: &SpiderEndpoint| uid_of(before) == uid && told.is_some() && told != conflicting(before);
        let Some(before) = change.before.as_deref().filter(|before| is_told_anew(before)) else { return };
        let gone = addresses_of(before).map(|(.., address)| address).filter(|address| !is_named(address));
        self.by_uid.entry(uid.into()).or_default().extend(gone);
    }

    /// Whether the pod with this UID has given back this address.
    pub(super) fn contains(&self, uid: &str, address: IpAddr) -> bool {
        self.by_uid.get(uid).is_some_and(|given_back| given_back.contains(&address))
    }
}

fn conflicting(endpoint: &SpiderEndpoint) -> Option<&String> {
    endpoint.metadata.annotations.as_ref()?.get(CONFLICTING)
}
