//! The content and the ownership of endpoints, and how they are written: pure functions (A §1.4, §5.3, §5.7, §6.2).

use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::allocated_ip::{Stored, stored, without};
use crate::finalizer;
use crate::select::{FIRST_NIC, TopController};
use crate::validity::Keeper;
use crate::{EndpointStatus, IPAllocationDetail, PodIPAllocation, Policy, SpiderEndpoint, names};
use kube_machinery::api::ObjectKey;

/// On an endpoint: the addresses, separated by commas, on which another host answered. The pod gets none of them again. Stored here and not
/// in an agent's memory, the list outlives the agent and follows the pod to another node. Upstream has no such key.
const AVOIDED: &str = "ipam.spidernet.io/conflicting-ips";

/// On an endpoint: the NICs, separated by spaces (which no NIC's name has), whose entries lack an address that their own ADDs have yet to
/// allocate. The addresses of such an entry are recorded for the pod and go to its successor if the pod ends before; no ADD was answered
/// with them yet. Upstream has no such key.
const UNFINISHED: &str = "ipam.spidernet.io/unfinished-nics";

/// The intended holder of an endpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder<'a> {
    pub(super) key: &'a ObjectKey,
    pub(super) uid: &'a str,
    pub(super) node: &'a str,
    pub(super) owner_kind: &'a str,
    pub(super) owner_name: &'a str,
    /// The UID of the pod that the endpoint is deleted with; absent if it outlives the pod.
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

/// Whether the endpoint is owned by a pod object: then Kubernetes' garbage collector may delete it.
pub(crate) fn goes_with_pod(endpoint: &SpiderEndpoint) -> bool {
    endpoint.metadata.owner_references.iter().flatten().any(|owner| owner.kind == "Pod")
}

pub(crate) fn has_finalizer(endpoint: &SpiderEndpoint) -> bool {
    finalizer::is_on(&endpoint.metadata)
}

/// The addresses that the pod must not get again.
pub(super) fn avoided(endpoint: &SpiderEndpoint) -> Vec<IpAddr> {
    let text = endpoint.metadata.annotations.as_ref().and_then(|annotations| annotations.get(AVOIDED));
    text.map(|text| text.split(',').filter_map(|ip| ip.parse().ok()).collect()).unwrap_or_default()
}

/// Lets the pod have the avoided addresses again.
pub(super) fn forget_avoided(endpoint: &mut SpiderEndpoint) {
    forget(endpoint, AVOIDED);
}

/// Whether the entry of a NIC lacks an address that its own ADD is still to allocate.
pub(super) fn is_unfinished(endpoint: &SpiderEndpoint, nic: &str) -> bool {
    let text = endpoint.metadata.annotations.as_ref().and_then(|annotations| annotations.get(UNFINISHED));
    text.is_some_and(|text| text.split(' ').any(|unfinished| unfinished == nic))
}

/// Sets which NICs' entries are unfinished.
pub(super) fn name_unfinished(endpoint: &mut SpiderEndpoint, nics: &[String]) {
    if !nics.is_empty() {
        endpoint.metadata.annotations.get_or_insert_default().insert(UNFINISHED.to_owned(), nics.join(" "));
    } else {
        forget(endpoint, UNFINISHED);
    }
}

/// The endpoint without these addresses of pools; the rest of an entry is unfinished. `None` = the endpoint has to stay unchanged.
///
/// NICs without names are identified by the positions of their entries, so that they keep all of them or none; and the rest of an entry
/// without a name could not be marked as unfinished.
pub(super) fn without_addresses(endpoint: &SpiderEndpoint, what: &[(Arc<str>, IpAddr)], nameless: bool) -> Option<SpiderEndpoint> {
    let is_listed = |at: &Stored<'_>| what.iter().any(|(pool, ip)| **pool == *at.pool && *ip == at.address.addr());
    let (mut left, mut unfinished) = (Vec::new(), Vec::new());
    for entry in entries(endpoint) {
        let rest = stored(entry).filter(is_listed).fold(entry.clone(), |rest, at| without(&rest, at.family));
        let is_whole = rest == *entry;
        if !is_whole && stored(&rest).next().is_none() {
            continue;
        }
        if nameless || (!is_whole && entry.interface.is_empty()) {
            return None;
        }
        if !is_whole || is_unfinished(endpoint, &entry.interface) {
            unfinished.push(entry.interface.clone());
        }
        left.push(rest);
    }
    if left == entries(endpoint) {
        return None;
    }
    let mut trimmed = endpoint.clone();
    if let Some(status) = &mut trimmed.status {
        status.current.ips = left;
    }
    name_unfinished(&mut trimmed, &unfinished);
    Some(trimmed)
}

