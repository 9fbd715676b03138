//! Instances: their pods and their status.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    Affinity, Container, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodAffinityTerm, PodAntiAffinity,
    PodSpec, PodTemplateSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube_machinery::api::ignore_not_found;
use kube_machinery::informer::StoreReader;
use kube_machinery::kubevirt::{
    APP_LABEL, CREATED_BY_LABEL, DOMAIN_ANNOTATION, INSTANCE_FINALIZER, LAUNCHER, MIGRATION_ANNOTATION, MigrationState,
    VirtualMachineInstance, VirtualMachineInstanceMigration, VirtualMachineInstanceStatus,
};
use kube_machinery::{ApiError, ClientExt, Env, ObjectKey};

use super::super::Item;
use super::super::families::{Family, Member};
use super::super::shared::Shared;
use super::super::template;
use super::super::view::{Phase, name_of, node_of, uid_of};
use super::BY_INSTANCE;
use super::migration::{self, Move};

pub(in super::super) struct Instances {
    pub(in super::super) shared: Arc<Shared>,
    pub(in super::super) instances: StoreReader<VirtualMachineInstance>,
    pub(in super::super) migrations: StoreReader<VirtualMachineInstanceMigration>,
}

/// The pods of an instance by role.
struct Pods {
    /// The pod that the instance runs in.
    main: Option<Member>,
    /// All other pods, such as the target of a migration, or its source after the move.
    others: Vec<Member>,
}

impl Pods {
    fn sort(instance: &VirtualMachineInstance, mut members: Vec<Member>) -> Self {
        let state = instance.status.as_ref().and_then(|status| status.migration_state.as_ref());
        let is_main = |member: &Member| match state {
            None => annotated(&member.pod).is_none(),
            Some(state) => {
                let moved = state.completed == Some(true) && state.failed != Some(true);
                let main = if moved { &state.target_pod } else { &state.source_pod };
                main.as_deref() == Some(name_of(&member.pod))
            }
        };
        let main = members.iter().position(is_main).map(|index| members.remove(index));
        Self { main, others: members }
    }

    fn iter(&self) -> impl Iterator<Item = &Member> {
        self.main.iter().chain(&self.others)
    }
}

/// The name of the migration that a pod is the target of.
fn annotated(pod: &Pod) -> Option<&str> {
    pod.metadata.annotations.as_ref()?.get(MIGRATION_ANNOTATION).map(String::as_str)
}

fn phase_of(migration: &VirtualMachineInstanceMigration) -> Option<&str> {
    migration.status.as_ref()?.phase.as_deref()
}

impl Instances {
    pub(in super::super) async fn reconcile(&self, item: &Item) -> Result<(), ApiError> {
        let migrations = self.migrations_of(&item.key);
        let Some(instance) = self.instances.get(&item.key) else {
            self.shared.forget(item);
            return self.conclude(&migrations, "Failed").await;
        };
        if self.shared.is_behind(item, &instance.metadata) {
            return Ok(());
        }
        let known = instance.status.clone().unwrap_or_default();
        let members = self.shared.family(instance.metadata.uid.as_deref(), |family| {
            family.map_or_else(Vec::new, |family: &Family| family.members().cloned().collect::<Vec<_>>())
        });
        let waits = self.shared.waits(item);
        let pods = Pods::sort(&instance, members);
        let terminating = instance.metadata.deletion_timestamp.is_some();
        if terminating || known.is_final() {
            return self.end(item, &instance, &pods, &migrations, terminating, waits).await;
        }
        let mut status = known.clone();
        match &pods.main {
            None if waits => return Ok(()),
            None if matches!(known.phase.as_deref(), None | Some("Pending")) => {
                return self.shared.create_pods(item, pod(&instance, None), 1).await;
            }
            None if !self.is_current(&instance).await? || self.live_pods(&instance).await?.main.is_some() => return Ok(()),
            None => status.phase = Some("Failed".to_owned()),
            Some(main) => status.phase = Some(phase(main).to_owned()),
        }
        if let Some(main) = &pods.main
            && main.view.phase == Phase::Running
        {
            status.node_name = node_of(&main.pod).map(str::to_owned);
        }
        let live = pods.iter().filter(|member| !member.view.ended());
        status.active_pods = live.filter_map(|member| Some((uid_of(&member.pod).to_owned(), node_of(&member.pod)?.to_owned()))).collect();
        let current = migrations.iter().find(|migration| !migration.status.as_ref().is_some_and(|status| status.is_final()));
        let mut said = None;
        if let (Some(migration), Some(main)) = (current, &pods.main) {
            said = self.migrate(item, &instance, migration, main, &pods, &mut status, waits).await?;
        }
        if status != known {
            let mut instance = VirtualMachineInstance::clone(&instance);
            instance.status = Some(status.clone());
            self.shared.write_status(item, instance).await?;
        }
        // The instance is written first: the roles of its pods follow from its status.
        if let (Some(migration), Some(phase)) = (current, said) {
            self.say(migration, phase).await?;
        }
        self.delete_left_over(item, &instance, &pods, current.filter(|_| !status.is_final())).await
    }

