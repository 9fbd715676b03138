//! The draw of manifests: pools, subnets and reservations that nothing else needs, and those of the cluster, most of them with a flaw.

use std::collections::BTreeMap;

use ipam_spiderpool::ranges::IpVersion;
use ipam_spiderpool::{IPPoolSpec, ReservedIPSpec, Route, SubnetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::Open;
use sim_config::draw::Draw;

use super::super::manifests::{ApplyManifest, Manifest, ReservationPlan};
use super::super::network::Network;
use super::super::ops::{DeletePool, PoolPlan, Unreserve};
use super::super::subnets::ops::{DeleteSubnet, SubnetPlan};
use super::operations::Drawn;
use crate::Operation;

/// An oddity of a manifest: most are wrong, some are valid but rare (A §9). An object without the field in question stays unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ManifestFlaw {
    /// No flaw: the manifest is valid.
    None,
    /// The family is stated, and is that of its addresses.
    Family,
    /// The other family is stated.
    OtherFamily,
    /// The CIDR has host bits.
    HostBits,
    /// An address in place of the CIDR.
    NoCidr,
    /// A wider CIDR around its own.
    WiderCidr,
    /// A CIDR that no other object has.
    OtherCidr,
    /// No addresses: the list is absent.
    NoAddresses,
    /// No addresses: the list is empty, and so are those of routes and labels.
    EmptyLists,
    /// An address outside of the CIDR.
    Outside,
    /// An address of the other family.
    MixedFamilies,
    /// A range that ends before it begins.
    Reversed,
    /// A range that cannot be read.
    Unreadable,
    /// Two ranges that share addresses.
    SharedTwice,
    /// Two ranges that touch, which is valid.
    Touching,
    /// The upper half of its addresses is missing.
    Halved,
    /// Twice as many addresses, the new ones after the last.
    Doubled,
    /// Addresses that belong to a pool of the cluster.
    Taken,
    /// The lower half is excluded, in two ranges that touch.
    Excluded,
    /// Addresses that it does not have are excluded.
    ExcludedElsewhere,
    /// Addresses outside of the CIDR are excluded.
    ExcludedOutside,
    /// The excluded ranges cannot be read.
    ExcludedUnreadable,
    /// The gateway is one of its addresses.
    GatewayGiven,
    /// The gateway is one of its addresses, and excluded.
    GatewayExcluded,
    /// The gateway is outside of the CIDR.
    GatewayOutside,
    /// The gateway is no address.
    GatewayUnreadable,
    /// A route that is valid.
    Route,
    /// A route to everywhere.
    DefaultRoute,
    /// Two routes to one destination.
    RouteTwice,
    /// A route to a destination of the other family.
    RouteOtherFamily,
    /// A route to a destination that is no CIDR.
    RouteUnreadable,
    /// A route with a gateway outside of the CIDR.
    RouteOutside,
    /// A pod selector with a label that no pod has.
    Affinity,
    /// An expression whose operator takes values, and that has them.
    Expression,
    /// A selector that selects everything.
    AffinityOfAll,
    /// A label with an invalid key.
    BadLabelKey,
    /// A label whose key has a prefix of 254 characters, one more than is valid.
    LongLabelKey,
    /// A label with an invalid value.
    BadLabelValue,
    /// An expression with an operator that does not exist.
    BadOperator,
    /// An expression whose operator needs a value, and that has none.
    NoValues,
    /// An expression whose operator takes no value, and that has one.
    NeedlessValues,
}

impl Open for ManifestFlaw {}

/// The fields that pools and subnets have in common, and the subset that reservations have.
struct Fields<'a> {
    family: IpVersion,
    version: &'a mut Option<i64>,
    ips: &'a mut Option<Vec<String>>,
    more: Option<More<'a>>,
    affinity: Option<&'a mut Option<LabelSelector>>,
}

struct More<'a> {
    subnet: &'a mut String,
    exclude: &'a mut Option<Vec<String>>,
    gateway: &'a mut Option<String>,
    routes: &'a mut Option<Vec<Route>>,
}

/// The addresses of a network by their number.
struct Addresses {
    family: IpVersion,
    prefix: String,
}

