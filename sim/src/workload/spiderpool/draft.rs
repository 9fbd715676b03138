//! A cluster with Spiderpool with values that may be open, and what people do with it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ipam_core::spiderpool::IPPoolSpec;
use ipam_core::spiderpool::names;
use ipam_core::spiderpool::ranges::IpVersion;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::adopt::{Adopted, MULTUS};
use super::lifecycle::NodeLifecycle;
use super::ops::{
    AppKind, ApplyApp, CreatePool, DeleteApp, DeletePodOf, DeletePool, EditPool, MigrateVm, NAMESPACE, PoolPlan, Reserve, RollOutApp,
    ScaleApp, Unreserve,
};
use super::plan::{PEOPLE, SpiderPlan, both};
use super::trace::TraceRows;
use crate::actor::kubelet::KubeletDelays;
use crate::draw::{Concern, Draw};
use crate::input::{Choice, Open, Probability, Problems, Source, With};
use crate::kinds::KindId;
use crate::object::Obj;
use crate::plan::{CLIENTS_MAX, OPS_MAX, Op, OpKind, Turn};
use crate::time::{SimTime, Span};
use crate::workload::{Draft, at_least_one, at_most};

/// Which addresses pods have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Families {
    /// IPv4 only.
    Ipv4,
    /// IPv6 only.
    Ipv6,
    /// One of each.
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

/// How the pods of an application come to their pools (A §2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PoolWish {
    /// They name none, and take the default pools of the cluster.
    ClusterDefault,
    /// The CNI configuration names pools.
    CniConfig,
    /// Their namespace names pools.
    Namespace,
    /// The annotation `ippool` names pools, in an order.
    Ippool,
    /// The annotation `ippool` names pools by a pattern.
    Wildcard,
    /// The annotation `ippools` names pools for each NIC.
    Ippools,
    /// The same without the names of the NICs.
    Nameless,
}

impl Open for PoolWish {}

/// What people do to a pool for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PoolChange {
    /// They disable it.
    Disable,
    /// They exclude its lower half.
    Exclude,
    /// They keep it for one node.
    Retarget,
    /// They delete it and create it again.
    Recreate,
    /// They reserve its lower half.
    Reserve,
}

impl Open for PoolChange {}

