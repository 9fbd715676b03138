//! SpiderSubnet: addresses that pools are cut from (A §1.3).

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Route, TextMap, null_is_default};
use kube_machinery::json_text::JsonText;

/// The desired state of a [`SpiderSubnet`].
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "spiderpool.spidernet.io",
    version = "v2beta1",
    kind = "SpiderSubnet",
    plural = "spidersubnets",
    singular = "spidersubnet",
    shortname = "ss",
    category = "spiderpool",
    status = "SubnetStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A range of addresses that pools are cut from; cluster-scoped, status as a subresource."
)]
#[serde(rename_all = "camelCase")]
pub struct SubnetSpec {
    /// 4 or 6; set by the webhook from the subnet.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = [4, 6]))]
    pub ip_version: Option<i64>,
    /// The CIDR that all addresses of the subnet are in.
    pub subnet: String,
    /// The ranges of addresses; may be empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ips: Option<Vec<String>>,
    /// Ranges that are taken out of `ips`.
    #[serde(rename = "excludeIPs", skip_serializing_if = "Option::is_none")]
    pub exclude_ips: Option<Vec<String>>,
    /// The gateway that pools inherit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// The routes that pools inherit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routes: Option<Vec<Route>>,
}

/// The observed state of a [`SpiderSubnet`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SubnetStatus {
    /// The addresses that are pre-allocated for each pool. `None`: absent.
    #[serde(rename = "controlledIPPools", default, skip_serializing_if = "JsonText::is_absent")]
    pub controlled_ippools: JsonText<PoolIPPreAllocations>,
    /// The number of addresses in `ips` without `excludeIPs`.
    #[serde(rename = "totalIPCount", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub total_ip_count: Option<i64>,
    /// The number of addresses in all pre-allocations.
    #[serde(rename = "allocatedIPCount", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub allocated_ip_count: Option<i64>,
}

/// The pre-allocations of a subnet, by the name of the pool.
pub type PoolIPPreAllocations = TextMap<String, PoolIPPreAllocation>;

/// Addresses pre-allocated for a pool: a value in `status.controlledIPPools`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolIPPreAllocation {
    /// The pre-allocated ranges, each `a` or `a-b`.
    #[serde(default, deserialize_with = "null_is_default")]
    pub ips: Vec<String>,
    /// The workload, for an auto pool only: `group_version_Kind_namespace_name`, without `group_` for the core group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
}
