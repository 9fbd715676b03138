//! The upkeep of a subnet besides new pools: its label, its pools, its status, its end (A §8.1, §8.7).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::application::{Application, ApplicationName};
use super::kinds::Kind;
use super::pool::{fenced, is_for, label, owner};
use super::reclaim::Fate;
use super::shares::set_of;
use super::want::Want;
use crate::address_set::AddressSet;
use crate::finalizer;
use crate::owner_label::{application_name_of, application_version_of, label_for};
use crate::ranges::{IpSet, cidr_label};
use crate::select::is_auto_pool;
use crate::{Policy, SpiderIPPool, names};
use crate::{PoolIPPreAllocation, PoolIPPreAllocations, SpiderSubnet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

/// The facts about a subnet that upkeep decides on.
#[derive(Clone, Copy)]
pub struct Census<'a> {
    /// The subnet, as the controller knows it.
    pub subnet: &'a SpiderSubnet,
    /// The pools of the same CIDR, in the order of their names.
    pub pools: &'a [Arc<SpiderIPPool>],
    /// The fate of a workload.
    pub fate: &'a dyn Fn(&ApplicationName) -> Fate,
    /// Whether a pool, given by its name, has lacked part of this pre-allocation for so long that nobody is about to put it there any more
    /// (A W21).
    pub is_left: &'a dyn Fn(&str, &PoolIPPreAllocation) -> bool,
}

/// A write. A replaced object carries the resourceVersion of the copy that was decided on.
#[derive(Clone, Debug, PartialEq)]
pub enum Upkeep {
    /// The metadata of the subnet: its label.
    Label(Box<SpiderSubnet>),
    /// The metadata of a pool that has the CIDR and no owner: the subnet becomes its owner.
    Adopt(Box<SpiderIPPool>),
    /// The metadata of a pool, before the unused part of its pre-allocation is given back: a writer that is about to put it there has read
    /// an older version, and is refused from now on.
    Fence(Box<SpiderIPPool>),
    /// The status of the subnet.
    Status(Box<SpiderSubnet>),
    /// Delete this pool: the subnet is being deleted with all its pools.
    TakeDown(Arc<SpiderIPPool>),
    /// The subnet without Spiderpool's finalizer, so that it is removed.
    Release(Box<SpiderSubnet>),
}

fn name_of(pool: &SpiderIPPool) -> &str {
    pool.metadata.name.as_deref().unwrap_or_default()
}

/// Whether the subnet controls the pool.
fn is_own(pool: &SpiderIPPool, subnet: &SpiderSubnet) -> bool {
    let mut owners = pool.metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.controller == Some(true) && Some(&owner.uid) == subnet.metadata.uid.as_ref())
}

/// The workload that an auto pool was made for, by its labels.
pub(super) fn application_of(pool: &SpiderIPPool) -> Option<ApplicationName> {
    let text = |key| label(pool, key).map(str::to_owned);
    Some(ApplicationName {
        api_version: application_version_of(pool)?,
        kind: text(names::LABEL_OWNER_APPLICATION_KIND)?,
        namespace: text(names::LABEL_OWNER_APPLICATION_NAMESPACE)?,
        name: application_name_of(pool)?.to_owned(),
    })
}

/// Decides which writes a subnet needs, in order. At most one of them concerns the subnet itself.
pub fn upkeep(census: &Census<'_>, policy: &Policy) -> Vec<Upkeep> {
    let subnet = census.subnet;
    let mut writes = Vec::new();
    let mut own: Vec<&Arc<SpiderIPPool>> = Vec::new();
    for pool in census.pools {
        if is_own(pool, subnet) {
            own.push(pool);
        } else if subnet.metadata.deletion_timestamp.is_none() && pool.metadata.deletion_timestamp.is_none() {
            writes.extend(adopted(pool, subnet, policy).map(Upkeep::Adopt));
        }
    }
    if subnet.metadata.deletion_timestamp.is_some() {
        let standing = own.iter().filter(|pool| pool.metadata.deletion_timestamp.is_none());
        writes.extend(standing.map(|pool| Upkeep::TakeDown(Arc::clone(pool))));
        let named = subnet.status.as_ref().is_some_and(|status| !status.controlled_ippools.is_absent());
        let over = if policy.subnet_finalizer_trusts_status { !named } else { own.is_empty() };
        if over && finalizer::is_on(&subnet.metadata) {
            writes.push(Upkeep::Release(released(subnet)));
            return writes;
        }
    } else if let Some(labelled) = labelled(subnet, policy) {
        writes.push(Upkeep::Label(labelled));
        return writes;
    }
    if let Some(subnet) = status(census, &own, &mut writes, policy) {
        writes.push(Upkeep::Status(subnet));
    }
    writes
}