impl Addresses {
    /// The addresses of the network of a CIDR of a generated cluster.
    fn of(family: IpVersion, cidr: &str) -> Self {
        let end = if family == IpVersion::V4 { ".0.0/16" } else { "::/64" };
        Self { family, prefix: cidr.strip_suffix(end).unwrap_or(cidr).to_owned() }
    }

    fn at(&self, number: u32) -> String {
        match self.family {
            IpVersion::V4 => format!("{}.{}.{}", self.prefix, number / 256, number % 256),
            IpVersion::V6 => format!("{}::{number:x}", self.prefix),
        }
    }

    fn range(&self, first: u32, last: u32) -> String {
        format!("{}-{}", self.at(first), self.at(last))
    }
}

/// An address of each family that is in no network of a generated cluster.
fn elsewhere(family: IpVersion) -> &'static str {
    match family {
        IpVersion::V4 => "192.0.2.7",
        IpVersion::V6 => "2001:db8::7",
    }
}

fn other(family: IpVersion) -> IpVersion {
    if family == IpVersion::V4 { IpVersion::V6 } else { IpVersion::V4 }
}

fn route(dst: &str, gw: &str) -> Route {
    Route { dst: dst.to_owned(), gw: gw.to_owned() }
}

fn label(key: &str, value: &str) -> Option<LabelSelector> {
    Some(LabelSelector { match_labels: Some(BTreeMap::from([(key.to_owned(), value.to_owned())])), ..LabelSelector::default() })
}

fn expression(key: &str, operator: &str, values: &[&str]) -> Option<LabelSelector> {
    let values = (!values.is_empty()).then(|| values.iter().map(|value| (*value).to_owned()).collect());
    let expression = LabelSelectorRequirement { key: key.to_owned(), operator: operator.to_owned(), values };
    Some(LabelSelector { match_expressions: Some(vec![expression]), ..LabelSelector::default() })
}

