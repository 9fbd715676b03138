//! The result of a selection: for each NIC and family the named pools, the reasons against some, and the order of the others.

use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::sync::Arc;

use rustc_hash::{FxBuildHasher, FxHashSet};

use super::annotation;
use super::candidates::{Candidates, FamilyCandidates, Named, Tiers};
use super::cluster::Cluster;
use super::error::{Rejections, SelectError};
use super::filter::{Filter, Nic};
use super::rank::by_rank;
use super::reason::Reason;
use super::tier::Tier;
use super::top_controller::{TopController, is_alive};
use super::{Request, is_nameless};
use crate::ranges::IpVersion;
use crate::{Route, SpiderIPPool};

/// The pools that a pod draws from.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The tier that fired, even if it failed.
    pub tier: Tier,
    /// Whether the NICs are known by index (A §2.4).
    pub nameless: bool,
    /// The routes that the pod wants.
    pub routes: Vec<Route>,
    /// The NICs that get addresses, in the order of the annotation. Incomplete if there is an error.
    pub nics: Vec<NicSelection>,
    /// Outdated annotations that were read; a user should be warned.
    pub outdated: Vec<&'static str>,
    /// Whether an auto pool does not have its desired size: a caller that can wait should retry (A §2.2).
    pub unsettled: bool,
    /// The reason why there is no result.
    pub error: Option<SelectError>,
}

/// The pools of one NIC.
#[derive(Clone, Debug)]
pub struct NicSelection {
    /// The name; in nameless mode the index.
    pub nic: String,
    /// Whether the gateway is left out.
    pub clean_gateway: bool,
    /// The enabled families for which pools were named.
    pub families: Vec<FamilySelection>,
}

/// The pools of one NIC and family.
#[derive(Clone, Debug)]
pub struct FamilySelection {
    /// The family of these pools, which is enabled in the settings.
    pub family: IpVersion,
    /// The named pools, in the order of the user; pools that a pattern matches, and default pools, by name.
    pub candidates: Vec<Candidate>,
    /// The pools that can serve by rank, the most specific ones first; equal ones in the order of the candidates.
    pub order: Vec<Vec<Arc<SpiderIPPool>>>,
}

/// A pool that was named.
#[derive(Clone, Debug)]
pub struct Candidate {
    named: Named,
    /// The reason why it cannot serve; also absent if the rules were not reached.
    pub rejected: Option<Reason>,
}

impl Candidate {
    /// The name as written, or of the pool that a pattern matches.
    pub fn name(&self) -> &str {
        self.named.name()
    }
}

impl FamilySelection {
    /// The pools that cannot serve, with the reasons.
    pub fn rejected(&self) -> impl Iterator<Item = (&str, Reason)> {
        self.candidates.iter().filter_map(|candidate| Some((candidate.name(), candidate.rejected?)))
    }
}

impl Selection {
    /// The selection, if it succeeded.
    ///
    /// # Errors
    /// The reason why there is no result.
    pub fn into_result(self) -> Result<Self, SelectError> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(self),
        }
    }

    fn failed(error: SelectError) -> Self {
        Self { error: Some(error), ..Self::default() }
    }
}

/// Decides for a pod of which only the object is known: whether it is alive, its top controller, its pools (A §5.2, steps A1, A2 and A8).
pub fn select<C: Cluster + ?Sized>(cluster: &C, request: &Request<'_>) -> Selection {
    let selection = if is_alive(request.pod) {
        match TopController::of(cluster, request.pod) {
            Ok(controller) => return select_for(cluster, request, &controller),
            Err(error) => Selection::failed(error),
        }
    } else {
        Selection::failed(SelectError::DeadPod)
    };
    Selection { nameless: is_nameless(request.pod), ..selection }
}

