//! SpiderEndpoint: the addresses of a pod (A §1.4).

use std::borrow::Cow;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

use super::{Route, names, null_is_default};

/// The addresses of a pod, under the pod's name (the VMI's name for a VM with static addresses); namespaced, short name `se`.
///
/// The CRD has no `spec` and declares no status subresource: `status` is written by create and update of the object.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct SpiderEndpoint {
    /// Metadata. The pod is a plain owner, except for pods whose addresses outlive them.
    pub metadata: ObjectMeta,
    /// The addresses and the owner.
    pub status: Option<EndpointStatus>,
}

impl Resource for SpiderEndpoint {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "SpiderEndpoint".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        names::GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        names::VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "spiderendpoints".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl Serialize for SpiderEndpoint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("SpiderEndpoint", 3 + usize::from(self.status.is_some()))?;
        object.serialize_field("apiVersion", &Self::api_version(&()))?;
        object.serialize_field("kind", &Self::kind(&()))?;
        object.serialize_field("metadata", &self.metadata)?;
        if let Some(status) = &self.status {
            object.serialize_field("status", status)?;
        }
        object.end()
    }
}

/// The observed state of a [`SpiderEndpoint`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointStatus {
    /// The pod and its addresses.
    pub current: PodIPAllocation,
    /// The kind of the pod's top controller, without group and version.
    pub owner_controller_type: String,
    /// The name of the pod's top controller, without namespace and UID.
    pub owner_controller_name: String,
}

/// The addresses of one pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PodIPAllocation {
    /// The UID of the pod.
    pub uid: String,
    /// The node of the pod.
    pub node: String,
    /// One entry for each NIC, in no order; may be empty.
    pub ips: Vec<IPAllocationDetail>,
}

/// The addresses of one NIC.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IPAllocationDetail {
    /// The NIC; may be empty (nameless NICs, A §2.4).
    pub interface: String,
    /// The IPv4 address, with the mask of the pool's subnet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<String>,
    /// The IPv6 address, with the mask of the pool's subnet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<String>,
    /// The pool of the IPv4 address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv4_pool: Option<String>,
    /// The pool of the IPv6 address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6_pool: Option<String>,
    /// 0 to 4094; other than 0 only with an IaaS provider.
    #[serde(default, deserialize_with = "null_is_default")]
    pub vlan: i64,
    /// The gateway of the IPv4 pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv4_gateway: Option<String>,
    /// The gateway of the IPv6 pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6_gateway: Option<String>,
    /// Whether the gateway is left out; written only if the pool has one (A §14.31).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clean_gateway: Option<bool>,
    /// The routes of the pools, and those of the pod that fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routes: Option<Vec<Route>>,
    /// The MAC address; written by an IaaS provider only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
}
