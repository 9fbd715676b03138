//! The draw of a cluster: nodes, pools and settings, without applications.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipam_spiderpool::IPPoolSpec;
use ipam_spiderpool::names;
use ipam_spiderpool::ranges::IpVersion;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sim_config::draw::Draw;
use sim_config::time::Span;
use sim_config::{Choice, Open};

use super::super::adopt::MULTUS;
use super::super::network::Network;
use super::super::ops::{NAMESPACE, PoolPlan};
use super::super::plan::{SUBNETS, SpiderPlan};
use super::super::subnets::drawn::{cut_pool_name, pools_of, subnet, subnet_name};
use super::SpiderDraft;
use super::rules::{CLUSTER_NETWORK, Named, PoolRule, some};
use super::wishes::PoolWish;

/// The IP families of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Families {
    /// IPv4 addresses only: no pool or subnet is of the other family, and `enableIPv6` is false unless `settings` has it.
    Ipv4,
    /// IPv6 addresses only: no pool or subnet is of the other family, and `enableIPv4` is false unless `settings` has it.
    Ipv6,
    /// An address of each family for each NIC: there are as many pools and subnets of IPv4 as of IPv6.
    Dual,
}

impl Open for Families {}

impl Families {
    fn versions(self) -> &'static [IpVersion] {
        match self {
            Families::Ipv4 => &[IpVersion::V4],
            Families::Ipv6 => &[IpVersion::V6],
            Families::Dual => &[IpVersion::V4, IpVersion::V6],
        }
    }
}

/// The name of a pool of a generated cluster.
fn pool_name(version: IpVersion, number: u32) -> String {
    format!("v{}-{number}", version.number())
}

/// A pool of a generated cluster.
fn pool(version: IpVersion, number: u32, addresses: u32, default: bool) -> PoolPlan {
    let name = pool_name(version, number);
    let prefix = match version {
        IpVersion::V4 => format!("10.{}", 10 + number),
        IpVersion::V6 => format!("fd00:{:x}", 1 + number),
    };
    let Network { cidr, range, gateway } = Network::new(version, &prefix, addresses);
    let spec = IPPoolSpec {
        ip_version: Some(version.number()),
        subnet: cidr,
        ips: Some(vec![range]),
        gateway: Some(gateway),
        default,
        ..IPPoolSpec::default()
    };
    PoolPlan { name, spec }
}

/// The addresses of the physical function of a node: in some of the subnets, at least one of each family. They lie right before the
/// gateways, far behind the addresses of pools.
fn masters(draw: &mut Draw, plan: &SpiderPlan, families: Families, node: u32) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    for version in families.versions() {
        let of_family = plan.pools.iter().filter(|pool| pool.spec.ip_version == Some(version.number()));
        let gateways: BTreeSet<IpAddr> = of_family.filter_map(|pool| pool.spec.gateway.as_ref()?.parse().ok()).collect();
        let some = some(draw, &gateways.into_iter().collect::<Vec<_>>());
        addresses.extend(some.into_iter().map(|gateway| match gateway {
            IpAddr::V4(gateway) => IpAddr::from(Ipv4Addr::from_bits(gateway.to_bits() - 1 - node)),
            IpAddr::V6(gateway) => IpAddr::from(Ipv6Addr::from_bits(gateway.to_bits() - 1 - u128::from(node))),
        }));
    }
    addresses
}

impl SpiderDraft {
    /// The IP families that a generated cluster may have.
    fn versions(&self) -> BTreeSet<IpVersion> {
        self.families.written().into_iter().flat_map(|families| families.versions()).copied().collect()
    }

    /// The names of all pools that a generated cluster may have.
    pub(in super::super) fn pool_names(&self) -> BTreeSet<String> {
        let most = |choice: &Choice<u32>| *choice.bounds().1;
        let pools = self.versions().into_iter().flat_map(|version| (0..most(&self.pools)).map(move |number| pool_name(version, number)));
        let subnets = self.subnet_names();
        let cut = subnets.iter().flat_map(|subnet| (0..most(&self.subnet_pools)).map(|place| cut_pool_name(subnet, place)));
        pools.chain(cut).collect()
    }

    /// The names of all subnets that a generated cluster may have.
    pub(in super::super) fn subnet_names(&self) -> BTreeSet<String> {
        let most = *self.subnets.bounds().1;
        self.versions().into_iter().flat_map(|version| (0..most).map(move |number| subnet_name(version, number))).collect()
    }

