//! The cluster's settings that selection uses (A §10).

use super::annotation::go_bool;
use super::setting_names::type_elsewhere;
use crate::ranges::IpVersion;

/// Settings under the names of the ConfigMap `spiderpool-conf` or of the environment; the defaults are those of A §10.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `enableIPv4`: IPv4 pools are candidates.
    pub enable_ipv4: bool,
    /// `enableIPv6`: IPv6 pools are candidates.
    pub enable_ipv6: bool,
    /// `enableSpiderSubnet`: the subnet annotation is evaluated.
    pub enable_spider_subnet: bool,
    /// `enableAutoPoolForApplication`: the subnet annotation is allowed.
    pub enable_auto_pool_for_application: bool,
    /// `agentNamespace`: the namespace of Spiderpool, used for networks without one.
    pub agent_namespace: String,
    /// `MULTUS_CLUSTER_NETWORK`: the network of the first NIC of pods that name none.
    pub multus_cluster_network: Option<String>,
    /// `SPIDERPOOL_IPPOOL_MAX_ALLOCATED_IPS`: the maximum number of records of a pool.
    pub max_allocated_ips: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            enable_ipv4: true,
            enable_ipv6: true,
            enable_spider_subnet: true,
            enable_auto_pool_for_application: true,
            agent_namespace: "kube-system".to_owned(),
            multus_cluster_network: None,
            max_allocated_ips: 5000,
        }
    }
}

/// An invalid value of a setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} is {wanted}, not {value:?}")]
pub struct BadSetting {
    /// The name of the setting, as in the ConfigMap or the environment.
    pub name: String,
    /// The invalid value, as written.
    pub value: String,
    /// The description of a valid value.
    pub wanted: &'static str,
}

impl Settings {
    /// The names of all settings.
    pub const NAMES: [&'static str; 7] = [
        "enableIPv4",
        "enableIPv6",
        "enableSpiderSubnet",
        "enableAutoPoolForApplication",
        "agentNamespace",
        "MULTUS_CLUSTER_NETWORK",
        "SPIDERPOOL_IPPOOL_MAX_ALLOCATED_IPS",
    ];

    /// Sets one of [`NAMES`](Self::NAMES) from text, or checks the value of one that is [used elsewhere](super::ELSEWHERE). Returns whether
    /// there is a setting of this name.
    ///
    /// # Errors
    /// The value is invalid for this setting.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, BadSetting> {
        let bad = |wanted| BadSetting { name: name.to_owned(), value: value.to_owned(), wanted };
        let truth = || go_bool(value).ok_or_else(|| bad("true or false"));
        match name {
            "enableIPv4" => self.enable_ipv4 = truth()?,
            "enableIPv6" => self.enable_ipv6 = truth()?,
            "enableSpiderSubnet" => self.enable_spider_subnet = truth()?,
            "enableAutoPoolForApplication" => self.enable_auto_pool_for_application = truth()?,
            "agentNamespace" => value.clone_into(&mut self.agent_namespace),
            "MULTUS_CLUSTER_NETWORK" => self.multus_cluster_network = Some(value.to_owned()).filter(|value| !value.is_empty()),
            "SPIDERPOOL_IPPOOL_MAX_ALLOCATED_IPS" => {
                self.max_allocated_ips = value.parse().map_err(|_| bad("a number from 0 on"))?;
            }
            _ => {
                let Some(of) = type_elsewhere(name) else { return Ok(false) };
                return of.takes(value).then_some(true).ok_or_else(|| bad(of.wanted()));
            }
        }
        Ok(true)
    }

    /// Whether addresses of a family are allocated.
    pub fn enables(&self, family: IpVersion) -> bool {
        match family {
            IpVersion::V4 => self.enable_ipv4,
            IpVersion::V6 => self.enable_ipv6,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_sets_something_and_nothing_else_is_a_name() {
        for name in Settings::NAMES {
            let changed = ["false", "7", "other"].into_iter().any(|value| {
                let mut settings = Settings::default();
                settings.set(name, value) == Ok(true) && settings != Settings::default()
            });
            assert!(changed, "{name}");
        }
        assert_eq!(Settings::default().set("enableIPv5", "true"), Ok(false));
        assert_eq!(Settings::default().set("enableIPv4", "yes").unwrap_err().wanted, "true or false");
    }
}
