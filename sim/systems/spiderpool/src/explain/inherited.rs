//! The endpoint that already has the name of the pod: its content, and why the ADD uses it again or not (A §5.3, §6.2, §6.3).
//!
//! The agent decided; for an address that it did not use, the remark states what the reference holds against it.

use std::net::IpAddr;

use ipam_reports::reference;
use ipam_spiderpool::ranges::{IpVersion, PoolAddresses};
use ipam_spiderpool::select::{Cluster, Selection, TopController, is_nameless, reserved};
use ipam_spiderpool::{Keeper, SpiderEndpoint};

use super::Question;
use super::agent::{Ended, addresses, endpoint_key, entries};

/// A remark about the endpoint, if there is one to make; `fails` = the ADD fails.
pub(super) fn remark(question: &Question, selection: &Selection, ended: &Ended, fails: bool) -> Option<String> {
    let endpoint = ended.before.as_deref()?;
    let all = entries(Some(endpoint)).iter().enumerate();
    let all: Vec<(usize, &str, u8, &str, &str)> = all
        .flat_map(|(place, entry)| addresses(entry).map(move |(version, address, pool)| (place, &*entry.interface, version, address, pool)))
        .collect();
    let given = ended.given(is_nameless(&question.pod), question.policy.answer_not_as_stored);
    let is_unused = |address: &str| !given.iter().any(|given| given.kept.is_some() && given.address == address);
    let unused: Vec<_> =
        all.iter().filter(|(_, nic, _, address, _)| is_unused(address) && !is_of_other_nic(question, endpoint, nic)).collect();
    let uid = uid_of(endpoint);
    let own = question.pod.metadata.uid.as_deref() == Some(uid);
    if unused.is_empty() && !all.is_empty() {
        return None;
    }
    let whose = if own { "this pod".to_owned() } else { format!("an earlier pod, UID {uid}") };
    let holds: Vec<String> = all.iter().map(|(_, nic, _, address, _)| format!("{nic} {address}").trim().to_owned()).collect();
    let holds = if holds.is_empty() { "no address".to_owned() } else { holds.join(", ") };
    let mut text = format!("there is a SpiderEndpoint {} of {whose}, with {holds}", endpoint_key(question));
    if fails {
        return Some(text);
    }
    if let Some(why) = as_a_whole(question, endpoint, own) {
        return Some(format!("{text}; nothing of it is used again: {why}"));
    }
    for (place, nic, version, address, pool) in unused {
        let nic = if is_nameless(&question.pod) { place.to_string() } else { (*nic).to_owned() };
        let why = why_not(question, selection, endpoint, (&nic, *version), address, pool);
        text += &format!("; {address} is not used again: {why}");
    }
    Some(text)
}

fn uid_of(endpoint: &SpiderEndpoint) -> &str {
    endpoint.status.as_ref().map_or("", |status| &status.current.uid)
}

/// Whether an address is left to the ADD of another NIC, which is not part of the question.
fn is_of_other_nic(question: &Question, endpoint: &SpiderEndpoint, nic: &str) -> bool {
    let own = question.pod.metadata.uid.as_deref() == Some(uid_of(endpoint));
    own && !nic.is_empty() && nic != question.nic
}

/// The reason why nothing of an endpoint can be used (A §6.2, D §1.2).
fn as_a_whole(question: &Question, endpoint: &SpiderEndpoint, own: bool) -> Option<String> {
    let Question { policy, agent, .. } = question;
    if own {
        return None;
    }
    let controller = TopController::of(&question.objects, &question.pod).ok()?;
    if agent.keeper(&controller) == Keeper::Nobody && !policy.adopt_stale_endpoint {
        return Some("the addresses of a stateless pod go with it, and its records are left to reclaim".to_owned());
    }
    let meta = &endpoint.metadata;
    if meta.deletion_timestamp.is_some() && !policy.terminating_endpoint_reused && !policy.adopt_stale_endpoint {
        return Some("it is being deleted".to_owned());
    }
    if policy.reown_foreign_endpoint {
        return None;
    }
    let status = endpoint.status.as_ref();
    let (kind, name) = status.map_or(("", ""), |status| (&*status.owner_controller_type, &*status.owner_controller_name));
    if (kind, name) != (&*controller.kind, &*controller.name) {
        return Some(format!("its owner is {kind} {name}, the pod's is {} {}", controller.kind, controller.name));
    }
    if meta.owner_references.iter().flatten().any(|owner| owner.kind == "Pod") {
        return Some("it goes with its pod (ownerReferences)".to_owned());
    }
    let has_finalizer = meta.finalizers.iter().flatten().any(|finalizer| finalizer == ipam_spiderpool::names::FINALIZER);
    (!has_finalizer).then(|| "it has lost its finalizer, with which its records went".to_owned())
}

/// The reason why an address is not used again.
fn why_not(
    question: &Question,
    selection: &Selection,
    endpoint: &SpiderEndpoint,
    (nic, version): (&str, u8),
    address: &str,
    pool_name: &str,
) -> String {
    let Question { objects, policy, .. } = question;
    let family = if version == 4 { IpVersion::V4 } else { IpVersion::V6 };
    let Some(pool) = objects.pool(pool_name) else { return format!("there is no SpiderIPPool {pool_name}") };
    let of_nic = selection.nics.iter().filter(|selected| selected.nic == nic).flat_map(|selected| &selected.families);
    let mut of_family = of_nic.filter(|selected| selected.family == family);
    if let Some(selected) = of_family.next() {
        let Some(candidate) = selected.candidates.iter().find(|candidate| candidate.name() == pool_name) else {
            return format!("tier {} does not name {pool_name}", selection.tier.name());
        };
        if let Some(reason) = candidate.rejected.filter(|reason| !["exhausted", "excluded", "reserved"].contains(&reason.code())) {
            return format!("{pool_name} is rejected ({})", reason.code());
        }
    }
    if policy.nameless_nic_always_changed && is_nameless(&question.pod) {
        return format!("addresses of NICs without names are always given up; {}", reference::see("A §6.3"));
    }
    let ip: Option<IpAddr> = address.split('/').next().and_then(|ip| ip.parse().ok());
    let Some(ip) = ip else { return "it is no address".to_owned() };
    let avoided = endpoint.metadata.annotations.as_ref().and_then(|annotations| annotations.get("ipam.spidernet.io/conflicting-ips"));
    if avoided.is_some_and(|text| text.split(',').any(|avoided| avoided.parse() == Ok(ip))) {
        return "another host answered on it".to_owned();
    }
    let reserved = reserved(objects, family, policy).unwrap_or_default();
    if PoolAddresses::of(&pool.spec, &reserved, policy).is_ok_and(|addresses| !addresses.is_usable(ip)) {
        return format!("{pool_name} may not give it away (ips, excludeIPs, reservations)");
    }
    let records = pool.status.as_ref().and_then(|status| status.allocated_ips.parse().ok());
    match records.and_then(|records| records.get(ip)) {
        Some(record) => format!("{pool_name} holds a record of it for {}, UID {}", record.pod, record.pod_uid),
        None => format!("{pool_name} holds no record of it"),
    }
}