/// A cluster and what people do with it, of which values may be open. By default a few applications come and go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SpiderDraft {
    /// See [`SpiderPlan::nodes`].
    pub nodes: Choice<u32>,
    /// See [`SpiderPlan::on_demand`].
    pub on_demand: bool,
    /// Whether nodes that fall silent are noticed and their pods evicted; kubelets then say that they are alive (K §6).
    pub node_lifecycle: bool,
    /// See [`NodeLifecycle::monitor_grace`].
    pub monitor_grace: Choice<Span>,
    /// See [`NodeLifecycle::toleration`].
    pub toleration: Choice<Span>,
    /// See [`SpiderPlan::controllers`].
    pub controllers: Choice<u32>,
    /// See [`SpiderPlan::reclaim`].
    pub reclaim: bool,
    /// See [`SpiderPlan::throttled`].
    pub throttled: Choice<bool>,
    /// See [`SpiderPlan::settings`].
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// See [`SpiderPlan::kubelet`].
    pub kubelet: KubeletDelays,
    /// Which addresses pods have.
    pub families: Choice<Families>,
    /// How many pools there are of each family.
    pub pools: Choice<u32>,
    /// How many addresses each of them has.
    pub addresses: Choice<u32>,
    /// How many pools of each family serve pods that name none.
    pub default_pools: Choice<u32>,
    /// How many applications there are.
    pub apps: Choice<u32>,
    /// Of which kind each is; if there are none, of which kinds those of scripted operations are.
    pub kinds: Choice<AppKind>,
    /// How many pods each has.
    pub replicas: Choice<u32>,
    /// How its pods come to their pools.
    pub wishes: Choice<PoolWish>,
    /// How many NICs its pods have.
    pub nics: Choice<u32>,
    /// How many applications start and stop all their pods at once, if they are StatefulSets.
    pub parallel: Probability,
    /// How long pods may take to stop, in seconds.
    pub grace: Choice<u32>,
    /// When each application is created.
    pub arrival: Choice<Span>,
    /// How long it lives before it is deleted.
    pub life: Choice<Span>,
    /// How many applications are deleted again.
    pub deleted: Probability,
    /// How many of those are created again under the same name.
    pub replaced: Probability,
    /// How many deletions of pods are forced: the API forgets the pod before its kubelet has stopped it.
    pub forced: Probability,
    /// How many applications are scaled, once.
    pub scaled: Probability,
    /// To how many pods.
    pub scaled_to: Choice<u32>,
    /// How many of these are scaled back soon after.
    pub scaled_back: Probability,
    /// How many applications have all their pods replaced, once.
    pub rolled_out: Probability,
    /// How many roll-outs also change the pools that pods name.
    pub rewished: Probability,
    /// How often somebody deletes a pod of each application.
    pub pods_deleted: Choice<u32>,
    /// How many VMs are moved to another node.
    pub migrated: Probability,
    /// How many bare pods complete by themselves, at the time at which they would be deleted.
    pub completes: Probability,
    /// How often people change a pool for a while.
    pub pool_changes: Choice<u32>,
    /// What they do.
    pub pool_change: Choice<PoolChange>,
    /// For how long.
    pub changed_for: Choice<Span>,
    /// When all this happens: scaling, roll-outs, deletions of pods, changes of pools.
    pub events: Choice<Span>,
    /// Pods come and go as in this file instead: CSV with a header; relative to the scenario, or to where the program runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// By how much the time of the trace is compressed.
    pub trace_compression: u32,
    /// How many pods each pod of the trace stands for.
    pub trace_replication: u32,
    /// What the columns of the trace are called: `name`, `creation_time`, `deletion_time`, `scheduled_time`, if not so.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub trace_columns: BTreeMap<String, String>,
    /// What the trace says, once it was read.
    #[serde(skip)]
    #[schemars(skip)]
    pub(super) rows: Arc<TraceRows>,
    /// What the user's own cluster holds, if there is one: then nothing of this is generated besides events.
    #[serde(skip)]
    #[schemars(skip)]
    pub(super) adopted: Option<Arc<Adopted>>,
}

fn probability(value: f64) -> Probability {
    Probability::new(value).unwrap_or_else(|| unreachable!("{value} is a probability"))
}

impl Default for SpiderDraft {
    fn default() -> Self {
        let secs = Span::secs;
        Self {
            nodes: Choice::Between(2, 3),
            on_demand: false,
            node_lifecycle: false,
            monitor_grace: Choice::Is(secs(50)),
            toleration: Choice::Is(secs(300)),
            controllers: Choice::Is(1),
            reclaim: false,
            throttled: Choice::Is(true),
            settings: BTreeMap::new(),
            kubelet: KubeletDelays::default(),
            families: Choice::OneOf(vec![Families::Ipv4, Families::Dual]),
            pools: Choice::Between(1, 3),
            addresses: Choice::Between(40, 80),
            default_pools: Choice::Between(1, 2),
            apps: Choice::Between(2, 5),
            kinds: Choice::OneOf(vec![AppKind::StatefulSet, AppKind::Deployment, AppKind::Pod]),
            replicas: Choice::Between(1, 4),
            wishes: Choice::OneOf(vec![PoolWish::ClusterDefault, PoolWish::Ippool, PoolWish::Ippools]),
            nics: Choice::Is(1),
            parallel: probability(0.5),
            grace: Choice::Between(2, 30),
            arrival: Choice::Between(secs(0), secs(20)),
            life: Choice::Between(secs(10), secs(60)),
            deleted: probability(0.5),
            replaced: probability(0.5),
            forced: probability(0.0),
            scaled: probability(0.3),
            scaled_to: Choice::Between(0, 5),
            scaled_back: probability(0.5),
            rolled_out: probability(0.2),
            rewished: probability(0.0),
            pods_deleted: Choice::Between(0, 2),
            migrated: probability(0.5),
            completes: probability(0.2),
            pool_changes: Choice::Is(0),
            pool_change: Choice::Is(PoolChange::Disable),
            changed_for: Choice::Between(secs(5), secs(30)),
            events: Choice::Between(secs(10), secs(60)),
            trace: None,
            trace_compression: 1,
            trace_replication: 1,
            trace_columns: BTreeMap::new(),
            rows: Arc::default(),
            adopted: None,
        }
    }
}