fn labelled(subnet: &SpiderSubnet, policy: &Policy) -> Option<Box<SpiderSubnet>> {
    let cidr = cidr_label(&subnet.spec.subnet, subnet.spec.ip_version?, policy).ok()?;
    let has = subnet.metadata.labels.as_ref().and_then(|labels| labels.get(names::LABEL_SUBNET_CIDR));
    if has == Some(&cidr) {
        return None;
    }
    let mut subnet = Box::new(subnet.clone());
    subnet.metadata.labels.get_or_insert_default().insert(names::LABEL_SUBNET_CIDR.to_owned(), cidr);
    Some(subnet)
}

/// A pool of the CIDR that nobody controls, with the subnet as its owner.
///
/// Hardened, an earlier subnet of the same name counts as nobody: a webhook whose cache shows it still makes it the owner of pools that
/// users create in the present one. The garbage collector would delete them as soon as they are empty, and they would have no
/// pre-allocation until then.
fn adopted(pool: &SpiderIPPool, subnet: &SpiderSubnet, policy: &Policy) -> Option<Box<SpiderIPPool>> {
    let owner = owner(subnet);
    let is_predecessor =
        |other: &OwnerReference| !policy.lost_preallocation_not_restored && other.kind == owner.kind && other.name == owner.name;
    let controlled = pool.metadata.owner_references.iter().flatten().any(|other| other.controller == Some(true) && !is_predecessor(other));
    if controlled || pool.spec.subnet != subnet.spec.subnet {
        return None;
    }
    let mut pool = Box::new(pool.clone());
    pool.metadata.owner_references.get_or_insert_default().retain(|other| !is_predecessor(other));
    let label = label_for(&owner.name, policy).into_owned();
    pool.metadata.labels.get_or_insert_default().insert(names::LABEL_OWNER_SUBNET.to_owned(), label);
    pool.metadata.owner_references.get_or_insert_default().push(owner);
    Some(pool)
}

fn released(subnet: &SpiderSubnet) -> Box<SpiderSubnet> {
    let mut subnet = Box::new(subnet.clone());
    finalizer::take_off(&mut subnet.metadata);
    subnet
}

/// An entry while the status is being composed.
struct Entry {
    ips: IpSet,
    application: Option<String>,
    /// The entry as already written, if it is unchanged.
    written: Option<PoolIPPreAllocation>,
}

