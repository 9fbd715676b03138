//! The answer of the rules, and its comparison with the selection of the system under test.

use std::sync::Arc;

use ipam_spiderpool::select::{FamilySelection, Selection};
use ipam_spiderpool::{IPPoolSpec, SpiderIPPool};

use super::Asked;

/// The pools of all NICs.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The name of the tier that fired; see [`Tier::name`](ipam_spiderpool::select::Tier::name).
    pub tier: &'static str,
    /// The error before any rule was applied; see [`SelectError::class`](ipam_spiderpool::select::SelectError::class).
    pub early: Option<&'static str>,
    /// The NICs that the decision got to.
    pub nics: Vec<Nic>,
}

/// The pools of a NIC.
#[derive(Clone, Debug)]
pub struct Nic {
    /// The name of the NIC, or its index.
    pub name: String,
    /// The enabled families that have candidates.
    pub families: Vec<Family>,
}

/// The candidates of a NIC for one family.
#[derive(Clone, Debug)]
pub struct Family {
    /// 4 or 6, as in `spec.ipVersion` of the pools.
    pub version: i64,
    /// The pools that the tier names, in its order, including those that cannot serve.
    pub candidates: Vec<Candidate>,
}

/// A pool that a tier names.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The pool, or the name of a pool that does not exist.
    pub pool: Result<Arc<SpiderIPPool>, String>,
    /// The reason why the pool cannot serve; see [`Reason::code`](ipam_spiderpool::select::Reason::code).
    pub reason: Option<&'static str>,
}

/// The reasons that concern free addresses.
const CAPACITY: [&str; 3] = ["excluded", "reserved", "exhausted"];

impl Candidate {
    /// The name that the tier uses, whether or not such a pool exists.
    pub fn name(&self) -> &str {
        match &self.pool {
            Ok(pool) => pool.metadata.name.as_deref().unwrap_or_default(),
            Err(name) => name,
        }
    }
}

/// The weight by which pools are sorted, heaviest first: 32·a+16·b+8·c+4·d+2·e+f (A §4).
fn weight(spec: &IPPoolSpec) -> u32 {
    let named = |list: &Option<Vec<String>>| u32::from(list.as_ref().is_some_and(|list| !list.is_empty()));
    let mut weight = 32 * u32::from(spec.pod_affinity.is_some());
    weight += 16 * named(&spec.node_name);
    weight += 8 * u32::from(spec.node_affinity.is_some());
    weight += 4 * named(&spec.namespace_name);
    weight += 2 * u32::from(spec.namespace_affinity.is_some());
    weight + named(&spec.multus_name)
}

impl Family {
    /// The pools that can serve, with their weights: heaviest first, equal ones in the order in which they were named.
    fn order(&self) -> Vec<(u32, &SpiderIPPool)> {
        let able = self.candidates.iter().filter(|candidate| candidate.reason.is_none());
        let mut order: Vec<_> =
            able.filter_map(|candidate| candidate.pool.as_deref().ok()).map(|pool| (weight(&pool.spec), pool)).collect();
        order.sort_by_key(|(weight, _)| 63 - weight);
        order
    }

    /// The names of the pools that can serve, by rank, heaviest first.
    pub fn ranks(&self) -> Vec<Vec<String>> {
        let order = self.order();
        let ranks = order.chunk_by(|(one, _), (other, _)| one == other);
        ranks.map(|rank| rank.iter().map(|(_, pool)| pool.metadata.name.clone().unwrap_or_default()).collect()).collect()
    }
}

impl Answer {
    /// An answer that fails before any pool is named.
    pub(super) fn failed(tier: &'static str, error: &'static str) -> Self {
        Self { tier, early: Some(error), nics: Vec::new() }
    }

