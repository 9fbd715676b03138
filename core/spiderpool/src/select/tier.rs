//! The six rules that determine the pools a pod should draw from (A §2.1).

use std::fmt;

/// The rule that named the pools. The first whose trigger fires is used alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// The annotations `subnets` or `subnet` of the pod.
    Subnet,
    /// The annotation `ippools` of the pod; it names the pools of all NICs.
    PodIPPools,
    /// The annotation `ippool` of the pod.
    PodIPPool,
    /// The annotations of the namespace.
    Namespace,
    /// The CNI configuration of the ADD: its `default_ipv4_ippool` and `default_ipv6_ippool`.
    CniConfig,
    /// The pools marked as default.
    ClusterDefault,
    /// No rule fired, or none was reached.
    #[default]
    None,
}

impl Tier {
    /// The rules in the order in which they are evaluated.
    pub const ALL: [Self; 6] = [Self::Subnet, Self::PodIPPools, Self::PodIPPool, Self::Namespace, Self::CniConfig, Self::ClusterDefault];

    /// The public name, in kebab-case, as [`Display`](fmt::Display) writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Subnet => "subnet",
            Self::PodIPPools => "pod-ippools",
            Self::PodIPPool => "pod-ippool",
            Self::Namespace => "namespace",
            Self::CniConfig => "cni-config",
            Self::ClusterDefault => "cluster-default",
            Self::None => "none",
        }
    }

    /// The number of the rule in the documents, which count `ippools` and `ippool` as one: 1 to 5.
    pub fn documented(self) -> Option<u8> {
        match self {
            Self::Subnet => Some(1),
            Self::PodIPPools | Self::PodIPPool => Some(2),
            Self::Namespace => Some(3),
            Self::CniConfig => Some(4),
            Self::ClusterDefault => Some(5),
            Self::None => None,
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