/// The subnet with the status that it should have; `None` if it has that already. Writes that have to precede it go to `first`.
fn status(census: &Census<'_>, own: &[&Arc<SpiderIPPool>], first: &mut Vec<Upkeep>, policy: &Policy) -> Option<Box<SpiderSubnet>> {
    let subnet = census.subnet;
    let version = subnet.spec.ip_version?;
    let none = PoolIPPreAllocations::default();
    let known = match subnet.status.as_ref().map(|status| status.controlled_ippools.parse()) {
        None => &none,
        Some(Ok(known)) => known,
        // Hardened, an unreadable entry is rebuilt from the pools.
        Some(Err(_)) if policy.unreadable_preallocation_dropped => return None,
        Some(Err(_)) => &none,
    };
    let total = AddressSet::of_subnet(&subnet.spec, policy).0;
    let by_name: BTreeMap<&str, &Arc<SpiderIPPool>> = own.iter().map(|pool| (name_of(pool), *pool)).collect();
    let mut entries: BTreeMap<&str, Entry> = BTreeMap::new();
    for (name, entry) in known.iter().filter(|(_, entry)| entry.application.is_some()) {
        let key = entry.application.clone();
        let (application, ips) = (key.as_deref().and_then(ApplicationName::parse), set_of(&entry.ips, version, policy));
        let (Some(application), Ok(ips)) = (application, ips) else { continue };
        let entry = match by_name.get(name.as_str()) {
            Some(pool) => {
                match unused(entry, pool, version, policy).filter(|_| is_given_up(name, entry, pool, &application, census, policy)) {
                    Some(unused) => {
                        // A pool in deletion serves nobody any more, whatever it has.
                        if pool.metadata.deletion_timestamp.is_none() {
                            first.push(Upkeep::Fence(fenced(pool, subnet)));
                        }
                        Entry { ips: ips.difference(&unused), application: key, written: None }
                    }
                    None => Entry { ips, application: key, written: Some(entry.clone()) },
                }
            }
            None if may_be_made(name, entry, &application, own, census, policy) => {
                Entry { ips, application: key, written: Some(entry.clone()) }
            }
            None => continue,
        };
        entries.insert(name, entry);
    }
    add_auto_pools(&mut entries, known, &by_name, version, policy);
    for pool in own.iter().filter(|pool| !is_auto_pool(pool)) {
        let ips = AddressSet::of_pool(&pool.spec, policy).0.intersection(&total);
        if !policy.manual_pool_ignores_preallocation {
            yield_to(&mut entries, &ips, &by_name, policy);
        }
        entries.insert(name_of(pool), Entry { ips, application: None, written: None });
    }
    let count = entries.values().fold(0, |sum: u128, entry| sum.saturating_add(entry.ips.count()));
    let capped = |count: u128| Some(i64::try_from(count).unwrap_or(i64::MAX));
    let mut pools = PoolIPPreAllocations::default();
    for (name, Entry { ips, application, written }) in entries {
        pools.insert(name.to_owned(), written.unwrap_or_else(|| PoolIPPreAllocation { ips: ips.texts(), application }));
    }
    let old = subnet.status.clone().unwrap_or_default();
    let same = old.controlled_ippools.parse() == Ok(&pools);
    let (total, count) = (capped(total.count()), capped(count));
    if same && (old.total_ip_count, old.allocated_ip_count) == (total, count) {
        return None;
    }
    let mut subnet = Box::new(subnet.clone());
    let status = subnet.status.get_or_insert_default();
    if !same {
        status.controlled_ippools = pools.into();
    }
    (status.total_ip_count, status.allocated_ip_count) = (total, count);
    Some(subnet)
}

/// Whether nobody will make a pool as large as the pre-allocation of an interrupted write: its workload is gone, or has not asked for the
/// pool for long. A write that an agent has begun is finished by nobody else.
fn is_given_up(
    name: &str,
    entry: &PoolIPPreAllocation,
    pool: &SpiderIPPool,
    application: &ApplicationName,
    census: &Census<'_>,
    policy: &Policy,
) -> bool {
    let fate = (census.fate)(application);
    let is_unasked = || !policy.removed_annotation_keeps_pool && !fate.asks_for_pool(pool);
    let may_be_left = || Kind::of(application).is_none() || is_unasked();
    fate == Fate::Gone || (may_be_left() && (census.is_left)(name, entry))
}

/// The part of an auto pool's pre-allocation that the pool does not have, if any; hardened, a deleted workload does not keep it.
pub(super) fn unused(entry: &PoolIPPreAllocation, pool: &SpiderIPPool, version: i64, policy: &Policy) -> Option<IpSet> {
    let has = pool.spec.ips.as_deref().unwrap_or_default();
    // The same code writes both, so they are almost always the same texts.
    if policy.refused_pool_keeps_addresses || has == entry.ips {
        return None;
    }
    let unused = set_of(&entry.ips, version, policy).ok()?.difference(&set_of(has, version, policy).ok()?);
    Some(unused).filter(|unused| !unused.is_empty())
}

