//! The draw of operations: applications come and go, pools change.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use ipam_spiderpool::ranges::{CheckedRanges, IpVersion};
use ipam_spiderpool::{IPPoolSpec, names};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sim_config::draw::Draw;
use sim_config::time::{SimTime, Span};
use sim_config::{Choice, Open, Probability, With};
use sim_harness::operation::{Op, Turn};

use super::super::budget;
use super::super::ops::{
    AnnotateNamespace, AppKind, ApplyApp, Cascade, CreateNamespace, CreatePool, DeleteApp, DeletePodOf, DeletePool, DrainNode, EditPool,
    EditRecord, EditStatefulSet, GarbleRecords, LabelNamespace, LabelNode, MigrateVm, NAMESPACE, PoolPlan, Reserve, RollOutApp, ScaleApp,
    UncordonNode, Unreserve,
};
use super::super::plan::OPERATOR;
use super::super::subnets::drawn::{IpNumber, asks, change};
use super::super::subnets::ops::SubnetPlan;
use super::SpiderDraft;
use super::cluster::app_name;
use super::rules::{ZONE, ZONES};
use super::wishes::{PoolWish, Wished, annotations};
use crate::Operation;

/// A change that operators make to a pool for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PoolChange {
    /// Disable it: it gives no more addresses, and keeps those in use.
    Disable,
    /// Exclude its lower half.
    Exclude,
    /// Restrict it to one node.
    Retarget,
    /// Delete it and create it again.
    Recreate,
    /// Reserve its lower half.
    Reserve,
    /// Remove its lower half from its ranges; addresses in use stay.
    Shrink,
    /// Add as many addresses again after its last.
    Grow,
    /// Type a stray character into its records, which cannot be parsed until it is removed.
    Garble,
}

impl Open for PoolChange {}

/// The state of the draw of operations.
pub(super) struct Drawn<'a> {
    pub(super) draft: &'a SpiderDraft,
    pub(super) pools: &'a [PoolPlan],
    pub(super) subnets: &'a [SubnetPlan],
    pub(super) versions: &'a [IpVersion],
    /// The namespaces of applications.
    pub(super) namespaces: &'a [String],
    pub(super) nodes: u32,
    pub(super) ops: Vec<Op>,
}

/// Whether an application of this kind has a number of replicas.
fn scales(kind: AppKind) -> bool {
    matches!(kind, AppKind::StatefulSet | AppKind::Deployment | AppKind::ReplicaSet | AppKind::CloneSet)
}

/// The share of mistakes that are corrected.
const MENDED: f64 = 0.7;

/// Whether an event of this probability happens. At probability 0 nothing is drawn, so that other draws stay the same.
fn chance(draw: &mut Draw, probability: Probability) -> bool {
    probability.get() > 0.0 && draw.chance(probability.get())
}

/// A zone other than this one, or none.
fn other_zone(draw: &mut Draw, zone: Option<&String>) -> String {
    let others = ZONES.into_iter().filter(|other| zone.is_none_or(|zone| zone != other));
    let all: Vec<&str> = others.chain([""]).collect();
    (*draw.pick(&all)).to_owned()
}

