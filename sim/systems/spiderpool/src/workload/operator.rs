//! The operator: runs applications, scales and replaces them, deletes pods, and edits pools.

mod subnets;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ipam_spiderpool::names::FINALIZER;
use ipam_spiderpool::ranges::{IpSet, IpVersion, parse_ranges, subtract};
use ipam_spiderpool::{
    EndpointStatus, IPAllocationDetail, PodIPAllocation, Policy, PoolIPAllocation, RecordKey, SpiderEndpoint, SpiderIPPool,
    SpiderReservedIP,
};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_machinery::api::{DeleteOptions, ListOptions, Patch, TransportError, ignore_already_exists, ignore_not_found};
use kube_machinery::json_text::JsonText;
use kube_machinery::kubevirt::{VirtualMachine, VirtualMachineInstanceMigration, VirtualMachineInstanceMigrationSpec};
use kube_machinery::{ApiError, ClientExt, Env, Object, ObjectKey};
use kube_sim::cluster::{Cluster, SimClient};
use kube_sim::env::SimEnv;
use kube_sim::kinds::kruise::CloneSet;
use kube_sim::rt::ProcessId;
use parking_lot::Mutex;
use serde_json::{Value, json};
use sim_harness::operation::in_turn::{self, AGAIN};
use sim_harness::operation::{Op, OpKind};

use super::apps::{APP, App, MADE_BY, app_label, object};
use super::ops::{
    AppKind, ApplyApp, DeleteApp, DeletePodOf, DeletePool, EditPool, EditRecord, EditStatefulSet, GarbleRecords, NAMESPACE, RollOutApp,
    SetSettings,
};
use super::plan::OPERATOR;
use super::preload::{pool_object, reserved_object, written_pool};
use super::site::Site;
use super::subnets::admission::subnet_object;
use crate::Operation;

/// The time for which the operator retries an operation that a webhook refuses: longer than any fault of a webhook lasts.
const PATIENCE: Duration = Duration::from_secs(120);
/// The downtime of a process that a roll-out of settings replaces.
pub(crate) const DOWN: Duration = Duration::from_secs(1);
/// The finalizer of another client.
const HOLDER: &str = "example.com/backup";

#[derive(Clone)]
pub(super) struct Operator {
    pub(super) site: Arc<Site>,
    pub(super) client: SimClient,
    pub(super) env: SimEnv,
    /// The kind of each application, by namespace and name.
    kinds: Arc<BTreeMap<ObjectKey, AppKind>>,
}

/// Carries out the operations, each at its time; those with the same subject one after the other.
pub(super) async fn run(site: Arc<Site>, cluster: Arc<Cluster>, process: ProcessId, ops: Arc<Vec<Op>>, done: Arc<Mutex<BTreeSet<usize>>>) {
    let env = site.env(&cluster, process);
    let kind = |op: &Op| match op.kind.own() {
        Operation::ApplyApp(apply) => Some((ObjectKey::namespaced(&apply.namespace, &apply.app), apply.kind)),
        _ => None,
    };
    let brought = site.plan.brought.iter().map(|app| (ObjectKey::namespaced(&app.namespace, &app.app), app.kind));
    let kinds = Arc::new(brought.chain(ops.iter().filter_map(kind)).collect());
    let operator = Operator { site, client: SimClient::new(&cluster, process), env: env.clone(), kinds };
    let carry_out = move |number: usize, op: OpKind| {
        let operator = operator.clone();
        // Boxed, because the future holds an object of any type, is as large as the largest, and is moved several times.
        Box::pin(async move {
            let begun = operator.env.monotonic();
            while let Err(error) = operator.ask(number, op.own()).await {
                if is_denied(&error) && operator.env.monotonic() - begun > PATIENCE {
                    return;
                }
                operator.env.sleep(AGAIN).await;
            }
        })
    };
    in_turn::run(&cluster, &env, &ops, &done, subject, carry_out).await;
}