    /// The cluster that is generated, without applications.
    pub(super) fn cluster(&self, draw: &mut Draw) -> SpiderPlan {
        let nodes = self.nodes.draw(draw).max(1);
        let families = self.families.draw(draw);
        let (pools, addresses, defaults) = (self.pools.draw(draw), self.addresses.draw(draw), self.default_pools.draw(draw));
        let mut settings = self.drawn_settings(draw);
        let mut set = |name: &str, value: &str| {
            settings.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        };
        set("enableIPv4", if families == Families::Ipv6 { "false" } else { "true" });
        set("enableIPv6", if families == Families::Ipv4 { "false" } else { "true" });
        set(MULTUS, CLUSTER_NETWORK);
        let all = families.versions().iter().flat_map(|version| (0..pools).map(move |number| (*version, number)));
        let mut plan = SpiderPlan {
            nodes,
            node_names: Vec::new(),
            on_demand: self.on_demand,
            node_lifecycle: None,
            reclaim: self.reclaim,
            admission: self.admission,
            controllers: self.controllers.draw(draw),
            throttled: self.throttled.draw(draw),
            probe: self.probe.as_ref().map_or_else(Span::default, |probe| probe.draw(draw)),
            settings,
            backoff: self.backoff,
            cni_ipv4: Vec::new(),
            cni_ipv6: Vec::new(),
            masters: Vec::new(),
            kubelet: self.kubelet,
            runtimes_without_uid: BTreeSet::new(),
            closed_loop: self.closed_loop,
            namespaces: BTreeMap::new(),
            pools: all.map(|(version, number)| pool(version, number, addresses, number < defaults)).collect(),
            subnets: Vec::new(),
            reserved: Vec::new(),
            kinds: BTreeSet::new(),
            brought: Vec::new(),
        };
        // Drawn only if the scenario asks for it, so that the draws of other scenarios stay the same.
        if *self.subnets.bounds().1 > 0 {
            let (number, addresses) = (self.subnets.draw(draw), self.subnet_addresses.draw(draw));
            let all = families.versions().iter().flat_map(|version| (0..number).map(move |number| (*version, number)));
            plan.subnets = all.map(|(version, number)| subnet(version, number, addresses)).collect();
            let by_hand = self.subnet_pools.draw(draw);
            plan.pools.extend(plan.subnets.iter().flat_map(|subnet| pools_of(subnet, by_hand)));
            plan.settings.entry(SUBNETS.to_owned()).or_insert_with(|| (number > 0).to_string());
        }
        self.rule_pools(draw, &mut plan);
        self.name_pools(draw, &mut plan);
        // Drawn only if the scenario asks for it, so that the draws of other scenarios stay the same.
        if *self.match_master_subnet.bounds().1 && self.match_master_subnet.draw(draw) {
            plan.masters = (0..nodes).map(|number| masters(draw, &plan, families, number)).collect();
        }
        self.route_pools(draw, &mut plan);
        plan
    }

    /// The names of the namespaces that applications of a generated cluster may be in.
    pub(in super::super) fn namespace_names(&self) -> impl Iterator<Item = String> {
        namespaces(*self.namespaces.bounds().1)
    }

    /// Gives each pool its rule.
    fn rule_pools(&self, draw: &mut Draw, plan: &mut SpiderPlan) {
        // Drawn only if the scenario asks for it, so that the draws of other scenarios stay the same.
        if matches!(self.rules, Choice::Is(PoolRule::Everyone)) {
            return;
        }
        let apps = *self.apps.bounds().1;
        let named = Named {
            nodes: (0..plan.nodes).map(|number| plan.node_name(number)).collect(),
            namespaces: self.namespace_names().collect(),
            apps: (0..apps.max(1)).map(app_name).collect(),
            nics: (*self.nics.bounds().1).max(1),
        };
        let SpiderPlan { pools, reserved, .. } = plan;
        for pool in pools {
            let rule = self.rules.draw(draw);
            reserved.extend(rule.put(draw, &pool.name, &mut pool.spec, &named));
        }
    }

    /// Draws the pools that namespaces and the CNI configuration name (A §2.1, tiers 4 and 5).
    fn name_pools(&self, draw: &mut Draw, plan: &mut SpiderPlan) {
        let names: Vec<String> = if let Choice::Is(count) = self.namespaces {
            namespaces(count).collect()
        } else {
            namespaces(self.namespaces.draw(draw)).collect()
        };
        let several = names.len() > 1;
        // The upper tiers hide the lower ones, so the configuration of a cluster names pools only if `wishes` say so.
        let wishes: Vec<PoolWish> = self.wishes.written().into_iter().copied().collect();
        let of = |plan: &SpiderPlan, version: IpVersion| -> Vec<String> {
            let mut names: Vec<String> =
                plan.pools.iter().filter(|pool| pool.spec.ip_version == Some(version.number())).map(|pool| pool.name.clone()).collect();
            names.reverse();
            names
        };
        let hides = several && wishes.contains(&PoolWish::ClusterDefault);
        if wishes.contains(&PoolWish::CniConfig) && (!hides || draw.chance(0.5)) {
            plan.cni_ipv4 = of(plan, IpVersion::V4);
            plan.cni_ipv6 = of(plan, IpVersion::V6);
        }
        let by_namespace = wishes.contains(&PoolWish::Namespace);
        if !several && !by_namespace {
            return;
        }
        for name in names {
            let mut annotations = BTreeMap::new();
            if by_namespace && (!several || draw.chance(0.6)) {
                let outdated = several && draw.chance(0.3);
                let [v4, v6] = if outdated { OUTDATED } else { CURRENT };
                let text = |names: Vec<String>| (!names.is_empty()).then(|| json!(names).to_string());
                let v4 = text(of(plan, IpVersion::V4)).map(|text| (v4.to_owned(), text));
                let v6 = text(of(plan, IpVersion::V6)).map(|text| (v6.to_owned(), text));
                annotations = v4.into_iter().chain(v6).collect();
            }
            plan.namespaces.insert(name, annotations);
        }
    }
}

/// The annotations with which a namespace names pools, and those of the documents (D §0).
const CURRENT: [&str; 2] = [names::ANNOTATION_DEFAULT_IPV4_IPPOOL, names::ANNOTATION_DEFAULT_IPV6_IPPOOL];
const OUTDATED: [&str; 2] = [names::ANNOTATION_DEFAULT_IPV4_IPPOOL_OUTDATED, names::ANNOTATION_DEFAULT_IPV6_IPPOOL_OUTDATED];

/// The first `count` namespaces of applications.
fn namespaces(count: u32) -> impl Iterator<Item = String> {
    (0..count.max(1)).map(|number| if number == 0 { NAMESPACE.to_owned() } else { format!("team-{number}") })
}

/// The name of an application of a generated cluster.
pub(super) fn app_name(number: u32) -> String {
    format!("app-{number}")
}
