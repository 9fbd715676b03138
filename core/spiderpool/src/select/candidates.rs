//! The pools that a pod should draw from: the tiers (A §2).

use std::sync::Arc;

use super::Request;
use super::annotation::{self, PoolItem};
use super::auto_pool::SubnetRequest;
use super::cluster::Cluster;
use super::error::SelectError;
use super::tier::Tier;
use super::top_controller::TopController;
use crate::ranges::IpVersion;
use crate::{SpiderIPPool, names, wildcard_match};
use kube_machinery::FxHashMap;

/// A pool that was named.
#[derive(Clone, Debug)]
pub(super) enum Named {
    /// A pool that is already looked up.
    Pool(Arc<SpiderIPPool>),
    /// A name that is not looked up yet.
    Name(String),
}

impl Named {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Pool(pool) => pool.metadata.name.as_deref().unwrap_or_default(),
            Self::Name(name) => name,
        }
    }
}

/// The pools that were named for one NIC.
#[derive(Clone, Debug)]
pub(super) struct NicCandidates {
    pub(super) nic: String,
    pub(super) clean_gateway: bool,
    pub(super) families: Vec<FamilyCandidates>,
}

/// The pools that were named for one NIC and family: something was named, but possibly only patterns without a match.
#[derive(Clone, Debug)]
pub(super) struct FamilyCandidates {
    pub(super) family: IpVersion,
    pub(super) pools: Vec<Named>,
    /// Whether a pool may be listed twice.
    pub(super) may_repeat: bool,
}

/// The result of the tiers.
#[derive(Clone, Debug)]
pub(super) struct Candidates {
    /// The tier that fired, even if it failed.
    pub(super) tier: Tier,
    pub(super) nics: Vec<NicCandidates>,
    /// Outdated keys that were read.
    pub(super) outdated: Vec<&'static str>,
    /// Whether an auto pool does not have its size.
    pub(super) unsettled: bool,
}

/// Evaluates the tiers in order. The first that fires is used alone, even if it fails.
pub(super) struct Tiers<'a, C: ?Sized> {
    cluster: &'a C,
    request: &'a Request<'a>,
    controller: &'a TopController,
    /// The pools of a family by name, made when the first pattern needs them.
    by_family: [Option<Vec<Arc<SpiderIPPool>>>; 2],
    candidates: Candidates,
}

impl<'a, C: Cluster + ?Sized> Tiers<'a, C> {
    pub(super) fn ask(cluster: &'a C, request: &'a Request<'a>, controller: &'a TopController) -> (Candidates, Result<(), SelectError>) {
        let candidates = Candidates { tier: Tier::None, nics: Vec::new(), outdated: Vec::new(), unsettled: false };
        let mut tiers = Tiers { cluster, request, controller, by_family: [None, None], candidates };
        let result = tiers.run();
        (tiers.candidates, result)
    }

    fn run(&mut self) -> Result<(), SelectError> {
        let Request { pod, settings, cni, .. } = *self.request;
        if settings.enable_spider_subnet && annotation::has_subnet(pod) {
            self.candidates.tier = Tier::Subnet;
            return self.subnet();
        }
        if let Some(text) = annotation::of_pod(pod, names::ANNOTATION_IPPOOLS) {
            self.candidates.tier = Tier::PodIPPools;
            return self.ippools(annotation::ippools(text)?);
        }
        if let Some(text) = annotation::of_pod(pod, names::ANNOTATION_IPPOOL) {
            self.candidates.tier = Tier::PodIPPool;
            let item = annotation::ippool(text)?;
            return self.this_nic(item.ipv4, item.ipv6);
        }
        self.candidates.tier = Tier::Namespace;
        let [ipv4, ipv6] = match self.of_namespace() {
            Err(error @ SelectError::MissingNamespace { .. }) => {
                self.candidates.tier = Tier::None;
                return Err(error);
            }
            lists => lists?,
        };
        if !(ipv4.is_empty() && ipv6.is_empty()) {
            return self.this_nic(ipv4, ipv6);
        }
        if !(cni.default_ipv4_ippool.is_empty() && cni.default_ipv6_ippool.is_empty()) {
            self.candidates.tier = Tier::CniConfig;
            return self.this_nic(cni.default_ipv4_ippool.clone(), cni.default_ipv6_ippool.clone());
        }
        self.candidates.tier = Tier::None;
        self.cluster_default()
    }