/// Whether a webhook denied the request.
pub(super) fn is_denied(error: &ApiError) -> bool {
    matches!(error, ApiError::Status(status) if status.text.starts_with("admission webhook"))
}

/// The subject of an operation; operations with the same subject follow each other.
fn subject(op: &Operation) -> Option<String> {
    let app = |namespace: &str, app: &str| Some(format!("app {namespace}/{app}"));
    match op {
        Operation::ApplyApp(op) => app(&op.namespace, &op.app),
        Operation::ScaleApp(op) => app(&op.namespace, &op.app),
        Operation::RollOutApp(op) => app(&op.namespace, &op.app),
        Operation::EditStatefulSet(op) => app(&op.namespace, &op.app),
        Operation::DeleteApp(op) => app(&op.namespace, &op.app),
        Operation::DeletePodOf(op) => app(&op.namespace, &op.app),
        Operation::MigrateVm(op) => app(&op.namespace, &op.app),
        Operation::CreatePool(op) => Some(format!("pool {}", op.pool.name)),
        Operation::DeletePool(op) => Some(format!("pool {}", op.pool)),
        Operation::EditPool(op) => Some(format!("pool {}", op.pool)),
        Operation::CreateSubnet(op) => Some(format!("subnet {}", op.subnet.name)),
        Operation::DeleteSubnet(op) => Some(format!("subnet {}", op.subnet)),
        Operation::EditSubnet(op) => Some(format!("subnet {}", op.subnet)),
        Operation::EditRecord(op) => Some(format!("pool {}", op.pool)),
        // An operation that waits for readable records must not delay the one that repairs them.
        Operation::GarbleRecords(op) => Some(format!("records of {}", op.pool)),
        Operation::Reserve(op) => Some(format!("reserved {}", op.name)),
        Operation::Unreserve(op) => Some(format!("reserved {}", op.name)),
        Operation::ApplyManifest(op) => Some(op.manifest.subject()),
        Operation::SetSettings(_) => Some("settings".to_owned()),
        Operation::CreateNamespace(op) => Some(format!("namespace {}", op.namespace)),
        Operation::AnnotateNamespace(op) => Some(format!("namespace {}", op.namespace)),
        Operation::LabelNamespace(op) => Some(format!("namespace {}", op.namespace)),
        Operation::DeleteNamespace(op) => Some(format!("namespace {}", op.namespace)),
        Operation::LabelNode(op) => Some(format!("node {}", op.node)),
        Operation::DrainNode(op) => Some(format!("node {}", op.node)),
        Operation::UncordonNode(op) => Some(format!("node {}", op.node)),
    }
}

