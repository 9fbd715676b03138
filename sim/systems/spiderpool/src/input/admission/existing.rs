//! The existing objects, and the selection of those because of which a new object could be refused.
//!
//! ```text
//!   new pool   ──► its namesake, those with its addresses, one of each CIDR that meets its own ┐
//!   new subnet ──► its namesake, those that meet its CIDR, and the pools of such CIDRs         ├─► Beside ──► core's rules
//! ```
//! The rules compare a new object with everything that exists; the time per object is right for a webhook, but too long when ten thousand
//! objects are judged. So the rules are shown only the objects that could matter to them, in the same order, and come to the same verdict.
//! Upstream's rules cannot judge a pool beside one that they cannot read, whatever its addresses: they are shown all such pools.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ipam_spiderpool::address_set::AddressSet;
use ipam_spiderpool::admission::Live;
use ipam_spiderpool::ranges::{CheckedRanges, Cidr, IpSet, parse_range};
use ipam_spiderpool::select::is_auto_pool;
use ipam_spiderpool::{IPPoolSpec, Policy, SpiderIPPool, SpiderSubnet};

use crate::ip_interval_index::IpIntervalIndex;

/// The existing objects that the rules are shown.
#[derive(Debug, Default)]
pub(super) struct Beside<'a> {
    pub(super) pools: Vec<Arc<SpiderIPPool>>,
    pub(super) subnets: Cow<'a, [Arc<SpiderSubnet>]>,
}

impl Live for Beside<'_> {
    fn pools(&self) -> &[Arc<SpiderIPPool>] {
        &self.pools
    }

    fn subnets(&self) -> &[Arc<SpiderSubnet>] {
        &self.subnets
    }
}

/// Names of pools by the IP family in the pools' specs.
type ByFamily = BTreeMap<Option<i64>, BTreeSet<Arc<str>>>;

/// A name that no object has.
const NOBODY: &str = "";

/// The pools and subnets that exist, each once by name, with their defaults.
#[derive(Clone, Debug, Default)]
pub(super) struct Existing {
    pools: BTreeMap<Arc<str>, Arc<SpiderIPPool>>,
    /// The addresses of each pool.
    addresses: IpIntervalIndex,
    /// The pools of each CIDR, as it is written, by the family in their specs.
    by_cidr: BTreeMap<Arc<str>, ByFamily>,
    /// The pools that upstream's webhook cannot read, which keep it from judging any other pool.
    unreadable: BTreeSet<Arc<str>>,
    /// The CIDRs of pools, as they are written.
    cidrs: IpIntervalIndex,
    /// The subnets, ordered by name.
    subnets: Vec<Arc<SpiderSubnet>>,
    /// The same subnets without their status.
    plain_subnets: Vec<Arc<SpiderSubnet>>,
    /// The CIDRs of subnets, by the name of the subnet.
    subnet_cidrs: IpIntervalIndex,
    /// The addresses that subnets set aside, by the name of the pool.
    set_aside: IpIntervalIndex,
}

/// The addresses of a CIDR; empty if it cannot be read.
fn addresses_of(cidr: &str, policy: &Policy) -> IpSet {
    Cidr::parse(cidr, policy).map(|cidr| cidr.range().into()).unwrap_or_default()
}

/// All addresses by which a pool could meet another one; a superset of its own if the rules are upstream's.
///
/// Upstream compares each range of `ips` as its webhook reads it, and excludes addresses in a way of its own (A §14.3). The set consists of
/// whole entries, whose ends are never among the IPv4-mapped addresses that a set of IPv6 addresses leaves out: if two entries overlap,
/// their sets do.
fn reach_of(spec: &IPPoolSpec, policy: &Policy) -> IpSet {
    if !policy.upstream_ranges {
        return AddressSet::of_pool(spec, policy).0;
    }
    let of_entry = |text: &String| {
        let version = spec.ip_version.unwrap_or_default();
        let by_webhook = CheckedRanges::parse(&spec.subnet, &[text], &[], policy).map(|checked| checked.ranges).unwrap_or_default();
        by_webhook.into_iter().map(|piece| piece.range).chain(parse_range(text, version, policy).ok())
    };
    spec.ips.iter().flatten().flat_map(of_entry).collect()
}

/// Whether upstream's webhook can read a pool.
fn is_readable(spec: &IPPoolSpec, policy: &Policy) -> bool {
    let (ips, exclude) = (spec.ips.as_deref().unwrap_or_default(), spec.exclude_ips.as_deref().unwrap_or_default());
    CheckedRanges::parse(&spec.subnet, ips, exclude, policy).is_ok()
}

fn name_of(name: &Option<String>) -> Arc<str> {
    name.as_deref().unwrap_or_default().into()
}

