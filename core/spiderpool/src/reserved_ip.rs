//! SpiderReservedIP: addresses that no pool allocates (A §1.2).

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The desired state of a [`SpiderReservedIP`].
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "spiderpool.spidernet.io",
    version = "v2beta1",
    kind = "SpiderReservedIP",
    plural = "spiderreservedips",
    singular = "spiderreservedip",
    shortname = "sr",
    category = "spiderpool",
    derive = "Default",
    derive = "PartialEq",
    doc = "Addresses that no pool gives away; cluster-scoped, no status, no finalizer."
)]
#[serde(rename_all = "camelCase")]
pub struct ReservedIPSpec {
    /// 4 or 6; set by the webhook from the first range.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = [4, 6]))]
    pub ip_version: Option<i64>,
    /// Addresses and ranges that no pool allocates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ips: Option<Vec<String>>,
}
