//! The networks of generated clusters: those of pools, and those from which pools are cut.

use ipam_spiderpool::ranges::IpVersion;

/// A network with its usable addresses, in the form of the specs of pools and subnets.
pub(super) struct Network {
    pub(super) cidr: String,
    pub(super) range: String,
    pub(super) gateway: String,
}

impl Network {
    /// The network with this prefix, which is two numbers in the notation of its family. Its first `addresses`, at least one, are usable;
    /// the gateway lies far behind them.
    pub(super) fn new(version: IpVersion, prefix: &str, addresses: u32) -> Self {
        let last = addresses.max(1);
        match version {
            IpVersion::V4 => Self {
                cidr: format!("{prefix}.0.0/16"),
                range: format!("{prefix}.0.1-{prefix}.{}.{}", last / 256, last % 256),
                gateway: format!("{prefix}.255.254"),
            },
            IpVersion::V6 => Self {
                cidr: format!("{prefix}::/64"),
                range: format!("{prefix}::1-{prefix}::{last:x}"),
                gateway: format!("{prefix}::ffff:ffff"),
            },
        }
    }
}