impl Drawn<'_> {
    pub(super) fn add(&mut self, at: Duration, kind: Operation) {
        self.ops.push(With { common: Turn { at: SimTime::ZERO + at, actor: OPERATOR.to_owned() }, kind: kind.into() });
    }

    /// The pools that an application asks for: a few of each family, in some order.
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

    /// The annotations with which the pods of an application ask for pools in this way.
    fn annotations(&self, draw: &mut Draw, wish: PoolWish, apply: &ApplyApp, nics: u32) -> BTreeMap<String, String> {
        let wished = self.wished(draw);
        if wish == PoolWish::Subnet { self.subnet_annotations(draw, apply, nics) } else { annotations(wish, nics, &wished) }
    }

    /// The annotations with which the pods of an application ask for auto pools; none if it cannot have any.
    fn subnet_annotations(&self, draw: &mut Draw, apply: &ApplyApp, nics: u32) -> BTreeMap<String, String> {
        let draft = self.draft;
        let turn = draw.u64();
        // Spiderpool does not count the pods of an unknown kind, so such an application asks for a number (A §8.3).
        let number = draft.ip_number.draw(draw);
        let number = if matches!(apply.kind, AppKind::CloneSet | AppKind::CustomResource) { IpNumber::Fixed } else { number };
        let number = number.text(draft.spare.draw(draw), self.most_pods(apply));
        let keeps = draw.chance(draft.keeps_pools.get());
        let of = |version: &IpVersion| {
            let of_family = |subnet: &&SubnetPlan| subnet.spec.ip_version == Some(version.number());
            let mut subnets: Vec<String> = self.subnets.iter().filter(of_family).map(|subnet| subnet.name.clone()).collect();
            let first = sim_config::draw::below(turn, subnets.len().max(1) as u64) as usize;
            subnets.rotate_left(first);
            if nics == 1 {
                subnets.truncate(1);
            }
            Wished { version: *version, pools: subnets }
        };
        let wished: Vec<Wished> = self.versions.iter().map(of).collect();
        let enough = wished.iter().all(|wished| wished.pools.len() >= nics as usize);
        if !enough || !asks(apply.kind) {
            return annotations(PoolWish::ClusterDefault, nics, &wished);
        }
        let mut annotations = annotations(PoolWish::Subnet, nics, &wished);
        annotations.extend(number.map(|number| (names::ANNOTATION_IPPOOL_IP_NUMBER.to_owned(), number)));
        if keeps {
            annotations.insert(names::ANNOTATION_IPPOOL_RECLAIM.to_owned(), "false".to_owned());
        }
        annotations
    }

    /// The maximum number of pods of an application.
    fn most_pods(&self, apply: &ApplyApp) -> u32 {
        if apply.kind == AppKind::DaemonSet {
            return self.nodes;
        }
        let scaled = if self.draft.scaled.get() > 0.0 { *self.draft.scaled_to.bounds().1 } else { 0 };
        apply.replicas.max(scaled)
    }

    pub(super) fn app(&mut self, draw: &mut Draw, number: u32) -> AppKind {
        let (draft, nodes) = (self.draft, self.nodes);
        let kind = draft.kinds.draw(draw);
        let wish = draft.wishes.draw(draw);
        let nics = draft.nics.draw(draw).max(1);
        let nics = if wish == PoolWish::Subnet && asks(kind) { nics.min(most_nics(self.subnets)) } else { nics };
        let wished = self.wished(draw);
        let (app, namespace) = (app_name(number), self.namespace(draw));
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
        if wish == PoolWish::Subnet {
            apply.annotations = self.subnet_annotations(draw, &apply, nics);
        }
        if kind == AppKind::StatefulSet {
            apply.on_delete = chance(draw, draft.on_delete);
            apply.start = if let Choice::Is(start) = draft.start { start } else { draft.start.draw(draw) };
        }
        let node = draw.below(u64::from(nodes)) as u32;
        let completes = draw.chance(draft.completes.get());
        if kind == AppKind::Pod {
            apply.node = Some(node);
            apply.completes = completes.then_some(Span(life));
        } else if kind == AppKind::Job {
            apply.completes = Some(Span(life));
        } else if kind == AppKind::CronJob {
            let every = draft.every.draw(draw);
            (apply.every, apply.completes) = (Some(every), Some(every.min(Span(life))));
        }
        if scales(kind) && apply.replicas > 1 && chance(draw, draft.budgeted) {
            budget::draw(draw, &mut apply);
        }
        if draft.has_zones() {
            apply.labels.insert(ZONE.to_owned(), (*draw.pick(&ZONES)).to_owned());
        }
        let routes = self.routes(draw);
        if !routes.is_empty() {
            apply.annotations.insert(names::ANNOTATION_ROUTES.to_owned(), json!(routes).to_string());
        }
        let mistaken = self.mistaken(draw, &apply, &wished);
        self.add(arrival, Operation::ApplyApp(mistaken.clone().unwrap_or_else(|| apply.clone())));
        // A CronJob that went on creating pods would never let the cluster come to rest: it starts a few Jobs, and is deleted and not
        // replaced.
        let is_cron_job = kind == AppKind::CronJob;
        let life = apply.every.map_or(life, |every| life.max(every.0 * 5 / 2));
        let deleted = (draw.chance(draft.deleted.get()) || is_cron_job).then_some(arrival + life);
        let forced = draw.chance(draft.forced.get());
        let foreground = draw.chance(draft.foreground.get());
        let replaced = draw.chance(draft.replaced.get()) && !is_cron_job;
        let orphaned = kind == AppKind::StatefulSet && chance(draw, draft.orphaned);
        // Orphans wait for the next StatefulSet of the same name.
        let gap = if orphaned { draw.between(Duration::from_millis(1), Duration::from_secs(20)) } else { Duration::from_millis(1) };
        let replaced = replaced || orphaned;
        if let Some(at) = deleted {
            let cascade = match kind {
                AppKind::Pod | AppKind::CustomResource => Cascade::Background,
                _ if orphaned => Cascade::Orphan,
                _ if foreground => Cascade::Foreground,
                _ => Cascade::Background,
            };
            let delete = DeleteApp { app: app.clone(), namespace: namespace.clone(), force: forced && kind == AppKind::Pod, cascade };
            self.add(at, Operation::DeleteApp(delete));
            if replaced {
                apply.node = apply.node.map(|_| draw.below(u64::from(nodes)) as u32);
                self.add(at + gap, Operation::ApplyApp(apply.clone()));
            }
        }
        let life = arrival..deleted.filter(|_| !replaced).unwrap_or(Duration::MAX);
        if let Some(mistaken) = mistaken {
            self.mend(draw, &mistaken, &apply, arrival..deleted.unwrap_or(Duration::MAX));
        }
        self.events(draw, &apply, nics, life);
        kind
    }

    /// The namespace of an application.
    fn namespace(&self, draw: &mut Draw) -> String {
        match self.namespaces {
            [only] => only.clone(),
            several => draw.pick(several).clone(),
        }
    }

    /// Adds operations that create some namespaces while others are in use already, and that remove the pools of some for a while.
    pub(super) fn namespace_changes(&mut self, draw: &mut Draw, there: &mut BTreeMap<String, BTreeMap<String, String>>) {
        for name in self.namespaces {
            let (late, changes) = (name != NAMESPACE && draw.chance(0.3), draw.chance(0.3));
            let annotations = there.get(name).cloned().unwrap_or_default();
            let annotate = |annotations| Operation::AnnotateNamespace(AnnotateNamespace { namespace: name.clone(), annotations });
            if late {
                there.remove(name);
                let at = draw.between(Duration::ZERO, Duration::from_secs(15));
                self.add(at, Operation::CreateNamespace(CreateNamespace { namespace: name.clone() }));
                if !annotations.is_empty() {
                    self.add(at + draw.between(Duration::from_millis(1), Duration::from_secs(5)), annotate(annotations.clone()));
                }
            }
            if changes && !annotations.is_empty() {
                let (at, lasts) = (self.draft.events.draw(draw).0, self.draft.changed_for.draw(draw).0);
                self.add(at, annotate(annotations.keys().map(|key| (key.clone(), String::new())).collect()));
                self.add(at + lasts, annotate(annotations));
            }
        }
    }

    /// Adds operations that label all nodes and namespaces at the start, and that change or remove the label of some for a while.
    pub(super) fn zones(&mut self, draw: &mut Draw, node_names: &dyn Fn(u32) -> String, nodes: u32) {
        let label = |zone: &str| BTreeMap::from([(ZONE.to_owned(), zone.to_owned())]);
        let node = |name: String, zone: &str| Operation::LabelNode(LabelNode { node: name, labels: label(zone) });
        let namespace = |name: String, zone: &str| Operation::LabelNamespace(LabelNamespace { namespace: name, labels: label(zone) });
        let nodes = (0..nodes).map(|number| (node_names(number), true));
        let all: Vec<(String, bool)> = nodes.chain(self.namespaces.iter().map(|name| (name.clone(), false))).collect();
        for (name, is_node) in all {
            let labelled = |zone: &str| if is_node { node(name.clone(), zone) } else { namespace(name.clone(), zone) };
            let zone = *draw.pick(&ZONES);
            self.add(Duration::ZERO, labelled(zone));
            if chance(draw, self.draft.relabelled) {
                let (at, lasts) = (self.draft.events.draw(draw).0, self.draft.changed_for.draw(draw).0);
                self.add(at, labelled(&other_zone(draw, Some(&zone.to_owned()))));
                self.add(at + lasts, labelled(zone));
            }
        }
    }

    /// The application with a mistake; `None` = it is written without one.
    fn mistaken(&self, draw: &mut Draw, apply: &ApplyApp, wished: &[Wished]) -> Option<ApplyApp> {
        if !chance(draw, self.draft.mistaken) {
            return None;
        }
        let mut mistaken = apply.clone();
        self.draft.mistake.draw(draw).make(apply.kind, &mut mistaken.annotations, wished);
        (mistaken != *apply).then_some(mistaken)
    }

    /// Adds operations that correct most mistakes after a while: in the template if there is one, otherwise by deleting the application and
    /// creating it anew. Pods that a StatefulSet created from the old template, and that do not come up, have to be deleted, too.
    fn mend(&mut self, draw: &mut Draw, mistaken: &ApplyApp, apply: &ApplyApp, life: Range<Duration>) {
        let at = life.start + draw.between(Duration::from_secs(5), Duration::from_secs(40));
        // An application that is about to be deleted is not corrected.
        if !draw.chance(MENDED) || !life.contains(&(at + Duration::from_secs(2))) {
            return;
        }
        let (app, namespace) = (apply.app.clone(), apply.namespace.clone());
        if matches!(apply.kind, AppKind::Pod | AppKind::CustomResource | AppKind::Job | AppKind::CronJob | AppKind::VirtualMachine) {
            self.add(at, Operation::DeleteApp(DeleteApp { app, namespace, force: false, cascade: Cascade::Background }));
            self.add(at + Duration::from_millis(1), Operation::ApplyApp(apply.clone()));
            return;
        }
        let mut annotations = apply.annotations.clone();
        for key in mistaken.annotations.keys() {
            annotations.entry(key.clone()).or_default();
        }
        let roll_out = RollOutApp { app: app.clone(), namespace: namespace.clone(), annotations, ..RollOutApp::default() };
        self.add(at, Operation::RollOutApp(roll_out));
        if apply.kind == AppKind::StatefulSet {
            for number in 0..apply.replicas {
                let delete = DeletePodOf { app: app.clone(), namespace: namespace.clone(), number, force: false };
                self.add(at + Duration::from_secs(1 + u64::from(number)), Operation::DeletePodOf(delete));
            }
        }
    }

    /// Adds the events of an application's life.
    pub(super) fn events(&mut self, draw: &mut Draw, apply: &ApplyApp, nics: u32, life: Range<Duration>) {
        let (draft, after) = (self.draft, life.start);
        let mut events: Vec<(Duration, Operation)> = Vec::new();
        let scales = scales(apply.kind);
        let (app, namespace) = (apply.app.clone(), apply.namespace.clone());
        let when = |draw: &mut Draw| after + draft.events.draw(draw).0;
        let (at, scaled) = (when(draw), draw.chance(draft.scaled.get()));
        let (to, back) = (draft.scaled_to.draw(draw), draw.chance(draft.scaled_back.get()));
        if scaled && scales {
            let scale = |replicas| Operation::ScaleApp(ScaleApp { app: app.clone(), namespace: namespace.clone(), replicas });
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
            let rewired = chance(draw, draft.rewired);
            let annotations = if rewired {
                self.rewired(draw, wish, apply)
            } else if rewished {
                self.annotations(draw, wish, apply, nics)
            } else {
                BTreeMap::new()
            };
            let roll_out = RollOutApp { app: app.clone(), namespace: namespace.clone(), annotations, ..RollOutApp::default() };
            self.roll_out(draw, apply, at, roll_out.clone(), &mut events);
            // A network that is left may be joined again, and vice versa.
            if rewired && chance(draw, draft.rewired) {
                let (later, wish) = (draw.between(Duration::from_secs(15), Duration::from_secs(60)), draft.wishes.draw(draw));
                let mut annotations = self.rewired(draw, wish, apply);
                for key in roll_out.annotations.keys() {
                    annotations.entry(key.clone()).or_default();
                }
                events.push((at + later, Operation::RollOutApp(RollOutApp { annotations, ..roll_out })));
            }
        }
        for _ in 0..draft.pods_deleted.draw(draw) {
            let (at, number) = (when(draw), draw.below(u64::from(apply.replicas.max(1))) as u32);
            let force = draw.chance(draft.forced.get());
            if apply.kind != AppKind::Pod {
                events.push((at, Operation::DeletePodOf(DeletePodOf { app: app.clone(), namespace: namespace.clone(), number, force })));
            }
        }
        let (at, migrated) = (when(draw), draw.chance(draft.migrated.get()));
        if migrated && apply.kind == AppKind::VirtualMachine {
            events.push((at, Operation::MigrateVm(MigrateVm { app: app.clone(), namespace: namespace.clone() })));
        }
        if apply.kind == AppKind::StatefulSet && chance(draw, draft.renumbered) {
            let (at, start) = (when(draw), Some(draw.below(4) as u32));
            events.push((at, Operation::EditStatefulSet(EditStatefulSet { app, namespace, start, ..EditStatefulSet::default() })));
        }
        if draft.has_zones() && chance(draw, draft.relabelled) && (scales || apply.kind == AppKind::DaemonSet) {
            let (at, lasts) = (when(draw), draft.changed_for.draw(draw).0);
            let (app, namespace) = (apply.app.clone(), apply.namespace.clone());
            for (at, zone) in
                [(at, other_zone(draw, apply.labels.get(ZONE))), (at + lasts, apply.labels.get(ZONE).cloned().unwrap_or_default())]
            {
                let labels = [(ZONE.to_owned(), zone)].into();
                let roll_out = RollOutApp { app: app.clone(), namespace: namespace.clone(), labels, ..RollOutApp::default() };
                events.push((at, Operation::RollOutApp(roll_out)));
            }
        }
        for (at, kind) in events {
            if life.contains(&at) {
                self.add(at, kind);
            }
        }
    }

    /// The annotations that give pods another number of NICs. They also name pools anew, so that former annotations about pools no longer
    /// apply.
    fn rewired(&self, draw: &mut Draw, wish: PoolWish, apply: &ApplyApp) -> BTreeMap<String, String> {
        let nics = self.draft.nics.draw(draw).max(1);
        let nics = if wish == PoolWish::Subnet { nics.min(most_nics(self.subnets)) } else { nics };
        let mut annotations = self.annotations(draw, wish, apply, nics);
        for key in apply.annotations.keys() {
            annotations.entry(key.clone()).or_default();
        }
        annotations
    }

    /// Adds a change of the template. Pods of a StatefulSet may be replaced later than others, or each by hand.
    fn roll_out(&self, draw: &mut Draw, apply: &ApplyApp, at: Duration, roll_out: RollOutApp, events: &mut Vec<(Duration, Operation)>) {
        let (app, namespace) = (roll_out.app.clone(), roll_out.namespace.clone());
        let delete = |number| Operation::DeletePodOf(DeletePodOf { app: app.clone(), namespace: namespace.clone(), number, force: false });
        let part = |partition| {
            let edit = EditStatefulSet { app: app.clone(), namespace: namespace.clone(), partition, ..EditStatefulSet::default() };
            Operation::EditStatefulSet(edit)
        };
        let is_set = apply.kind == AppKind::StatefulSet;
        let partitioned = is_set && !apply.on_delete && chance(draw, self.draft.partitioned);
        let partition = partitioned.then(|| 1 + draw.below(u64::from(apply.replicas.max(1))) as u32);
        if partition.is_some() {
            events.push((at, part(partition)));
        }
        events.push((at, Operation::RollOutApp(roll_out)));
        if let Some(partition) = partition {
            let lasts = draw.between(Duration::from_secs(10), Duration::from_secs(40));
            // A pod that keeps its template is also replaced.
            let lost = draw.between(Duration::from_secs(2), lasts);
            events.push((at + lost, delete(draw.below(u64::from(partition)) as u32)));
            events.push((at + lasts, part(Some(0))));
        }
        if is_set && apply.on_delete {
            for number in 0..apply.replicas {
                if draw.chance(0.6) {
                    events.push((at + draw.between(Duration::from_secs(1), Duration::from_secs(30)), delete(number)));
                }
            }
        }
    }

    /// Adds operations that drain a node, and uncordon it.
    pub(super) fn drain(&mut self, draw: &mut Draw, node_names: &dyn Fn(u32) -> String, nodes: u32) {
        let (at, lasts) = (self.draft.events.draw(draw).0, self.draft.changed_for.draw(draw));
        let node = node_names(draw.below(u64::from(nodes)) as u32);
        self.add(at, Operation::DrainNode(DrainNode { node: node.clone(), timeout: lasts }));
        self.add(at + lasts.0, Operation::UncordonNode(UncordonNode { node }));
    }

    /// Adds operations that change a subnet, and undo the change.
    pub(super) fn subnet_change(&mut self, draw: &mut Draw) {
        let (at, lasts) = (self.draft.events.draw(draw).0, self.draft.changed_for.draw(draw).0);
        let kind = self.draft.subnet_change.draw(draw);
        let subnet = draw.pick(self.subnets).clone();
        let half = lower_half(subnet.spec.ips.as_ref(), subnet.spec.ip_version);
        let [there, back] = change(kind, subnet, half);
        self.add(at, there);
        self.add(at + lasts, back);
    }

    /// Adds operations that create `count` pools at once, each overlapping the next: all of one CIDR, which no other pool has.
    pub(super) fn overlapping_pools(&mut self, draw: &mut Draw, count: u32) {
        let at = self.draft.events.draw(draw).0;
        for number in 0..count {
            let first = 1 + number * OVERLAPPING_EVERY;
            let pool = overlapping_pool(number, first, first + OVERLAPPING_SIZE - 1);
            self.add(at, Operation::CreatePool(CreatePool { pool: Box::new(pool) }));
        }
    }

    /// Adds operations that change a pool, and undo the change.
    pub(super) fn pool_change(&mut self, draw: &mut Draw, number: u32, node_names: &dyn Fn(u32) -> String, nodes: u32) {
        let (at, lasts) = (self.draft.events.draw(draw).0, self.draft.changed_for.draw(draw).0);
        let change = self.draft.pool_change.draw(draw);
        let (which, node) = (draw.u64(), draw.below(u64::from(nodes)) as u32);
        let Some(pool) = self.pools.get(sim_config::draw::below(which, self.pools.len().max(1) as u64) as usize).cloned() else { return };
        let half = || lower_half(pool.spec.ips.as_ref(), pool.spec.ip_version);
        let edit = EditPool { pool: pool.name.clone(), applied: chance(draw, self.draft.applied), ..EditPool::default() };
        let (name, back) = (pool.name.clone(), at + lasts);
        match change {
            PoolChange::Disable => {
                self.add(at, Operation::EditPool(EditPool { disable: Some(true), ..edit.clone() }));
                self.add(back, Operation::EditPool(EditPool { disable: Some(false), ..edit }));
            }
            PoolChange::Exclude => {
                self.add(at, Operation::EditPool(EditPool { exclude: Some(vec![half()]), ..edit.clone() }));
                self.add(back, Operation::EditPool(EditPool { exclude: Some(Vec::new()), ..edit }));
            }
            PoolChange::Retarget => {
                self.add(at, Operation::EditPool(EditPool { nodes: Some(vec![node_names(node)]), ..edit.clone() }));
                self.add(back, Operation::EditPool(EditPool { nodes: Some(Vec::new()), ..edit }));
            }
            PoolChange::Shrink | PoolChange::Grow => {
                let ips = pool.spec.ips.clone().unwrap_or_default();
                let Some(changed) = other_ranges(change, &pool.spec) else { return };
                self.add(at, Operation::EditPool(EditPool { ips: Some(changed), ..edit.clone() }));
                self.add(back, Operation::EditPool(EditPool { ips: Some(ips), ..edit }));
            }
            PoolChange::Garble => {
                self.add(at, Operation::GarbleRecords(GarbleRecords { pool: name.clone(), mended: false }));
                self.add(back, Operation::GarbleRecords(GarbleRecords { pool: name, mended: true }));
            }
            PoolChange::Recreate => {
                self.add(at, Operation::DeletePool(DeletePool { pool: name, force: false }));
                self.add(back, Operation::CreatePool(CreatePool { pool: Box::new(pool) }));
            }
            PoolChange::Reserve => {
                let name = format!("reserved-{number}");
                self.add(at, Operation::Reserve(Reserve { name: name.clone(), ips: vec![half()] }));
                self.add(back, Operation::Unreserve(Unreserve { name }));
            }
        }
    }

    /// Adds a record of a pod that never existed, half of the time with an endpoint, for one of the last addresses of a pool: agents give
    /// those last.
    pub(super) fn leaked_record(&mut self, draw: &mut Draw, number: u32) {
        let at = self.draft.events.draw(draw).0;
        let (which, uid, endpoint) = (draw.u64(), draw.u64(), draw.chance(0.5));
        let pool = self.pools.get(sim_config::draw::below(which, self.pools.len().max(1) as u64) as usize);
        let Some((pool, ip)) = pool.and_then(|pool| Some((pool.name.clone(), from_the_end(&pool.spec, number)?))) else { return };
        let damaged = chance(draw, self.draft.damaged);
        let pod = Some(format!("{NAMESPACE}/leaked-{number}{}", if damaged { "/0" } else { "" }));
        let uid = format!("{:08x}-0000-4000-8000-{:012x}", uid >> 32, uid & 0xffff_ffff);
        // No endpoint can have a damaged name.
        let ip = if chance(draw, self.draft.misplaced) { format!("{ip}/32") } else { ip };
        let edit = EditRecord { pool, ip, pod, uid, endpoint: endpoint && !damaged, if_free: true, ..EditRecord::default() };
        self.add(at, Operation::EditRecord(edit));
    }
}