/// The sandbox that answers on the addresses, according to the endpoint.
pub(super) fn sandbox_of(endpoint: &SpiderEndpoint) -> Option<&str> {
    Some(endpoint.metadata.annotations.as_ref()?.get(names::ANNOTATION_SANDBOX)?.as_str())
}

/// The sandboxes that were answered before that one and are not known to be torn down, newest first.
pub(super) fn replaced_sandboxes(endpoint: &SpiderEndpoint) -> impl Iterator<Item = &str> {
    let text = endpoint.metadata.annotations.as_ref().and_then(|annotations| annotations.get(names::ANNOTATION_REPLACED_SANDBOXES));
    text.into_iter().flat_map(|text| text.split(',')).filter(|sandbox| !sandbox.is_empty())
}

/// All sandboxes that may answer on the addresses, according to the endpoint.
pub(super) fn sandboxes_of(endpoint: &SpiderEndpoint) -> impl Iterator<Item = &str> {
    sandbox_of(endpoint).into_iter().chain(replaced_sandboxes(endpoint))
}

/// The maximum number of replaced sandboxes that are kept. For those before them, DELs were lost one after another.
const REPLACED_MAX: usize = 16;

/// Sets which sandboxes are replaced.
fn name_replaced(endpoint: &mut SpiderEndpoint, sandboxes: &[String]) {
    if sandboxes.is_empty() {
        forget(endpoint, names::ANNOTATION_REPLACED_SANDBOXES);
    } else {
        let text = sandboxes[..sandboxes.len().min(REPLACED_MAX)].join(",");
        endpoint.metadata.annotations.get_or_insert_default().insert(names::ANNOTATION_REPLACED_SANDBOXES.to_owned(), text);
    }
}

/// Removes an annotation. Returns whether there was one.
fn forget(endpoint: &mut SpiderEndpoint, key: &str) -> bool {
    let Some(annotations) = &mut endpoint.metadata.annotations else { return false };
    let was_there = annotations.remove(key).is_some();
    if annotations.is_empty() {
        endpoint.metadata.annotations = None;
    }
    was_there
}

/// The endpoint once a sandbox is torn down; `None` = it does not name that sandbox.
pub(super) fn without_sandbox(endpoint: &SpiderEndpoint, sandbox: &str) -> Option<SpiderEndpoint> {
    if sandboxes_of(endpoint).all(|named| named != sandbox) {
        return None;
    }
    let mut without = endpoint.clone();
    if sandbox_of(endpoint) == Some(sandbox) {
        forget(&mut without, names::ANNOTATION_SANDBOX);
    }
    let others: Vec<String> = replaced_sandboxes(endpoint).filter(|other| *other != sandbox).map(str::to_owned).collect();
    name_replaced(&mut without, &others);
    Some(without)
}

/// Whether the DEL of a NIC is the last one of its sandbox: interfaces are taken down in reverse order. The first one may belong to another
/// plugin.
pub(super) fn is_last_to_go(endpoint: &SpiderEndpoint, nic: &str) -> bool {
    let mut named = entries(endpoint).iter().map(|entry| &*entry.interface).filter(|interface| !interface.is_empty());
    nic == FIRST_NIC || named.clone().all(|interface| interface != FIRST_NIC) && named.next() == Some(nic)
}

