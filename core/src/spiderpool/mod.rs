//! Spiderpool's resources and names, as they are on the wire (A §1; group `spiderpool.spidernet.io`, version `v2beta1`).
//!
//! The types at the top are upstream's, and only types. What their texts of ranges mean is in [`ranges`], what may be
//! stored in [`admission`], how pools are cut from subnets in [`subnet`], which pools a pod draws from in [`select`], the
//! agent that draws in [`ipam`], and what takes back addresses that leaked in [`reclaim`].
//!
//! * What is absent, `null` or empty on the wire matters upstream (routes are inherited if the field is absent, not if
//!   it is empty), so an optional list is an `Option<Vec<_>>`. What `kubectl get` prints comes out as it went in.
//! * Defaults that the CRDs declare are filled in while reading, as an API server does; such fields are no `Option`.
//! * `status.allocatedIPs` and `status.controlledIPPools` are [`JsonText`](crate::JsonText) cells; no record = no field.

pub mod admission;
mod allocated_ips;
pub mod auto_pool;
pub mod controller;
mod endpoint;
pub mod ipam;
mod ippool;
mod join;
mod limiter;
pub mod names;
mod policy;
pub mod ranges;
pub mod reclaim;
mod replica;
mod reserved_ip;
pub mod select;
pub mod subnet;
mod text_map;
mod validity;
mod wildcard;

pub use allocated_ips::{PoolIPAllocation, PoolIPAllocations, RecordKey};
pub use endpoint::{EndpointStatus, IPAllocationDetail, PodIPAllocation, SpiderEndpoint};
pub use ippool::{IPPoolSpec, IPPoolStatus, Route, SpiderIPPool};
pub use policy::Policy;
pub use replica::SpiderpoolController;
pub use reserved_ip::{ReservedIPSpec, SpiderReservedIP};
pub use subnet::{PoolIPPreAllocation, PoolIPPreAllocations, SpiderSubnet, SubnetSpec, SubnetStatus};
pub use text_map::{Edit, TextMap};
pub use validity::Keeper;
pub use wildcard::{BadPattern, wildcard_match};

use serde::{Deserialize, Deserializer};

/// Reads `null` as the default value: a server prunes it before it fills in defaults.
fn null_is_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors_ip_ranges;