/// The annotation that names the networks of further NICs.
const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

/// The Multus network of the first NIC in generated clusters.
const CLUSTER_NETWORK: &str = "kube-system/macvlan";

/// A pool of a generated cluster.
fn pool(version: IpVersion, number: u32, addresses: u32, default: bool) -> PoolPlan {
    let last = addresses.max(1);
    let (name, subnet, range, gateway) = match version {
        IpVersion::V4 => {
            let net = 10 + number;
            let range = format!("10.{net}.0.1-10.{net}.{}.{}", last / 256, last % 256);
            (format!("v4-{number}"), format!("10.{net}.0.0/16"), range, format!("10.{net}.255.254"))
        }
        IpVersion::V6 => {
            let net = 1 + number;
            let range = format!("fd00:{net:x}::1-fd00:{net:x}::{last:x}");
            (format!("v6-{number}"), format!("fd00:{net:x}::/64"), range, format!("fd00:{net:x}::ffff:ffff"))
        }
    };
    let spec = IPPoolSpec {
        ip_version: Some(version.number()),
        subnet,
        ips: Some(vec![range]),
        gateway: Some(gateway),
        default,
        ..IPPoolSpec::default()
    };
    PoolPlan { name, spec }
}

/// The names of pools of a family in the order in which an application wishes for them.
struct Wished {
    version: IpVersion,
    pools: Vec<String>,
}

/// An annotation that names pools for one NIC.
fn one_nic(wished: &[Wished]) -> serde_json::Map<String, serde_json::Value> {
    let key = |version| if version == IpVersion::V4 { "ipv4" } else { "ipv6" };
    wished.iter().map(|wished| (key(wished.version).to_owned(), json!(wished.pools))).collect()
}

/// The annotations by which pods with so many NICs wish for pools.
fn annotations(wish: PoolWish, nics: u32, wished: &[Wished]) -> BTreeMap<String, String> {
    let mut annotations = BTreeMap::new();
    if nics > 1 {
        let networks: Vec<String> = (1..nics).map(|number| format!("kube-system/net-{number}")).collect();
        annotations.insert(NETWORKS.to_owned(), networks.join(","));
    }
    let each_nic = |named: bool| {
        let entry = |nic: u32| {
            let mut entry = one_nic(wished);
            // Each NIC has its favourite first.
            for pools in entry.values_mut().filter_map(serde_json::Value::as_array_mut) {
                let count = pools.len().max(1);
                pools.rotate_left(nic as usize % count);
            }
            if named {
                let name = if nic == 0 { "eth0".to_owned() } else { format!("net{nic}") };
                entry.insert("interface".to_owned(), json!(name));
            }
            serde_json::Value::Object(entry)
        };
        serde_json::Value::Array((0..nics).map(entry).collect()).to_string()
    };
    let (key, text) = match wish {
        PoolWish::ClusterDefault | PoolWish::CniConfig | PoolWish::Namespace => return annotations,
        PoolWish::Ippool => (names::ANNOTATION_IPPOOL, serde_json::Value::Object(one_nic(wished)).to_string()),
        PoolWish::Wildcard => {
            let patterns: Vec<Wished> = wished
                .iter()
                .map(|wished| {
                    let first = wished.pools.first();
                    let pattern = first.map(|pool| pool.rsplit_once('-').map_or("*".to_owned(), |(stem, _)| format!("{stem}-*")));
                    Wished { version: wished.version, pools: first.cloned().into_iter().chain(pattern).collect() }
                })
                .collect();
            (names::ANNOTATION_IPPOOL, serde_json::Value::Object(one_nic(&patterns)).to_string())
        }
        PoolWish::Ippools => (names::ANNOTATION_IPPOOLS, each_nic(true)),
        PoolWish::Nameless => (names::ANNOTATION_IPPOOLS, each_nic(false)),
    };
    annotations.insert(key.to_owned(), text);
    annotations
}