    /// Takes a migration one step further. Returns its phase, if that is to be written.
    #[expect(clippy::too_many_arguments, reason = "everything that a migration is about")]
    async fn migrate(
        &self,
        item: &Item,
        instance: &VirtualMachineInstance,
        migration: &VirtualMachineInstanceMigration,
        main: &Member,
        pods: &Pods,
        status: &mut VirtualMachineInstanceStatus,
        waits: bool,
    ) -> Result<Option<&'static str>, ApiError> {
        let name = migration.metadata.name.as_deref().unwrap_or("");
        let target = pods.others.iter().find(|other| annotated(&other.pod) == Some(name));
        let (now, takes) = (self.shared.env.wall(), self.shared.set.migration_takes);
        let step = migration::step(status, migration, target, waits, now, takes);
        let uid = migration.metadata.uid.clone();
        let state = |target: &Member| MigrationState {
            migration_uid: uid.clone(),
            source_node: node_of(&main.pod).map(str::to_owned),
            source_pod: Some(name_of(&main.pod).to_owned()),
            target_node: node_of(&target.pod).map(str::to_owned),
            target_pod: Some(name_of(&target.pod).to_owned()),
            ..MigrationState::default()
        };
        let said = match step {
            Move::Wait => None,
            Move::WaitFor(wait) => {
                self.shared.queue.add_after(item.clone(), wait);
                Some("Running")
            }
            Move::Start => {
                let target = pod(instance, Some((name, node_of(&main.pod))));
                self.shared.create_pods(item, target, 1).await?;
                None
            }
            Move::Prepare => Some("Scheduling"),
            Move::Done => Some("Succeeded"),
            Move::Fail => Some("Failed"),
        };
        match (step, target) {
            (Move::Prepare | Move::WaitFor(_), Some(target)) => status.migration_state = Some(state(target)),
            (Move::Done, Some(target)) => {
                status.migration_state = Some(MigrationState { completed: Some(true), ..state(target) });
                status.node_name = node_of(&target.pod).map(str::to_owned);
            }
            (Move::Fail, _) => {
                if let Some(state) = status.migration_state.as_mut().filter(|state| state.migration_uid == uid) {
                    (state.completed, state.failed) = (Some(true), Some(true));
                }
            }
            _ => {}
        }
        Ok(said.filter(|said| phase_of(migration) != Some(said)))
    }

    /// Deletes pods that belong neither to the current instance nor to `current`.
    async fn delete_left_over(
        &self,
        item: &Item,
        instance: &VirtualMachineInstance,
        pods: &Pods,
        current: Option<&Arc<VirtualMachineInstanceMigration>>,
    ) -> Result<(), ApiError> {
        let name = current.and_then(|migration| migration.metadata.name.as_deref());
        let is_target = |other: &&Member| name.is_some() && annotated(&other.pod) == name && !other.view.ended();
        let left: Vec<Arc<Pod>> =
            pods.others.iter().filter(|other| !is_target(other) && !other.view.terminating).map(|other| other.pod.clone()).collect();
        // A pod that looks surplus in a stale state of the instance may be the one that it has moved to.
        if left.is_empty() || !self.is_current(instance).await? {
            return Ok(());
        }
        self.shared.delete_pods(item, &left).await
    }

    /// Handles an instance that is over: its pods are deleted, and then it may go.
    async fn end(
        &self,
        item: &Item,
        instance: &VirtualMachineInstance,
        pods: &Pods,
        migrations: &[Arc<VirtualMachineInstanceMigration>],
        terminating: bool,
        waits: bool,
    ) -> Result<(), ApiError> {
        self.conclude(migrations, "Failed").await?;
        // The object of a pod that has ended shows operators the reason, as long as its instance exists.
        let goes = |member: &&Member| (terminating || !member.view.ended()) && !member.view.terminating;
        let going: Vec<Arc<Pod>> = pods.iter().filter(goes).map(|member| member.pod.clone()).collect();
        if !going.is_empty() && !waits {
            return self.shared.delete_pods(item, &going).await;
        }
        let held = instance.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == INSTANCE_FINALIZER);
        if !terminating || !held || waits || pods.iter().next().is_some() || self.live_pods(instance).await?.iter().next().is_some() {
            return Ok(());
        }
        let mut instance = instance.clone();
        instance.metadata.finalizers.iter_mut().for_each(|finalizers| finalizers.retain(|finalizer| finalizer != INSTANCE_FINALIZER));
        ignore_not_found(self.shared.client.update(instance).await)
    }

    /// Whether this state of the instance is the current one, by a quorum read. If not, the informer is about to report the next.
    async fn is_current(&self, instance: &VirtualMachineInstance) -> Result<bool, ApiError> {
        match self.shared.client.get::<VirtualMachineInstance>(&ObjectKey::of(instance)).await {
            Err(error) if error.is_not_found() => Ok(false),
            live => Ok(live?.metadata.resource_version == instance.metadata.resource_version),
        }
    }

    /// The pods of an instance by a quorum read: whatever ends with its last pod cannot be undone.
    async fn live_pods(&self, instance: &VirtualMachineInstance) -> Result<Pods, ApiError> {
        let list = self.shared.client.list::<Pod>(instance.metadata.namespace.as_deref(), instance.select_pods()).await?;
        Ok(Pods::sort(instance, list.items.into_iter().map(Member::of).collect()))
    }

    /// The migrations of an instance, oldest first.
    fn migrations_of(&self, key: &ObjectKey) -> Vec<Arc<VirtualMachineInstanceMigration>> {
        let mut migrations = Vec::new();
        self.migrations.by_index(BY_INSTANCE, key.as_str(), |migration| migrations.push(migration.clone()));
        migrations.sort_by(|a, b| a.metadata.creation_timestamp.cmp(&b.metadata.creation_timestamp));
        migrations
    }

    /// Writes `phase` to the migrations that are not over.
    async fn conclude(&self, migrations: &[Arc<VirtualMachineInstanceMigration>], phase: &str) -> Result<(), ApiError> {
        for migration in migrations.iter().filter(|migration| !migration.status.as_ref().is_some_and(|status| status.is_final())) {
            self.say(migration, phase).await?;
        }
        Ok(())
    }

    async fn say(&self, migration: &VirtualMachineInstanceMigration, phase: &str) -> Result<(), ApiError> {
        let mut migration = migration.clone();
        migration.status.get_or_insert_default().phase = Some(phase.to_owned());
        ignore_not_found(self.shared.client.update_status(migration).await)
    }
}

