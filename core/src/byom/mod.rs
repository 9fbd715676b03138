//! The pool of pre-created VMs that several adaptor instances share in one ConfigMap ("bring your own machine", B).
//!
//! [`PoolDocument`] is the state, [`PoolConfigMap`] the object that holds it, [`PoolConfig`] the VMs that a process is
//! configured with.

mod address;
mod allocation;
mod allocations;
mod available;
mod config;
mod config_map;
mod decide;
mod decode;
mod document;
mod go_json;
mod places;
mod policy;
mod pool_ips;
mod ranked;
mod seconds;
mod select;

pub use address::{Address, AddressKey};
pub use allocation::IpAllocation;
pub use allocations::Allocations;
pub use available::Available;
pub use config::{PoolConfig, PoolConfigError};
pub use config_map::{PoolConfigMap, PoolData, STATE_KEY};
pub use decide::{Answer, Command, Decision, Found, PodName, Recovered, Refusal, Setting, decide};
pub use document::PoolDocument;
pub use places::{DEFAULT_CONFIG_MAP, DEFAULT_NAMESPACE, NamespaceSources, NoNodeName, NodeSources, config_map_name};
pub use policy::{Deviation, Policy};
pub use pool_ips::{BadEntry, BadEntryProblem, LongRange, MAX_RANGE_IPS, Mapped, PoolIps};
pub use seconds::Seconds;
pub use select::select_index;

#[cfg(test)]
mod decide_tests;
#[cfg(test)]
mod document_tests;
