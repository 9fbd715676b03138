//! Spiderpool's IP-address management: the logic of its agents and of its controller, and its resources in their wire format (A §1; group
//! `spiderpool.spidernet.io`, version `v2beta1`).
//!
//! Everything is generic over a [`Client`](kube_machinery::Client) and an [`Env`](kube_machinery::Env). Decisions are pure functions over
//! state; thin async drivers around them do the reads, writes and retries. Each known flaw of upstream's code is a switch of [`Policy`];
//! [`Policy::hardened`] has all of them off.
//!
//! | modules | hold |
//! |---|---|
//! | the root | the resources: [`SpiderIPPool`], [`SpiderSubnet`], [`SpiderReservedIP`], [`SpiderEndpoint`], and their cells |
//! | [`ranges`] | the parsing of ranges and CIDRs; sets of addresses; the choice of a free one |
//! | [`admission`] | the admission of objects: defaults and validation |
//! | [`select`] | the pools that a pod draws from, their order, and the reasons against others |
//! | [`ipam`] | the agent of a node: CNI ADD, CNI DEL, batch release |
//! | [`subnet`], [`auto_pool`] | pools that are cut from subnets for applications |
//! | [`reclaim`] | garbage collection of addresses that leaked |
//! | [`controller`] | pool counts and terminating pools; [`SpiderpoolController`] is the elected process around all controllers |
//! | [`names`] | labels, annotations, finalizers |
//!
//! * The difference between an absent field, `null` and an empty list matters upstream (routes are inherited if the field is absent, not if
//!   it is empty), so an optional list is an `Option<Vec<_>>`. The output of `kubectl get` survives a round trip unchanged.
//! * Defaults that the CRDs declare are filled in while reading, as an API server does; such fields are no `Option`.
//! * `status.allocatedIPs` and `status.controlledIPPools` are [`JsonText`](kube_machinery::JsonText) cells; no record = no field.
//!
//! # Examples
//!
//! The address that a pool allocates next:
//!
//! ```
//! use ipam_spiderpool::ranges::{IpSet, PoolAddresses};
//! use ipam_spiderpool::{Policy, PoolIPAllocations, SpiderIPPool};
//!
//! let pool: SpiderIPPool = serde_json::from_value(serde_json::json!({
//!     "apiVersion": "spiderpool.spidernet.io/v2beta1",
//!     "kind": "SpiderIPPool",
//!     "metadata": {"name": "blue"},
//!     "spec": {"ipVersion": 4, "subnet": "192.0.2.0/24", "ips": ["192.0.2.10-192.0.2.20"], "excludeIPs": ["192.0.2.10"]},
//! }))?;
//! let addresses = PoolAddresses::of(&pool.spec, &IpSet::default(), &Policy::hardened())?;
//! assert_eq!(addresses.first_free(&PoolIPAllocations::default())?, Some("192.0.2.11".parse()?));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// Unit tests use the API server in `tests/`, which refers to this crate by its name.
#[cfg(test)]
extern crate self as ipam_spiderpool;

pub mod address_set;
pub mod admission;
mod allocated_ips;
pub mod auto_pool;
pub mod controller;
mod endpoint;
mod finalizer;
pub mod ipam;
mod ippool;
mod join;
pub mod leadership;
mod limiter;
pub mod names;
pub mod owner_label;
mod policy;
pub mod ranges;
pub mod reclaim;
mod replica;
mod reserved_ip;
pub mod select;
mod spider_subnet;
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
pub use spider_subnet::{PoolIPPreAllocation, PoolIPPreAllocations, SpiderSubnet, SubnetSpec, SubnetStatus};
pub use text_map::{Edit, TextMap};
pub use validity::Keeper;
pub use wildcard::{BadPattern, wildcard_match};

use serde::{Deserialize, Deserializer};

/// Reads `null` as the default value: an API server prunes it before it fills in defaults.
fn null_is_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors_ip_ranges;