/// How many NICs the pods of an application have: one, and one for each network they join.
fn nics_of(app: &ApplyApp) -> u32 {
    let networks = app.annotations.get(NETWORKS).map_or("", |text| text.trim());
    let joined = match serde_json::from_str::<Vec<serde_json::Value>>(networks) {
        Ok(list) => list.len(),
        Err(_) => networks.split(',').filter(|network| !network.trim().is_empty()).count(),
    };
    1 + joined as u32
}

/// What is drawn for one application.
struct Drawn<'a> {
    draft: &'a SpiderDraft,
    pools: &'a [PoolPlan],
    versions: &'a [IpVersion],
    ops: Vec<Op>,
}

impl Drawn<'_> {
    fn add(&mut self, at: Duration, kind: OpKind) {
        self.ops.push(With { common: Turn { at: SimTime::ZERO + at, actor: PEOPLE.to_owned() }, kind });
    }

    /// The pools that an application wishes for: a few of each family, in any order.
    fn wished(&self, draw: &mut Draw) -> Vec<Wished> {
        let of = |version: &IpVersion| {
            let of_family = |pool: &&PoolPlan| pool.spec.ip_version == Some(version.number());
            let mut pools: Vec<String> = self.pools.iter().filter(of_family).map(|pool| pool.name.clone()).collect();
            let turn = draw.below(pools.len().max(1) as u64) as usize;
            pools.rotate_left(turn);
            let kept = 1 + draw.below(pools.len().max(1) as u64) as usize;
            pools.truncate(kept);
            Wished { version: *version, pools }
        };
        self.versions.iter().map(of).collect()
    }

    fn app(&mut self, draw: &mut Draw, number: u32, nodes: u32) -> AppKind {
        let draft = self.draft;
        let kind = draft.kinds.draw(draw);
        let wish = draft.wishes.draw(draw);
        let nics = draft.nics.draw(draw).max(1);
        let wished = self.wished(draw);
        let (app, namespace) = (format!("app-{number}"), NAMESPACE.to_owned());
        let arrival = draft.arrival.draw(draw).0;
        let life = draft.life.draw(draw).0;
        let replicas = draft.replicas.draw(draw);
        let mut apply = ApplyApp {
            app: app.clone(),
            namespace: namespace.clone(),
            kind,
            replicas,
            annotations: annotations(wish, nics, &wished),
            parallel: draw.chance(draft.parallel.get()),
            grace: Some(draft.grace.draw(draw)),
            ..ApplyApp::default()
        };
        let node = draw.below(u64::from(nodes)) as u32;
        let completes = draw.chance(draft.completes.get());
        if kind == AppKind::Pod {
            apply.node = Some(node);
            apply.completes = completes.then_some(Span(life));
        } else if kind == AppKind::Job {
            apply.completes = Some(Span(life));
        }
        self.add(arrival, OpKind::ApplyApp(apply.clone()));
        let deleted = draw.chance(draft.deleted.get()).then_some(arrival + life);
        let forced = draw.chance(draft.forced.get());
        let replaced = draw.chance(draft.replaced.get());
        if let Some(at) = deleted {
            let delete = DeleteApp { app: app.clone(), namespace: namespace.clone(), force: forced && kind == AppKind::Pod };
            self.add(at, OpKind::DeleteApp(delete));
            if replaced {
                apply.node = apply.node.map(|_| draw.below(u64::from(nodes)) as u32);
                self.add(at + Duration::from_millis(1), OpKind::ApplyApp(apply.clone()));
            }
        }
        self.events(draw, &apply, nics, arrival..deleted.filter(|_| !replaced).unwrap_or(Duration::MAX));
        kind
    }

    /// What happens to an application while it lives.
    ///
    /// Its pods keep the number of their NICs: whoever joins a network in addition names pools for it.
    fn events(&mut self, draw: &mut Draw, apply: &ApplyApp, nics: u32, life: Range<Duration>) {
        let (draft, after) = (self.draft, life.start);
        let mut events: Vec<(Duration, OpKind)> = Vec::new();
        let scales = matches!(apply.kind, AppKind::StatefulSet | AppKind::Deployment | AppKind::ReplicaSet);
        let (app, namespace) = (apply.app.clone(), apply.namespace.clone());
        let when = |draw: &mut Draw| after + draft.events.draw(draw).0;
        let (at, scaled) = (when(draw), draw.chance(draft.scaled.get()));
        let (to, back) = (draft.scaled_to.draw(draw), draw.chance(draft.scaled_back.get()));
        if scaled && scales {
            let scale = |replicas| OpKind::ScaleApp(ScaleApp { app: app.clone(), namespace: namespace.clone(), replicas });
            events.push((at, scale(to)));
            if back {
                let soon = draw.between(Duration::from_millis(100), Duration::from_secs(20));
                events.push((at + soon, scale(apply.replicas)));
            }
        }
        let (at, rolled) = (when(draw), draw.chance(draft.rolled_out.get()));
        if rolled && (scales || apply.kind == AppKind::DaemonSet) {
            let rewished = draw.chance(draft.rewished.get());
            let wish = draft.wishes.draw(draw);
            let annotations = if rewished { annotations(wish, nics, &self.wished(draw)) } else { BTreeMap::new() };
            events.push((at, OpKind::RollOutApp(RollOutApp { app: app.clone(), namespace: namespace.clone(), annotations })));
        }
        for _ in 0..draft.pods_deleted.draw(draw) {
            let (at, number) = (when(draw), draw.below(u64::from(apply.replicas.max(1))) as u32);
            let force = draw.chance(draft.forced.get());
            if apply.kind != AppKind::Pod {
                events.push((at, OpKind::DeletePodOf(DeletePodOf { app: app.clone(), namespace: namespace.clone(), number, force })));
            }
        }
        let (at, migrated) = (when(draw), draw.chance(draft.migrated.get()));
        if migrated && apply.kind == AppKind::VirtualMachine {
            events.push((at, OpKind::MigrateVm(MigrateVm { app, namespace })));
        }
        for (at, kind) in events {
            if life.contains(&at) {
                self.add(at, kind);
            }
        }
    }

    /// People change a pool, and change it back.
    fn pool_change(&mut self, draw: &mut Draw, number: u32, node_names: &dyn Fn(u32) -> String, nodes: u32) {
        let (at, lasts) = (self.draft.events.draw(draw).0, self.draft.changed_for.draw(draw).0);
        let change = self.draft.pool_change.draw(draw);
        let (which, node) = (draw.u64(), draw.below(u64::from(nodes)) as u32);
        let Some(pool) = self.pools.get(crate::draw::below(which, self.pools.len().max(1) as u64) as usize).cloned() else { return };
        let edit = EditPool { pool: pool.name.clone(), ..EditPool::default() };
        let (name, back) = (pool.name.clone(), at + lasts);
        match change {
            PoolChange::Disable => {
                self.add(at, OpKind::EditPool(EditPool { disable: Some(true), ..edit.clone() }));
                self.add(back, OpKind::EditPool(EditPool { disable: Some(false), ..edit }));
            }
            PoolChange::Exclude => {
                self.add(at, OpKind::EditPool(EditPool { exclude: Some(vec![lower_half(&pool)]), ..edit.clone() }));
                self.add(back, OpKind::EditPool(EditPool { exclude: Some(Vec::new()), ..edit }));
            }
            PoolChange::Retarget => {
                self.add(at, OpKind::EditPool(EditPool { nodes: Some(vec![node_names(node)]), ..edit.clone() }));
                self.add(back, OpKind::EditPool(EditPool { nodes: Some(Vec::new()), ..edit }));
            }
            PoolChange::Recreate => {
                self.add(at, OpKind::DeletePool(DeletePool { pool: name, force: false }));
                self.add(back, OpKind::CreatePool(CreatePool { pool: Box::new(pool) }));
            }
            PoolChange::Reserve => {
                let name = format!("reserved-{number}");
                self.add(at, OpKind::Reserve(Reserve { name: name.clone(), ips: vec![lower_half(&pool)] }));
                self.add(back, OpKind::Unreserve(Unreserve { name }));
            }
        }
    }
}

