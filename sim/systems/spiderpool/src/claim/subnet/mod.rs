//! Claims about subnets, the pools that are cut from them, and the constraints that admission enforces (A S12, S13, L5, L6, §8, §9).
//!
//! Sets of addresses are intervals throughout, so the cost of a claim does not depend on the number of addresses in a subnet.

mod admission_follows_the_rules;
mod annotations_of_others_stay;
mod auto_pools_are_what_is_set_aside;
mod auto_pools_stay_within_what_is_set_aside;
mod coverage;
mod gateways_are_not_given;
mod new_pools_have_passed_admission;
mod nics_have_one_record_of_a_family;
mod no_address_is_served_from_the_younger_pool;
mod no_address_is_set_aside_twice;
mod owners_of_others_stay;
mod pools_in_use_are_not_deleted;
mod pools_that_nobody_asks_for_disappear;
mod subnet_addresses_are_accounted_for;
mod subnets_outlive_their_pools;
mod updates_are_judged_by_what_they_change;
mod wanted_pools_are_not_reclaimed;
mod what_is_set_aside_is_of_the_subnet;
mod wishes;
mod workloads_get_the_pools_they_ask_for;
mod workloads_have_one_pool_for_a_nic;

use ipam_spiderpool::owner_label;
use ipam_spiderpool::ranges::IpSet;
use ipam_spiderpool::select::is_auto_pool;

use super::view::{Subnet, View};

pub(crate) use admission_follows_the_rules::AdmissionFollowsTheRules;
pub(crate) use annotations_of_others_stay::AnnotationsOfOthersStay;
pub(crate) use auto_pools_are_what_is_set_aside::AutoPoolsAreWhatIsSetAside;
pub(crate) use auto_pools_stay_within_what_is_set_aside::AutoPoolsStayWithinWhatIsSetAside;
pub(crate) use coverage::{AgentsAndTheControllerScaleOnOneSubnet, AgentsAndTheControllerWriteOnePool, AgentsScaleOnePool, SubnetCoverage};
pub(crate) use gateways_are_not_given::GatewaysAreNotGiven;
pub(crate) use new_pools_have_passed_admission::NewPoolsHavePassedAdmission;
pub(crate) use nics_have_one_record_of_a_family::NicsHaveOneRecordOfAFamily;
pub(crate) use no_address_is_served_from_the_younger_pool::NoAddressIsServedFromTheYoungerPool;
pub(crate) use no_address_is_set_aside_twice::NoAddressIsSetAsideTwice;
pub(crate) use owners_of_others_stay::OwnersOfOthersStay;
pub(crate) use pools_in_use_are_not_deleted::PoolsInUseAreNotDeleted;
pub(crate) use pools_that_nobody_asks_for_disappear::PoolsThatNobodyAsksForDisappear;
pub(crate) use subnet_addresses_are_accounted_for::SubnetAddressesAreAccountedFor;
pub(crate) use subnets_outlive_their_pools::SubnetsOutliveTheirPools;
pub(crate) use updates_are_judged_by_what_they_change::UpdatesAreJudgedByWhatTheyChange;
pub(crate) use wanted_pools_are_not_reclaimed::WantedPoolsAreNotReclaimed;
pub(crate) use what_is_set_aside_is_of_the_subnet::WhatIsSetAsideIsOfTheSubnet;
pub(crate) use workloads_get_the_pools_they_ask_for::WorkloadsGetThePoolsTheyAskFor;
pub(crate) use workloads_have_one_pool_for_a_nic::WorkloadsHaveOnePoolForANic;

/// The subnet that an auto pool was cut from, if both exist.
fn subnet_of<'a>(view: &'a View, pool: &str) -> Option<&'a Subnet> {
    let object = &view.pools.get(pool)?.object;
    view.subnets.get(owner_label::subnet_of(object).filter(|_| is_auto_pool(object))?)
}

/// Whether a pool's ranges, or the addresses set aside for it, were changed by hand, so that violations are excused.
fn by_hand(view: &View, pool: &str) -> bool {
    view.changes.touched_ranges(pool) || view.subnets.touched(pool)
}

/// The first addresses of a set, for messages.
fn first(set: &IpSet) -> String {
    let texts = set.texts();
    let more = if texts.len() > 3 { ", …" } else { "" };
    format!("{}{more}", texts[..texts.len().min(3)].join(", "))
}