/// The maximum number of NICs of a pod with a subnet each.
fn most_nics(subnets: &[SubnetPlan]) -> u32 {
    let of = |version: IpVersion| subnets.iter().filter(|subnet| subnet.spec.ip_version == Some(version.number())).count();
    of(IpVersion::V4).max(of(IpVersion::V6)).max(1) as u32
}

/// The lower half of the first of these ranges.
fn lower_half(ips: Option<&Vec<String>>, version: Option<i64>) -> String {
    let range = ips.into_iter().flatten().next();
    let version = version.unwrap_or(4);
    let parsed =
        range.and_then(|range| ipam_spiderpool::ranges::parse_ranges(&[range], version, &ipam_spiderpool::Policy::hardened()).ok());
    match parsed.and_then(|ranges| ranges.first().copied()) {
        Some(range) => {
            let (first, last) = range.numbers();
            format!("{}-{}", range.first(), range.version().address(first + (last - first) / 2))
        }
        None => String::new(),
    }
}

/// The address that lies `number` before the end of a pool's last range; `None` = the range is shorter.
fn from_the_end(spec: &IPPoolSpec, number: u32) -> Option<String> {
    let ips = spec.ips.as_deref()?;
    let ranges = ipam_spiderpool::ranges::parse_ranges(ips, spec.ip_version.unwrap_or(4), &ipam_spiderpool::Policy::hardened()).ok()?;
    let range = ranges.last()?;
    let (first, last) = range.numbers();
    let at = last.checked_sub(u128::from(number)).filter(|at| *at >= first)?;
    Some(range.version().address(at).to_string())
}