/// The lower half of a pool's first range.
fn lower_half(pool: &PoolPlan) -> String {
    let range = pool.spec.ips.iter().flatten().next();
    let version = pool.spec.ip_version.unwrap_or(4);
    let parsed = range
        .and_then(|range| ipam_core::spiderpool::ranges::parse_ranges(&[range], version, &ipam_core::spiderpool::Policy::hardened()).ok());
    match parsed.and_then(|ranges| ranges.first().copied()) {
        Some(range) => {
            let (first, last) = range.numbers();
            format!("{}-{}", range.first(), range.version().address(first + (last - first) / 2))
        }
        None => String::new(),
    }
}

impl SpiderDraft {
    /// The cluster that is generated, without applications.
    fn cluster(&self, draw: &mut Draw) -> SpiderPlan {
        let nodes = self.nodes.draw(draw).max(1);
        let families = self.families.draw(draw);
        let (pools, addresses, defaults) = (self.pools.draw(draw), self.addresses.draw(draw), self.default_pools.draw(draw));
        let mut settings = self.settings.clone();
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
            controllers: self.controllers.draw(draw),
            reclaim: self.reclaim,
            throttled: self.throttled.draw(draw),
            settings,
            cni_ipv4: Vec::new(),
            cni_ipv6: Vec::new(),
            kubelet: self.kubelet,
            namespaces: BTreeMap::new(),
            pools: all.map(|(version, number)| pool(version, number, addresses, number < defaults)).collect(),
            reserved: Vec::new(),
            kinds: BTreeSet::new(),
            brought: Vec::new(),
        };
        // The upper tiers hide the lower ones, so a cluster names pools in its configuration only if that is wished for.
        let wishes: Vec<PoolWish> = self.wishes.written().into_iter().copied().collect();
        let of = |plan: &SpiderPlan, version: IpVersion| -> Vec<String> {
            let mut names: Vec<String> =
                plan.pools.iter().filter(|pool| pool.spec.ip_version == Some(version.number())).map(|pool| pool.name.clone()).collect();
            names.reverse();
            names
        };
        if wishes.contains(&PoolWish::CniConfig) {
            plan.cni_ipv4 = of(&plan, IpVersion::V4);
            plan.cni_ipv6 = of(&plan, IpVersion::V6);
        }
        if wishes.contains(&PoolWish::Namespace) {
            let text = |names: Vec<String>| (!names.is_empty()).then(|| json!(names).to_string());
            let v4 = text(of(&plan, IpVersion::V4)).map(|text| (names::ANNOTATION_DEFAULT_IPV4_IPPOOL.to_owned(), text));
            let v6 = text(of(&plan, IpVersion::V6)).map(|text| (names::ANNOTATION_DEFAULT_IPV6_IPPOOL.to_owned(), text));
            plan.namespaces.insert(NAMESPACE.to_owned(), v4.into_iter().chain(v6).collect());
        }
        plan
    }
}

