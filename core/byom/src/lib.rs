//! The pool of pre-created VMs that several adaptor instances share in one ConfigMap ("bring your own machine", B).
//!
//! ```text
//!   VmPool ── read ──► PoolConfigMap: PoolDocument ──► decide ──► answer, document ── write ──► ConfigMap
//!     │                                                  ▲
//!     └─ VmAccess, Owners                                └─ Command, PoolConfig, Policy, time, node
//! ```
//!
//! [`decide`] is pure. [`VmPool`] reads, writes, retries and talks to VMs around it; an adaptor process has one of them, and so has the
//! PeerPod controller. The hardened protocol holds whatever the other processes do, as long as every write carries the resourceVersion of
//! the state that was read; [`Policy`] has a switch for each way in which upstream differs.
//!
//! [`VmPool`] does not keep sandboxes and PeerPods: the code that starts and stops pods does, and provides them through [`Owners`].
//!
//! | items | subject |
//! |---|---|
//! | [`PoolDocument`], [`Allocations`], [`Available`], [`IpAllocation`], [`PoolConfigMap`] | the stored data |
//! | [`PoolConfig`], [`PoolIps`], [`PoolSettings`], [`NodeSources`] | the configuration of a process |
//! | [`decide`], [`Command`], [`Answer`], [`Refusal`] | one decision on one state of the document |
//! | [`VmPool`], [`VmAccess`], [`Owners`], [`Observer`] | the driver around decisions, and its interfaces |
//! | [`Adaptor`], [`PeerPodController`], [`PeerPodOwners`], [`AgentProxy`] | the programs around the pool |
//!
//! # Examples
//!
//! ```
//! use std::collections::BTreeSet;
//! use std::sync::Arc;
//!
//! use ipam_byom::{Answer, Command, Found, PodName, PoolConfig, Policy, Seconds, Setting, decide};
//!
//! let policy = Policy::hardened();
//! let config = PoolConfig::read("192.0.2.10-192.0.2.12", 100, &policy)?;
//! let node = Arc::from("worker-1");
//! let setting = Setting { config: &config, policy: &policy, now: Seconds::default(), node: Some(&node) };
//!
//! let document = setting.fresh();
//! let pod = PodName { name: "web-0".into(), namespace: "shop".into() };
//! let id = Arc::from("sandbox-1");
//! let command = Command::Allocate { id: &id, pod: &pod, ready: None, skip: &BTreeSet::new() };
//! let decision = decide(Found::Document(&document), command, setting);
//!
//! let Ok(Answer::Allocated(address)) = decision.answer else { panic!("no address: {:?}", decision.answer) };
//! let written = decision.write.expect("an allocation is written before it is used");
//! assert!(written.allocated.get("sandbox-1").is_some(), "{address:?} is not recorded");
//! assert_eq!(written.available.len(), 2);
//! # Ok::<(), ipam_byom::PoolConfigError>(())
//! ```

mod address;
mod allocate;
mod allocate_upstream;
mod allocation;
mod allocations;
mod attempts;
mod available;
mod cloud;
mod config;
mod config_map;
mod config_upstream;
mod decide;
mod decide_upstream;
mod decode;
mod document;
mod driver;
mod error;
mod go_json;
mod holders;
mod instance;
mod observer;
mod outcome;
mod owners;
mod places;
mod policy;
mod pool_ips;
mod ranked;
mod reads;
mod reclaim;
mod recover;
mod release;
mod release_upstream;
mod seconds;
mod select;
mod start_error;
mod vm;

pub use address::{Address, AddressKey};
pub use allocation::{IpAllocation, allocation_id};
pub use allocations::{Allocations, RecordChange};
pub use attempts::Retry;
pub use available::Available;
pub use cloud::{
    Adaptor, AdaptorSettings, AgentProxy, ControllerSettings, FINALIZER, PeerPod, PeerPodController, PeerPodOwners, PeerPodSpec,
    PeerPodStatus, Sandbox, SettingsSource, Started, UnknownSandbox,
};
pub use config::{PoolConfig, PoolConfigError};
pub use config_map::{PoolConfigMap, PoolData, STATE_KEY};
pub use decide::{Answer, Command, Decision, Found, PodName, Recovered, Refusal, Setting, decide};
pub use document::PoolDocument;
pub use driver::{PoolSettings, VmPool};
pub use error::{NotOwned, OwnersUnknown, PoolError, ReadError};
pub use instance::Instance;
pub use observer::{Observer, Releaser, StartStep, Step};
pub use outcome::{Context, Effort, Outcome, Released};
pub use owners::{NoOwners, Owners};
pub use places::{DEFAULT_CONFIG_MAP, DEFAULT_NAMESPACE, NamespaceSources, NoNodeName, NodeSources, config_map_name};
pub use policy::Policy;
pub use pool_ips::{BadEntry, BadEntryProblem, LongRange, MAX_RANGE_IPS, Mapped, PoolIps};
pub use reads::PoolStatus;
pub use reclaim::Suspects;
pub use seconds::Seconds;
pub use select::select_index;
pub use start_error::{ProxyError, StartError};
pub use vm::{Reboot, VmAccess, VmError};

#[cfg(test)]
mod decide_tests;
#[cfg(test)]
mod document_tests;
#[cfg(test)]
mod driver_tests;