    fn subnet(&mut self) -> Result<(), SelectError> {
        let Request { pod, nic, settings, policy, cni, made, .. } = *self.request;
        if !settings.enable_auto_pool_for_application {
            return Err(SelectError::SubnetAutoPoolDisabled);
        }
        let request = SubnetRequest::of(pod, nic, self.controller)?;
        let mut families = Vec::new();
        for family in IpVersion::ALL.into_iter().filter(|family| settings.enables(*family)) {
            if let Some(found) = request.find(self.cluster, self.controller, nic, family, policy, made)? {
                self.candidates.unsettled |= !found.settled;
                families.push(FamilyCandidates { family, pools: vec![Named::Pool(found.pool)], may_repeat: false });
            }
        }
        self.candidates.nics.push(NicCandidates { nic: nic.to_owned(), clean_gateway: cni.clean_gateway, families });
        Ok(())
    }

    fn ippools(&mut self, mut items: Vec<PoolItem>) -> Result<(), SelectError> {
        // Patterns come first: a bad one is reported before an error about interfaces.
        let mut nics = Vec::new();
        for item in &mut items {
            let families = self.families(std::mem::take(&mut item.ipv4), std::mem::take(&mut item.ipv6))?;
            nics.push(NicCandidates { nic: item.interface.clone(), clean_gateway: item.clean_gateway, families });
        }
        let nameless = items.first().ok_or(SelectError::EmptyIPPools)?.interface.is_empty();
        for (at, item) in items.iter().enumerate() {
            if item.interface.is_empty() != nameless {
                return Err(SelectError::MixedInterfaces);
            }
            if !nameless && items[..at].iter().any(|other| other.interface == item.interface) {
                return Err(SelectError::DuplicateInterface { interface: item.interface.clone() });
            }
        }
        if nameless {
            for (index, candidates) in nics.iter_mut().enumerate() {
                candidates.nic = index.to_string();
            }
        } else if nics.iter().all(|candidates| candidates.nic != self.request.nic) {
            return Err(SelectError::InterfaceNotListed { interface: self.request.nic.to_owned() });
        }
        self.candidates.nics = nics;
        Ok(())
    }

    fn of_namespace(&mut self) -> Result<[Vec<String>; 2], SelectError> {
        let name = self.request.pod.metadata.namespace.as_deref().unwrap_or_default();
        let namespace = self.cluster.namespace(name).ok_or_else(|| SelectError::MissingNamespace { name: name.to_owned() })?;
        let mut read = |family| {
            let candidates = annotation::of_namespace(&namespace, family, !self.request.policy.outdated_keys_ignored)?;
            self.candidates.outdated.extend(candidates.outdated);
            Ok(candidates.pools)
        };
        Ok([read(IpVersion::V4)?, read(IpVersion::V6)?])
    }

    fn cluster_default(&mut self) -> Result<(), SelectError> {
        let (mut pools, mut none) = ([Vec::new(), Vec::new()], true);
        self.cluster.for_each_default_pool(&mut |pool| {
            none = false;
            if let Some(Ok(family)) = pool.spec.ip_version.map(IpVersion::try_from) {
                pools[slot(family)].push(Arc::clone(pool));
            }
        });
        if none {
            return Err(SelectError::NoPool);
        }
        self.candidates.tier = Tier::ClusterDefault;
        let mut families = Vec::new();
        for (family, mut pools) in IpVersion::ALL.into_iter().zip(pools) {
            pools.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
            if !pools.is_empty() {
                families.push(FamilyCandidates { family, pools: pools.into_iter().map(Named::Pool).collect(), may_repeat: false });
            }
        }
        self.push_this_nic(families);
        Ok(())
    }

    fn this_nic(&mut self, ipv4: Vec<String>, ipv6: Vec<String>) -> Result<(), SelectError> {
        let families = self.families(ipv4, ipv6)?;
        self.push_this_nic(families);
        Ok(())
    }

