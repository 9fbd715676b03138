//! Batch release (A §7.3).

use std::net::IpAddr;
use std::sync::Arc;

use super::agent::Agent;
use super::allocated_ip::stored;
use super::caches::Caches;
use super::endpoints::{avoid, entries, replaced_sandboxes, uid_of};
use super::error::IpamError;
use super::observer::{Cause, Observer, Step};
use super::op::Op;
use super::request::BatchRequest;
use crate::select::{TopController, is_nameless};
use crate::validity::Keeper;
use crate::{IPAllocationDetail, SpiderEndpoint};
use k8s_openapi::api::core::v1::Pod;
use kube_machinery::client::Client;
use kube_machinery::env::Env;

impl<C: Client, V: Env, K: Caches, O: Observer> Agent<C, V, K, O> {
    /// Releases the addresses of a NIC of a running pod because one of them does not work; of all its NICs if the NIC is unknown, or if the
    /// pod's NICs have no names (A §7.3). The next ADD allocates others.
    ///
    /// Refused while the pod has a sandbox that another has replaced: that sandbox may be the one that answers, and then the address is
    /// rightfully in use. The next ADD finds out once it is torn down.
    ///
    /// # Errors
    /// Some records may be left.
    pub async fn release_ips(&self, request: &BatchRequest) -> Result<(), IpamError> {
        let began = self.env.monotonic();
        self.observer.observe(Step::BatchBegun { request });
        let op = Op::new(self, &request.pod_uid, self.end(request.deadline));
        let result = match op.turn(&request.pod).await {
            Ok(_turn) => op.release_ips(request).await,
            Err(error) => Err(error),
        };
        let took = self.env.monotonic().saturating_sub(began);
        self.observer.observe(Step::BatchEnded { request, result: result.as_ref().copied(), effort: &op.effort(), took });
        result
    }
}

impl<C: Client, V: Env, K: Caches, O: Observer> Op<'_, C, V, K, O> {
    /// Runs a batch release.
    pub(super) async fn release_ips(&self, request: &BatchRequest) -> Result<(), IpamError> {
        let mut uid = request.pod_uid.clone();
        // The caller may be the plugin of an earlier pod of the same name.
        let names_no_uid = uid.is_empty() && !self.policy().del_without_uid_adopts_pod;
        if uid.is_empty() {
            match self.live_pod(&request.pod).await? {
                Some(pod) if names_no_uid && self.is_elsewhere(&pod) => return Ok(()),
                Some(pod) => uid = pod.metadata.uid.as_deref().unwrap_or_default().into(),
                None => return Ok(()),
            }
        }
        let of_all = self.is_about_all_nics(request).await?;
        let avoids = !self.policy().conflict_returns_same_address;
        let key = &request.pod;
        let mut tries = 0;
        loop {
            let failed = |error| IpamError::Endpoint { endpoint: key.clone(), error };
            let endpoint = self.get::<SpiderEndpoint>(key).await.map_err(failed)?;
            let endpoint = endpoint.ok_or_else(|| IpamError::MissingEndpoint(key.clone()))?;
            if uid_of(&endpoint) != &*uid {
                let found = uid_of(&endpoint).to_owned();
                return Err(IpamError::EndpointOfAnother { endpoint: key.clone(), wanted: uid, found });
            }
            let holds_one = || entries(&endpoint).iter().any(|entry| holds_any(entry, &request.conflicting));
            if names_no_uid && !request.conflicting.is_empty() && !holds_one() {
                return Ok(());
            }
            if !self.policy().sandbox_not_asked && replaced_sandboxes(&endpoint).next().is_some() {
                return Err(IpamError::InAnotherSandbox(key.clone()));
            }
            // Other NICs may answer on their addresses, and do not have to give up anything.
            let keeps = |entry: &IPAllocationDetail| !of_all && !holds_any(entry, &request.conflicting);
            let (kept, gone): (Vec<_>, Vec<_>) = entries(&endpoint).iter().cloned().partition(keeps);
            let what: Vec<_> = gone.iter().flat_map(stored).map(|at| (Arc::from(at.pool), at.address.addr())).collect();
            // B1. In the hardened form the same write stores the addresses that the pod must not get again.
            if !gone.is_empty() {
                let mut cleared = SpiderEndpoint::clone(&endpoint);
                if let Some(status) = &mut cleared.status {
                    status.current.ips = kept;
                }
                if avoids {
                    let all: Vec<_> = what.iter().map(|(_, ip)| *ip).collect();
                    avoid(&mut cleared, if request.conflicting.is_empty() { &all } else { &request.conflicting });
                }
                match self.update(cleared).await {
                    Ok(_) => {}
                    Err(error) if error.is_conflict() && avoids && !self.is_late() && tries < 10 => {
                        tries += 1;
                        self.pause(tries).await;
                        continue;
                    }
                    Err(error) => return Err(failed(error)),
                }
            }
            // B2.
            return self.take_back(key, &uid, Cause::Conflict, &what).await;
        }
    }

    /// Whether a release concerns all NICs of the pod.
    ///
    /// # Errors
    /// The pod's addresses may not be released. The plugin asks only after a conflict, so the hardened form does not require it to say so.
    async fn is_about_all_nics(&self, request: &BatchRequest) -> Result<bool, IpamError> {
        let of_all = self.policy().conflict_releases_all_nics || request.conflicting.is_empty();
        if !request.conflict && self.policy().stateful_conflict_released {
            return Ok(of_all);
        }
        // In nameless mode entries are identified by their positions: without one of them the next ADD could not tell them apart.
        Ok(is_nameless(&*self.may_release_conflicts(request).await?) || of_all)
    }

    /// The pod, if its addresses may be released because another host answers on them (521 and 522).
    async fn may_release_conflicts(&self, request: &BatchRequest) -> Result<Arc<Pod>, IpamError> {
        if !self.agent.config.settings.release_conflict_ips {
            return Err(IpamError::ForbiddenStateless);
        }
        let pod = self.live_pod(&request.pod).await?.ok_or_else(|| IpamError::MissingPod(request.pod.clone()))?;
        let controller = TopController::of(&self.agent.caches, &pod)?;
        match Keeper::of(&controller, self.agent.config.settings.kept()) {
            Keeper::Nobody => Ok(pod),
            Keeper::StatefulSet | Keeper::Vm => Err(IpamError::ForbiddenStateful),
        }
    }
}

/// Whether a NIC has one of these addresses.
fn holds_any(entry: &IPAllocationDetail, addresses: &[IpAddr]) -> bool {
    stored(entry).any(|at| addresses.contains(&at.address.addr()))
}