/// The pools that the tiers name for each NIC and family, without look-up and rules: a recorded address must be from one of them to be kept
/// (A §6.3). `gate` leaves out disabled families.
///
/// # Errors
/// The tier that fired failed.
pub fn named_pools<C: Cluster + ?Sized>(
    cluster: &C,
    request: &Request<'_>,
    controller: &TopController,
    gate: bool,
) -> Result<Vec<(String, IpVersion, BTreeSet<String>)>, SelectError> {
    let (candidates, result) = Tiers::ask(cluster, request, controller);
    result?;
    let mut named = Vec::new();
    for nic in candidates.nics {
        for FamilyCandidates { family, pools, .. } in nic.families {
            if !gate || request.settings.enables(family) {
                named.push((nic.nic.clone(), family, pools.iter().map(|pool| pool.name().to_owned()).collect()));
            }
        }
    }
    Ok(named)
}

/// The pools from which an existing address of a pod may be.
#[derive(Clone, Debug, Default)]
pub struct PermittedPools {
    /// Whether the tier covers all NICs of the pod; otherwise only that of the request.
    pub all_nics: bool,
    /// The pools, by NIC (in nameless mode its index) and family.
    pub pools: Vec<(String, IpVersion, BTreeSet<String>)>,
}

/// The pools that the tiers name for each NIC and family and that pass every rule but that of capacity: a recorded address must be from one
/// of them to be reused. A named pool that is unknown is not permitted.
///
/// # Errors
/// The tier that fired failed.
pub fn permitted_pools<C: Cluster + ?Sized>(
    cluster: &C,
    request: &Request<'_>,
    controller: &TopController,
    gate: bool,
) -> Result<PermittedPools, SelectError> {
    let (candidates, result) = Tiers::ask(cluster, request, controller);
    result?;
    let nameless = is_nameless(request.pod);
    let filter = Filter::new(cluster, request, controller);
    let mut permitted = PermittedPools { all_nics: candidates.tier == Tier::PodIPPools, pools: Vec::new() };
    for candidates in candidates.nics {
        let nic = Nic::new(&candidates.nic, nameless);
        for FamilyCandidates { family, pools, .. } in candidates.families {
            if gate && !request.settings.enables(family) {
                continue;
            }
            let mut names = BTreeSet::new();
            for named in pools {
                let pool = match named {
                    Named::Pool(pool) => Some(pool),
                    Named::Name(name) => cluster.pool(&name),
                };
                if let Some(pool) = pool.filter(|pool| filter.permits(pool, family, &nic).is_ok()) {
                    names.extend(pool.metadata.name.clone());
                }
            }
            permitted.pools.push((candidates.nic.clone(), family, names));
        }
    }
    Ok(permitted)
}

/// Decides for a live pod whose top controller is known (A §5.2, step A8).
pub fn select_for<C: Cluster + ?Sized>(cluster: &C, request: &Request<'_>, controller: &TopController) -> Selection {
    let nameless = is_nameless(request.pod);
    let routes = match annotation::routes(request.pod, request.policy) {
        Ok(routes) => routes,
        Err(error) => return Selection { nameless, ..Selection::failed(error) },
    };
    let (candidates, result) = Tiers::ask(cluster, request, controller);
    let Candidates { tier, nics: by_nic, outdated, unsettled } = candidates;
    let mut selection = Selection { tier, nameless, routes, nics: Vec::new(), outdated, unsettled, error: result.err() };
    if selection.error.is_some() {
        return selection;
    }

    let mut missed = None;
    let mut may_repeat = Vec::new();
    for candidates in by_nic {
        let mut families = candidates.families;
        families.retain(|candidates| request.settings.enables(candidates.family));
        if missed.is_none() && !request.policy.wildcard_duplicates_fail {
            let empty = families.iter().find(|candidates| candidates.pools.is_empty());
            let what = match empty.map(|candidates| candidates.family) {
                Some(IpVersion::V4) => Some("IPv4"),
                Some(IpVersion::V6) => Some("IPv6"),
                None => families.is_empty().then_some("no family"),
            };
            missed = what.map(|what| SelectError::NoCandidate { nic: candidates.nic.clone(), what });
        }
        families.retain(|candidates| !candidates.pools.is_empty());
        may_repeat.extend(families.iter().map(|candidates| candidates.may_repeat));
        let of = |candidates: FamilyCandidates| FamilySelection {
            family: candidates.family,
            candidates: candidates.pools.into_iter().map(|named| Candidate { named, rejected: None }).collect(),
            order: Vec::new(),
        };
        let families = families.into_iter().map(of).collect();
        selection.nics.push(NicSelection { nic: candidates.nic, clean_gateway: candidates.clean_gateway, families });
    }
    let checked = look_up(cluster, &mut selection.nics, &may_repeat);
    selection.error = missed.or(checked.err());
    if selection.error.is_none() {
        selection.error = sift(cluster, request, controller, nameless, &mut selection.nics);
    }
    selection
}

