//! The pool of pre-created VMs that several adaptor instances share in one ConfigMap ("bring your own machine", B).
//!
//! ```text
//!   VmPool ── read ──► PoolConfigMap: PoolDocument ──► decide ──► answer, document ── write ──► ConfigMap
//!     │                                                  ▲
//!     └─ VmAccess, Owners                                └─ Command, PoolConfig, Policy, time, node
//! ```
//!
//! [`decide`] is pure. [`VmPool`] reads, writes, retries and talks to VMs around it; an adaptor process has one of them,
//! and so has the PeerPod controller. The hardened protocol holds whatever the others do, as long as nobody writes
//! without the resourceVersion of what was read; [`Policy`] has a switch for each way in which upstream does not.
//!
//! It does not keep sandboxes and PeerPods: whoever starts and stops pods does, and tells through [`Owners`].

mod address;
mod allocate;
mod allocation;
mod allocations;
mod attempts;
mod available;
mod cloud;
mod config;
mod config_map;
mod decide;
mod decode;
mod document;
mod driver;
mod error;
mod go_json;
mod instance;
mod observer;
mod owners;
mod places;
mod policy;
mod pool_ips;
mod ranked;
mod reads;
mod reclaim;
mod recover;
mod release;
mod seconds;
mod select;
mod vm;

pub use address::{Address, AddressKey};
pub use allocate::allocation_id;
pub use allocation::IpAllocation;
pub use allocations::{Allocations, RecordChange};
pub use attempts::Retry;
pub use available::Available;
pub use cloud::{
    Adaptor, AdaptorSettings, AgentProxy, ControllerSettings, FINALIZER, PeerPod, PeerPodController, PeerPodOwners, PeerPodSpec,
    PeerPodStatus, ProxyError, Sandbox, SettingsSource, StartError, Started, UnknownSandbox,
};
pub use config::{PoolConfig, PoolConfigError};
pub use config_map::{PoolConfigMap, PoolData, STATE_KEY};
pub use decide::{Answer, Command, Decision, Found, PodName, Recovered, Refusal, Setting, decide};
pub use document::PoolDocument;
pub use driver::{Context, Effort, Outcome, PoolSettings, VmPool};
pub use error::{PoolError, ReadError};
pub use instance::Instance;
pub use observer::{Observer, Releaser, StartStep, Step};
pub use owners::{NoOwners, NotOwned, Owners, OwnersUnknown};
pub use places::{DEFAULT_CONFIG_MAP, DEFAULT_NAMESPACE, NamespaceSources, NoNodeName, NodeSources, config_map_name};
pub use policy::Policy;
pub use pool_ips::{BadEntry, BadEntryProblem, LongRange, MAX_RANGE_IPS, Mapped, PoolIps};
pub use reads::PoolStatus;
pub use reclaim::Suspects;
pub use release::Released;
pub use seconds::Seconds;
pub use select::select_index;
pub use vm::{Reboot, VmAccess, VmError};

#[cfg(test)]
mod decide_tests;
#[cfg(test)]
mod document_tests;
#[cfg(test)]
mod driver_tests;