/// The phase of an instance with this pod.
fn phase(main: &Member) -> &'static str {
    match main.view.phase {
        Phase::Running => "Running",
        Phase::Succeeded => "Succeeded",
        Phase::Failed => "Failed",
        Phase::Pending | Phase::Unknown if main.view.scheduled => "Scheduled",
        Phase::Pending | Phase::Unknown => "Scheduling",
    }
}

/// The time in seconds that a guest has to shut down, unless its instance says otherwise.
const DEFAULT_GRACE: i64 = 30;
/// The seconds by which a pod's grace exceeds that of the guest: twice 15 s, one each for the components that should have ended the guest
/// before.
const PADDING: i64 = 30;

/// A pod for an instance: its first one, or the target of a migration away from a node.
fn pod(instance: &VirtualMachineInstance, migration: Option<(&str, Option<&str>)>) -> Pod {
    let (meta, spec) = (&instance.metadata, &instance.spec);
    let (name, uid) = (meta.name.as_deref().unwrap_or(""), meta.uid.as_deref().unwrap_or(""));
    let own = ObjectMeta { labels: meta.labels.clone(), annotations: meta.annotations.clone(), ..ObjectMeta::default() };
    let pod_spec = PodSpec {
        containers: vec![Container {
            name: "compute".to_owned(),
            image: Some("registry.example/virt-launcher:1".to_owned()),
            ..Container::default()
        }],
        restart_policy: Some("Never".to_owned()),
        termination_grace_period_seconds: Some(spec.termination_grace_period_seconds.unwrap_or(DEFAULT_GRACE) + PADDING),
        node_selector: spec.node_selector.clone(),
        affinity: spec.affinity.clone(),
        tolerations: spec.tolerations.clone(),
        ..PodSpec::default()
    };
    let template = PodTemplateSpec { metadata: Some(own), spec: Some(pod_spec) };
    let mut pod = template::pod(&template, instance, &format!("virt-launcher-{name}"));
    template::set_label(&mut pod.metadata, APP_LABEL, LAUNCHER);
    template::set_label(&mut pod.metadata, CREATED_BY_LABEL, uid);
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(DOMAIN_ANNOTATION.to_owned(), name.to_owned());
    if let Some((migration, source)) = migration {
        annotations.insert(MIGRATION_ANNOTATION.to_owned(), migration.to_owned());
        let affinity = pod.spec.get_or_insert_default().affinity.get_or_insert_default();
        keep_apart(affinity, uid, source);
    }
    pod
}