impl Draft for SpiderDraft {
    type Plan = SpiderPlan;

    fn bounds(&self) -> [SpiderPlan; 2] {
        let mut draw = Draw::new(0, Concern::Workload, 0);
        let (plan, _) = self.draw(&mut draw);
        let (fewest, most) = match &self.adopted {
            Some(_) => (plan.nodes, plan.nodes),
            None => ((*self.nodes.bounds().0).max(1), *self.nodes.bounds().1),
        };
        let (fewest_controllers, most_controllers) = self.controllers.bounds();
        [
            SpiderPlan { nodes: fewest, controllers: *fewest_controllers, ..plan.clone() },
            SpiderPlan { nodes: most, controllers: *most_controllers, ..plan },
        ]
    }

    fn problems(&self, source: Source<'_>) -> Problems {
        let most = |choice: &Choice<u32>| u64::from(*choice.bounds().1);
        let mut problems = Problems::new();
        let operations = most(&self.apps) * (8 + most(&self.pods_deleted)) + 2 * most(&self.pool_changes);
        for (key, what, value, limit) in [
            ("nodes", "`workload.nodes`", most(&self.nodes), u64::from(CLIENTS_MAX)),
            ("controllers", "`workload.controllers`", most(&self.controllers), 10),
            ("pools", "`workload.pools`", most(&self.pools), 200),
            ("addresses", "`workload.addresses`", most(&self.addresses), 65_000),
            ("replicas", "`workload.replicas`", most(&self.replicas), 100_000),
            ("nics", "`workload.nics`", most(&self.nics), 16),
            ("apps", "the number of operations", operations, OPS_MAX),
        ] {
            problems.append(at_most(source, key, what, value, limit));
        }
        problems.append(at_least_one(source, "nodes", "`workload.nodes`", *self.nodes.bounds().0));
        if self.on_demand && self.node_lifecycle {
            problems.push(both(source));
        }
        problems.append(at_least_one(source, "trace_compression", "`workload.trace_compression`", self.trace_compression));
        problems.append(at_least_one(source, "trace_replication", "`workload.trace_replication`", self.trace_replication));
        problems
    }

