//! The parts of a subnet, as one pool sees them.

use super::application::Application;
use super::want::Refusal;
use crate::ranges::{IpRange, IpSet, parse_range, total_ips};
use crate::{Policy, SpiderIPPool};
use crate::{PoolIPPreAllocation, SpiderSubnet};

/// The annotation of a subnet that holds the version of it at which an existing pre-allocation was about to be used.
const HELD: &str = "ipam.spidernet.io/held-at";

/// The parts of a subnet.
#[derive(Clone, Debug)]
pub(super) struct Shares {
    /// All addresses of the subnet.
    pub total: IpSet,
    /// The addresses pre-allocated for this pool; `None` = the subnet does not mention it.
    pub own: Option<IpSet>,
    /// The addresses pre-allocated for other pools.
    pub others: IpSet,
    /// The sum of the sizes of these pre-allocations: more than they hold if two share an address.
    others_count: u128,
}

/// The addresses of a list of ranges.
///
/// # Errors
/// One of the ranges cannot be read.
pub(super) fn set_of(texts: &[String], version: i64, policy: &Policy) -> Result<IpSet, Refusal> {
    let read = |text: &String| parse_range(text, version, policy);
    texts.iter().map(read).collect::<Result<IpSet, _>>().map_err(|error| Refusal::Unreadable(error.to_string()))
}

/// The addresses in `spec.ips` of a pool. Addresses that a user excludes in an auto pool count, too, as they do for upstream.
///
/// # Errors
/// One of the ranges cannot be read.
pub(super) fn listed(pool: &SpiderIPPool, version: i64, policy: &Policy) -> Result<IpSet, Refusal> {
    set_of(pool.spec.ips.as_deref().unwrap_or_default(), version, policy)
}

/// The addresses that are recorded in a pool.
///
/// # Errors
/// The records cannot be read.
pub(super) fn recorded(pool: &SpiderIPPool) -> Result<IpSet, Refusal> {
    let Some(status) = &pool.status else { return Ok(IpSet::default()) };
    let records = status.allocated_ips.parse().map_err(|error| Refusal::Unreadable(error.to_string()))?;
    Ok(records.iter().filter_map(|(key, _)| key.address().or_else(|| key.to_string().parse().ok())).collect())
}

/// The subnet with a mark that this version of it does not have: writing it unchanged would be no write (K075).
pub(super) fn held(subnet: &SpiderSubnet) -> Box<SpiderSubnet> {
    let mut subnet = Box::new(subnet.clone());
    let version = subnet.metadata.resource_version.clone().unwrap_or_default();
    subnet.metadata.annotations.get_or_insert_default().insert(HELD.to_owned(), version);
    subnet
}

/// The version at which the subnet was held last.
pub(super) fn held_at(subnet: &SpiderSubnet) -> Option<&str> {
    subnet.metadata.annotations.as_ref()?.get(HELD).map(String::as_str)
}

impl Shares {
    /// Reads a subnet for the pool `name` of `application`.
    ///
    /// # Errors
    /// [`Refusal::Unreadable`]: an unreadable address may be anybody's. [`Refusal::NameTaken`].
    pub(super) fn read(subnet: &SpiderSubnet, name: &str, application: &Application, policy: &Policy) -> Result<Self, Refusal> {
        let unreadable = |error: &dyn std::fmt::Display| Refusal::Unreadable(error.to_string());
        let version = subnet.spec.ip_version.unwrap_or_default();
        let (ips, exclude) = (subnet.spec.ips.as_deref(), subnet.spec.exclude_ips.as_deref());
        let total = total_ips(ips.unwrap_or_default(), exclude.unwrap_or_default(), version, policy).map_err(|error| unreadable(&error))?;
        let mut shares = Self { total: total.into_iter().collect(), own: None, others: IpSet::default(), others_count: 0 };
        let Some(status) = &subnet.status else { return Ok(shares) };
        let mut others: Vec<IpRange> = Vec::new();
        for (other, entry) in status.controlled_ippools.parse().map_err(|error| unreadable(&error))?.iter() {
            if other == name {
                if !policy.preallocation_by_name_only && entry.application.as_ref().is_some_and(|key| *key != application.name.key()) {
                    return Err(Refusal::NameTaken(name.to_owned()));
                }
                shares.own = Some(set_of(&entry.ips, version, policy)?);
                continue;
            }
            for text in &entry.ips {
                let range = parse_range(text, version, policy).map_err(|error| unreadable(&error))?;
                shares.others_count = shares.others_count.saturating_add(range.count());
                others.push(range);
            }
        }
        shares.others = others.into_iter().collect();
        Ok(shares)
    }

    /// The addresses that are pre-allocated for nobody.
    pub(super) fn free(&self) -> IpSet {
        let free = self.total.difference(&self.others);
        self.own.as_ref().map_or(free.clone(), |own| free.difference(own))
    }

    /// The subnet with `ips` pre-allocated for the pool `name`.
    pub(super) fn set_aside(&self, subnet: &SpiderSubnet, name: &str, application: &Application, ips: &IpSet) -> Box<SpiderSubnet> {
        let mut subnet = Box::new(subnet.clone());
        let status = subnet.status.get_or_insert_default();
        let entry = PoolIPPreAllocation { ips: ips.texts(), application: Some(application.name.key()) };
        status.controlled_ippools.make_mut().expect("the entries were read").insert(name.to_owned(), entry);
        let count = self.others_count.saturating_add(ips.count());
        status.allocated_ip_count = Some(i64::try_from(count).unwrap_or(i64::MAX));
        subnet
    }

    /// The subnet without a pre-allocation for the pool `name`.
    pub(super) fn give_back(&self, subnet: &SpiderSubnet, name: &str) -> Box<SpiderSubnet> {
        let mut subnet = Box::new(subnet.clone());
        let status = subnet.status.get_or_insert_default();
        status.controlled_ippools.make_mut().expect("the entries were read").remove(&name.to_owned());
        status.allocated_ip_count = Some(i64::try_from(self.others_count).unwrap_or(i64::MAX));
        subnet
    }
}
