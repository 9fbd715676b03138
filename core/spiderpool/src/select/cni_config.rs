//! The network configuration that a runtime hands to the plugin (A §1.5).

use serde::{Deserialize, Deserializer};

use crate::ranges::IpVersion;

/// A network configuration, restricted to the parts that address management reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NetworkConfig {
    /// The name of the network.
    pub name: String,
    /// The part for address management.
    #[serde(deserialize_with = "null_is_default")]
    pub ipam: IpamConfig,
}

/// The part of a network configuration for address management.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct IpamConfig {
    /// Names and patterns of IPv4 pools.
    #[serde(deserialize_with = "null_is_default")]
    pub default_ipv4_ippool: Vec<String>,
    /// Names and patterns of IPv6 pools.
    #[serde(deserialize_with = "null_is_default")]
    pub default_ipv6_ippool: Vec<String>,
    /// Whether gateways are left out.
    #[serde(deserialize_with = "null_is_default")]
    pub clean_gateway: bool,
    /// Whether a pool's subnet must hold an address of the NIC's physical function (SR-IOV).
    #[serde(deserialize_with = "null_is_default")]
    pub match_master_subnet: bool,
}

impl IpamConfig {
    /// The names and patterns of a family.
    pub fn of(&self, family: IpVersion) -> &[String] {
        match family {
            IpVersion::V4 => &self.default_ipv4_ippool,
            IpVersion::V6 => &self.default_ipv6_ippool,
        }
    }
}

fn null_is_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