impl Operator {
    /// Makes one attempt at an operation.
    async fn ask(&self, number: usize, op: &Operation) -> Result<(), ApiError> {
        match op {
            Operation::ApplyApp(apply) => {
                self.apply_app(apply, number).await?;
                self.create_budget(apply).await
            }
            Operation::ScaleApp(op) => self.patch_app(&op.namespace, &op.app, json!({"spec": {"replicas": op.replicas}})).await,
            Operation::RollOutApp(op) => self.patch_app(&op.namespace, &op.app, roll_out(op, number)).await,
            Operation::EditStatefulSet(op) => self.edit_stateful_set(op).await,
            Operation::DeleteApp(op) => self.delete_app(op).await,
            Operation::DeletePodOf(op) => self.delete_pod_of(op).await,
            Operation::MigrateVm(op) => {
                let spec = VirtualMachineInstanceMigrationSpec { vmi_name: op.app.clone(), ..Default::default() };
                let mut migration = VirtualMachineInstanceMigration { spec, ..Default::default() };
                migration.metadata.name = Some(format!("{}-{number}", op.app));
                migration.metadata.namespace = Some(op.namespace.clone());
                self.create(migration, number).await
            }
            Operation::CreatePool(op) if self.site.hooks.is_some() => self.create(written_pool(&op.pool), number).await,
            Operation::CreateSubnet(op) => self.create(subnet_object(&op.subnet), number).await,
            Operation::DeleteSubnet(op) => self.delete_subnet(op).await,
            Operation::EditSubnet(op) => self.edit_subnet(op).await,
            Operation::CreatePool(op) => self.create(pool_object(&op.pool), number).await,
            Operation::DeletePool(op) => self.delete_pool(op).await,
            Operation::SetSettings(op) => {
                self.set_settings(op);
                Ok(())
            }
            Operation::EditPool(op) => self.edit_pool(op).await,
            Operation::EditRecord(op) => self.edit_record(op).await,
            Operation::GarbleRecords(op) => self.garble_records(op).await,
            Operation::Reserve(op) => self.create(reserved_object(op), number).await,
            Operation::Unreserve(op) => {
                ignore_not_found(self.client.delete::<SpiderReservedIP>(&ObjectKey::cluster(&op.name), DeleteOptions::default()).await)
            }
            Operation::ApplyManifest(op) => self.apply_manifest(op).await,
            Operation::CreateNamespace(op) => {
                let metadata = ObjectMeta { name: Some(op.namespace.clone()), ..ObjectMeta::default() };
                self.create(Namespace { metadata, ..Namespace::default() }, number).await
            }
            Operation::DeleteNamespace(op) => {
                ignore_not_found(self.client.delete::<Namespace>(&ObjectKey::cluster(&op.namespace), DeleteOptions::default()).await)
            }
            Operation::AnnotateNamespace(op) => {
                let patch = Patch::merge(json!({"metadata": {"annotations": changed(&op.annotations)}}));
                ignore_not_found(self.client.patch::<Namespace>(&ObjectKey::cluster(&op.namespace), patch).await)
            }
            Operation::LabelNamespace(op) => {
                let patch = Patch::merge(json!({"metadata": {"labels": changed(&op.labels)}}));
                ignore_not_found(self.client.patch::<Namespace>(&ObjectKey::cluster(&op.namespace), patch).await)
            }
            Operation::LabelNode(op) => {
                let patch = Patch::merge(json!({"metadata": {"labels": changed(&op.labels)}}));
                ignore_not_found(self.client.patch::<Node>(&ObjectKey::cluster(&op.node), patch).await)
            }
            Operation::DrainNode(op) => Box::pin(self.drain(op)).await,
            Operation::UncordonNode(op) => self.cordon(&op.node, false).await,
        }
    }

    async fn apply_app(&self, apply: &ApplyApp, number: usize) -> Result<(), ApiError> {
        match self.app_object(apply, number) {
            App::Pod(object) => Box::pin(self.create(*object, number)).await,
            App::StatefulSet(object) => Box::pin(self.create(*object, number)).await,
            App::Deployment(object) => Box::pin(self.create(*object, number)).await,
            App::ReplicaSet(object) => Box::pin(self.create(*object, number)).await,
            App::DaemonSet(object) => Box::pin(self.create(*object, number)).await,
            App::Job(object) => Box::pin(self.create(*object, number)).await,
            App::VirtualMachine(object) => Box::pin(self.create(*object, number)).await,
            App::CronJob(object) => Box::pin(self.create(*object, number)).await,
            App::CloneSet(object) => Box::pin(self.create(*object, number)).await,
        }
    }

    /// The object of a workload; tells the API server how its UID is to end.
    fn app_object(&self, apply: &ApplyApp, number: usize) -> App {
        if let (Some(end), Some(cluster)) = (&apply.uid_end, self.site.cluster.upgrade()) {
            let key = ObjectKey::namespaced(&apply.namespace, &apply.app);
            cluster.end_uid(apply.kind.id(&cluster.registry), key, end);
        }
        object(&self.site.plan, apply, number)
    }

