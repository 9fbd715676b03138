//! Claims about subnets, the pools that are cut from them, and what admission is to keep apart (A S12, S13, L5, L6, §8, §9).
//!
//! Sets of addresses are intervals throughout: what a claim costs does not depend on how many addresses a subnet has.

mod accounted;
mod annotations;
mod applications;
mod auto_pool;
mod gateway;
mod in_use;
mod judged;
mod lifetime;
mod nic;
mod outside;
mod reclaimed;
mod same;
mod sights;
mod twice;
mod unwanted;
mod wishes;
mod within;
mod younger;

pub(in crate::claim) use accounted::SubnetsAreAccountedFor;
pub(in crate::claim) use annotations::AnnotationsStay;
pub(in crate::claim) use applications::ApplicationsGetPools;
pub(in crate::claim) use auto_pool::OneAutoPool;
pub(in crate::claim) use gateway::NoGateway;
pub(in crate::claim) use in_use::PoolsInUseStay;
pub(in crate::claim) use judged::JudgedByChange;
pub(in crate::claim) use lifetime::PoolsGoBeforeSubnets;
pub(in crate::claim) use nic::OneRecord;
pub(in crate::claim) use outside::WithinSubnet;
pub(in crate::claim) use reclaimed::WantedPoolsStay;
pub(in crate::claim) use same::PoolsAreTheirShares;
pub(in crate::claim) use sights::{AgentsScale, BothScale, BothWrite, SubnetSight};
pub(in crate::claim) use twice::SetAsideOnce;
pub(in crate::claim) use unwanted::UnwantedPoolsGo;
pub(in crate::claim) use within::PoolsWithinShares;
pub(in crate::claim) use younger::OlderPoolServes;

use ipam_spiderpool::names;
use ipam_spiderpool::ranges::IpSet;
use ipam_spiderpool::select::is_auto_pool;

use super::view::{Subnet, View, label};

/// The subnet that an auto pool was cut from, if both are there.
fn subnet_of<'a>(view: &'a View, pool: &str) -> Option<&'a Subnet> {
    let object = &view.pools.get(pool)?.object;
    view.subnets.get(label(object, names::LABEL_OWNER_SUBNET).filter(|_| is_auto_pool(object))?)
}

/// Whether a person changed a pool's ranges, or what is set aside for it: then what follows is not held against anybody.
fn by_hand(view: &View, pool: &str) -> bool {
    view.changes.touched_ranges(pool) || view.subnets.touched(pool)
}

/// The first addresses of a set, to be told.
fn first(set: &IpSet) -> String {
    let texts = set.texts();
    let more = if texts.len() > 3 { ", …" } else { "" };
    format!("{}{more}", texts[..texts.len().min(3)].join(", "))
}
