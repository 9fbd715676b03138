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

use ipam_spiderpool::names;
use ipam_spiderpool::ranges::IpSet;
use ipam_spiderpool::select::is_auto_pool;

use super::view::{Subnet, View, label};

pub(crate) use accounted::SubnetsAreAccountedFor;
pub(crate) use annotations::AnnotationsStay;
pub(crate) use applications::ApplicationsGetPools;
pub(crate) use auto_pool::OneAutoPool;
pub(crate) use gateway::NoGateway;
pub(crate) use in_use::PoolsInUseStay;
pub(crate) use judged::JudgedByChange;
pub(crate) use lifetime::PoolsGoBeforeSubnets;
pub(crate) use nic::OneRecord;
pub(crate) use outside::WithinSubnet;
pub(crate) use reclaimed::WantedPoolsStay;
pub(crate) use same::PoolsAreTheirShares;
pub(crate) use sights::{AgentsScale, BothScale, BothWrite, SubnetSight};
pub(crate) use twice::SetAsideOnce;
pub(crate) use unwanted::UnwantedPoolsGo;
pub(crate) use within::PoolsWithinShares;
pub(crate) use younger::OlderPoolServes;

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
