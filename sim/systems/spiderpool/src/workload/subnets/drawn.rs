//! The draw of subnets, of the number of addresses that applications ask for, and of changes to subnets for a while.

use ipam_spiderpool::ranges::{IpVersion, parse_ranges};
use ipam_spiderpool::{IPPoolSpec, Policy, SubnetSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::Open;

use super::super::network::Network;
use super::super::ops::{AppKind, PoolPlan};
use super::ops::{CreateSubnet, DeleteSubnet, EditSubnet, SubnetPlan};
use crate::Operation;

/// The number of addresses that an application asks its subnet for (A §8.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IpNumber {
    /// No number: one address for each pod.
    AsPods,
    /// A number of addresses beyond one for each pod (`+2`).
    More,
    /// A number that covers the most pods that the application will have, and some more (`7`).
    Fixed,
}

impl Open for IpNumber {}

impl IpNumber {
    /// The value of the annotation `ippool-ip-number` of an application that has at most `pods` pods.
    pub(in super::super) fn text(self, spare: u32, pods: u32) -> Option<String> {
        match self {
            Self::AsPods => None,
            Self::More => Some(format!("+{spare}")),
            Self::Fixed => Some((pods + spare).to_string()),
        }
    }
}

/// A change that operators make to a subnet for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SubnetChange {
    /// Exclude its lower half.
    Exclude,
    /// Reduce it to its lower half.
    Shrink,
    /// Delete it and create it again.
    Recreate,
}

impl Open for SubnetChange {}

/// Whether pools are cut from subnets for applications of this kind: pods without a controller may not ask for them (A §2.2), and VMs are
/// not known to the controller.
pub(in super::super) fn asks(kind: AppKind) -> bool {
    !matches!(kind, AppKind::Pod | AppKind::VirtualMachine)
}

/// The name of a subnet of a generated cluster.
pub(in super::super) fn subnet_name(version: IpVersion, number: u32) -> String {
    format!("s{}-{number}", version.number())
}

/// The name of a pool that operators cut from a subnet by hand.
pub(in super::super) fn cut_pool_name(subnet: &str, place: u32) -> String {
    format!("{subnet}-pool-{place}")
}

/// A subnet of a generated cluster, which overlaps no generated pool.
pub(in super::super) fn subnet(version: IpVersion, number: u32, addresses: u32) -> SubnetPlan {
    let name = subnet_name(version, number);
    let prefix = match version {
        IpVersion::V4 => format!("172.{}", 16 + number),
        IpVersion::V6 => format!("fd01:{:x}", 1 + number),
    };
    let Network { cidr, range, gateway } = Network::new(version, &prefix, addresses);
    let spec = SubnetSpec {
        ip_version: Some(version.number()),
        subnet: cidr,
        ips: Some(vec![range]),
        gateway: Some(gateway),
        ..SubnetSpec::default()
    };
    SubnetPlan { name, spec }
}

/// Pools that operators cut from a subnet by hand: an eighth of its addresses each, from the last on.
pub(in super::super) fn pools_of(subnet: &SubnetPlan, number: u32) -> impl Iterator<Item = PoolPlan> {
    let version = subnet.spec.ip_version.unwrap_or(4);
    let ranges = parse_ranges(subnet.spec.ips.as_deref().unwrap_or_default(), version, &Policy::hardened()).unwrap_or_default();
    let range = ranges.first().copied();
    (0..number).filter_map(move |place| {
        let range = range?;
        let (first, last) = range.numbers();
        let size = ((last - first + 1) / 8).max(1);
        let last = last.checked_sub(size * u128::from(place)).filter(|last| *last >= first + size)?;
        let address = |number| range.version().address(number);
        let spec = IPPoolSpec {
            ip_version: Some(version),
            subnet: subnet.spec.subnet.clone(),
            ips: Some(vec![format!("{}-{}", address(last - size + 1), address(last))]),
            ..IPPoolSpec::default()
        };
        Some(PoolPlan { name: cut_pool_name(&subnet.name, place), spec })
    })
}

/// The operations that make a change, and undo it.
pub(in super::super) fn change(change: SubnetChange, subnet: SubnetPlan, lower_half: String) -> [Operation; 2] {
    let edit = EditSubnet { subnet: subnet.name.clone(), ..EditSubnet::default() };
    match change {
        SubnetChange::Exclude => [
            Operation::EditSubnet(EditSubnet { exclude: Some(vec![lower_half]), ..edit.clone() }),
            Operation::EditSubnet(EditSubnet { exclude: Some(Vec::new()), ..edit }),
        ],
        SubnetChange::Shrink => [
            Operation::EditSubnet(EditSubnet { ips: Some(vec![lower_half]), ..edit.clone() }),
            Operation::EditSubnet(EditSubnet { ips: subnet.spec.ips, ..edit }),
        ],
        SubnetChange::Recreate => [
            Operation::DeleteSubnet(DeleteSubnet { subnet: subnet.name.clone() }),
            Operation::CreateSubnet(CreateSubnet { subnet: Box::new(subnet) }),
        ],
    }
}

#[cfg(test)]
mod tests {
    use ipam_spiderpool::address_set::AddressSet;

    use super::*;

    #[test]
    fn pools_cut_by_hand_are_apart_and_leave_the_subnet_some_addresses() {
        let policy = Policy::hardened();
        for version in IpVersion::ALL {
            for (addresses, most) in [(1, 0), (2, 1), (40, 3), (300, 3)] {
                let subnet = subnet(version, 0, addresses);
                let mut left = AddressSet::of_subnet(&subnet.spec, &policy).0;
                let pools: Vec<PoolPlan> = pools_of(&subnet, 3).collect();
                assert!(pools.len() <= most && (most < 3 || pools.len() == 3), "{addresses}: {pools:?}");
                for pool in &pools {
                    let ips = AddressSet::of_pool(&pool.spec, &policy).0;
                    assert!(left.contains_all(&ips) && !ips.is_empty(), "{addresses}: {pool:?}");
                    left = left.difference(&ips);
                }
                assert!(!left.is_empty());
            }
        }
    }

    #[test]
    fn a_fixed_number_is_enough_for_the_most_pods() {
        let text = |number: IpNumber| number.text(2, 5);
        assert_eq!([IpNumber::AsPods, IpNumber::More, IpNumber::Fixed].map(text), [None, Some("+2".to_owned()), Some("7".to_owned())]);
    }
}
