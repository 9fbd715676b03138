//! Problems of the objects that a decision looked at: pools and subnets that were named, and reservations.
//!
//! Objects are taken as they are stored. Admission might refuse some of them today; warnings say so by the rules of the webhooks, as if
//! each object were created last.

use std::collections::BTreeSet;
use std::sync::Arc;

use ipam_spiderpool::ranges::{RangeError, bad_entries};
use ipam_spiderpool::select::{Cluster, Selection, Tier, annotation};
use ipam_spiderpool::{IPPoolSpec, ReservedIPSpec, SpiderIPPool};
use sim_harness::webhook::Broken;

use super::{Question, name_of};
use crate::input::admission::{Admission, settings_of};
use crate::input::stored::no_address;

/// The webhooks of the cluster.
pub(super) fn admission(question: &Question) -> Admission<'_> {
    let mut admission = Admission::new(settings_of(&question.settings), &question.policy);
    question.objects.subnets.iter().for_each(|subnet| admission.add_subnet(Arc::clone(subnet)));
    question.objects.pools.iter().for_each(|pool| admission.add_pool(Arc::clone(pool)));
    admission
}

/// A sentence for each problem of pools, subnets and reservations, in this order.
pub(super) fn warnings(question: &Question, selection: &Selection) -> Vec<String> {
    let (mut warnings, policy) = (Vec::new(), &question.policy);
    let families = selection.nics.iter().flat_map(|nic| &nic.families);
    let named: BTreeSet<&str> = families.flat_map(|family| &family.candidates).map(|candidate| candidate.name()).collect();
    let admission = admission(question);
    for pool in named.into_iter().filter_map(|name| question.objects.pool(name)) {
        let name = name_of(&pool);
        let broken = admission.judge_stored_pool(&pool);
        told(question, ("SpiderIPPool", name), broken, &bad_entries(&pool.spec, policy), &mut warnings);
        warnings.extend(of_records(question, &pool));
    }
    for subnet in asked_for(question, selection).into_iter().filter_map(|name| question.objects.subnet(&name)) {
        let name = subnet.metadata.name.as_deref().unwrap_or_default();
        let broken = admission.judge_stored_subnet(&subnet);
        told(question, ("SpiderSubnet", name), broken, &[], &mut warnings);
    }
    for reserved in question.objects.reserved_ips.iter() {
        let ReservedIPSpec { ip_version, ips } = reserved.spec.clone();
        let entries = IPPoolSpec { ip_version, ips, ..IPPoolSpec::default() };
        let name = reserved.metadata.name.as_deref().unwrap_or_default();
        told(question, ("SpiderReservedIP", name), admission.judge_reserved(reserved), &bad_entries(&entries, policy), &mut warnings);
    }
    warnings
}

/// The problems of the records of a pool.
fn of_records(question: &Question, pool: &SpiderIPPool) -> Vec<String> {
    const FIELD: &str = "status.allocatedIPs";
    let Some(status) = &pool.status else { return Vec::new() };
    let name = name_of(pool);
    let place = place(question, ("SpiderIPPool", name), FIELD);
    let told = |what: String| format!("{place}SpiderIPPool {name}: {FIELD}: {what}");
    match status.allocated_ips.parse() {
        Ok(records) => records.others().map(|(key, _)| told(no_address(key))).collect(),
        Err(error) => vec![told(error.to_string())],
    }
}

/// The place where a field of an object was written, as the beginning of a sentence; empty if it is not known.
fn place(question: &Question, (kind, name): (&str, &str), field: &str) -> String {
    let written = question.written.iter().rev().find(|manifest| manifest.kind == kind && manifest.name == name);
    written.map_or_else(String::new, |manifest| format!("{}:{}: ", manifest.file(), manifest.locate(field)))
}

/// The subnets for which the pod asks.
fn asked_for(question: &Question, selection: &Selection) -> BTreeSet<String> {
    if selection.tier != Tier::Subnet {
        return BTreeSet::new();
    }
    let wish = annotation::subnet(&question.pod).ok().flatten();
    wish.into_iter().flat_map(|wish| wish.items).flat_map(|item| [item.ipv4, item.ipv6]).flatten().collect()
}

/// Adds admission's verdict on an object, and those of its entries that selection cannot read either.
fn told(question: &Question, (kind, name): (&str, &str), broken: Vec<Broken>, bad: &[(String, RangeError)], warnings: &mut Vec<String>) {
    let place = |field: &str| place(question, (kind, name), field);
    let known: Vec<Broken> = broken.into_iter().filter(|broken| !broken.unknown).collect();
    let besides = bad.iter().filter(|(field, _)| known.iter().all(|broken| broken.field != *field));
    warnings.extend(besides.map(|(field, error)| format!("{}{kind} {name}: {field}: {error}", place(field))));
    warnings.extend(
        known.iter().map(|Broken { field, message, .. }| format!("{}{kind} {name} would be refused: {field}: {message}", place(field))),
    );
}
