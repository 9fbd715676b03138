//! The networks of generated clusters: those of pools, and those that pools are cut from.

use ipam_spiderpool::ranges::IpVersion;

/// A network with addresses to give, as the specs of pools and subnets say it.
pub(super) struct Network {
    pub(super) cidr: String,
    pub(super) range: String,
    pub(super) gateway: String,
}

impl Network {
    /// The network that `prefix` begins, in the notation of its family: two numbers. Its first `addresses`, one at least, are to be given;
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