    /// Creates an object, unless an earlier attempt has done so. Fails while another object of its name exists.
    pub(super) async fn create<K: Object>(&self, mut object: K, number: usize) -> Result<(), ApiError> {
        object.meta_mut().labels.get_or_insert_default().insert(MADE_BY.to_owned(), number.to_string());
        let key = ObjectKey::of(&object);
        match self.client.create::<K>(object).await {
            Err(error) if error.is_already_exists() => {
                // An earlier attempt whose answer was lost may have created it.
                let there = self.client.get::<K>(&key).await?;
                let own = there.meta().labels.as_ref().and_then(|labels| labels.get(MADE_BY)) == Some(&number.to_string());
                if own { Ok(()) } else { Err(error) }
            }
            created => created.map(drop),
        }
    }

    async fn patch_app(&self, namespace: &str, app: &str, patch: Value) -> Result<(), ApiError> {
        let key = ObjectKey::namespaced(namespace, app);
        let (client, patch) = (&self.client, Patch::merge(patch));
        ignore_not_found(match self.kinds.get(&key) {
            Some(AppKind::StatefulSet) => client.patch::<StatefulSet>(&key, patch).await.map(drop),
            Some(AppKind::Deployment) => client.patch::<Deployment>(&key, patch).await.map(drop),
            Some(AppKind::ReplicaSet) => client.patch::<ReplicaSet>(&key, patch).await.map(drop),
            Some(AppKind::DaemonSet) => client.patch::<DaemonSet>(&key, patch).await.map(drop),
            Some(AppKind::CloneSet) => client.patch::<CloneSet>(&key, patch).await.map(drop),
            // Pods, Jobs, CronJobs and VMs are not scaled and not rolled out.
            Some(AppKind::Pod | AppKind::CustomResource | AppKind::Job | AppKind::CronJob | AppKind::VirtualMachine) | None => Ok(()),
        })
    }