/// Adds addresses that the pod must not get again.
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

    /// A new endpoint of this holder, with the finalizer.
    pub(super) fn endpoint(&self, ips: Vec<IPAllocationDetail>) -> SpiderEndpoint {
        let metadata =
            ObjectMeta { owner_references: self.owners(), finalizers: Some(vec![names::FINALIZER.to_owned()]), ..self.key.metadata() };
        self.named(SpiderEndpoint { metadata, status: Some(self.status(ips)) }, false)
    }

    /// The endpoint with the answered sandbox and, if it is the pod's own, the sandboxes that this one replaces.
    fn named(&self, mut endpoint: SpiderEndpoint, own: bool) -> SpiderEndpoint {
        if let Some(sandbox) = self.sandbox {
            let replaced = sandboxes_of(&endpoint).filter(|other| own && *other != sandbox);
            let replaced: Vec<String> = replaced.map(str::to_owned).collect();
            name_replaced(&mut endpoint, &replaced);
            endpoint.metadata.annotations.get_or_insert_default().insert(names::ANNOTATION_SANDBOX.to_owned(), sandbox.to_owned());
        }
        endpoint
    }

    /// Whether the endpoint names a sandbox other than the answered one, or none.
    pub(super) fn is_in_another_sandbox(&self, endpoint: &SpiderEndpoint) -> bool {
        self.sandbox.is_some() && sandbox_of(endpoint) != self.sandbox
    }

    /// The endpoint of this pod, or of its predecessor, updated; its owner stays.
    pub(super) fn kept_up(&self, endpoint: &SpiderEndpoint, ips: Vec<IPAllocationDetail>) -> SpiderEndpoint {
        let mut kept = endpoint.clone();
        let mut status = kept.status.take().unwrap_or_default();
        status.current = self.status(ips).current;
        kept.status = Some(status);
        self.named(kept, uid_of(endpoint) == self.uid)
    }

    /// The endpoint with the pod's current owner.
    pub(super) fn owned(&self, mut endpoint: SpiderEndpoint) -> SpiderEndpoint {
        endpoint.metadata.owner_references = self.owners();
        let ips = endpoint.status.take().map(|status| status.current.ips).unwrap_or_default();
        endpoint.status = Some(self.status(ips));
        endpoint
    }

    /// The endpoint of another holder, taken over by this one.
    pub(super) fn taken_over(&self, endpoint: &SpiderEndpoint, ips: Vec<IPAllocationDetail>) -> SpiderEndpoint {
        let mut taken = endpoint.clone();
        taken.metadata.owner_references = self.owners();
        finalizer::put_on(&mut taken.metadata);
        // An address that did not work for another pod may work for this one.
        taken.metadata.annotations.iter_mut().for_each(|annotations| drop(annotations.remove(AVOIDED)));
        taken.status = Some(self.status(ips));
        self.named(taken, false)
    }
}

/// The addresses that an endpoint names, by pool.
pub(crate) fn entries_of(endpoint: &SpiderEndpoint) -> Vec<(Arc<str>, IpAddr)> {
    entries(endpoint).iter().flat_map(stored).map(|at| (Arc::from(at.pool), at.address.addr())).collect()
}

/// Whether an endpoint that is marked for deletion serves no pod any more; upstream uses it again.
pub(super) fn is_ended(endpoint: &SpiderEndpoint, policy: &Policy) -> bool {
    is_terminating(endpoint) && !policy.terminating_endpoint_reused && !policy.adopt_stale_endpoint
}

/// The owner of an endpoint from a pod's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndpointOwnership {
    /// This very pod: the endpoint has its UID.
    Own,
    /// The pod's predecessor, whose addresses it inherits.
    Inherited,
    /// An unrelated earlier pod of the same name.
    Foreign,
}

/// Decides the ownership of an endpoint.
pub(super) fn ownership(
    endpoint: &SpiderEndpoint,
    uid: &str,
    keeper: Keeper,
    controller: &TopController,
    policy: &Policy,
) -> EndpointOwnership {
    if uid_of(endpoint) == uid {
        return EndpointOwnership::Own;
    }
    if keeper == Keeper::Nobody {
        return if policy.adopt_stale_endpoint { EndpointOwnership::Inherited } else { EndpointOwnership::Foreign };
    }
    // The pods of a VM have other names, and one of them may answer on the addresses while another asks for them: a live migration goes on
    // with the endpoint's addresses, whoever marked it.
    let ends = keeper != Keeper::Vm && is_ended(endpoint, policy);
    let owner = endpoint.status.as_ref().map(|status| (status.owner_controller_type.as_str(), status.owner_controller_name.as_str()));
    let of_another =
        owner != Some((controller.kind.as_str(), controller.name.as_str())) || goes_with_pod(endpoint) || !has_finalizer(endpoint);
    if ends || (of_another && !policy.reown_foreign_endpoint) { EndpointOwnership::Foreign } else { EndpointOwnership::Inherited }
}
