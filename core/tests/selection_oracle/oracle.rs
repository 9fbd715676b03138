//! Pool selection, written down once more as plainly as the reference tells it, over plain values: A §2 (without the tier of
//! subnets), A §3, A §4. Nothing here is shared with what it judges, and nothing is fast.

use std::collections::BTreeMap;

/// What the cluster and the pod look like.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) pools: BTreeMap<String, Pool>,
    pub(crate) reserved: Vec<(i64, u8)>,
    pub(crate) node: Option<Labels>,
    pub(crate) namespace: Option<Labels>,
    pub(crate) pod: Labels,
    pub(crate) ippools: Option<Vec<Item>>,
    pub(crate) ippool: Option<Item>,
    pub(crate) of_namespace: [Option<Vec<String>>; 2],
    pub(crate) of_namespace_outdated: [Option<Vec<String>>; 2],
    pub(crate) cni: [Vec<String>; 2],
    pub(crate) enabled: [bool; 2],
    pub(crate) nic: String,
    pub(crate) default_network: Option<String>,
    pub(crate) networks: Vec<String>,
    pub(crate) max_records: usize,
    pub(crate) duplicates_fail: bool,
    pub(crate) capacity_not_filtered: bool,
    pub(crate) network_always: bool,
    pub(crate) outdated_ignored: bool,
}

pub(crate) type Labels = BTreeMap<String, String>;

/// An item of an annotation.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) interface: String,
    pub(crate) pools: [Vec<String>; 2],
}

/// A pool. Its addresses are numbers.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) version: Option<i64>,
    pub(crate) terminating: bool,
    pub(crate) disabled: bool,
    pub(crate) default: bool,
    pub(crate) node_names: Vec<String>,
    pub(crate) node: Option<Vec<Term>>,
    pub(crate) namespace_names: Vec<String>,
    pub(crate) namespace: Option<Vec<Term>>,
    pub(crate) pod: Option<Vec<Term>>,
    /// Made for a workload: this pod's, or another.
    pub(crate) auto: Option<bool>,
    pub(crate) networks: Vec<String>,
    pub(crate) ips: Vec<u8>,
    pub(crate) excluded: Vec<u8>,
    /// Addresses with a record, and whether it is this pod's.
    pub(crate) records: BTreeMap<u8, bool>,
}

/// A term of a selector: `Equals` is one of `matchLabels`.
#[derive(Clone, Debug)]
pub(crate) struct Term {
    pub(crate) key: String,
    pub(crate) operator: String,
    pub(crate) values: Vec<String>,
}

/// What comes out.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) tier: &'static str,
    pub(crate) error: Option<&'static str>,
    pub(crate) nics: Vec<(String, Vec<Family>)>,
}

