//! The addresses that pools would give: one NIC and family after the other, each on what the ones before it left (A §5.2 A10 and A14,
//! §5.4). The actual result is the [agent's](super::agent) answer.
//!
//! In the hardened form records name their NIC, so that NICs which share a pool get addresses of their own. Upstream a record with the UID
//! of the pod is the answer for any NIC.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ipam_reports::explain::{FamilyAnswer, NicAnswer, PoolSupply, Rejected, RouteAnswer, RouteSource};
use ipam_spiderpool::ipam::{self, PoolError};
use ipam_spiderpool::ranges::{Cidr, IpSet, IpVersion, RangeError};
use ipam_spiderpool::select::{FamilySelection, NextFreeIp, Rank, Selection, Unavailable, reserved, tries};
use ipam_spiderpool::{PoolIPAllocation, Route, SpiderIPPool};

use super::detail::counts;
use super::{Question, name_of};

/// The result of selection for a NIC and family, with the address that each pool would give in the untouched cluster.
pub(super) fn family_answer(
    question: &Question,
    nic: &str,
    family: &FamilySelection,
    withheld: &Withheld,
    rejected: Vec<Rejected>,
) -> FamilyAnswer {
    let reserved = reserved(&question.objects, family.family, &question.policy);
    let supply = |rank: u32, pool: &Arc<SpiderIPPool>| {
        let (name, rules) = (name_of(pool).to_owned(), Rank::of(&pool.spec).rules().map(str::to_owned).collect());
        if let Some(other) = withheld.get(&name) {
            let detail = PoolError::Overlaps { other: other.clone() }.to_string();
            return PoolSupply { pool: name, rank, rules, address: None, recorded: false, unavailable: Some("overlap".to_owned()), detail };
        }
        let drawn = question.request().asker(nic).next_free_ip(pool, &reserved);
        PoolSupply {
            pool: name,
            rank,
            rules,
            address: drawn.as_ref().ok().map(NextFreeIp::to_string),
            recorded: drawn.as_ref().is_ok_and(|supply| supply.recorded),
            unavailable: drawn.as_ref().err().map(|error| error.code().to_owned()),
            detail: match drawn {
                Ok(_) => String::new(),
                Err(error @ Unavailable::UsedOut(_)) => format!("{error}: {}", counts(question, family.family, pool)),
                Err(error) => error.to_string(),
            },
        }
    };
    let ranks = (1..).zip(&family.order);
    let supplies: Vec<PoolSupply> =
        ranks.flat_map(|(rank, pools)| pools.iter().map(move |pool| (rank, pool))).map(|(r, p)| supply(r, p)).collect();
    let version = if family.family == IpVersion::V4 { 4 } else { 6 };
    FamilyAnswer {
        candidates: family.candidates.iter().map(|candidate| candidate.name().to_owned()).collect(),
        rejected,
        order: family.order.iter().map(|rank| rank.iter().map(|pool| name_of(pool).to_owned()).collect()).collect(),
        supplies,
        ..no_answer(version)
    }
}

/// The answer for a family of which selection says nothing.
pub(super) fn no_answer(ip_version: u8) -> FamilyAnswer {
    FamilyAnswer {
        ip_version,
        candidates: Vec::new(),
        rejected: Vec::new(),
        order: Vec::new(),
        supplies: Vec::new(),
        possible: Vec::new(),
        address: None,
        pool: None,
        recorded: false,
        reused: false,
        gateway: None,
        routes: Vec::new(),
    }
}

/// Fills in an address with its gateway and the routes of its pool.
pub(super) fn tell(answer: &mut FamilyAnswer, pool: &SpiderIPPool, address: String, recorded: bool, clean_gateway: bool) {
    answer.address = Some(address);
    answer.pool = Some(name_of(pool).to_owned());
    answer.recorded = recorded;
    answer.gateway.clone_from(&pool.spec.gateway);
    let everything = if answer.ip_version == 4 { "0.0.0.0/0" } else { "::/0" };
    let default = pool.spec.gateway.iter().filter(|_| !clean_gateway);
    let default = default.map(|gw| RouteAnswer { dst: everything.to_owned(), gw: gw.clone(), from: RouteSource::Gateway });
    let of_pool = |route: &Route| RouteAnswer { dst: route.dst.clone(), gw: route.gw.clone(), from: RouteSource::Pool };
    answer.routes = default.chain(pool.spec.routes.iter().flatten().map(of_pool)).collect();
}

/// Pools that serve no pod, each with one that it overlaps.
pub(super) type Withheld = BTreeMap<String, String>;

/// The pools from which agents give no address (D §1.2).
pub(super) fn withheld(question: &Question) -> Withheld {
    let as_created = |pool: &Arc<SpiderIPPool>| {
        let mut pool = SpiderIPPool::clone(pool);
        // An object written by hand has not been changed since.
        pool.metadata.generation.get_or_insert(1);
        Arc::new(pool)
    };
    let pools: Vec<_> = question.objects.pools.iter().map(as_created).collect();
    ipam::withheld(&pools, question.agent.late_commit, &question.policy)
}

