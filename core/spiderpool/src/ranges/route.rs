//! Gateways and routes of pools and subnets (A §9.1).

use super::{Cidr, RangeError, parse_ip, range_contains};
use crate::Policy;

/// Checks that `dst` and `gw` are a CIDR and an address of the family.
///
/// # Errors
/// One of them is not.
pub fn check_route(dst: &str, gw: &str, version: i64, policy: &Policy) -> Result<(), RangeError> {
    Cidr::parse_version(dst, version, policy)?;
    parse_ip(gw, version, policy).map(drop)
}

/// Checks that `dst` and `gw` are a route of IPv4 or of IPv6.
///
/// # Errors
/// One of them is neither, or they are of different families.
pub fn check_route_of_any_version(dst: &str, gw: &str, policy: &Policy) -> Result<(), RangeError> {
    check_route(dst, gw, 4, policy).or_else(|error| match error {
        RangeError::Family { .. } => check_route(dst, gw, 6, policy),
        error => Err(error),
    })
}

/// Checks that the gateway is inside the subnet and no pod can get it: not in `ips`, or in `exclude`.
///
/// # Errors
/// It is not, or a text is bad.
pub fn check_gateway<T: AsRef<str>>(
    gateway: &str,
    subnet: &str,
    ips: &[T],
    exclude: &[T],
    version: i64,
    policy: &Policy,
) -> Result<(), RangeError> {
    let cidr = Cidr::parse_version(subnet, version, policy)?;
    if !cidr.contains(parse_ip(gateway, version, policy)?) {
        return Err(RangeError::Outside { text: gateway.to_owned(), cidr: cidr.to_string() });
    }
    for range in exclude {
        if range_contains(range.as_ref(), gateway, version, policy)? {
            return Ok(());
        }
    }
    for range in ips.iter().map(AsRef::as_ref) {
        if range_contains(range, gateway, version, policy)? {
            return Err(RangeError::Gateway { gateway: gateway.to_owned(), range: range.to_owned() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_is_inside_the_subnet_and_not_to_be_drawn() {
        let check = |gateway, ips: &[&str], exclude: &[&str], policy| check_gateway(gateway, "fd00::/120", ips, exclude, 6, &policy);
        for policy in [Policy::hardened(), Policy::upstream()] {
            assert_eq!(check("fd00::1", &["fd00::2-fd00::9"], &[], policy), Ok(()));
            assert_eq!(check("fd00::2", &["fd00::2-fd00::9"], &["fd00::1-fd00::2"], policy), Ok(()));
            let drawn = RangeError::Gateway { gateway: "fd00::2".to_owned(), range: "fd00::2-fd00::9".to_owned() };
            assert_eq!(check("fd00::2", &["fd00::2-fd00::9"], &[], policy), Err(drawn));
            assert!(matches!(check("fd00::1:0", &[], &[], policy), Err(RangeError::Outside { .. })));
            assert!(matches!(check("10.0.0.1", &[], &[], policy), Err(RangeError::Family { .. })));
        }
        // Two spellings of one address: upstream compares a single entry as text.
        assert_eq!(check("FD00::1A", &["fd00::1a"], &[], Policy::upstream()), Ok(()));
        assert!(matches!(check("FD00::1A", &["fd00::1a"], &[], Policy::hardened()), Err(RangeError::Gateway { .. })));
    }
}