/// What comes out for a NIC and family.
#[derive(Debug, PartialEq)]
pub(crate) struct Family {
    pub(crate) version: i64,
    pub(crate) candidates: Vec<String>,
    pub(crate) rejected: Vec<(String, &'static str)>,
    pub(crate) order: Vec<Vec<String>>,
}

impl World {
    pub(crate) fn answer(&self) -> Answer {
        let failed = |tier, error| Answer { tier, error: Some(error), nics: Vec::new() };
        // A §2.1: the first tier whose trigger fires.
        let (tier, wishes) = if let Some(items) = &self.ippools {
            if items.is_empty() {
                return failed("pod-ippools", "empty-ippools");
            }
            for (at, item) in items.iter().enumerate() {
                if item.interface.is_empty() != items[0].interface.is_empty() {
                    return failed("pod-ippools", "mixed-interfaces");
                }
                if !item.interface.is_empty() && items[..at].iter().any(|other| other.interface == item.interface) {
                    return failed("pod-ippools", "duplicate-interface");
                }
            }
            let nameless = items[0].interface.is_empty();
            if !nameless && !items.iter().any(|item| item.interface == self.nic) {
                return failed("pod-ippools", "interface-not-listed");
            }
            let name = |(at, item): (usize, &Item)| (if nameless { format!("{at}") } else { item.interface.clone() }, item.pools.clone());
            ("pod-ippools", items.iter().enumerate().map(name).collect::<Vec<_>>())
        } else if let Some(item) = &self.ippool {
            ("pod-ippool", vec![(self.nic.clone(), item.pools.clone())])
        } else {
            if self.namespace.is_none() {
                return failed("none", "missing-namespace");
            }
            let lists = [0, 1].map(|family| {
                let outdated = self.of_namespace_outdated[family].clone().filter(|_| !self.outdated_ignored);
                self.of_namespace[family].clone().or(outdated).unwrap_or_default()
            });
            if lists.iter().any(|list| !list.is_empty()) {
                ("namespace", vec![(self.nic.clone(), lists)])
            } else if self.cni.iter().any(|list| !list.is_empty()) {
                ("cni-config", vec![(self.nic.clone(), self.cni.clone())])
            } else {
                if !self.pools.values().any(|pool| pool.default) {
                    return failed("none", "no-pool");
                }
                let of = |version| {
                    let is = |pool: &Pool| pool.default && pool.version == Some(version);
                    self.pools.iter().filter(|(_, pool)| is(pool)).map(|(name, _)| name.clone()).collect()
                };
                ("cluster-default", vec![(self.nic.clone(), [of(4), of(6)])])
            }
        };

        // A §2.3: wildcards; A §2.5: families that are off.
        let mut error = None;
        let mut nics = Vec::new();
        for (nic, lists) in wishes {
            let mut families = Vec::new();
            let (mut asked, mut empty) = (false, false);
            for (family, list) in lists.into_iter().enumerate() {
                if !self.enabled[family] || list.is_empty() {
                    continue;
                }
                let version = [4, 6][family];
                let candidates = self.expand(&list, version);
                asked = true;
                empty |= candidates.is_empty();
                if !candidates.is_empty() {
                    families.push(Family { version, candidates, rejected: Vec::new(), order: Vec::new() });
                }
            }
            if (empty || !asked) && !self.duplicates_fail {
                error = error.or(Some("no-candidate"));
            }
            nics.push((nic, families));
        }

        // A §2.3: precheck.
        for family in nics.iter_mut().flat_map(|(_, families)| families) {
            for (at, name) in family.candidates.iter().enumerate() {
                if family.candidates[..at].contains(name) {
                    error = error.or(Some("duplicate-pool"));
                }
                if !self.pools.contains_key(name) {
                    family.rejected.push((name.clone(), "missing"));
                    error = error.or(Some("missing-pool"));
                }
            }
        }
        if error.is_some() {
            return Answer { tier, error, nics };
        }

        // A §3 and A §4.
        let nameless = self.ippools.as_ref().is_some_and(|items| items.iter().any(|item| item.interface.is_empty()));
        for (nic, families) in &mut nics {
            for family in families {
                let mut left = Vec::new();
                for name in &family.candidates {
                    let pool = &self.pools[name];
                    match self.reason(pool, family.version, nic, nameless) {
                        Some(reason) => family.rejected.push((name.clone(), reason)),
                        None => left.push((weight(pool), name.clone())),
                    }
                }
                for weight in (0..64).rev() {
                    let equals: Vec<_> = left.iter().filter(|(other, _)| *other == weight).map(|(_, name)| name.clone()).collect();
                    if !equals.is_empty() {
                        family.order.push(equals);
                    }
                }
                if family.order.is_empty() {
                    error = error.or(Some("all-filtered"));
                }
            }
        }
        Answer { tier, error, nics }
    }

    fn expand(&self, list: &[String], version: i64) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for (at, element) in list.iter().enumerate() {
            if !element.contains('*') && !element.contains('?') {
                // A name that is written twice is there twice, whatever patterns stand around it.
                if self.duplicates_fail || list[..at].contains(element) || !names.contains(element) {
                    names.push(element.clone());
                }
                continue;
            }
            let pattern: Vec<char> = element.chars().collect();
            for (name, pool) in &self.pools {
                let name_characters: Vec<char> = name.chars().collect();
                let named = pool.version == Some(version) && fits(&pattern, &name_characters);
                if named && (self.duplicates_fail || !names.contains(name)) {
                    names.push(name.clone());
                }
            }
        }
        names
    }

