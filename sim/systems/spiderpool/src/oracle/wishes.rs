//! The pools that a pod asks for: the tiers and their wildcards (A §2), disabled families (A §2.5), and the precheck.

use std::sync::Arc;

use ipam_spiderpool::SpiderIPPool;
use ipam_spiderpool::names::{
    ANNOTATION_DEFAULT_IPV4_IPPOOL, ANNOTATION_DEFAULT_IPV4_IPPOOL_OUTDATED, ANNOTATION_DEFAULT_IPV6_IPPOOL,
    ANNOTATION_DEFAULT_IPV6_IPPOOL_OUTDATED, ANNOTATION_IPPOOL, ANNOTATION_IPPOOLS, ANNOTATION_ROUTES, ANNOTATION_SUBNET,
    ANNOTATION_SUBNETS,
};
use ipam_spiderpool::ranges::check_route_of_any_version;
use serde_json::Value;

use super::Asked;
use super::answer::{Answer, Candidate, Family, Nic};
use super::pattern;
use super::text::{Item, Lists, item, items, read_item, texts};

/// The pools that a tier names for a NIC, by family; `None` = it names none for that family.
struct Wished {
    nic: String,
    families: [Option<Vec<Candidate>>; 2],
}

impl Asked<'_> {
    /// The pools that are named, or the error.
    pub(super) fn wishes(&self) -> Answer {
        if let Some(error) = self.bad_routes() {
            return Answer::failed("none", error);
        }
        let (tier, wished) = self.tier();
        match wished {
            Ok(wished) => self.gate(tier, wished),
            Err(error) => Answer::failed(tier, error),
        }
    }

    fn bad_routes(&self) -> Option<&'static str> {
        let text = self.annotation(ANNOTATION_ROUTES)?;
        let read = |item: &Item| Ok((item.text("dst")?, item.text("gw")?));
        let routes = items(text).and_then(|items| items.iter().map(read).collect::<Result<Vec<_>, ()>>());
        let Ok(routes) = routes else { return Some("malformed-routes") };
        let is_bad = |(dst, gw): &(String, String)| check_route_of_any_version(dst, gw, self.policy).is_err();
        routes.iter().any(is_bad).then_some("invalid-route")
    }

    /// The first tier whose trigger fires, which is used alone (A §2.1).
    fn tier(&self) -> (&'static str, Result<Vec<Wished>, &'static str>) {
        let settings = self.request.settings;
        if settings.enable_spider_subnet && (self.annotation(ANNOTATION_SUBNETS).or(self.annotation(ANNOTATION_SUBNET))).is_some() {
            let of = |pool: Arc<SpiderIPPool>| vec![Candidate { pool: Ok(pool), reason: None }];
            let wished =
                self.of_subnets().map(|pools| Wished { nic: self.request.nic.to_owned(), families: pools.map(|pool| pool.map(of)) });
            return ("subnet", wished.map(|wished| vec![wished]));
        }
        if let Some(text) = self.annotation(ANNOTATION_IPPOOLS) {
            return ("pod-ippools", self.of_all_nics(text));
        }
        if let Some(text) = self.annotation(ANNOTATION_IPPOOL) {
            let read = item(text).and_then(|item| read_item(&item)).map_err(|()| "malformed-annotation");
            return ("pod-ippool", read.and_then(|(_, lists)| self.of_this_nic(&lists)));
        }
        let Some(lists) = self.of_namespace() else { return ("none", Err("missing-namespace")) };
        match lists {
            Err(error) => return ("namespace", Err(error)),
            Ok(lists) if lists.iter().any(|list| !list.is_empty()) => return ("namespace", self.of_this_nic(&lists)),
            Ok(_) => {}
        }
        let cni = self.request.cni;
        if !cni.default_ipv4_ippool.is_empty() || !cni.default_ipv6_ippool.is_empty() {
            return ("cni-config", self.of_this_nic(&[cni.default_ipv4_ippool.clone(), cni.default_ipv6_ippool.clone()]));
        }
        let mut pools: Vec<Arc<SpiderIPPool>> = Vec::new();
        self.cluster.for_each_default_pool(&mut |pool| pools.push(Arc::clone(pool)));
        if pools.is_empty() {
            return ("none", Err("no-pool"));
        }
        pools.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
        let of = |version| {
            let of_family = pools.iter().filter(|pool| pool.spec.ip_version == Some(version));
            let named: Vec<_> = of_family.map(|pool| Candidate { pool: Ok(Arc::clone(pool)), reason: None }).collect();
            Some(named).filter(|named| !named.is_empty())
        };
        ("cluster-default", Ok(vec![Wished { nic: self.request.nic.to_owned(), families: [of(4), of(6)] }]))
    }

    /// Tier 2: the pools of all NICs at once.
    fn of_all_nics(&self, text: &str) -> Result<Vec<Wished>, &'static str> {
        let read = items(text).and_then(|items| items.iter().map(read_item).collect::<Result<Vec<_>, ()>>());
        let items = read.map_err(|()| "malformed-annotation")?;
        // Patterns are checked first: a bad pattern is reported rather than an error in the interfaces.
        let families = items.iter().map(|(_, lists)| self.families(lists)).collect::<Result<Vec<_>, _>>()?;
        let nameless = items.first().ok_or("empty-ippools")?.0.is_empty();
        for (at, (interface, _)) in items.iter().enumerate() {
            if interface.is_empty() != nameless {
                return Err("mixed-interfaces");
            }
            if !nameless && items[..at].iter().any(|(other, _)| other == interface) {
                return Err("duplicate-interface");
            }
        }
        if !nameless && items.iter().all(|(interface, _)| interface != self.request.nic) {
            return Err("interface-not-listed");
        }
        let name = |(at, (interface, _)): (usize, (String, Lists))| if nameless { at.to_string() } else { interface };
        Ok(items.into_iter().enumerate().map(name).zip(families).map(|(nic, families)| Wished { nic, families }).collect())
    }

    fn of_this_nic(&self, lists: &Lists) -> Result<Vec<Wished>, &'static str> {
        Ok(vec![Wished { nic: self.request.nic.to_owned(), families: self.families(lists)? }])
    }

    /// Tier 4; `None` = the namespace is not known. The outdated keys of the documentation are used where the others are missing (D §0).
    fn of_namespace(&self) -> Option<Result<Lists, &'static str>> {
        let namespace = self.cluster.namespace(self.request.pod.metadata.namespace.as_deref().unwrap_or_default())?;
        let keys = [
            (ANNOTATION_DEFAULT_IPV4_IPPOOL, ANNOTATION_DEFAULT_IPV4_IPPOOL_OUTDATED),
            (ANNOTATION_DEFAULT_IPV6_IPPOOL, ANNOTATION_DEFAULT_IPV6_IPPOOL_OUTDATED),
        ];
        let value = |key: &str| namespace.metadata.annotations.as_ref()?.get(key);
        let list = |(key, outdated): (&str, &str)| {
            let text = value(key).or_else(|| value(outdated).filter(|_| !self.policy.outdated_keys_ignored));
            let Some(text) = text else { return Ok(Vec::new()) };
            match serde_json::from_str::<Value>(text) {
                Ok(Value::Null) => Ok(Vec::new()),
                Ok(value) => texts(&value).ok_or("malformed-annotation"),
                Err(_) => Err("malformed-annotation"),
            }
        };
        Some(keys.into_iter().map(list).collect::<Result<Vec<_>, _>>().map(|lists| {
            let mut lists = lists.into_iter();
            [lists.next().unwrap_or_default(), lists.next().unwrap_or_default()]
        }))
    }

    fn families(&self, lists: &Lists) -> Result<[Option<Vec<Candidate>>; 2], &'static str> {
        let of = |version: i64, list: &[String]| if list.is_empty() { Ok(None) } else { self.expand(list, version).map(Some) };
        Ok([of(4, &lists[0])?, of(6, &lists[1])?])
    }

    /// Replaces patterns by the names of the matching pools of the family, sorted by name (A §2.3). A pool that is already listed is not
    /// added again by a pattern; a name that is written twice stays twice.
    fn expand(&self, list: &[String], version: i64) -> Result<Vec<Candidate>, &'static str> {
        let is_pattern = |element: &str| element.contains(['*', '?']) || (element.contains('[') && element.contains(']'));
        let mut known: Option<Vec<Arc<SpiderIPPool>>> = None;
        let mut named: Vec<Candidate> = Vec::new();
        for (at, element) in list.iter().enumerate() {
            if !is_pattern(element) {
                let again = named.iter().any(|candidate| candidate.name() == element);
                if !again || list[..at].contains(element) || self.policy.wildcard_duplicates_fail {
                    named.push(Candidate { pool: self.cluster.pool(element).ok_or_else(|| element.clone()), reason: None });
                }
                continue;
            }
            let known = known.get_or_insert_with(|| self.pools_of(version));
            for pool in known.iter() {
                let name = pool.metadata.name.as_deref().unwrap_or_default();
                if !pattern::matches(element, name).map_err(|()| "bad-wildcard")? {
                    continue;
                }
                if self.policy.wildcard_duplicates_fail || named.iter().all(|candidate| candidate.name() != name) {
                    named.push(Candidate { pool: Ok(Arc::clone(pool)), reason: None });
                }
            }
        }
        Ok(named)
    }

    fn pools_of(&self, version: i64) -> Vec<Arc<SpiderIPPool>> {
        let mut pools = Vec::new();
        self.cluster.for_each_pool(&mut |pool| {
            if pool.spec.ip_version == Some(version) {
                pools.push(Arc::clone(pool));
            }
        });
        pools.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
        pools
    }

    /// Applies A §2.5 and the precheck of A §2.3: drops disabled families, and requires that the rest names existing pools, each once.
    fn gate(&self, tier: &'static str, wished: Vec<Wished>) -> Answer {
        let settings = self.request.settings;
        let mut answer = Answer { tier, early: None, nics: Vec::new() };
        let mut wrong = None;
        for Wished { nic, families } in wished {
            let on = families.into_iter().zip([(4, settings.enable_ipv4), (6, settings.enable_ipv6)]);
            let asked: Vec<_> = on.filter(|(_, (_, on))| *on).filter_map(|(named, (version, _))| Some((version, named?))).collect();
            if (asked.is_empty() || asked.iter().any(|(_, named)| named.is_empty())) && !self.policy.wildcard_duplicates_fail {
                answer.early = Some("no-candidate");
            }
            let mut families = Vec::new();
            for (version, mut candidates) in asked.into_iter().filter(|(_, named)| !named.is_empty()) {
                for at in 0..candidates.len() {
                    let name = candidates[at].name();
                    if candidates[..at].iter().any(|other| other.name() == name) {
                        wrong = wrong.or(Some("duplicate-pool"));
                    }
                    if candidates[at].pool.is_err() {
                        candidates[at].reason = Some("missing");
                        wrong = wrong.or(Some("missing-pool"));
                    }
                }
                families.push(Family { version, candidates });
            }
            answer.nics.push(Nic { name: nic, families });
        }
        answer.early = answer.early.or(wrong);
        answer
    }
}
