//! Upstream's way of reading `VM_POOL_IPS` (B §4.4).

use super::policy::Policy;
use super::pool_ips::{Mapped, PoolIps};

/// Whether the policy reads the setting in one of upstream's ways.
pub(super) fn is_parsed_so(policy: &Policy) -> bool {
    policy.range_limit_zero || policy.textual_addresses || policy.lenient_settings
}

/// Parses the setting without its ranges (`byom-range-limit-zero`), with an IPv4-mapped address beside the same IPv4 address
/// (`byom-textual-addresses`), or without reporting errors (`byom-lenient-settings`): a bad entry leaves no address at all.
pub(super) fn parse(setting: &str, range_limit: u32, policy: &Policy) -> PoolIps {
    let range_limit = if policy.range_limit_zero { 0 } else { range_limit };
    let mapped = if policy.textual_addresses { Mapped::Apart } else { Mapped::AsIpv4 };
    let mut ips = PoolIps::parse(setting, range_limit, mapped);
    // A limit of zero puts every range over the limit, and then it is the limit that is wrong.
    if policy.range_limit_zero || policy.lenient_settings {
        ips.cut.clear();
    }
    if policy.lenient_settings && !ips.bad.is_empty() {
        return PoolIps::default();
    }
    ips
}
