//! The result of the ADD, filled into the answers that selection gave for each NIC and family.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipam_reports::explain::{FamilyAnswer, NicAnswer, Refusal, Reuse, RouteAnswer, RouteSource};
use ipam_reports::reference;
use ipam_spiderpool::ipam::{Failure, Failures, IpamError, PoolError};
use ipam_spiderpool::select::{Cluster, Selection, is_nameless};
use ipam_spiderpool::{IPAllocationDetail, PoolIPAllocation};

use super::agent::{Ended, Given};
use super::{Question, add, refused};

/// The reason why the ADD fails, and the endpoint that it uses again.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) error: Option<Refusal>,
    pub(super) allocate_error: Option<Refusal>,
    pub(super) reuse: Option<Reuse>,
}

/// Fills in the agent's answer; a NIC and family for which it gives nothing has no address.
pub(super) fn settle(
    question: &Question,
    selection: &Selection,
    ended: &Ended,
    nics: &mut Vec<NicAnswer>,
    remarks: &mut Vec<String>,
) -> Outcome {
    let nameless = is_nameless(&question.pod);
    let given = ended.given(nameless, question.policy.answer_not_as_stored);
    for nic in nics.iter_mut() {
        for family in &mut nic.families {
            if !given.iter().any(|given| given.nic == nic.nic && given.ip_version == family.ip_version) {
                withdraw(family);
            }
        }
    }
    let mut outcome = Outcome::default();
    match &ended.result {
        Err(IpamError::Select(error)) => outcome.error = Some(refused::refusal(question, selection, error)),
        Err(error) => {
            let message = match error {
                IpamError::NotAllocated(failures) => exhausted(nics, failures),
                error => error.to_string(),
            };
            outcome.allocate_error = Some(Refusal { class: error.class().to_owned(), message, place: None });
            outcome.error.clone_from(&outcome.allocate_error);
        }
        Ok(_) if given.is_empty() => {
            let see = reference::see("A §2.5");
            let message = format!("the agent answers without any address, so the plugin fails and the pod does not start; {see}");
            outcome.error = Some(Refusal { class: "no-address".to_owned(), message, place: None });
        }
        Ok(_) => {
            for given in &given {
                fill(question, ended, given, nics, remarks);
            }
            outcome.reuse = reuse(question, ended, &given);
            taken_away(question, ended, remarks);
        }
    }
    outcome
}

/// Clears the expected address of a NIC and family for which the agent gives nothing.
fn withdraw(family: &mut FamilyAnswer) {
    (family.address, family.pool, family.gateway) = (None, None, None);
    family.recorded = false;
    family.routes.clear();
}

/// Fills in one address of the answer; adds its NIC or family if selection has not named it.
fn fill(question: &Question, ended: &Ended, given: &Given, nics: &mut Vec<NicAnswer>, remarks: &mut Vec<String>) {
    let at = nics.iter().position(|nic| nic.nic == given.nic).unwrap_or_else(|| {
        nics.push(NicAnswer { nic: given.nic.clone(), clean_gateway: false, families: Vec::new() });
        nics.len() - 1
    });
    let NicAnswer { clean_gateway, families, .. } = &mut nics[at];
    let place = families.iter().position(|family| family.ip_version == given.ip_version).unwrap_or_else(|| {
        families.push(add::no_answer(given.ip_version));
        families.len() - 1
    });
    let family = &mut families[place];
    let uid = question.pod.metadata.uid.as_deref().unwrap_or_default();
    let is_own = |holder: &str| holder == uid;
    if !given.ip().and_then(|ip| ended.holder(&given.pool, ip)).is_some_and(is_own) {
        remarks.push(format!(
            "{} is answered although {} holds no record of it for this pod, so that it may be given away again",
            given.address, given.pool
        ));
    }
    let recorded = given.ip().and_then(|ip| record(question, &given.pool, ip)).is_some_and(|record| record.pod_uid == uid);
    if let Some(entry) = &given.kept {
        *clean_gateway = entry.clean_gateway == Some(true);
        family.reused = true;
        family.address = Some(given.address.clone());
        family.pool = Some(given.pool.clone());
        family.recorded = recorded;
        family.possible = vec![given.address.clone()];
        let gateway = if given.ip_version == 4 { &entry.ipv4_gateway } else { &entry.ipv6_gateway };
        family.gateway.clone_from(gateway);
        family.routes = routes_of(entry, given.ip_version);
    } else if family.address.as_ref() != Some(&given.address) || family.pool.as_ref() != Some(&given.pool) {
        // A pool that is known to hold a record of the NIC is tried before the others.
        family.possible = vec![given.address.clone()];
        if let Some(pool) = question.objects.pool(&given.pool) {
            add::tell(family, &pool, given.address.clone(), recorded, *clean_gateway);
        }
    }
}