    fn push_this_nic(&mut self, families: Vec<FamilyCandidates>) {
        let Request { nic, cni, .. } = *self.request;
        self.candidates.nics.push(NicCandidates { nic: nic.to_owned(), clean_gateway: cni.clean_gateway, families });
    }

    fn families(&mut self, ipv4: Vec<String>, ipv6: Vec<String>) -> Result<Vec<FamilyCandidates>, SelectError> {
        let mut families = Vec::new();
        for (family, elements) in [(IpVersion::V4, ipv4), (IpVersion::V6, ipv6)] {
            if !elements.is_empty() {
                let may_repeat = elements.len() > 1;
                families.push(FamilyCandidates { family, pools: self.expand(family, elements)?, may_repeat });
            }
        }
        Ok(families)
    }

    /// Replaces patterns by the pools they match, by name. A pool that a pattern names again is listed once; a name that is written twice
    /// stays twice.
    fn expand(&mut self, family: IpVersion, elements: Vec<String>) -> Result<Vec<Named>, SelectError> {
        if !elements.iter().any(|element| is_wildcard(element)) {
            return Ok(elements.into_iter().map(Named::Name).collect());
        }
        let cluster = self.cluster;
        if let [pattern] = &elements[..] {
            return matching(cluster, family, pattern);
        }
        let known = self.by_family[slot(family)].get_or_insert_with(|| pools_of_family(cluster, family));
        // Maps each name to whether a pattern named the pool.
        let mut seen: FxHashMap<String, bool> = FxHashMap::default();
        let keep_all = self.request.policy.wildcard_duplicates_fail;
        let mut pools = Vec::new();
        for element in &elements {
            if !is_wildcard(element) {
                if keep_all || seen.insert(element.clone(), false) != Some(true) {
                    pools.push(Named::Name(element.clone()));
                }
                continue;
            }
            for pool in known.iter() {
                let name = pool.metadata.name.as_deref().unwrap_or_default();
                let matches = wildcard_match(element, name).map_err(|_| SelectError::BadWildcard { pattern: element.clone() })?;
                if matches && (keep_all || !seen.contains_key(name)) {
                    seen.insert(name.to_owned(), true);
                    pools.push(Named::Pool(Arc::clone(pool)));
                }
            }
        }
        Ok(pools)
    }
}

fn pools_of_family<C: Cluster + ?Sized>(cluster: &C, family: IpVersion) -> Vec<Arc<SpiderIPPool>> {
    let mut pools = Vec::new();
    cluster.for_each_pool(&mut |pool| {
        if pool.spec.ip_version == Some(family.number()) {
            pools.push(Arc::clone(pool));
        }
    });
    pools.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
    pools
}

/// The pools of a family that one pattern matches, by name. Pools that do not match are never collected.
fn matching<C: Cluster + ?Sized>(cluster: &C, family: IpVersion, pattern: &str) -> Result<Vec<Named>, SelectError> {
    let (mut pools, mut bad) = (Vec::new(), false);
    cluster.for_each_pool(&mut |pool| {
        if pool.spec.ip_version == Some(family.number()) {
            match wildcard_match(pattern, pool.metadata.name.as_deref().unwrap_or_default()) {
                Ok(true) => pools.push(Named::Pool(Arc::clone(pool))),
                Ok(false) => {}
                Err(_) => bad = true,
            }
        }
    });
    if bad {
        return Err(SelectError::BadWildcard { pattern: pattern.to_owned() });
    }
    pools.sort_by(|one, other| one.name().cmp(other.name()));
    Ok(pools)
}

fn slot(family: IpVersion) -> usize {
    match family {
        IpVersion::V4 => 0,
        IpVersion::V6 => 1,
    }
}

/// Whether an element of a list of pools is a pattern (A §2.3): an escape alone makes none.
fn is_wildcard(element: &str) -> bool {
    element.contains(['*', '?']) || (element.contains('[') && element.contains(']'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escape_alone_is_no_wildcard() {
        assert!(["a*", "?", "[a]", "]["].into_iter().all(is_wildcard));
        assert!(!["pool", "a\\b", "[a", "a]", ""].into_iter().any(is_wildcard));
    }
}
