//! The custom resource that holds who has which address.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use kube::CustomResource;
use kube_machinery::ObjectKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The addresses of a range, and who has them.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(group = "whereabouts.example.com", version = "v1alpha1", kind = "IPPool", plural = "ippools", namespaced, derive = "PartialEq")]
pub struct IPPoolSpec {
    /// The pod, as `NAMESPACE/NAME`, by the offset of its address in the range.
    #[serde(default)]
    pub allocations: BTreeMap<u32, String>,
}

/// The key of the only pool.
pub fn pool_key() -> ObjectKey {
    ObjectKey::namespaced("kube-system", "10.9.0.0-24")
}

/// The address at an offset of the range.
pub fn address(offset: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(Ipv4Addr::new(10, 9, 0, 0).to_bits() + offset))
}