impl Existing {
    /// All subnets, ordered by name.
    pub(super) fn subnets(&self) -> &[Arc<SpiderSubnet>] {
        &self.subnets
    }

    /// The subnets only, from which defaults come.
    pub(super) fn for_defaults(&self) -> Beside<'_> {
        Beside { pools: Vec::new(), subnets: Cow::Borrowed(&self.subnets) }
    }

    /// Adds a pool with its defaults, unless there is one of this name.
    pub(super) fn add_pool(&mut self, pool: Arc<SpiderIPPool>, policy: &Policy) {
        let name = name_of(&pool.metadata.name);
        if self.pools.contains_key(&name) {
            return;
        }
        self.addresses.put(&name, &reach_of(&pool.spec, policy));
        if policy.upstream_ranges && !is_readable(&pool.spec, policy) {
            self.unreadable.insert(name.clone());
        }
        if !self.by_cidr.contains_key(pool.spec.subnet.as_str()) {
            let cidr: Arc<str> = pool.spec.subnet.as_str().into();
            self.cidrs.put(&cidr, &addresses_of(&cidr, policy));
            self.by_cidr.insert(cidr, BTreeMap::new());
        }
        if let Some(families) = self.by_cidr.get_mut(pool.spec.subnet.as_str()) {
            families.entry(pool.spec.ip_version).or_default().insert(name.clone());
        }
        self.pools.insert(name, pool);
    }

    /// Adds a subnet with its defaults, unless there is one of this name.
    pub(super) fn add_subnet(&mut self, subnet: Arc<SpiderSubnet>, policy: &Policy) {
        let Err(at) = self.subnets.binary_search_by(|other| other.metadata.name.cmp(&subnet.metadata.name)) else { return };
        self.subnet_cidrs.put(&name_of(&subnet.metadata.name), &addresses_of(&subnet.spec.subnet, policy));
        let version = subnet.spec.ip_version.unwrap_or_default();
        let entries = subnet.status.as_ref().and_then(|status| status.controlled_ippools.parse().ok());
        for (pool, entry) in entries.into_iter().flat_map(|entries| entries.iter()) {
            let ips = entry.ips.iter().filter_map(|text| parse_range(text, version, policy).ok()).collect();
            self.set_aside.put(&pool.as_str().into(), &ips);
        }
        let plain = if subnet.status.is_none() {
            subnet.clone()
        } else {
            Arc::new(SpiderSubnet { status: None, metadata: subnet.metadata.clone(), spec: subnet.spec.clone() })
        };
        self.plain_subnets.insert(at, plain);
        self.subnets.insert(at, subnet);
    }

    /// The same pools with other subnets.
    pub(super) fn with_subnets(self, subnets: impl IntoIterator<Item = Arc<SpiderSubnet>>, policy: &Policy) -> Self {
        let Self { pools, addresses, by_cidr, unreadable, cidrs, .. } = self;
        let mut existing = Self { pools, addresses, by_cidr, unreadable, cidrs, ..Self::default() };
        subnets.into_iter().for_each(|subnet| existing.add_subnet(subnet, policy));
        existing
    }

    /// The objects because of which a new pool could be refused; the pool itself, too, if it exists. `new` has its defaults already.
    pub(super) fn beside_pool(&self, new: &SpiderIPPool, policy: &Policy) -> Beside<'_> {
        let name = new.metadata.name.as_deref().unwrap_or_default();
        let addresses = reach_of(&new.spec, policy);
        let mut names: BTreeSet<&Arc<str>> = self.addresses.others(name, &addresses).map(|(owner, _)| owner).collect();
        names.extend(self.pools.get_key_value(name).map(|(name, _)| name));
        names.extend(&self.unreadable);
        // Of the pools of one CIDR and family the first is as good as any, but not the pool itself.
        let cidr = addresses_of(&new.spec.subnet, policy);
        let families = self.cidrs.others(&new.spec.subnet, &cidr).filter_map(|(cidr, _)| self.by_cidr.get(cidr));
        names.extend(families.flat_map(BTreeMap::values).filter_map(|names| names.iter().find(|other| ***other != *name)));
        // Only pools that are concerned need to see what is set aside for others, which can be as long as the list of pools.
        let concerns = policy.upstream_ranges || is_auto_pool(new) || self.set_aside.others(name, &addresses).next().is_some();
        let subnets = if concerns { &self.subnets } else { &self.plain_subnets };
        Beside { pools: self.named(names), subnets: Cow::Borrowed(subnets) }
    }

    /// The objects because of which a new subnet could be refused; the subnet itself, too, if it exists. `new` has its defaults already.
    pub(super) fn beside_subnet(&self, new: &SpiderSubnet, policy: &Policy) -> Beside<'_> {
        let name = new.metadata.name.as_deref().unwrap_or_default();
        let cidr = addresses_of(&new.spec.subnet, policy);
        let met: BTreeSet<&str> = self.subnet_cidrs.others(name, &cidr).map(|(owner, _)| &**owner).chain([name]).collect();
        let is_met = |subnet: &&Arc<SpiderSubnet>| met.contains(subnet.metadata.name.as_deref().unwrap_or_default());
        let cidrs = self.cidrs.others(NOBODY, &cidr).filter_map(|(cidr, _)| self.by_cidr.get(cidr));
        Beside {
            pools: self.named(cidrs.flat_map(BTreeMap::values).flatten().collect()),
            subnets: self.plain_subnets.iter().filter(is_met).cloned().collect(),
        }
    }

    fn named(&self, names: BTreeSet<&Arc<str>>) -> Vec<Arc<SpiderIPPool>> {
        names.into_iter().filter_map(|name| self.pools.get(name)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use ipam_spiderpool::admission::{AdmissionSettings, Admitted, Denial, Listed, Request, Rules, mutate};
    use ipam_spiderpool::names::LABEL_IPPOOL_CIDR;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const CIDRS: [&str; 8] =
        ["10.0.0.0/24", "10.0.0.0/25", "10.0.0.128/25", "10.0.1.0/24", "10.0.0.0/23", "no CIDR", "::fffe:0:0/94", "::ffff:10.0.0.0/24"];

    /// A name, the index of a CIDR, the first address, the number of further addresses, and whether it is an auto pool.
    type Drawn = (usize, usize, u8, u8, bool);

    fn drawn() -> impl Strategy<Value = Drawn> {
        (0usize..8, 0..CIDRS.len(), 0u8..40, 0u8..4, any::<bool>())
    }

    /// Odd fields of a pool written by hand, some of which upstream reads in its own way: further entries among the ranges, exclusions, the
    /// family, and the label of its CIDR.
    type Odd = (usize, usize, Option<i64>, usize);

    const ENTRIES: [&[&str]; 8] = [
        &[],
        &["10.0.0.9-10.0.0.3"],
        &["10.0.0.1", "10.0.0.1"],
        &["10.0.0.2-junk"],
        &["10.0.2.1"],
        &["::fffe:ffff:fff0-::fffe:ffff:ffff"],
        &["::fffe:ffff:fff0-::1:0:0:9"],
        &["::1:0:0:3"],
    ];
    const LABELS: [Option<&str>; 4] = [None, Some("10-0-0-0-24"), Some("10-0-0-0-25"), Some("other")];

    fn odd() -> impl Strategy<Value = Odd> {
        let most_say_none = prop_oneof![8 => Just(None), 1 => Just(Some(4)), 1 => Just(Some(6)), 1 => Just(Some(5))];
        (prop_oneof![2 => Just(0), 1 => 0..ENTRIES.len()], prop_oneof![2 => Just(0), 1 => 0..ENTRIES.len()], most_say_none, 0..LABELS.len())
    }

    fn odd_pool(drawn: Drawn, (more, excluded, version, label): Odd) -> SpiderIPPool {
        let mut pool = pool(drawn);
        pool.spec.ip_version = version;
        // The ranges of a wide network come from `more` alone.
        if CIDRS[drawn.1].starts_with("::") {
            pool.spec.ips = None;
        }
        let texts = |at: usize| ENTRIES[at].iter().copied().map(str::to_owned);
        pool.spec.ips.get_or_insert_default().extend(texts(more));
        pool.spec.exclude_ips = Some(texts(excluded).collect());
        if let Some(label) = LABELS[label] {
            pool.metadata.labels.get_or_insert_default().insert(LABEL_IPPOOL_CIDR.to_owned(), label.to_owned());
        }
        pool
    }

    fn pool((name, cidr, first, more, is_auto): Drawn) -> SpiderIPPool {
        let spec = json!({"subnet": CIDRS[cidr], "ips": [format!("10.0.0.{first}-10.0.0.{}", first + more)]});
        let labels = if is_auto {
            json!({"ipam.spidernet.io/ippool-reclaim": "true", "ipam.spidernet.io/owner-application-uid": "u"})
        } else {
            json!({})
        };
        serde_json::from_value(json!({"metadata": {"name": format!("p{name}"), "labels": labels}, "spec": spec})).unwrap()
    }

    fn subnet((name, cidr, first, more, sets_aside): Drawn) -> SpiderSubnet {
        let range = format!("10.0.0.{first}-10.0.0.{}", first + more);
        let entries = json!({"p1": {"ips": [&range], "application": "apps_v1_Deployment_default_a"}}).to_string();
        let status = if sets_aside { json!({"controlledIPPools": entries}) } else { json!(null) };
        let spec = json!({"subnet": CIDRS[cidr], "ips": ["10.0.0.0-10.0.0.60"]});
        serde_json::from_value(json!({"metadata": {"name": format!("s{name}"), "uid": name.to_string()}, "spec": spec, "status": status}))
            .unwrap()
    }

    /// The same rules without an index.
    #[derive(Default)]
    struct Plain(Listed);

    impl Plain {
        fn judge<K: Admitted>(&self, new: &K, policy: &Policy) -> Result<(), Denial> {
            new.audit(&Rules { live: &self.0, settings: &AdmissionSettings::default(), policy })
        }

        fn defaulted<K: Admitted>(&self, new: &K, policy: &Policy) -> Arc<K> {
            let settings = AdmissionSettings::default();
            let new = Arc::new(new.clone());
            // An object that cannot be read exists without defaults.
            mutate(&Request::Create(&new), &Rules { live: &self.0, settings: &settings, policy }).unwrap_or(new.clone())
        }
    }

    fn judge<K: Admitted>(new: &K, live: &Beside<'_>, policy: &Policy) -> Result<(), Denial> {
        new.audit(&Rules { live, settings: &AdmissionSettings::default(), policy })
    }

    proptest! {
        #[test]
        fn the_rules_say_the_same_as_if_they_saw_everything(
            subnets in prop::collection::vec(drawn(), 0..4),
            pools in prop::collection::vec((drawn(), odd()), 1..12),
            all_stay in any::<bool>(),
            upstream in any::<bool>(),
        ) {
            let policy = if upstream { Policy::upstream() } else { Policy::hardened() };
            let (mut existing, mut plain) = (Existing::default(), Plain::default());
            let add_subnet = |existing: &mut Existing, plain: &mut Plain, new: &SpiderSubnet| {
                let defaulted = plain.defaulted(new, &policy);
                existing.add_subnet(defaulted.clone(), &policy);
                if let Err(at) = plain.0.subnets.binary_search_by(|other| other.metadata.name.cmp(&new.metadata.name)) {
                    plain.0.subnets.insert(at, defaulted);
                }
            };
            let (late, early) = subnets.split_at(subnets.len() / 2);
            for new in early.iter().copied().map(subnet) {
                add_subnet(&mut existing, &mut plain, &new);
            }
            for new in pools.into_iter().map(|(drawn, odd)| odd_pool(drawn, odd)) {
                let defaulted = plain.defaulted(&new, &policy);
                let verdict = judge(&new, &existing.beside_pool(&defaulted, &policy), &policy);
                prop_assert_eq!(&verdict, &plain.judge(&new, &policy));
                // A pool that admission would refuse may exist all the same.
                if verdict.is_ok() || all_stay {
                    existing.add_pool(defaulted.clone(), &policy);
                    if let Err(at) = plain.0.pools.binary_search_by(|other| other.metadata.name.cmp(&new.metadata.name)) {
                        plain.0.pools.insert(at, defaulted);
                    }
                }
            }
            for new in late.iter().copied().map(subnet) {
                prop_assert_eq!(judge(&new, &existing.beside_subnet(&new, &policy), &policy), plain.judge(&new, &policy));
                add_subnet(&mut existing, &mut plain, &new);
            }
        }
    }

    #[test]
    fn of_ten_thousand_pools_the_rules_see_only_those_that_matter() {
        for policy in [Policy::hardened(), Policy::upstream()] {
            see_only_those_that_matter(policy);
        }
    }

    fn see_only_those_that_matter(policy: Policy) {
        let mut existing = Existing::default();
        let pool = |number: u32, cidr: &str| {
            let ips = [format!("10.0.{}.{}", number >> 8, number & 255)];
            let spec = json!({"ipVersion": 4, "subnet": cidr, "ips": ips});
            serde_json::from_value::<SpiderIPPool>(json!({"metadata": {"name": format!("p{number}")}, "spec": spec})).unwrap()
        };
        for number in 0..10_000 {
            existing.add_pool(Arc::new(pool(number, "10.0.0.0/16")), &policy);
        }
        let seen = |new: &SpiderIPPool| existing.beside_pool(new, &policy).pools.len();
        assert_eq!(seen(&pool(20_000, "10.0.0.0/16")), 0);
        assert_eq!(seen(&pool(77, "10.0.0.0/16")), 1, "its namesake, which has its address, too");
        assert_eq!(seen(&pool(20_000, "10.0.0.0/8")), 1, "the first of the other CIDR");
    }
}
