//! The common part of the specs of pools and subnets, and the rules about it (A §9.1, §9.2).

use ipam_spiderpool::admission::{AdmissionSettings, Fault};
use ipam_spiderpool::ranges::{Cidr, IpRange, IpSet, parse_ip, parse_range};
use ipam_spiderpool::{IPPoolSpec, Policy, Route, SubnetSpec};

use super::{Found, judge_version};

/// The addresses of a CIDR with their gateway and routes. An absent list counts as empty.
#[derive(Clone, Copy)]
pub(super) struct Block<'a> {
    version: Option<i64>,
    pub subnet: &'a str,
    ips: &'a [String],
    exclude: &'a [String],
    gateway: Option<&'a str>,
    routes: &'a [Route],
}

impl<'a> From<&'a IPPoolSpec> for Block<'a> {
    fn from(spec: &'a IPPoolSpec) -> Self {
        Self {
            version: spec.ip_version,
            subnet: &spec.subnet,
            ips: spec.ips.as_deref().unwrap_or_default(),
            exclude: spec.exclude_ips.as_deref().unwrap_or_default(),
            gateway: spec.gateway.as_deref(),
            routes: spec.routes.as_deref().unwrap_or_default(),
        }
    }
}

impl<'a> From<&'a SubnetSpec> for Block<'a> {
    fn from(spec: &'a SubnetSpec) -> Self {
        Self {
            version: spec.ip_version,
            subnet: &spec.subnet,
            ips: spec.ips.as_deref().unwrap_or_default(),
            exclude: spec.exclude_ips.as_deref().unwrap_or_default(),
            gateway: spec.gateway.as_deref(),
            routes: spec.routes.as_deref().unwrap_or_default(),
        }
    }
}

/// The addresses that a request adds, and those that it removes.
pub(super) struct Change {
    pub added: IpSet,
    pub gone: IpSet,
}

impl Change {
    pub(super) fn between(old: Option<&Block>, new: &Block) -> Self {
        let (before, after) = (old.map(Block::addresses).unwrap_or_default(), new.addresses());
        Self { added: after.difference(&before), gone: before.difference(&after) }
    }
}

/// The addresses of the texts that are valid ranges; other texts are ignored.
pub(super) fn addresses_of<'a>(texts: impl IntoIterator<Item = &'a String>, family: i64) -> IpSet {
    texts.into_iter().filter_map(|text| parse_range(text, family, &Policy::hardened()).ok()).collect()
}