    fn draw(&self, draw: &mut Draw) -> (SpiderPlan, Vec<Op>) {
        let mut plan = self.cluster(draw);
        if let Some(adopted) = &self.adopted {
            adopted.move_in(&mut plan, &self.settings);
        }
        let pools = match &self.adopted {
            Some(adopted) => adopted.pools.clone(),
            None => plan.pools.clone(),
        };
        let used = |version: &IpVersion| pools.iter().any(|pool| pool.spec.ip_version == Some(version.number()));
        let versions: Vec<IpVersion> = [IpVersion::V4, IpVersion::V6].into_iter().filter(used).collect();
        let mut drawn = Drawn { draft: self, pools: &pools, versions: &versions, ops: Vec::new() };
        if let Some(adopted) = &self.adopted {
            for app in &adopted.apps {
                drawn.events(draw, app, nics_of(app), Duration::ZERO..Duration::MAX);
            }
        } else if self.trace.is_some() {
            let pods = self.rows.pods(self.trace_compression, self.trace_replication);
            plan.kinds.insert(AppKind::Pod);
            for pod in pods {
                drawn.add(pod.created, OpKind::ApplyApp(pod.apply()));
                if let Some(deleted) = pod.deleted {
                    let delete = DeleteApp { app: pod.name, namespace: NAMESPACE.to_owned(), force: false };
                    drawn.add(deleted, OpKind::DeleteApp(delete));
                }
            }
        } else {
            let apps = self.apps.draw(draw);
            if apps == 0 {
                // Operations that are scripted make applications of the kinds that are named.
                plan.kinds.extend(self.kinds.written().into_iter().copied());
            }
            for number in 0..apps {
                let kind = drawn.app(draw, number, plan.nodes);
                plan.kinds.insert(kind);
            }
        }
        let names = |number| plan.node_name(number);
        for number in 0..self.pool_changes.draw(draw) {
            drawn.pool_change(draw, number, &names, plan.nodes);
        }
        let mut ops = drawn.ops;
        plan.node_lifecycle = self
            .node_lifecycle
            .then(|| NodeLifecycle { monitor_grace: self.monitor_grace.draw(draw), toleration: self.toleration.draw(draw) });
        ops.sort_by_key(|op| op.common.at);
        (plan, ops)
    }

    fn read_files(&mut self, folder: &Path) -> Result<(), Problems> {
        let Some(trace) = &self.trace else { return Ok(()) };
        // What stands in a scenario is beside it; what is given on the command line is where that is.
        let beside = folder.join(trace);
        let path = if beside.exists() { beside } else { PathBuf::from(trace) };
        self.rows = Arc::new(TraceRows::read(&path, &self.trace_columns)?);
        Ok(())
    }

    fn adopt(&mut self, objects: &[(KindId, Obj)]) {
        self.adopted = Adopted::of(objects).map(Arc::new);
    }
}