    /// The reason why there is no answer.
    pub fn error(&self) -> Option<&'static str> {
        let empty = |family: &Family| family.candidates.iter().all(|candidate| candidate.reason.is_some());
        let all_filtered = || self.nics.iter().flat_map(|nic| &nic.families).any(empty).then_some("all-filtered");
        self.early.or_else(all_filtered)
    }

    /// Accepts a pool without a free address as a candidate where `selection` does.
    pub(super) fn forgive_capacity(&mut self, selection: &Selection) {
        if self.early.is_some() {
            return;
        }
        for (nic, selected) in self.nics.iter_mut().zip(&selection.nics) {
            for (family, selected) in nic.families.iter_mut().zip(&selected.families) {
                for (candidate, selected) in family.candidates.iter_mut().zip(&selected.candidates) {
                    let full = candidate.reason.is_some_and(|reason| CAPACITY.contains(&reason));
                    if full && selected.rejected.is_none() && selected.name() == candidate.name() {
                        candidate.reason = None;
                    }
                }
            }
        }
    }

    /// The first difference from a selection, and whether only the order differs. Formats nothing if there is none.
    pub fn difference(&self, selection: &Selection) -> Option<(bool, String)> {
        let differs = |what: String| Some((false, what));
        if selection.tier.name() != self.tier {
            return differs(format!("tier {}, the rules say {}", selection.tier, self.tier));
        }
        let error = selection.error.as_ref().map(|error| error.class());
        if error != self.error() {
            let words = |error: Option<&str>| error.map_or_else(|| "no error".to_owned(), |error| format!("the error {error}"));
            return differs(format!("{}, the rules say {}", words(error), words(self.error())));
        }
        let names = selection.nics.iter().map(|nic| &nic.nic);
        if !names.eq(self.nics.iter().map(|nic| &nic.name)) {
            let names = |names: Vec<&String>| names.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            let (found, said) = (selection.nics.iter().map(|nic| &nic.nic).collect(), self.nics.iter().map(|nic| &nic.name).collect());
            return differs(format!("NICs {}, the rules say {}", names(found), names(said)));
        }
        let mut other_order = None;
        for (nic, selected) in self.nics.iter().zip(&selection.nics) {
            let versions = selected.families.iter().map(|family| family.family.number());
            if !versions.eq(nic.families.iter().map(|family| family.version)) {
                return differs(format!("{} has other families than the rules say", nic.name));
            }
            for (family, selected) in nic.families.iter().zip(&selected.families) {
                match family.difference(selected, self.early.is_some()) {
                    Some((false, what)) => return differs(format!("{} IPv{}: {what}", nic.name, family.version)),
                    Some((true, what)) => other_order = other_order.or(Some((true, format!("{} IPv{}: {what}", nic.name, family.version)))),
                    None => {}
                }
            }
        }
        other_order
    }
}

impl Family {
    fn difference(&self, selected: &FamilySelection, early: bool) -> Option<(bool, String)> {
        let found = selected.candidates.iter().map(|candidate| (candidate.name(), candidate.rejected.map(|reason| reason.code())));
        let said = self.candidates.iter().map(|candidate| (candidate.name(), candidate.reason));
        if !found.clone().eq(said.clone()) {
            let list = |things: Vec<(&str, Option<&str>)>| {
                let tell = |(name, reason): (&str, Option<&str>)| reason.map_or(name.to_owned(), |reason| format!("{name} ({reason})"));
                things.into_iter().map(tell).collect::<Vec<_>>().join(", ")
            };
            return Some((false, format!("candidates {}; the rules say {}", list(found.collect()), list(said.collect()))));
        }
        if early {
            return None;
        }
        let order = self.order();
        let name = |pool: &SpiderIPPool| pool.metadata.name.clone().unwrap_or_default();
        let ranked = selected.order.iter().zip(0u32..).flat_map(|(rank, number)| rank.iter().map(move |pool| (number, pool)));
        let same = order.iter().map(|(_, pool)| &pool.metadata.name).eq(ranked.map(|(_, pool)| &pool.metadata.name));
        let sizes = order.chunk_by(|(one, _), (other, _)| one == other).map(<[_]>::len);
        if same && sizes.eq(selected.order.iter().map(Vec::len)) {
            return None;
        }
        let found: Vec<Vec<String>> = selected.order.iter().map(|rank| rank.iter().map(|pool| name(pool)).collect()).collect();
        let (mut one, mut other) = (found.concat(), order.iter().map(|(_, pool)| name(pool)).collect::<Vec<_>>());
        one.sort_unstable();
        other.sort_unstable();
        Some((one == other, format!("order {}, the rules say {}", in_order(&found), in_order(&self.ranks()))))
    }
}

