//! Writing endpoints (A §1.4, §5.7, §7.1).

use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::json;

use super::caches::Caches;
use super::observer::Observer;
use super::op::Op;
use crate::{EndpointStatus, IPAllocationDetail, PodIPAllocation, SpiderEndpoint, names};
use kube_machinery::api::{ApiError, DeleteOptions, ObjectKey, Patch, Preconditions};
use kube_machinery::client::Client;
use kube_machinery::env::Env;

/// On an endpoint: the addresses, separated by commas, on which somebody else answered. The pod gets none of them again. Kept
/// here and not in an agent's memory, it outlives the agent and goes with the pod to another node. Upstream knows no such key.
const AVOIDED: &str = "ipam.spidernet.io/conflicting-ips";

/// On an endpoint: the NICs, separated by spaces, of which none is in a NIC's name, whose entries lack an address that their own ADDs are still
/// to draw. What such an entry has is recorded for the pod and goes to its successor, should the pod end before; it is nobody's answer yet.
/// Upstream knows no such key.
const UNFINISHED: &str = "ipam.spidernet.io/unfinished-nics";

/// Whose an endpoint is to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder<'a> {
    pub(super) key: &'a ObjectKey,
    pub(super) uid: &'a str,
    pub(super) node: &'a str,
    pub(super) owner_kind: &'a str,
    pub(super) owner_name: &'a str,
    /// The pod that the endpoint goes with; absent if it outlives the pod.
    pub(super) pod: Option<&'a str>,
    /// The sandbox that is answered; absent if endpoints name none.
    pub(super) sandbox: Option<&'a str>,
}

pub(crate) fn is_terminating(endpoint: &SpiderEndpoint) -> bool {
    endpoint.metadata.deletion_timestamp.is_some()
}

pub(crate) fn uid_of(endpoint: &SpiderEndpoint) -> &str {
    endpoint.status.as_ref().map_or("", |status| &status.current.uid)
}

pub(super) fn entries(endpoint: &SpiderEndpoint) -> &[IPAllocationDetail] {
    endpoint.status.as_ref().map_or(&[], |status| &status.current.ips)
}

/// Whether the endpoint goes with a pod object: then Kubernetes' garbage collector may delete it.
pub(crate) fn goes_with_pod(endpoint: &SpiderEndpoint) -> bool {
    endpoint.metadata.owner_references.iter().flatten().any(|owner| owner.kind == "Pod")
}

pub(crate) fn has_finalizer(endpoint: &SpiderEndpoint) -> bool {
    endpoint.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == names::FINALIZER)
}

/// Gives an endpoint its finalizer.
pub(super) fn hold(endpoint: &mut SpiderEndpoint) {
    if !has_finalizer(endpoint) {
        endpoint.metadata.finalizers.get_or_insert_default().push(names::FINALIZER.to_owned());
    }
}

/// The addresses that the pod is not to get again.
pub(super) fn avoided(endpoint: &SpiderEndpoint) -> Vec<IpAddr> {
    let text = endpoint.metadata.annotations.as_ref().and_then(|annotations| annotations.get(AVOIDED));
    text.map(|text| text.split(',').filter_map(|ip| ip.parse().ok()).collect()).unwrap_or_default()
}

/// Whether the entry of a NIC lacks an address that its own ADD is still to draw.
pub(super) fn is_unfinished(endpoint: &SpiderEndpoint, nic: &str) -> bool {
    let text = endpoint.metadata.annotations.as_ref().and_then(|annotations| annotations.get(UNFINISHED));
    text.is_some_and(|text| text.split(' ').any(|unfinished| unfinished == nic))
}

/// Says which NICs' entries are unfinished.
pub(super) fn name_unfinished(endpoint: &mut SpiderEndpoint, nics: &[String]) {
    if !nics.is_empty() {
        endpoint.metadata.annotations.get_or_insert_default().insert(UNFINISHED.to_owned(), nics.join(" "));
    } else if let Some(annotations) = &mut endpoint.metadata.annotations
        && annotations.remove(UNFINISHED).is_some()
        && annotations.is_empty()
    {
        endpoint.metadata.annotations = None;
    }
}

/// The sandbox that answers on the addresses, as far as the endpoint says.
pub(super) fn sandbox_of(endpoint: &SpiderEndpoint) -> Option<&str> {
    Some(endpoint.metadata.annotations.as_ref()?.get(names::ANNOTATION_SANDBOX)?.as_str())
}

/// The endpoint once its sandbox is torn down.
pub(super) fn without_sandbox(endpoint: &SpiderEndpoint) -> SpiderEndpoint {
    let mut without = endpoint.clone();
    without.metadata.annotations.iter_mut().for_each(|annotations| drop(annotations.remove(names::ANNOTATION_SANDBOX)));
    without.metadata.annotations = without.metadata.annotations.filter(|annotations| !annotations.is_empty());
    without
}

/// Adds addresses that the pod is not to get again.
pub(super) fn avoid(endpoint: &mut SpiderEndpoint, more: &[IpAddr]) {
    let mut all = avoided(endpoint);
    all.extend(more.iter().map(IpAddr::to_canonical));
    all.sort();
    all.dedup();
    let text = all.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(",");
    endpoint.metadata.annotations.get_or_insert_default().insert(AVOIDED.to_owned(), text);
}

