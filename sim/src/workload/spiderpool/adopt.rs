//! A cluster that the user brings along: its nodes, pools and applications take the place of generated ones.

use std::collections::BTreeSet;

use ipam_core::spiderpool::SpiderIPPool;
use ipam_core::spiderpool::ranges::IpVersion;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::ops::{AppKind, ApplyApp, NAMESPACE, PoolPlan};
use super::plan::{BroughtApp, SpiderPlan};
use crate::kinds::KindId;
use crate::object::Obj;

/// What the user's manifests hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Adopted {
    nodes: Vec<String>,
    /// The pools, so that people can change them.
    pub(super) pools: Vec<PoolPlan>,
    /// The applications, so that people can scale, roll out and lose pods of them.
    pub(super) apps: Vec<ApplyApp>,
    kinds: BTreeSet<AppKind>,
}

impl Adopted {
    /// What `objects` hold; `None` = nothing that could take the place of a generated cluster: no pool.
    pub fn of(objects: &[(KindId, Obj)]) -> Option<Self> {
        let mut adopted = Self::default();
        for (_, object) in objects {
            adopted.take(object);
        }
        (!adopted.pools.is_empty()).then_some(adopted)
    }

    fn take(&mut self, object: &Obj) {
        let (any, meta) = (object.as_any(), object.meta());
        if any.is::<Node>() {
            self.nodes.extend(meta.name.clone());
        } else if let Some(pool) = any.downcast_ref::<SpiderIPPool>() {
            let mut spec = pool.spec.clone();
            // Whoever wrote it by hand may leave to the webhook what follows from the subnet.
            let version = spec.ip_version.unwrap_or(if spec.subnet.contains(':') { 6 } else { 4 });
            spec.ip_version = Some(version);
            self.pools.push(PoolPlan { name: meta.name.clone().unwrap_or_default(), spec });
        } else if let Some(set) = any.downcast_ref::<StatefulSet>() {
            self.app(meta, AppKind::StatefulSet, set.spec.replicas);
        } else if let Some(deployment) = any.downcast_ref::<Deployment>() {
            self.app(meta, AppKind::Deployment, deployment.spec.replicas);
        } else if let Some(set) = any.downcast_ref::<ReplicaSet>() {
            self.app(meta, AppKind::ReplicaSet, set.spec.replicas);
        } else if any.is::<DaemonSet>() {
            self.app(meta, AppKind::DaemonSet, None);
        } else if any.is::<Job>() {
            self.app(meta, AppKind::Job, None);
        } else if any.is::<ipam_core::kubevirt::VirtualMachine>() {
            self.app(meta, AppKind::VirtualMachine, None);
        } else if any.is::<Pod>() {
            self.kinds.insert(AppKind::Pod);
        }
    }

    fn app(&mut self, meta: &ObjectMeta, kind: AppKind, replicas: Option<i32>) {
        self.kinds.insert(kind);
        // What has an owner is run by it.
        if meta.owner_references.as_ref().is_some_and(|owners| !owners.is_empty()) {
            return;
        }
        self.apps.push(ApplyApp {
            app: meta.name.clone().unwrap_or_default(),
            namespace: meta.namespace.clone().unwrap_or_else(|| NAMESPACE.to_owned()),
            kind,
            replicas: replicas.map_or(1, |replicas| replicas.max(0) as u32),
            ..ApplyApp::default()
        });
    }

    /// Puts the user's cluster into the place of the generated one.
    pub(super) fn move_in(&self, plan: &mut SpiderPlan) {
        if !self.nodes.is_empty() {
            plan.nodes = self.nodes.len() as u32;
            plan.node_names.clone_from(&self.nodes);
        }
        plan.pools.clear();
        plan.reserved.clear();
        plan.namespaces.clear();
        plan.kinds.clone_from(&self.kinds);
        let brought = |app: &ApplyApp| BroughtApp { app: app.app.clone(), namespace: app.namespace.clone(), kind: app.kind };
        plan.brought = self.apps.iter().map(brought).collect();
        // A Deployment works through ReplicaSets, whether the manifests hold them or not.
        if self.kinds.contains(&AppKind::Deployment) {
            plan.kinds.insert(AppKind::ReplicaSet);
        }
        for (name, version) in [("enableIPv4", IpVersion::V4), ("enableIPv6", IpVersion::V6)] {
            let used = self.pools.iter().any(|pool| pool.spec.ip_version == Some(version.number()));
            plan.settings.insert(name.to_owned(), used.to_string());
        }
    }
}