/// Keeps a pod off the nodes of other pods of the instance.
fn keep_apart(affinity: &mut Affinity, uid: &str, source: Option<&str>) {
    let labels = [(CREATED_BY_LABEL.to_owned(), uid.to_owned())].into();
    let others = PodAffinityTerm {
        label_selector: Some(LabelSelector { match_labels: Some(labels), ..LabelSelector::default() }),
        topology_key: "kubernetes.io/hostname".to_owned(),
        ..PodAffinityTerm::default()
    };
    let apart = affinity.pod_anti_affinity.get_or_insert_with(PodAntiAffinity::default);
    apart.required_during_scheduling_ignored_during_execution.get_or_insert_default().push(others);
    let Some(source) = source else { return };
    let field =
        NodeSelectorRequirement { key: "metadata.name".to_owned(), operator: "NotIn".to_owned(), values: Some(vec![source.to_owned()]) };
    let nodes = affinity.node_affinity.get_or_insert_with(NodeAffinity::default);
    let nodes = nodes.required_during_scheduling_ignored_during_execution.get_or_insert_with(NodeSelector::default);
    if nodes.node_selector_terms.is_empty() {
        nodes.node_selector_terms.push(NodeSelectorTerm::default());
    }
    for term in &mut nodes.node_selector_terms {
        term.match_fields.get_or_insert_default().push(field.clone());
    }
}