/// Looks up the named pools; a pool may be listed twice if `may_repeat` says so of the family. All missing pools are marked; the first
/// problem is the error.
fn look_up<C: Cluster + ?Sized>(cluster: &C, nics: &mut [NicSelection], may_repeat: &[bool]) -> Result<(), SelectError> {
    let mut error = None;
    for (selected, may_repeat) in nics.iter_mut().flat_map(|nic| &mut nic.families).zip(may_repeat) {
        let (family, candidates) = (selected.family, &mut selected.candidates);
        // Names are only compared if two of them have the same hash: a second look at each of many pools costs more than their rules.
        let mut hashes = FxHashSet::with_capacity_and_hasher(if *may_repeat { candidates.len() } else { 0 }, Default::default());
        let (mut repeats, mut misses) = (false, false);
        for candidate in candidates.iter_mut() {
            let name = candidate.named.name();
            repeats |= *may_repeat && !hashes.insert(FxBuildHasher.hash_one(name));
            if let Named::Name(name) = &candidate.named {
                match cluster.pool(name) {
                    Some(pool) => candidate.named = Named::Pool(pool),
                    None => (candidate.rejected, misses) = (Some(Reason::Missing), true),
                }
            }
        }
        if !repeats && !misses {
            continue;
        }
        let mut seen = FxHashSet::default();
        for candidate in candidates {
            let name = candidate.named.name();
            if repeats && !seen.insert(name) {
                error.get_or_insert_with(|| SelectError::DuplicatePool { family, pool: name.to_owned() });
            }
            if candidate.rejected.is_some() {
                error.get_or_insert_with(|| SelectError::MissingPool { family, pool: name.to_owned() });
            }
        }
    }
    error.map_or(Ok(()), Err)
}

/// Applies the rules and orders the remaining pools; the first NIC and family without any pool is the error.
fn sift<C: Cluster + ?Sized>(
    cluster: &C,
    request: &Request<'_>,
    controller: &TopController,
    nameless: bool,
    nics: &mut [NicSelection],
) -> Option<SelectError> {
    let filter = Filter::new(cluster, request, controller);
    let mut error = None;
    for selection in nics {
        let nic = Nic::new(&selection.nic, nameless);
        for selected in &mut selection.families {
            let serving = selected.candidates.iter_mut().filter_map(|candidate| {
                // A missing pool was already reported as an error.
                let Named::Pool(pool) = &candidate.named else { return None };
                candidate.rejected = filter.verdict(pool, selected.family, &nic).err();
                candidate.rejected.is_none().then(|| Arc::clone(pool))
            });
            selected.order = by_rank(serving);
            if selected.order.is_empty() && error.is_none() {
                let reasons = Rejections(selected.rejected().map(|(pool, reason)| (pool.to_owned(), reason)).collect());
                error = Some(SelectError::AllFiltered { nic: selection.nic.clone(), family: selected.family, reasons });
            }
        }
    }
    error
}