    async fn edit_stateful_set(&self, op: &EditStatefulSet) -> Result<(), ApiError> {
        let key = ObjectKey::namespaced(&op.namespace, &op.app);
        if self.kinds.get(&key) != Some(&AppKind::StatefulSet) {
            return Ok(());
        }
        let mut spec = serde_json::Map::new();
        if let Some(start) = op.start {
            spec.insert("ordinals".to_owned(), json!({"start": start}));
        }
        if let Some(on_delete) = op.on_delete {
            let kind = if on_delete { "OnDelete" } else { "RollingUpdate" };
            spec.insert("updateStrategy".to_owned(), json!({"type": kind, "rollingUpdate": null}));
        }
        if let Some(partition) = op.partition {
            spec.insert("updateStrategy".to_owned(), json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}));
        }
        self.patch_app(&op.namespace, &op.app, json!({"spec": spec})).await
    }

    async fn delete_app(&self, op: &DeleteApp) -> Result<(), ApiError> {
        let key = ObjectKey::namespaced(&op.namespace, &op.app);
        let (client, options) = (&self.client, DeleteOptions { propagation: Some(op.cascade.into()), ..DeleteOptions::default() });
        ignore_not_found(match self.kinds.get(&key) {
            Some(AppKind::Pod | AppKind::CustomResource) => {
                client.delete::<Pod>(&key, DeleteOptions { grace_period_seconds: op.force.then_some(0), ..options }).await.map(drop)
            }
            Some(AppKind::StatefulSet) => client.delete::<StatefulSet>(&key, options).await.map(drop),
            Some(AppKind::Deployment) => client.delete::<Deployment>(&key, options).await.map(drop),
            Some(AppKind::ReplicaSet) => client.delete::<ReplicaSet>(&key, options).await.map(drop),
            Some(AppKind::DaemonSet) => client.delete::<DaemonSet>(&key, options).await.map(drop),
            Some(AppKind::Job) => client.delete::<Job>(&key, options).await.map(drop),
            Some(AppKind::VirtualMachine) => client.delete::<VirtualMachine>(&key, options).await.map(drop),
            Some(AppKind::CronJob) => client.delete::<CronJob>(&key, options).await.map(drop),
            Some(AppKind::CloneSet) => client.delete::<CloneSet>(&key, options).await.map(drop),
            None => Ok(()),
        })
    }

    /// Deletes one of an application's pods, by its number in their list.
    async fn delete_pod_of(&self, op: &DeletePodOf) -> Result<(), ApiError> {
        let options = ListOptions { label_selector: Some(format!("{APP}={}", app_label(&op.app))), ..ListOptions::default() };
        let pods = self.client.list::<Pod>(Some(&op.namespace), options).await?;
        let Some(pod) = pods.items.get(op.number as usize % pods.items.len().max(1)) else { return Ok(()) };
        let options = DeleteOptions { grace_period_seconds: op.force.then_some(0), ..DeleteOptions::default() };
        ignore_not_found(self.client.delete::<Pod>(&ObjectKey::of(&**pod), options).await)
    }

    async fn delete_pool(&self, op: &DeletePool) -> Result<(), ApiError> {
        let key = ObjectKey::cluster(&op.pool);
        ignore_not_found(self.client.delete::<SpiderIPPool>(&key, DeleteOptions::default()).await)?;
        if !op.force {
            return Ok(());
        }
        let patch = Patch::merge(json!({"metadata": {"finalizers": null}}));
        ignore_not_found(self.client.patch::<SpiderIPPool>(&key, patch).await)
    }

    fn set_settings(&self, op: &SetSettings) {
        self.site.settings.lock().extend(op.settings.clone());
        let Some(cluster) = self.site.cluster.upgrade() else { return };
        let Some(every) = op.every else {
            for node in &self.site.nodes {
                cluster.crash(node.agent);
                cluster.start(node.agent);
            }
            return;
        };
        let replicas: BTreeSet<String> = self.site.plan.controller_names().collect();
        let is_replica = |process: &ProcessId| replicas.contains(&*cluster.rt.process_name(*process));
        let replicas: Vec<ProcessId> = cluster.rt.processes().into_iter().filter(is_replica).collect();
        let agents = self.site.nodes.iter().map(|node| node.agent).enumerate();
        for (number, process) in agents.chain(replicas.into_iter().enumerate()) {
            let shared = self.site.cluster.clone();
            cluster.rt.at(cluster.rt.now() + every.0 * number as u32, move || {
                if let Some(cluster) = shared.upgrade() {
                    cluster.restart_after(process, DOWN);
                }
            });
        }
    }

    /// Reads a pool and writes it back, and again after a conflict with a new record: as admission would ensure, no address in use leaves
    /// the pool. A server-side apply ignores new records, unless the ranges change.
    async fn edit_pool(&self, op: &EditPool) -> Result<(), ApiError> {
        let key = ObjectKey::cluster(&op.pool);
        let pool = match self.client.get::<SpiderIPPool>(&key).await {
            Err(error) if error.is_not_found() => return Ok(()),
            pool => pool?,
        };
        // A terminating pool is no longer edited (A §9.1), except to remove the finalizer.
        if pool.metadata.deletion_timestamp.is_some() && op.held != Some(false) {
            return Ok(());
        }
        // The addresses in use are not known, so the operation is retried.
        if (op.ips.is_some() || op.exclude.is_some()) && pool.status.as_ref().is_some_and(|status| status.allocated_ips.parse().is_err()) {
            return Err(TransportError::Refused.into());
        }
        let mut pool = SpiderIPPool::clone(&pool);
        if let Some(held) = op.held {
            hold(&mut pool.metadata, held);
        }
        let some = |names: &Vec<String>| Some(names.clone()).filter(|names| !names.is_empty());
        if let Some(disable) = op.disable {
            pool.spec.disable = disable;
        }
        if let Some(default) = op.default {
            pool.spec.default = default;
        }
        if let Some(nodes) = &op.nodes {
            pool.spec.node_name = some(nodes);
        }
        if let Some(namespaces) = &op.namespaces {
            pool.spec.namespace_name = some(namespaces);
        }
        if let Some(ips) = &op.ips {
            pool.spec.ips = some(&with_records(&pool, ips));
        }
        if let Some(exclude) = &op.exclude {
            pool.spec.exclude_ips = some(&without_records(&pool, exclude));
        }
        if !op.applied || op.held.is_some() {
            return ignore_not_found(self.client.update::<SpiderIPPool>(pool).await);
        }
        // Another pool of the same name must not be written.
        let mut metadata = json!({"name": op.pool, "uid": pool.metadata.uid});
        if op.ips.is_some() || op.exclude.is_some() {
            metadata["resourceVersion"] = json!(pool.metadata.resource_version);
        }
        pool.status = None;
        let mut body = json!(pool);
        body["metadata"] = metadata;
        ignore_not_found(self.client.patch::<SpiderIPPool>(&key, Patch::apply(OPERATOR, body).forced()).await.map(drop))
    }

    /// Inserts a character before the records of a pool, or removes it: the rest stays.
    async fn garble_records(&self, op: &GarbleRecords) -> Result<(), ApiError> {
        let read = self.client.get::<SpiderIPPool>(&ObjectKey::cluster(&op.pool)).await;
        if read.as_ref().is_err_and(ApiError::is_not_found) {
            return Ok(());
        }
        let mut pool = SpiderIPPool::clone(&*read?);
        let Some(status) = &mut pool.status else { return Ok(()) };
        let text = status.allocated_ips.text();
        let changed = match text.strip_prefix(STRAY) {
            Some(rest) if op.mended => rest.to_owned(),
            // Empty text is omitted, so there is nothing to garble.
            None if !op.mended && !text.is_empty() => format!("{STRAY}{text}"),
            _ => return Ok(()),
        };
        status.allocated_ips = JsonText::verbatim(changed);
        ignore_not_found(self.client.update_status::<SpiderIPPool>(pool).await)
    }

    /// Writes the holder of an address, with the matching count, and then the endpoint, as `kubectl edit` would.
    async fn edit_record(&self, op: &EditRecord) -> Result<(), ApiError> {
        let read = self.client.get::<SpiderIPPool>(&ObjectKey::cluster(&op.pool)).await;
        if read.as_ref().is_err_and(ApiError::is_not_found) {
            return Ok(());
        }
        let key = RecordKey::from(&*op.ip);
        let mut pool = SpiderIPPool::clone(&*read?);
        let status = pool.status.get_or_insert_default();
        // Records that are no JSON cannot be edited.
        let Ok(records) = status.allocated_ips.parse() else { return Ok(()) };
        let mut records = records.clone();
        if op.if_free && records.get(key.clone()).is_some() {
            return Ok(());
        }
        match &op.pod {
            Some(pod) => records.insert(key.clone(), PoolIPAllocation { interface: None, pod: pod.clone(), pod_uid: op.uid.clone() }),
            None => records.remove(key.clone()),
        };
        if !op.miscounted {
            status.allocated_ip_count = i64::try_from(records.len()).ok();
        }
        status.allocated_ips = records.into();
        let named = op.pod.as_deref().filter(|_| op.endpoint).zip(key.address());
        let endpoint = named.map(|(pod, ip)| endpoint_object(&pool, op, pod, ip));
        self.client.update_status::<SpiderIPPool>(pool).await?;
        let Some(endpoint) = endpoint else { return Ok(()) };
        ignore_already_exists(self.client.create::<SpiderEndpoint>(endpoint).await)
    }
}