/// The ranges of a pool that shrinks to its upper half, or grows by as many addresses after its last; `None` = it cannot.
fn other_ranges(change: PoolChange, spec: &IPPoolSpec) -> Option<Vec<String>> {
    let (ips, version) = (spec.ips.as_deref()?, spec.ip_version.unwrap_or(4));
    let ranges = ipam_spiderpool::ranges::parse_ranges(ips, version, &ipam_spiderpool::Policy::hardened()).ok()?;
    let range = ranges.first()?;
    let (first, last) = range.numbers();
    let text = |first, last| format!("{}-{}", range.version().address(first), range.version().address(last));
    if change == PoolChange::Shrink {
        let upper = text(first + (last - first).div_ceil(2), last);
        return Some([&[upper][..], &ips[1..]].concat());
    }
    let grown = [ips, &[text(last.checked_add(1)?, last.checked_add(last - first + 1)?)][..]].concat();
    let excluded = spec.exclude_ips.as_deref().unwrap_or_default();
    // No pool gives addresses outside of its CIDR, and none has an address twice.
    let fits = CheckedRanges::parse(&spec.subnet, &grown, excluded, &ipam_spiderpool::Policy::hardened()).is_ok();
    fits.then_some(grown)
}

/// The number of addresses of each overlapping pool, and the distance from the first address of one to that of the next.
const OVERLAPPING_SIZE: u32 = 12;
const OVERLAPPING_EVERY: u32 = 8;

/// A pool for all pods, with these addresses of a CIDR that all overlapping pools share.
fn overlapping_pool(number: u32, first: u32, last: u32) -> PoolPlan {
    let ip = |offset: u32| format!("10.254.{}.{}", offset / 256, offset % 256);
    let spec = IPPoolSpec {
        ip_version: Some(4),
        subnet: "10.254.0.0/16".to_owned(),
        ips: Some(vec![format!("{}-{}", ip(first), ip(last))]),
        default: true,
        ..IPPoolSpec::default()
    };
    PoolPlan { name: format!("overlap-{number}"), spec }
}
