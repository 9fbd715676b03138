//! SpiderIPPool: addresses that pods draw from (A §1.1).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PoolIPAllocations, null_is_default};
use kube_machinery::json_text::JsonText;

/// The desired state of a [`SpiderIPPool`].
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "spiderpool.spidernet.io",
    version = "v2beta1",
    kind = "SpiderIPPool",
    plural = "spiderippools",
    singular = "spiderippool",
    shortname = "sp",
    category = "spiderpool",
    status = "IPPoolStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A range of addresses that pods draw from; cluster-scoped, status as a subresource."
)]
#[serde(rename_all = "camelCase")]
pub struct IPPoolSpec {
    /// 4 or 6; set by the webhook from the subnet. Immutable.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = [4, 6]))]
    pub ip_version: Option<i64>,
    /// The CIDR that all addresses of the pool are in. Immutable.
    pub subnet: String,
    /// The ranges of addresses; may be empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ips: Option<Vec<String>>,
    /// Ranges that are taken out of `ips`.
    #[serde(rename = "excludeIPs", skip_serializing_if = "Option::is_none")]
    pub exclude_ips: Option<Vec<String>>,
    /// The gateway; inherited from the subnet if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// Routes; inherited from the subnet if absent, not if empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routes: Option<Vec<Route>>,
    /// Selects the pods that may use the pool, by their labels. Unset = all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kube_machinery::schema::LabelSelector>")]
    pub pod_affinity: Option<LabelSelector>,
    /// Selects the namespaces whose pods may use the pool, by the labels of the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kube_machinery::schema::LabelSelector>")]
    pub namespace_affinity: Option<LabelSelector>,
    /// Names of the namespaces whose pods may use the pool. If not empty, `namespaceAffinity` is not evaluated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_name: Option<Vec<String>>,
    /// Selects the nodes whose pods may use the pool, by the labels of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kube_machinery::schema::LabelSelector>")]
    pub node_affinity: Option<LabelSelector>,
    /// Names of the nodes whose pods may use the pool. If not empty, `nodeAffinity` is not evaluated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<Vec<String>>,
    /// Multus networks whose NICs may use the pool: `namespace/name` or `name`. Empty = all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multus_name: Option<Vec<String>>,
    /// Whether the pool serves pods that name no pool.
    #[serde(default, deserialize_with = "null_is_default")]
    pub default: bool,
    /// Whether the pool allocates no further address. Addresses that it has allocated stay.
    #[serde(default, deserialize_with = "null_is_default")]
    pub disable: bool,
}

/// A route that comes with an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Route {
    /// The destination, a CIDR.
    pub dst: String,
    /// The gateway, an address.
    pub gw: String,
}

/// The observed state of a [`SpiderIPPool`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IPPoolStatus {
    /// The holder of each address. Absent if there is no record.
    #[serde(rename = "allocatedIPs", default, skip_serializing_if = "JsonText::is_absent")]
    pub allocated_ips: JsonText<PoolIPAllocations>,
    /// The number of addresses in `ips` without `excludeIPs`; written by the controller.
    #[serde(rename = "totalIPCount", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub total_ip_count: Option<i64>,
    /// The number of records, as the last allocation or release counted it.
    #[serde(rename = "allocatedIPCount", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub allocated_ip_count: Option<i64>,
}