/// The character that makes records unreadable.
const STRAY: &str = "~";

/// Adds or removes the finalizer of another client.
fn hold(meta: &mut ObjectMeta, held: bool) {
    let mut finalizers = meta.finalizers.take().unwrap_or_default();
    finalizers.retain(|name| name != HOLDER);
    if held {
        finalizers.push(HOLDER.to_owned());
    }
    meta.finalizers = Some(finalizers).filter(|finalizers| !finalizers.is_empty());
}

/// An endpoint that names one address for a pod.
fn endpoint_object(pool: &SpiderIPPool, op: &EditRecord, pod: &str, ip: IpAddr) -> SpiderEndpoint {
    let (namespace, name) = pod.split_once('/').unwrap_or((NAMESPACE, pod));
    let mask = pool.spec.subnet.rsplit_once('/').map_or("32", |(_, mask)| mask);
    let mut entry = IPAllocationDetail { interface: "eth0".to_owned(), ..IPAllocationDetail::default() };
    let (address, from) = if ip.is_ipv4() { (&mut entry.ipv4, &mut entry.ipv4_pool) } else { (&mut entry.ipv6, &mut entry.ipv6_pool) };
    (*address, *from) = (Some(format!("{ip}/{mask}")), Some(op.pool.clone()));
    let current = PodIPAllocation { uid: op.uid.clone(), node: String::new(), ips: vec![entry] };
    SpiderEndpoint {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            finalizers: Some(vec![FINALIZER.to_owned()]),
            ..ObjectMeta::default()
        },
        status: Some(EndpointStatus { current, owner_controller_type: "Pod".to_owned(), owner_controller_name: name.to_owned() }),
    }
}