impl Block<'_> {
    /// 4 or 6: the version of the spec or, if it has none, that of its CIDR. `None`: unknown.
    pub(super) fn family(&self) -> Option<i64> {
        match self.version {
            Some(4 | 6) => self.version,
            Some(_) => None,
            None => Cidr::parse(self.subnet, &Policy::hardened()).ok().map(|cidr| cidr.version().number()),
        }
    }

    pub(super) fn cidr(&self) -> Option<Cidr> {
        Cidr::parse_version(self.subnet, self.family()?, &Policy::hardened()).ok()
    }

    /// `ips` without `excludeIPs`, as far as they can be parsed.
    pub(super) fn addresses(&self) -> IpSet {
        let Some(family) = self.family() else { return IpSet::default() };
        addresses_of(self.ips, family).difference(&addresses_of(self.exclude, family))
    }

    /// Whether a request changes the addresses.
    fn has_other_addresses(&self, old: Option<&Self>) -> bool {
        old.is_none_or(|old| (self.ips, self.exclude, self.subnet) != (old.ips, old.exclude, old.subnet))
    }

    /// Requires an IP version, and a CIDR of that family in Go's normal form; neither may change (A §9.1 rules 1 and 2).
    pub(super) fn judge_cidr(&self, old: Option<&Self>, settings: &AdmissionSettings, found: &mut Found) {
        judge_version(self.version, old.map(|old| old.version), settings, found);
        let is_other = old.is_none_or(|old| old.subnet != self.subnet);
        if old.is_some() && is_other {
            found.add("spec.subnet", Fault::Forbidden);
        }
        if old.is_some_and(|old| (old.subnet, old.version) == (self.subnet, self.version)) {
            return;
        }
        let is_readable = match self.family() {
            Some(_) => self.cidr().is_some(),
            None => Cidr::parse(self.subnet, &Policy::hardened()).is_ok(),
        };
        if !is_readable || is_other && !Cidr::is_canonical(self.subnet, &Policy::hardened()) {
            found.add("spec.subnet", Fault::Invalid);
        }
    }

    /// Requires that each entry of the lists is a range of the family inside the CIDR and, with `apart`, that no two of `ips` share an
    /// address (A §1.6). Returns whether the addresses of the block are known.
    pub(super) fn judge_ranges(&self, old: Option<&Self>, apart: bool, found: &mut Found) -> bool {
        let (Some(family), Some(cidr)) = (self.family(), self.cidr()) else { return false };
        if !self.has_other_addresses(old) {
            return true;
        }
        let before = found.0.len();
        for (list, texts) in [("spec.ips", self.ips), ("spec.excludeIPs", self.exclude)] {
            let mut read: Vec<IpRange> = Vec::new();
            for (at, text) in texts.iter().enumerate() {
                let range = parse_range(text, family, &Policy::hardened()).ok().filter(|range| cidr.contains_range(range));
                let again = apart && list == "spec.ips" && range.is_some_and(|range| read.iter().any(|other| other.overlaps(&range)));
                if range.is_none() || again {
                    found.add(format!("{list}[{at}]"), Fault::Invalid);
                    found.add(list, Fault::Invalid);
                }
                read.extend(range);
            }
        }
        found.0.len() == before
    }

    /// Requires that the gateway is an address of the CIDR and cannot be allocated: not in `ips`, or excluded (A §9.1 rule 4, A §14.18).
    pub(super) fn judge_gateway(&self, old: Option<&Self>, found: &mut Found) {
        let (Some(text), Some(family), Some(cidr)) = (self.gateway, self.family(), self.cidr()) else { return };
        let is_other = old.is_none_or(|old| (old.gateway, old.subnet) != (self.gateway, self.subnet));
        let gateway = parse_ip(text, family, &Policy::hardened()).ok();
        if is_other && !gateway.is_some_and(|gateway| cidr.contains(gateway)) {
            found.add("spec.gateway", Fault::Invalid);
        }
        let Some(gateway) = gateway.filter(|_| is_other || self.has_other_addresses(old)) else { return };
        let holds = |text: &String| parse_range(text, family, &Policy::hardened()).is_ok_and(|range| range.contains(gateway));
        if self.exclude.iter().any(holds) {
            return;
        }
        for (at, _) in self.ips.iter().enumerate().filter(|(_, text)| holds(text)) {
            found.add(format!("spec.ips[{at}]"), Fault::Invalid);
            found.add("spec.gateway", Fault::Invalid);
        }
    }

    /// Requires that each route has its own destination, which is not the default route, and a gateway in the CIDR (A §9.1 rule 4).
    /// Destinations are compared by prefix, however they are written.
    pub(super) fn judge_routes(&self, old: Option<&Self>, found: &mut Found) {
        let (Some(family), Some(cidr)) = (self.family(), self.cidr()) else { return };
        if old.is_some_and(|old| (old.routes, old.subnet) == (self.routes, self.subnet)) {
            return;
        }
        let mut destinations = Vec::new();
        for (at, Route { dst, gw }) in self.routes.iter().enumerate() {
            match Cidr::parse_version(dst, family, &Policy::hardened()).map(|dst| dst.net()) {
                Ok(net) if net.prefix_len() > 0 && !destinations.contains(&net) => destinations.push(net),
                _ => found.add(format!("spec.routes[{at}].dst"), Fault::Invalid),
            }
            if !parse_ip(gw, family, &Policy::hardened()).is_ok_and(|gw| cidr.contains(gw)) {
                found.add(format!("spec.routes[{at}].gw"), Fault::Invalid);
            }
        }
    }
}