impl Manifest {
    fn fields(&mut self) -> Fields<'_> {
        let family = |subnet: &str| if subnet.contains(':') { IpVersion::V6 } else { IpVersion::V4 };
        match self {
            Self::SpiderIPPool(pool) => {
                let spec = &mut pool.spec;
                Fields {
                    family: family(&spec.subnet),
                    version: &mut spec.ip_version,
                    ips: &mut spec.ips,
                    more: Some(More {
                        subnet: &mut spec.subnet,
                        exclude: &mut spec.exclude_ips,
                        gateway: &mut spec.gateway,
                        routes: &mut spec.routes,
                    }),
                    affinity: Some(&mut spec.pod_affinity),
                }
            }
            Self::SpiderSubnet(SubnetPlan { spec, .. }) => Fields {
                family: family(&spec.subnet),
                version: &mut spec.ip_version,
                ips: &mut spec.ips,
                more: Some(More {
                    subnet: &mut spec.subnet,
                    exclude: &mut spec.exclude_ips,
                    gateway: &mut spec.gateway,
                    routes: &mut spec.routes,
                }),
                affinity: None,
            },
            Self::SpiderReservedIP(ReservationPlan { spec, .. }) => Fields {
                family: family(spec.ips.iter().flatten().next().map_or("", String::as_str)),
                version: &mut spec.ip_version,
                ips: &mut spec.ips,
                more: None,
                affinity: None,
            },
        }
    }

    /// Gives the object the flaw. `size`: its number of addresses, from 1; `taken`: addresses of a pool of the cluster.
    fn spoil(&mut self, flaw: ManifestFlaw, size: u32, taken: Option<&str>) {
        let Fields { family, version, ips, more, affinity } = self.fields();
        let of = Addresses::of(family, more.as_ref().map_or("", |more| &**more.subnet));
        let of = if more.is_some() { of } else { Addresses { family, prefix: own_prefix(family, 0) } };
        let (half, number) = ((size / 2).max(1), family.number());
        let set = |list: &mut Option<Vec<String>>, texts: &[String]| *list = Some(texts.to_vec());
        let text = str::to_owned;
        match flaw {
            ManifestFlaw::Family => *version = Some(number),
            ManifestFlaw::OtherFamily => *version = Some(other(family).number()),
            ManifestFlaw::NoAddresses => *ips = None,
            ManifestFlaw::Outside => set(ips, &[text(elsewhere(family))]),
            ManifestFlaw::MixedFamilies => ips.get_or_insert_default().push(text(elsewhere(other(family)))),
            ManifestFlaw::Reversed => set(ips, &[of.range(size + 1, 1)]),
            ManifestFlaw::Unreadable => set(ips, &[of.at(1) + "-"]),
            ManifestFlaw::SharedTwice => set(ips, &[of.range(1, size), of.range(half, size)]),
            ManifestFlaw::Touching => set(ips, &[of.range(half + 1, size.max(half + 1)), of.range(1, half)]),
            ManifestFlaw::Halved => set(ips, &[of.range(1, half)]),
            ManifestFlaw::Doubled => set(ips, &[of.range(1, 2 * size)]),
            ManifestFlaw::Taken => ips.get_or_insert_default().extend(taken.map(text)),
            _ => {}
        }
        if let Some(More { subnet, exclude, gateway, routes }) = more {
            match flaw {
                ManifestFlaw::HostBits => *subnet = subnet.replace(".0/", ".1/").replace("::/", "::1/"),
                ManifestFlaw::NoCidr => *subnet = of.at(0),
                ManifestFlaw::WiderCidr if family == IpVersion::V4 => *subnet = subnet.replace("/16", "/15"),
                ManifestFlaw::WiderCidr => *subnet = subnet.replace("/64", "/63"),
                ManifestFlaw::OtherCidr => *subnet = if family == IpVersion::V4 { text("192.0.2.0/24") } else { text("2001:db8::/64") },
                ManifestFlaw::EmptyLists => {
                    (*ips, *exclude, *routes) = (Some(Vec::new()), Some(Vec::new()), Some(Vec::new()));
                }
                ManifestFlaw::Excluded => set(exclude, &[of.range(1, half), of.at(half + 1)]),
                ManifestFlaw::ExcludedElsewhere => set(exclude, &[of.range(2 * size + 1, 2 * size + 4)]),
                ManifestFlaw::ExcludedOutside => set(exclude, &[text(elsewhere(family))]),
                ManifestFlaw::ExcludedUnreadable => set(exclude, &[text("all")]),
                ManifestFlaw::GatewayGiven => *gateway = Some(of.at(1)),
                ManifestFlaw::GatewayExcluded => {
                    *gateway = Some(of.at(size));
                    set(exclude, &[of.at(size)]);
                }
                ManifestFlaw::GatewayOutside => *gateway = Some(text(elsewhere(family))),
                ManifestFlaw::GatewayUnreadable => *gateway = Some(of.at(1) + "."),
                _ => {}
            }
            let (there, via) = if family == IpVersion::V4 { ("198.51.100.0/24", of.at(9999)) } else { ("2001:db8:1::/48", of.at(9999)) };
            let added = match flaw {
                ManifestFlaw::Route => vec![route(there, &via)],
                ManifestFlaw::DefaultRoute => vec![route(if family == IpVersion::V4 { "0.0.0.0/0" } else { "::/0" }, &via)],
                ManifestFlaw::RouteTwice => vec![route(there, &via), route(there, &of.at(9998))],
                ManifestFlaw::RouteOtherFamily => {
                    vec![route(if family == IpVersion::V4 { "2001:db8:1::/48" } else { "198.51.100.0/24" }, &via)]
                }
                ManifestFlaw::RouteUnreadable => vec![route("everywhere", &via)],
                ManifestFlaw::RouteOutside => vec![route(there, elsewhere(family))],
                _ => Vec::new(),
            };
            if !added.is_empty() {
                routes.get_or_insert_default().extend(added);
            }
        }
        let Some(affinity) = affinity else { return };
        let value = "a".repeat(64);
        match flaw {
            ManifestFlaw::Affinity => *affinity = label("example.com/team", "a"),
            ManifestFlaw::Expression => *affinity = expression("example.com/team", "In", &["a", "b"]),
            ManifestFlaw::AffinityOfAll => *affinity = Some(LabelSelector::default()),
            ManifestFlaw::EmptyLists => {
                let none = Some(LabelSelector { match_labels: Some(BTreeMap::new()), match_expressions: Some(Vec::new()) });
                *affinity = none.filter(|_| size.is_multiple_of(2));
            }
            ManifestFlaw::BadLabelKey => *affinity = label("-team", "a"),
            ManifestFlaw::LongLabelKey => *affinity = label(&format!("{}/team", "a".repeat(254)), "a"),
            ManifestFlaw::BadLabelValue => *affinity = label("team", &value),
            ManifestFlaw::BadOperator => *affinity = expression("team", "Is", &["a"]),
            ManifestFlaw::NoValues => *affinity = expression("team", "NotIn", &[]),
            ManifestFlaw::NeedlessValues => *affinity = expression("team", "Exists", &["a"]),
            _ => {}
        }
    }
}