/// The addresses in use of a pool.
fn recorded(pool: &SpiderIPPool) -> IpSet {
    let version = pool.spec.ip_version.unwrap_or(4);
    let records = pool.status.as_ref().and_then(|status| status.allocated_ips.parse().ok());
    let used = records.into_iter().flat_map(|records| records.iter()).filter_map(|(key, _)| key.address());
    used.filter(|ip| IpVersion::of(*ip).number() == version).collect()
}

/// These ranges without the addresses in use.
fn without_records(pool: &SpiderIPPool, ranges: &[String]) -> Vec<String> {
    let version = pool.spec.ip_version.unwrap_or(4);
    let Ok(parsed) = parse_ranges(ranges, version, &Policy::hardened()) else { return Vec::new() };
    subtract(parsed, &recorded(pool)).into_iter().map(|range| range.to_string()).collect()
}

/// These ranges and the addresses in use.
fn with_records(pool: &SpiderIPPool, ranges: &[String]) -> Vec<String> {
    let version = pool.spec.ip_version.unwrap_or(4);
    // The plan has been checked.
    let Ok(parsed) = parse_ranges(ranges, version, &Policy::hardened()) else { return ranges.to_vec() };
    let all = parsed.into_iter().collect::<IpSet>().union(&recorded(pool));
    all.ranges().map(|range| range.to_string()).collect()
}

/// A patch of the template: annotations, and an annotation of the restart.
fn roll_out(op: &RollOutApp, number: usize) -> Value {
    let mut annotations = changed(&op.annotations);
    annotations.insert("kubectl.kubernetes.io/restartedAt", json!(number.to_string()));
    let mut patch = json!({"spec": {"template": {"metadata": {"annotations": annotations}}}});
    if !op.labels.is_empty() {
        patch["spec"]["template"]["metadata"]["labels"] = json!(changed(&op.labels));
    }
    if op.host_network {
        patch["spec"]["template"]["spec"] = json!({"hostNetwork": true});
    }
    patch
}

/// Annotations or labels in a merge patch: an empty string removes a key.
fn changed(annotations: &BTreeMap<String, String>) -> BTreeMap<&str, Value> {
    let value = |text: &String| if text.is_empty() { Value::Null } else { json!(text) };
    annotations.iter().map(|(key, text)| (&**key, value(text))).collect()
}