/// The record of an address on the untouched cluster.
fn record(question: &Question, pool: &str, ip: IpAddr) -> Option<PoolIPAllocation> {
    question.objects.pool(pool)?.status.as_ref()?.allocated_ips.parse().ok()?.get(ip).cloned()
}

/// The routes of an entry that belong to its address of a family.
fn routes_of(entry: &IPAllocationDetail, ip_version: u8) -> Vec<RouteAnswer> {
    let (everything, gateway) = if ip_version == 4 { ("0.0.0.0/0", &entry.ipv4_gateway) } else { ("::/0", &entry.ipv6_gateway) };
    let default = gateway.iter().filter(|_| entry.clean_gateway != Some(true));
    let default = default.map(|gw| RouteAnswer { dst: everything.to_owned(), gw: gw.clone(), from: RouteSource::Gateway });
    let is_of_family = |gw: &str| gw.parse().is_ok_and(|gw: IpAddr| gw.is_ipv4() == (ip_version == 4));
    let others = entry.routes.iter().flatten().filter(|route| is_of_family(&route.gw));
    let others = others.map(|route| RouteAnswer { dst: route.dst.clone(), gw: route.gw.clone(), from: RouteSource::Endpoint });
    default.chain(others).collect()
}

/// The endpoint whose addresses are used again.
fn reuse(question: &Question, ended: &Ended, given: &[Given]) -> Option<Reuse> {
    let before = ended.before.as_deref().filter(|_| given.iter().any(|given| given.kept.is_some()))?;
    let meta = &before.metadata;
    let uid = before.status.as_ref().map(|status| status.current.uid.clone()).unwrap_or_default();
    Some(Reuse {
        endpoint: format!("{}/{}", meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default()),
        own: question.pod.metadata.uid.as_ref() == Some(&uid),
        uid,
    })
}

/// Adds remarks about the records that the ADD takes away.
fn taken_away(question: &Question, ended: &Ended, remarks: &mut Vec<String>) {
    let gone: BTreeSet<_> = ended.taken_away.iter().filter(|(pool, ip)| ended.holder(pool, *ip).is_none()).collect();
    for (pool, ip) in gone {
        if record(question, pool, *ip).is_some() {
            remarks.push(format!("the ADD takes the record of {ip} out of {pool}"));
        }
    }
}

/// A message that names the pools that were tried, and why each gave nothing.
fn exhausted(nics: &[NicAnswer], Failures(failures): &Failures) -> String {
    let of_failure = |Failure { nic, family, pools }: &Failure| {
        let version = u8::try_from(family.number()).unwrap_or_default();
        let mut of_family = nics.iter().filter(|answer| answer.nic == *nic).flat_map(|answer| &answer.families);
        let answer = of_family.find(|answer| answer.ip_version == version);
        let tried = pools.iter().map(|(pool, error)| {
            let supply = answer.and_then(|answer| answer.supplies.iter().find(|supply| supply.pool == *pool));
            let why = match (supply, error) {
                (Some(supply), _) if !supply.detail.is_empty() => supply.detail.clone(),
                (Some(_), PoolError::Unavailable(error)) => format!("{error}: NICs before this one take what is left"),
                _ => error.to_string(),
            };
            format!("{pool} ({why})")
        });
        let tried: Vec<String> = tried.collect();
        format!("failed to allocate any {family} IP address to NIC {nic} from IPPools: {}", tried.join(", "))
    };
    failures.iter().map(of_failure).collect::<Vec<_>>().join("; ")
}