/// The prefix of a network that is none of the cluster's.
fn own_prefix(family: IpVersion, number: u32) -> String {
    match family {
        IpVersion::V4 => format!("10.{}", 220 + number),
        IpVersion::V6 => format!("fd02:{:x}", 1 + number),
    }
}

/// A manifest of an object that nothing in the cluster needs, with `size` addresses. Objects of two numbers share a CIDR.
fn own(draw: &mut Draw, family: IpVersion, size: u32) -> Manifest {
    let number = draw.below(4) as u32;
    let Network { cidr, range, gateway } = Network::new(family, &own_prefix(family, number / 2), size);
    let name = format!("m{}-{number}", family.number());
    match draw.below(4) {
        0 => Manifest::SpiderReservedIP(ReservationPlan { name, spec: ReservedIPSpec { ip_version: None, ips: Some(vec![range]) } }),
        1 => {
            let spec = SubnetSpec { subnet: cidr, ips: Some(vec![range]), gateway: Some(gateway), ..SubnetSpec::default() };
            Manifest::SpiderSubnet(SubnetPlan { name, spec })
        }
        _ => {
            let spec = IPPoolSpec { subnet: cidr, ips: Some(vec![range]), gateway: Some(gateway), ..IPPoolSpec::default() };
            Manifest::SpiderIPPool(Box::new(PoolPlan { name, spec }))
        }
    }
}

/// The operation that deletes the object of a manifest.
fn deletion(manifest: &Manifest) -> Operation {
    match manifest {
        Manifest::SpiderIPPool(pool) => Operation::DeletePool(DeletePool { pool: pool.name.clone(), force: false }),
        Manifest::SpiderSubnet(subnet) => Operation::DeleteSubnet(DeleteSubnet { subnet: subnet.name.clone() }),
        Manifest::SpiderReservedIP(reservation) => Operation::Unreserve(Unreserve { name: reservation.name.clone() }),
    }
}

impl Drawn<'_> {
    /// Adds the operations that apply a manifest. An object of the cluster gets its spec back after a while; any other is corrected, or
    /// changed, and deleted.
    pub(super) fn manifest(&mut self, draw: &mut Draw) {
        let (at, lasts) = (self.draft.events.draw(draw).0, self.draft.changed_for.draw(draw).0);
        let flaws = [self.draft.manifest.draw(draw), self.draft.manifest.draw(draw)];
        let (which, of_cluster, both) = (draw.u64(), draw.chance(0.4), draw.chance(0.3));
        let family = *draw.pick(self.versions);
        let size = 2 + draw.below(14) as u32;
        let own = own(draw, family, size);
        let taken = self.pools.iter().find(|pool| pool.spec.ip_version == Some(family.number()));
        let taken = taken.and_then(|pool| pool.spec.ips.as_ref()?.first().cloned());
        let pools = self.pools.iter().cloned().map(Box::new).map(Manifest::SpiderIPPool);
        let mut theirs: Vec<Manifest> = pools.chain(self.subnets.iter().cloned().map(Manifest::SpiderSubnet)).collect();
        let cluster = of_cluster && !theirs.is_empty();
        let right = if cluster { theirs.swap_remove(sim_config::draw::below(which, theirs.len() as u64) as usize) } else { own };
        let mut wrong = right.clone();
        for flaw in flaws.into_iter().take(if both { 2 } else { 1 }) {
            wrong.spoil(flaw, size, taken.as_deref());
        }
        let apply = |manifest: Manifest, insists| {
            let manifest = Box::new(manifest);
            Operation::ApplyManifest(ApplyManifest { manifest, insists, owner: None })
        };
        self.add(at, apply(wrong, false));
        let back = at + lasts;
        self.add(back, apply(right.clone(), cluster));
        if !cluster {
            self.add(back + lasts, deletion(&right));
        }
    }
}
