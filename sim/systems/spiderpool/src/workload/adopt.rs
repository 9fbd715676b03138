//! A cluster that the user supplies: its nodes, pools and applications replace generated ones.

use std::collections::{BTreeMap, BTreeSet};

use ipam_spiderpool::ipam::AgentSettings;
use ipam_spiderpool::ranges::IpVersion;
use ipam_spiderpool::reclaim::ReclaimSettings;
use ipam_spiderpool::{Policy, SpiderIPPool, SpiderSubnet};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_sim::kinds::KindId;
use kube_sim::kinds::kruise::CloneSet;
use kube_sim::object::Obj;
use serde_json::Value;

use super::ops::{AppKind, ApplyApp, NAMESPACE, PoolPlan};
use super::plan::{BroughtApp, SUBNETS, SpiderPlan};
use super::subnets::ops::SubnetPlan;

/// The content of the user's manifests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Adopted {
    pub(super) nodes: Vec<String>,
    /// The pools, so that operators can change them.
    pub(super) pools: Vec<PoolPlan>,
    /// The subnets, so that operators can change them.
    pub(super) subnets: Vec<SubnetPlan>,
    /// The applications, so that operators can scale them, roll them out and delete their pods.
    pub(super) apps: Vec<ApplyApp>,
    kinds: BTreeSet<AppKind>,
    /// The namespaces that contain objects and are not among the manifests.
    pub(super) namespaces: BTreeSet<String>,
    /// The content of Spiderpool's ConfigMap, if there is one.
    settings: BTreeMap<String, String>,
}

/// The ConfigMap with Spiderpool's settings (A §10).
const SETTINGS: &str = "spiderpool-conf";
/// The key of the ConfigMap that holds most of the settings, as YAML.
const CONF: &str = "conf.yml";
/// The key of the ConfigMap for the setting that agents know as [`MULTUS`].
const CLUSTER_NETWORK: &str = "clusterNetwork";
/// The Multus network of first NICs.
pub(super) const MULTUS: &str = "MULTUS_CLUSTER_NETWORK";

impl Adopted {
    /// The content of `objects`; `None` = nothing that could replace a generated cluster: no node, no pool, no subnet, no application, no
    /// pod. Namespaces, reservations and settings alone are not enough.
    pub fn of(objects: &[(KindId, Obj)]) -> Option<Self> {
        let mut adopted = Self::default();
        for (_, object) in objects {
            adopted.take(object);
            adopted.namespaces.extend(object.meta().namespace.clone());
        }
        for (_, object) in objects.iter().filter(|(_, object)| object.as_any().is::<Namespace>()) {
            adopted.namespaces.retain(|namespace| object.meta().name.as_ref() != Some(namespace));
        }
        // Every cluster has these namespaces.
        adopted.namespaces.retain(|namespace| !matches!(namespace.as_str(), "default" | "kube-system"));
        let Self { nodes, pools, subnets, kinds, .. } = &adopted;
        let is_cluster = !(nodes.is_empty() && pools.is_empty() && subnets.is_empty() && kinds.is_empty());
        is_cluster.then_some(adopted)
    }