/// Draws for every NIC and family in turn and fills in the addresses that result if every draw succeeds.
pub(super) fn give(question: &Question, selection: &Selection, withheld: &Withheld, nics: &mut [NicAnswer], remarks: &mut Vec<String>) {
    let mut add = Add { question, withheld, changed: BTreeMap::new(), subnets: Vec::new() };
    for (at, (selected, answer)) in selection.nics.iter().zip(nics.iter_mut()).enumerate() {
        for (family_at, (family, answer)) in selected.families.iter().zip(&mut answer.families).enumerate() {
            if let Some((pool, supply)) = add.draw(&selected.nic, family, answer) {
                tell(answer, &pool, supply.to_string(), supply.recorded, selected.clean_gateway);
                let subnet = Cidr::parse(&pool.spec.subnet, &question.policy).ok();
                add.subnets.extend(subnet.map(|subnet| (subnet, (at, family_at))));
            }
        }
    }
    if selection.error.is_none() {
        add.attach_routes(&selection.routes, nics, remarks);
    }
}

/// An ADD in progress.
struct Add<'a> {
    question: &'a Question,
    withheld: &'a Withheld,
    /// The pools from which this ADD has drawn, in their state after that.
    changed: BTreeMap<String, Arc<SpiderIPPool>>,
    /// The subnet of each address that was given, with the places of its NIC and family.
    subnets: Vec<(Cidr, (usize, usize))>,
}

impl Add<'_> {
    /// The first pool that has an address, and its address.
    fn draw(&mut self, nic: &str, family: &FamilySelection, answer: &mut FamilyAnswer) -> Option<(Arc<SpiderIPPool>, NextFreeIp)> {
        let Question { objects, policy, .. } = self.question;
        let reserved: Result<IpSet, RangeError> = reserved(objects, family.family, policy);
        let asker = self.question.request().asker(nic);
        let of = |pool: &Arc<SpiderIPPool>| Arc::clone(self.changed.get(name_of(pool)).unwrap_or(pool));
        // Upstream tries equal pools in any order: the user's order is one of them, and the others are listed.
        let in_turn = tries(&family.order, policy, |below| below - 1);
        let is_open = |pool: &&Arc<SpiderIPPool>| !self.withheld.contains_key(name_of(pool));
        let (pool, supply) = in_turn.iter().filter(is_open).find_map(|pool| {
            let pool = of(pool);
            let supply = asker.next_free_ip(&pool, &reserved).ok()?;
            Some((pool, supply))
        })?;
        let mut possible = BTreeSet::from([supply.ip]);
        let mut texts = vec![supply.to_string()];
        if policy.ties_in_any_order {
            let rank = family.order.iter().find(|rank| rank.iter().any(|other| name_of(other) == name_of(&pool)));
            for other in rank.into_iter().flatten() {
                if let Ok(other) = asker.next_free_ip(&of(other), &reserved)
                    && possible.insert(other.ip)
                {
                    texts.push(other.to_string());
                }
            }
        }
        if supply.recorded && policy.one_record_per_pod {
            // Any record with the UID of the pod is taken (A §5.4).
            let uid = self.question.pod.metadata.uid.as_deref().unwrap_or_default();
            let records = pool.status.as_ref().and_then(|status| status.allocated_ips.parse().ok());
            let own = records.iter().flat_map(|records| records.of_pod_uid(uid)).filter_map(|(key, _)| key.address());
            texts.extend(own.filter(|ip| possible.insert(*ip)).map(|ip| format!("{ip}/{}", supply.prefix)));
        }
        answer.possible = texts;
        if !supply.recorded {
            self.record(&pool, nic, &supply);
        }
        Some((pool, supply))
    }

    /// Remembers that the pod holds the address now.
    fn record(&mut self, pool: &Arc<SpiderIPPool>, nic: &str, supply: &NextFreeIp) {
        let mut changed = SpiderIPPool::clone(pool);
        let record = PoolIPAllocation {
            interface: (!self.question.policy.one_record_per_pod).then(|| nic.to_owned()),
            pod: self.question.pod_key(),
            pod_uid: self.question.pod.metadata.uid.clone().unwrap_or_default(),
        };
        if let Ok(records) = changed.status.get_or_insert_default().allocated_ips.make_mut() {
            records.insert(supply.ip, record);
        }
        self.changed.insert(name_of(pool).to_owned(), Arc::new(changed));
    }

    /// Gives each route of the pod to the first address whose subnet holds its gateway.
    fn attach_routes(&self, routes: &[Route], nics: &mut [NicAnswer], remarks: &mut Vec<String>) {
        for Route { dst, gw } in routes {
            let holds = |subnet: &Cidr| gw.parse().is_ok_and(|gw| subnet.contains(gw));
            match self.subnets.iter().find(|(subnet, _)| holds(subnet)) {
                Some((_, (nic, family))) => {
                    let route = RouteAnswer { dst: dst.clone(), gw: gw.clone(), from: RouteSource::Pod };
                    nics[*nic].families[*family].routes.push(route);
                }
                None => remarks.push(format!("the route {dst} via {gw} of the pod is left out: no subnet of its addresses holds {gw}")),
            }
        }
    }
}
