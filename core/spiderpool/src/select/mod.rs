//! Selection of the pools a pod draws from and of their order, with a reason for each rejected pool (A §2 to §4).
//!
//! ```text
//!  annotations, CNI configuration, defaults        pools                              pools
//!        │                                          │                                  │
//!      tiers ──► names ──► families that are on ──► look-up ──► rules, one reason each ──► ranks ──► order
//! ```
//!
//! A decision is a pure function of the known objects ([`Cluster`]) and of the [`Request`]: nothing is read twice, nothing is written,
//! nothing waits. Allocation runs it (A §5.2 step A8), and so does every explanation. [`Policy`] holds the differences between the hardened
//! form and upstream.

pub mod annotation;
mod asker;
mod auto_pool;
mod candidates;
mod cluster;
mod cni_config;
mod error;
mod filter;
mod go_object;
mod memo;
mod network;
mod next_free_ip;
mod pod_filter;
mod rank;
mod reason;
mod selection;
mod setting_names;
mod settings;
mod tier;
mod top_controller;

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Pod;

use super::Policy;

pub(crate) use annotation::go_bool as truth;
pub use annotation::is_nameless;
pub use asker::Asker;
pub use auto_pool::{AutoPool, SubnetRequest, is_auto_pool, pools_of};
pub use cluster::{Cluster, Kept, Objects};
pub use cni_config::{IpamConfig, NetworkConfig};
pub use error::{Rejections, SelectError};
pub use memo::CapacityMemo;
pub use network::{FIRST_NIC, network_of_nic, nics};
pub use next_free_ip::{NextFreeIp, Unavailable, reserved};
pub use rank::{RULES, Rank, by_rank, tries};
pub use reason::Reason;
pub use selection::{
    Candidate, FamilySelection, NicSelection, PermittedPools, Selection, named_pools, permitted_pools, select, select_for,
};
pub use setting_names::{ELSEWHERE, SettingType, type_elsewhere};
pub use settings::{BadSetting, Settings};
pub use tier::Tier;
pub use top_controller::{TopController, Workload, is_alive};

/// A request for pools.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The pod, as the deciding process knows it; its annotations state its wishes.
    pub pod: &'a Pod,
    /// The node that the pod runs on.
    pub node: &'a str,
    /// The NIC of the ADD.
    pub nic: &'a str,
    /// The CNI configuration of the ADD.
    pub cni: &'a IpamConfig,
    /// The addresses of the physical function behind the NIC; they matter if the configuration has `match_master_subnet`.
    pub master: &'a [IpAddr],
    /// The settings of the cluster.
    pub settings: &'a Settings,
    /// The mutations that are on.
    pub policy: &'a Policy,
    /// Whether the caller has just reconciled the pools of a third-party workload. Then a pool that another agent has resized since still
    /// serves.
    pub made: bool,
}

#[cfg(test)]
mod tests;