impl Holder<'_> {
    fn owners(&self) -> Option<Vec<OwnerReference>> {
        let uid = self.pod?.to_owned();
        let (api_version, kind, name) = ("v1".to_owned(), "Pod".to_owned(), self.key.name().to_owned());
        Some(vec![OwnerReference { api_version, kind, name, uid, ..OwnerReference::default() }])
    }

    fn status(&self, ips: Vec<IPAllocationDetail>) -> EndpointStatus {
        EndpointStatus {
            current: PodIPAllocation { uid: self.uid.to_owned(), node: self.node.to_owned(), ips },
            owner_controller_type: self.owner_kind.to_owned(),
            owner_controller_name: self.owner_name.to_owned(),
        }
    }

    /// A new endpoint.
    pub(super) fn endpoint(&self, ips: Vec<IPAllocationDetail>) -> SpiderEndpoint {
        let metadata = ObjectMeta {
            name: Some(self.key.name().to_owned()),
            namespace: self.key.namespace().map(str::to_owned),
            owner_references: self.owners(),
            finalizers: Some(vec![names::FINALIZER.to_owned()]),
            ..ObjectMeta::default()
        };
        self.named(SpiderEndpoint { metadata, status: Some(self.status(ips)) })
    }

    /// The endpoint with the sandbox that is answered.
    fn named(&self, mut endpoint: SpiderEndpoint) -> SpiderEndpoint {
        if let Some(sandbox) = self.sandbox {
            endpoint.metadata.annotations.get_or_insert_default().insert(names::ANNOTATION_SANDBOX.to_owned(), sandbox.to_owned());
        }
        endpoint
    }

    /// Whether the endpoint names another sandbox than the one that is answered, or none.
    pub(super) fn is_in_another_sandbox(&self, endpoint: &SpiderEndpoint) -> bool {
        self.sandbox.is_some() && sandbox_of(endpoint) != self.sandbox
    }

    /// The endpoint of this pod, or of its predecessor: whose owner it is stays.
    pub(super) fn kept_up(&self, endpoint: &SpiderEndpoint, ips: Vec<IPAllocationDetail>) -> SpiderEndpoint {
        let mut kept = endpoint.clone();
        let mut status = kept.status.take().unwrap_or_default();
        status.current = self.status(ips).current;
        kept.status = Some(status);
        self.named(kept)
    }

    /// The endpoint of somebody else, made this holder's.
    pub(super) fn taken_over(&self, endpoint: &SpiderEndpoint, ips: Vec<IPAllocationDetail>) -> SpiderEndpoint {
        let mut taken = endpoint.clone();
        taken.metadata.owner_references = self.owners();
        hold(&mut taken);
        // What did not work for another pod may work for this one.
        taken.metadata.annotations.iter_mut().for_each(|annotations| drop(annotations.remove(AVOIDED)));
        taken.status = Some(self.status(ips));
        self.named(taken)
    }
}

impl<C: Client, V: Env, K: Caches, O: Observer> Op<'_, C, V, K, O> {
    /// Deletes an endpoint, in the very state that was looked at. `None` = it is gone.
    pub(super) async fn mark(&self, endpoint: &SpiderEndpoint) -> Result<Option<Arc<SpiderEndpoint>>, ApiError> {
        let meta = &endpoint.metadata;
        let preconditions = Preconditions { uid: meta.uid.clone(), resource_version: meta.resource_version.clone() };
        let preconditions = if self.policy().endpoint_delete_by_name { Preconditions::default() } else { preconditions };
        match self.delete(&ObjectKey::of(endpoint), DeleteOptions { preconditions, ..DeleteOptions::default() }).await {
            Err(error) if error.is_not_found() => Ok(None),
            result => result,
        }
    }

    /// Patches the finalizer away, in the very state that was looked at. `None` = the endpoint was gone.
    pub(super) async fn let_go(&self, endpoint: &SpiderEndpoint) -> Result<Option<Arc<SpiderEndpoint>>, ApiError> {
        let finalizers: Vec<&String> = endpoint.metadata.finalizers.iter().flatten().filter(|name| *name != names::FINALIZER).collect();
        let finalizers = if finalizers.is_empty() { json!(null) } else { json!(finalizers) };
        let body = if self.policy().endpoint_delete_by_name {
            json!({"metadata": {"finalizers": finalizers}})
        } else {
            json!({"metadata": {"finalizers": finalizers, "resourceVersion": endpoint.metadata.resource_version}})
        };
        match self.patch(&ObjectKey::of(endpoint), Patch::merge(body)).await {
            Ok(left) => Ok(Some(left)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes the finalizer of an endpoint whose records are gone, in whatever state it is by now, as long as it is the endpoint
    /// of that pod. Upstream tries once (`finalizer-left-behind`).
    pub(super) async fn finish(&self, endpoint: Arc<SpiderEndpoint>) -> Result<(), ApiError> {
        let (mut current, mut tries) = (endpoint, 0);
        while has_finalizer(&current) {
            let error = match self.let_go(&current).await {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            if self.policy().finalizer_left_behind || self.is_late() || !(error.is_conflict() || may_pass(&error)) || tries > 20 {
                return Err(error);
            }
            tries += 1;
            self.pause(tries).await;
            match self.get::<SpiderEndpoint>(&ObjectKey::of(&*current)).await {
                Ok(Some(found)) if found.metadata.uid == current.metadata.uid && uid_of(&found) == uid_of(&current) => current = found,
                Ok(_) => return Ok(()),
                Err(_) => {}
            }
        }
        Ok(())
    }
}

/// Whether the same request may succeed some time later.
pub(super) fn may_pass(error: &ApiError) -> bool {
    error.is_ambiguous() || error.reason().is_none_or(|reason| reason == kube_machinery::api::Reason::TooManyRequests)
}