    fn take(&mut self, object: &Obj) {
        let (any, meta) = (object.as_any(), object.meta());
        if any.is::<Node>() {
            self.node(meta.name.as_ref());
        } else if let Some(pool) = any.downcast_ref::<SpiderIPPool>() {
            let mut spec = pool.spec.clone();
            spec.ip_version = Some(version(spec.ip_version, &spec.subnet));
            self.pools.push(PoolPlan { name: meta.name.clone().unwrap_or_default(), spec });
        } else if let Some(subnet) = any.downcast_ref::<SpiderSubnet>() {
            let mut spec = subnet.spec.clone();
            spec.ip_version = Some(version(spec.ip_version, &spec.subnet));
            self.subnets.push(SubnetPlan { name: meta.name.clone().unwrap_or_default(), spec });
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
        } else if any.is::<CronJob>() {
            self.app(meta, AppKind::CronJob, None);
        } else if let Some(set) = any.downcast_ref::<CloneSet>() {
            self.app(meta, AppKind::CloneSet, set.spec.replicas);
        } else if any.is::<kube_machinery::kubevirt::VirtualMachine>() {
            self.app(meta, AppKind::VirtualMachine, None);
        } else if let Some(pod) = any.downcast_ref::<Pod>() {
            self.kinds.insert(AppKind::Pod);
            // If a pod runs on a node, the node exists, whether its Node is among the manifests or not.
            self.node(pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()));
        } else if meta.name.as_deref() == Some(SETTINGS)
            && let Ok(map) = serde_json::from_value::<ConfigMap>(object.to_value())
        {
            self.settings = settings(&map);
        }
    }

    fn node(&mut self, name: Option<&String>) {
        self.nodes.extend(name.filter(|name| !name.is_empty() && !self.nodes.contains(name)).cloned());
    }

    fn app(&mut self, meta: &ObjectMeta, kind: AppKind, replicas: Option<i32>) {
        self.kinds.insert(kind);
        // An object with an owner is part of that application.
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

    /// Replaces the generated cluster by the user's.
    ///
    /// Settings that the scenario states (`stated`) take precedence; otherwise the user's count, and settings that the user does not state
    /// have their defaults.
    pub(super) fn move_in(&self, plan: &mut SpiderPlan, stated: &BTreeMap<String, String>) {
        if !self.nodes.is_empty() {
            plan.nodes = self.nodes.len() as u32;
            plan.node_names.clone_from(&self.nodes);
        }
        plan.pools.clear();
        plan.subnets.clear();
        plan.reserved.clear();
        plan.cni_ipv4.clear();
        plan.cni_ipv6.clear();
        plan.masters.clear();
        plan.namespaces = self.namespaces.iter().map(|name| (name.clone(), BTreeMap::new())).collect();
        plan.kinds.clone_from(&self.kinds);
        let brought = |app: &ApplyApp| BroughtApp { app: app.app.clone(), namespace: app.namespace.clone(), kind: app.kind };
        plan.brought = self.apps.iter().map(brought).collect();
        // A Deployment uses ReplicaSets, whether the manifests contain them or not.
        if self.kinds.contains(&AppKind::Deployment) {
            plan.kinds.insert(AppKind::ReplicaSet);
        }
        let versions = self.pools.iter().map(|pool| pool.spec.ip_version);
        let versions: BTreeSet<_> = versions.chain(self.subnets.iter().map(|subnet| subnet.spec.ip_version)).flatten().collect();
        for (name, version) in [("enableIPv4", IpVersion::V4), ("enableIPv6", IpVersion::V6)] {
            plan.settings.insert(name.to_owned(), versions.contains(&version.number()).to_string());
            // The families of a cluster without any address are unknown.
            if versions.is_empty() {
                plan.settings.remove(name);
            }
        }
        plan.settings.remove(MULTUS);
        plan.settings.remove(SUBNETS);
        if !self.subnets.is_empty() {
            plan.settings.insert(SUBNETS.to_owned(), true.to_string());
        }
        plan.settings.extend(self.settings.clone());
        plan.settings.extend(stated.clone());
        // Subnets need webhooks, and these need a replica that serves them.
        if plan.has_webhooks() {
            plan.controllers = plan.controllers.max(1);
        }
    }
}

/// The family of a pool or a subnet. Hand-written manifests may leave out the family, which the webhook derives from the CIDR.
fn version(stated: Option<i64>, cidr: &str) -> i64 {
    stated.unwrap_or(if cidr.contains(':') { 6 } else { 4 })
}

/// The settings for agents and for reclaim in the ConfigMap. Settings of other components are left out; unknown ones were refused when the
/// manifests were read.
fn settings(map: &ConfigMap) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut take = |name: &str, value: String| {
        let (name, policy) = (if name == CLUSTER_NETWORK { MULTUS } else { name }, Policy::hardened());
        let mut settings = AgentSettings::new(&policy);
        if settings.set(name, &value) == Ok(true) || ReclaimSettings::new(&policy).set(name, &value) == Ok(true) {
            // The plan compares the text of this setting.
            let value = if name == SUBNETS { settings.select.enable_spider_subnet.to_string() } else { value };
            found.insert(name.to_owned(), value);
        }
    };
    for (key, text) in map.data.iter().flatten() {
        if key != CONF {
            take(key, text.clone());
            continue;
        }
        let inner: BTreeMap<String, Value> = serde_saphyr::from_str(text).unwrap_or_default();
        for (name, value) in inner {
            match value {
                Value::String(text) => take(&name, text),
                Value::Bool(_) | Value::Number(_) => take(&name, value.to_string()),
                Value::Null | Value::Array(_) | Value::Object(_) => {}
            }
        }
    }
    found
}
