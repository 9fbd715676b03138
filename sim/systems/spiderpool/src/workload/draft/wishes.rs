//! The ways in which pods ask for pools, and the annotations that they use.

use std::collections::BTreeMap;

use ipam_spiderpool::names;
use ipam_spiderpool::ranges::IpVersion;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sim_config::Open;

use super::super::ops::ApplyApp;

/// The way in which the pods of an application ask for pools (A §2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PoolWish {
    /// They name none, and use the default pools of the cluster.
    ClusterDefault,
    /// The CNI configuration names pools.
    CniConfig,
    /// Their namespace names pools.
    Namespace,
    /// The annotation `ippool` names pools in an order.
    Ippool,
    /// The annotation `ippool` names pools by a pattern.
    Wildcard,
    /// The annotation `ippool` names pools by patterns with classes: all but the first, then the first.
    WildcardClass,
    /// The annotation `ippools` names pools for each NIC.
    Ippools,
    /// The annotation `ippools` names pools for each NIC, in the order of the NICs and without their names.
    Nameless,
    /// The annotations `subnet` and `subnets` ask for auto pools. Pods without a controller cannot have any, and use the default pools.
    Subnet,
}

impl Open for PoolWish {}

/// The annotation that names the networks of further NICs.
const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

/// The network of a further NIC.
pub(super) fn network_name(nic: u32) -> String {
    format!("kube-system/net-{nic}")
}

/// The names of pools of one family in the order in which an application asks for them.
pub(super) struct Wished {
    pub(super) version: IpVersion,
    pub(super) pools: Vec<String>,
}

/// An annotation that names pools for one NIC.
fn one_nic(wished: &[Wished]) -> serde_json::Map<String, serde_json::Value> {
    let key = |version| if version == IpVersion::V4 { "ipv4" } else { "ipv6" };
    wished.iter().map(|wished| (key(wished.version).to_owned(), json!(wished.pools))).collect()
}

/// The annotations with which pods with this number of NICs ask for pools.
pub(super) fn annotations(wish: PoolWish, nics: u32, wished: &[Wished]) -> BTreeMap<String, String> {
    let mut annotations = BTreeMap::new();
    if nics > 1 {
        let networks: Vec<String> = (1..nics).map(network_name).collect();
        annotations.insert(NETWORKS.to_owned(), networks.join(","));
    }
    let each_nic = |named: bool| {
        let entry = |nic: u32| {
            let mut entry = one_nic(wished);
            // Each NIC has another pool first.
            for pools in entry.values_mut().filter_map(serde_json::Value::as_array_mut) {
                let count = pools.len().max(1);
                pools.rotate_left(nic as usize % count);
                // Of several subnets only the first counts (A §2.2), and no two NICs may have the same.
                if wish == PoolWish::Subnet {
                    pools.truncate(1);
                }
            }
            if named {
                let name = if nic == 0 { "eth0".to_owned() } else { format!("net{nic}") };
                entry.insert("interface".to_owned(), json!(name));
            }
            serde_json::Value::Object(entry)
        };
        serde_json::Value::Array((0..nics).map(entry).collect()).to_string()
    };
    let (key, text) = match wish {
        PoolWish::ClusterDefault | PoolWish::CniConfig | PoolWish::Namespace => return annotations,
        PoolWish::Ippool => (names::ANNOTATION_IPPOOL, serde_json::Value::Object(one_nic(wished)).to_string()),
        PoolWish::Wildcard => {
            let patterns: Vec<Wished> = wished
                .iter()
                .map(|wished| {
                    let first = wished.pools.first();
                    let pattern = first.map(|pool| pool.rsplit_once('-').map_or("*".to_owned(), |(stem, _)| format!("{stem}-*")));
                    Wished { version: wished.version, pools: first.cloned().into_iter().chain(pattern).collect() }
                })
                .collect();
            (names::ANNOTATION_IPPOOL, serde_json::Value::Object(one_nic(&patterns)).to_string())
        }
        PoolWish::WildcardClass => {
            let of = |wished: &Wished| {
                let (stem, number) = wished.pools.first().and_then(|pool| pool.rsplit_once('-')).unwrap_or(("v4", "0"));
                let patterns = [format!("{stem}-[^{number}]"), format!("{stem}-[*{number}]"), format!("{stem}-[0-9]"), format!("{stem}-?")];
                Wished { version: wished.version, pools: patterns.into() }
            };
            (names::ANNOTATION_IPPOOL, serde_json::Value::Object(one_nic(&wished.iter().map(of).collect::<Vec<_>>())).to_string())
        }
        PoolWish::Ippools => (names::ANNOTATION_IPPOOLS, each_nic(true)),
        PoolWish::Nameless => (names::ANNOTATION_IPPOOLS, each_nic(false)),
        PoolWish::Subnet if nics > 1 => (names::ANNOTATION_SUBNETS, each_nic(true)),
        PoolWish::Subnet => (names::ANNOTATION_SUBNET, serde_json::Value::Object(one_nic(wished)).to_string()),
    };
    annotations.insert(key.to_owned(), text);
    annotations
}

/// The number of NICs of an application's pods: one, and one for each further network.
pub(super) fn nics_of(app: &ApplyApp) -> u32 {
    let networks = app.annotations.get(NETWORKS).map_or("", |text| text.trim());
    let joined = match serde_json::from_str::<Vec<serde_json::Value>>(networks) {
        Ok(list) => list.len(),
        Err(_) => networks.split(',').filter(|network| !network.trim().is_empty()).count(),
    };
    1 + joined as u32
}