/// Gives a user's pool the addresses of it that were pre-allocated meanwhile and are in no auto pool yet.
fn yield_to(entries: &mut BTreeMap<&str, Entry>, ips: &IpSet, by_name: &BTreeMap<&str, &Arc<SpiderIPPool>>, policy: &Policy) {
    for (name, entry) in entries.iter_mut().filter(|(_, entry)| entry.application.is_some()) {
        let shared = entry.ips.intersection(ips);
        if shared.is_empty() {
            continue;
        }
        let has = by_name.get(name).map(|pool| AddressSet::of_pool(&pool.spec, policy).0).unwrap_or_default();
        let kept = entry.ips.difference(&shared.difference(&has));
        if kept != entry.ips {
            (entry.ips, entry.written) = (kept, None);
        }
    }
}

/// Whether a pre-allocation without a pool is for a pool that is about to be made, or may be.
///
/// A pre-allocation that nobody is about to use is given back, but only after a long time: a creation that was sent may be carried out
/// late. If its workload took a leftover pool of the same name in between, it would have two.
fn may_be_made(
    name: &str,
    entry: &PoolIPPreAllocation,
    application: &ApplicationName,
    own: &[&Arc<SpiderIPPool>],
    census: &Census<'_>,
    policy: &Policy,
) -> bool {
    let fate = (census.fate)(application);
    let by_agents = Kind::of(application).is_none();
    let is_left = || (census.is_left)(name, entry);
    if policy.namesake_keeps_preallocation {
        return fate != Fate::Gone && !(by_agents && is_left());
    }
    if census.subnet.metadata.deletion_timestamp.is_some() || !fate.is_of(name) {
        return false;
    }
    let is_made = || fate.asks_for(application, name, policy) && !has_another(name, application, &fate, own, policy);
    // Nor does an agent make a pool that it has given up, or that another agent wants larger than the subnet can provide.
    (!by_agents && is_made()) || !is_left()
}

/// Whether a workload has a pool other than that of this name: one that a workload of the same name had left, and that it has taken over.
fn has_another(name: &str, application: &ApplicationName, fate: &Fate, own: &[&Arc<SpiderIPPool>], policy: &Policy) -> bool {
    let Fate::There { uid, wants: Some(wants) } = fate else { return false };
    let application = Application { name: application.clone(), uid: uid.clone() };
    let mut wants = wants.iter().map(|demand| Want { application: &application, demand });
    let Some(want) = wants.find(|want| want.pool_name(policy) == name) else { return false };
    own.iter().any(|pool| {
        pool.metadata.deletion_timestamp.is_none()
            && name_of(pool) != name
            && label(pool, names::LABEL_OWNER_APPLICATION_UID) == Some(uid)
            && is_for(pool, &want)
    })
}

/// Adds an entry for each auto pool, with all its addresses that no other pool has (hardened).
fn add_auto_pools<'a>(
    entries: &mut BTreeMap<&'a str, Entry>,
    known: &PoolIPPreAllocations,
    by_name: &BTreeMap<&'a str, &'a Arc<SpiderIPPool>>,
    version: i64,
    policy: &Policy,
) {
    let auto = || by_name.iter().filter(|(_, pool)| is_auto_pool(pool));
    // Almost always all of them have one, and the others need not be checked.
    let has_all = |name: &str, pool: &SpiderIPPool| {
        entries.get(name).is_some_and(|entry| entry.ips.contains_all(&AddressSet::of_pool(&pool.spec, policy).0))
    };
    let is_left_out = |name: &str| {
        let is_unreadable = !entries.contains_key(name) && known.get(&name.to_owned()).is_some();
        if is_unreadable { policy.unreadable_preallocation_dropped } else { policy.lost_preallocation_not_restored }
    };
    let lacking: Vec<_> = auto().filter(|(name, pool)| !has_all(name, pool) && !is_left_out(name)).collect();
    for (name, pool) in lacking {
        let others = entries.iter().filter(|(other, _)| *other != name);
        let others: IpSet = others.flat_map(|(_, entry)| entry.ips.ranges()).collect();
        let has = set_of(pool.spec.ips.as_deref().unwrap_or_default(), version, policy).unwrap_or_default();
        let entry = entries.remove(name).map_or_else(IpSet::default, |entry| entry.ips);
        let ips = entry.union(&has.difference(&others));
        let application = application_of(pool).map(|application| application.key());
        entries.insert(name, Entry { ips, application, written: None });
    }
}