    fn reason(&self, pool: &Pool, version: i64, nic: &str, nameless: bool) -> Option<&'static str> {
        if pool.terminating {
            return Some("terminating");
        }
        if pool.disabled {
            return Some("disabled");
        }
        if pool.version != Some(version) {
            return Some("ip-version");
        }
        if !pool.node_names.is_empty() {
            if !pool.node_names.iter().any(|name| name == "node") {
                return Some("node-name");
            }
        } else if let Some(terms) = &pool.node
            && !self.node.as_ref().is_some_and(|labels| holds(terms, labels))
        {
            return Some("node-affinity");
        }
        if !pool.namespace_names.is_empty() {
            if !pool.namespace_names.iter().any(|name| name == "ns") {
                return Some("namespace-name");
            }
        } else if let Some(terms) = &pool.namespace
            && !self.namespace.as_ref().is_some_and(|labels| holds(terms, labels))
        {
            return Some("namespace-affinity");
        }
        let mut accepted = false;
        if let Some(mine) = pool.auto {
            if !mine {
                return Some("pod-affinity");
            }
            accepted = true;
        } else if let Some(terms) = &pool.pod
            && !holds(terms, &self.pod)
        {
            return Some("pod-affinity");
        }
        if !accepted && (self.network_always || !pool.networks.is_empty()) {
            let network = if nic == "eth0" || (nameless && nic == "0") {
                self.default_network.clone().map(|name| format!("spider/{name}"))
            } else {
                let position = if nameless { nic.parse().ok() } else { nic.strip_prefix("net").and_then(|text| text.parse().ok()) };
                let position: Option<usize> = position;
                position.and_then(|position| self.networks.get(position.checked_sub(1)?)).map(|name| format!("ns/{name}"))
            };
            let Some(network) = network else { return Some("multus-network") };
            let full = |name: &String| if name.contains('/') { name.clone() } else { format!("spider/{name}") };
            if !pool.networks.is_empty() && !pool.networks.iter().any(|name| full(name) == network) {
                return Some("multus-name");
            }
        }
        if self.capacity_not_filtered || pool.records.values().any(|mine| *mine) {
            return None;
        }
        let included: Vec<_> = pool.ips.iter().filter(|ip| !pool.excluded.contains(ip)).collect();
        let usable: Vec<_> = included.iter().filter(|ip| !self.reserved.contains(&(version, ***ip))).collect();
        let free = usable.iter().any(|ip| !pool.records.contains_key(ip));
        if pool.ips.is_empty() {
            Some("exhausted")
        } else if included.is_empty() {
            Some("excluded")
        } else if usable.is_empty() {
            Some("reserved")
        } else if !free || pool.records.len() >= self.max_records {
            Some("exhausted")
        } else {
            None
        }
    }
}

fn holds(terms: &[Term], labels: &Labels) -> bool {
    terms.iter().all(|term| {
        let label = labels.get(&term.key);
        match term.operator.as_str() {
            "Equals" | "In" => label.is_some_and(|label| term.values.contains(label)),
            "NotIn" => !label.is_some_and(|label| term.values.contains(label)),
            "Exists" => label.is_some(),
            "DoesNotExist" => label.is_none(),
            // Not an operator.
            _ => false,
        }
    })
}

fn fits(pattern: &[char], name: &[char]) -> bool {
    match pattern {
        [] => name.is_empty(),
        ['*', rest @ ..] => (0..=name.len()).any(|skipped| fits(rest, &name[skipped..])),
        ['?', rest @ ..] => !name.is_empty() && fits(rest, &name[1..]),
        [first, rest @ ..] => name.first() == Some(first) && fits(rest, &name[1..]),
    }
}

/// A §4: 32·a+16·b+8·c+4·d+2·e+f.
fn weight(pool: &Pool) -> u32 {
    let mut weight = 0;
    if pool.pod.is_some() || pool.auto.is_some() {
        weight += 32;
    }
    if !pool.node_names.is_empty() {
        weight += 16;
    }
    if pool.node.is_some() {
        weight += 8;
    }
    if !pool.namespace_names.is_empty() {
        weight += 4;
    }
    if pool.namespace.is_some() {
        weight += 2;
    }
    if !pool.networks.is_empty() {
        weight += 1;
    }
    weight
}
