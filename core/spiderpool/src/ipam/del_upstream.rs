//! Upstream's form of a DEL that marks the endpoint before it checks whose it is (`mark-before-uid-check`, A §7.1).

use std::sync::Arc;

use super::answer::DelOutcome;
use super::caches::Caches;
use super::endpoints::{entries, is_terminating, uid_of};
use super::error::IpamError;
use super::observer::Observer;
use super::op::Op;
use super::request::DelRequest;
use crate::SpiderEndpoint;
use crate::validity::Keeper;
use kube_machinery::api::ObjectKey;
use kube_machinery::client::Client;
use kube_machinery::env::Env;

impl<C: Client, V: Env, K: Caches, O: Observer> Op<'_, C, V, K, O> {
    /// A D5 to A D10, with A D7 in its place: the owner is looked up even for a terminating endpoint, and the endpoint has to name the NIC.
    pub(super) async fn release_marked_first(
        &self,
        request: &DelRequest,
        key: &ObjectKey,
        uid: &Arc<str>,
        keeper: Keeper,
        mut endpoint: Arc<SpiderEndpoint>,
    ) -> Result<DelOutcome, IpamError> {
        let is_ours = uid_of(&endpoint) == &**uid;
        let has_nic = entries(&endpoint).iter().any(|entry| *entry.interface == *request.nic || entry.interface.is_empty());
        if keeper != Keeper::Nobody {
            if self.keeps(keeper, key).await? || self.migrates(keeper, key, uid).await? {
                return Ok(DelOutcome::StillValid);
            }
            if !is_terminating(&endpoint) {
                let marked = self.mark_surely(&endpoint).await;
                let marked = marked.map_err(|error| IpamError::Endpoint { endpoint: key.clone(), error })?;
                endpoint = marked.unwrap_or(endpoint);
            }
        }
        if !is_ours || !has_nic {
            return Ok(DelOutcome::NotOurs);
        }
        self.release_endpoint(request, key, uid, None, endpoint).await
    }
}
