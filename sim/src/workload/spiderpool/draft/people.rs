//! What people do with a cluster: applications come and go, pools change.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use ipam_core::spiderpool::ranges::IpVersion;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::ops::{
    AppKind, ApplyApp, CreatePool, DeleteApp, DeletePodOf, DeletePool, EditPool, MigrateVm, NAMESPACE, PoolPlan, Reserve, RollOutApp,
    ScaleApp, Unreserve,
};
use super::super::plan::PEOPLE;
use super::SpiderDraft;
use super::wishes::{Wished, annotations};
use crate::draw::Draw;
use crate::input::{Open, With};
use crate::plan::{Op, OpKind, Turn};
use crate::time::{SimTime, Span};

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

/// What is drawn for one application.
pub(super) struct Drawn<'a> {
    pub(super) draft: &'a SpiderDraft,
    pub(super) pools: &'a [PoolPlan],
    pub(super) versions: &'a [IpVersion],
    pub(super) ops: Vec<Op>,
}

impl Drawn<'_> {
    pub(super) fn add(&mut self, at: Duration, kind: OpKind) {
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

    pub(super) fn app(&mut self, draw: &mut Draw, number: u32, nodes: u32) -> AppKind {
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
    pub(super) fn events(&mut self, draw: &mut Draw, apply: &ApplyApp, nics: u32, life: Range<Duration>) {
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
            events.push((
                at,
                OpKind::RollOutApp(RollOutApp { app: app.clone(), namespace: namespace.clone(), annotations, host_network: false }),
            ));
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
    pub(super) fn pool_change(&mut self, draw: &mut Draw, number: u32, node_names: &dyn Fn(u32) -> String, nodes: u32) {
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