/// Ranks of pools in words: `a and b, then c`.
fn in_order(ranks: &[Vec<String>]) -> String {
    let ranks: Vec<String> = ranks.iter().map(|rank| rank.join(" and ")).collect();
    if ranks.is_empty() { "no pool".to_owned() } else { ranks.join(", then ") }
}

impl Asked<'_> {
    /// Applies the rules of A §3 to each pool.
    pub(super) fn judge(&self, answer: &mut Answer) {
        let nameless = super::text::is_nameless(self.request.pod);
        for nic in &mut answer.nics {
            for family in &mut nic.families {
                for candidate in &mut family.candidates {
                    if let Ok(pool) = &candidate.pool {
                        candidate.reason = self.reason(pool, family.version, &nic.name, nameless);
                    }
                }
            }
        }
    }

    /// The first rule that a pool fails.
    fn reason(&self, pool: &SpiderIPPool, version: i64, nic: &str, nameless: bool) -> Option<&'static str> {
        let spec = &pool.spec;
        if pool.metadata.deletion_timestamp.is_some() {
            return Some("terminating");
        }
        if spec.disable {
            return Some("disabled");
        }
        if spec.ip_version != Some(version) {
            return Some("ip-version");
        }
        self.place_reason(spec).or_else(|| self.pod_reason(pool, nic, nameless)).or_else(|| self.capacity_reason(pool, nic))
    }

    /// Rules 6 and 7: a list of names takes precedence over the selector.
    fn place_reason(&self, spec: &IPPoolSpec) -> Option<&'static str> {
        match (spec.node_name.as_deref().unwrap_or_default(), &spec.node_affinity) {
            ([], Some(affinity)) => {
                let node = self.cluster.node(self.request.node);
                if !node.is_some_and(|node| super::labels::holds(affinity, node.metadata.labels.as_ref())) {
                    return Some("node-affinity");
                }
            }
            (names, _) if !names.is_empty() && !names.iter().any(|name| name == self.request.node) => return Some("node-name"),
            _ => {}
        }
        let own = self.request.pod.metadata.namespace.as_deref().unwrap_or_default();
        match (spec.namespace_name.as_deref().unwrap_or_default(), &spec.namespace_affinity) {
            ([], Some(affinity)) => {
                let namespace = self.cluster.namespace(own);
                let selected = namespace.is_some_and(|namespace| super::labels::holds(affinity, namespace.metadata.labels.as_ref()));
                (!selected).then_some("namespace-affinity")
            }
            (names, _) => (!names.is_empty() && !names.iter().any(|name| name == own)).then_some("namespace-name"),
        }
    }

    /// Rules 8 to 11: an auto pool of this workload is accepted, and so is a pool that names the network of the NIC.
    fn pod_reason(&self, pool: &SpiderIPPool, nic: &str, nameless: bool) -> Option<&'static str> {
        let spec = &pool.spec;
        if let Some(affinity) = &spec.pod_affinity {
            if super::subnets::is_auto(pool) {
                return (!super::subnets::is_made_for(pool, self.controller)).then_some("pod-affinity");
            }
            if !super::labels::holds(affinity, self.request.pod.metadata.labels.as_ref()) {
                return Some("pod-affinity");
            }
        }
        let networks = spec.multus_name.as_deref().unwrap_or_default();
        if !networks.is_empty() || self.policy.multus_always_resolved {
            let Some(network) = self.network(nic, nameless) else { return Some("multus-network") };
            let is_it = |name: &String| match name.split_once('/') {
                Some((namespace, name)) => namespace == network.0 && name == network.1,
                None => self.request.settings.agent_namespace == network.0 && *name == network.1,
            };
            if !networks.is_empty() {
                return (!networks.iter().any(is_it)).then_some("multus-name");
            }
        }
        (self.request.cni.match_master_subnet && !self.is_on_master(spec)).then_some("master-subnet")
    }
}
