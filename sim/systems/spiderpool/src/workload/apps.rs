//! The API objects of applications.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{
    DaemonSet, DaemonSetSpec, Deployment, DeploymentSpec, ReplicaSet, ReplicaSetSpec, RollingUpdateStatefulSetStrategy, StatefulSet,
    StatefulSetOrdinals, StatefulSetSpec, StatefulSetUpdateStrategy,
};
use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, Job, JobSpec, JobTemplateSpec};
use k8s_openapi::api::core::v1::{Pod, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use kube_machinery::WordHash;
use kube_machinery::kubevirt::{InstanceTemplate, VirtualMachine, VirtualMachineInstanceSpec, VirtualMachineSpec};
use kube_machinery::label_selector::VALUE_MAX;
use kube_sim::kinds::kruise::{self, CloneSet, CloneSetSpec};
use kube_sim::kinds::{KindId, Registry};
use sim_harness::workload::objects::plain_container;

use super::ops::{AppKind, ApplyApp};
use super::plan::SpiderPlan;

/// The label of an application's pods.
pub(super) const APP: &str = "app";

/// The value of [`APP`]: the name, or its end if it is longer than a label value may be.
pub(super) fn app_label(app: &str) -> &str {
    let end = &app[app.ceil_char_boundary(app.len().saturating_sub(VALUE_MAX))..];
    end.trim_start_matches(['-', '.'])
}

/// The label with the operation that created an object.
pub(super) const MADE_BY: &str = "example.com/operation";
/// The annotation of a pod whose containers end by themselves: the time until then in microseconds.
pub(super) const COMPLETES: &str = "example.com/completes-after-us";
/// The annotation of a pod whose containers end with an error.
pub(super) const FAILS: &str = "example.com/fails";
/// A label that no node has.
const NOWHERE: &str = "example.com/nowhere";

/// An object that creates pods, or a pod.
pub(super) enum App {
    Pod(Box<Pod>),
    StatefulSet(Box<StatefulSet>),
    Deployment(Box<Deployment>),
    ReplicaSet(Box<ReplicaSet>),
    DaemonSet(Box<DaemonSet>),
    Job(Box<Job>),
    VirtualMachine(Box<VirtualMachine>),
    CronJob(Box<CronJob>),
    CloneSet(Box<CloneSet>),
}

impl AppKind {
    /// The kind of the objects of applications of this kind.
    pub(super) fn id(self, registry: &Registry) -> KindId {
        match self {
            Self::Pod | Self::CustomResource => registry.id::<Pod>(),
            Self::StatefulSet => registry.id::<StatefulSet>(),
            Self::Deployment => registry.id::<Deployment>(),
            Self::ReplicaSet => registry.id::<ReplicaSet>(),
            Self::DaemonSet => registry.id::<DaemonSet>(),
            Self::Job => registry.id::<Job>(),
            Self::VirtualMachine => registry.id::<VirtualMachine>(),
            Self::CronJob => registry.id::<CronJob>(),
            Self::CloneSet => registry.id::<CloneSet>(),
        }
    }
}

/// The object of an application that operation `number` creates.
pub(super) fn object(plan: &SpiderPlan, apply: &ApplyApp, number: usize) -> App {
    let mut metadata = ObjectMeta { name: Some(apply.app.clone()), namespace: Some(apply.namespace.clone()), ..ObjectMeta::default() };
    metadata.labels = Some([(APP.to_owned(), app_label(&apply.app).to_owned()), (MADE_BY.to_owned(), number.to_string())].into());
    let selector =
        LabelSelector { match_labels: Some([(APP.to_owned(), app_label(&apply.app).to_owned())].into()), ..LabelSelector::default() };
    let template = || template(plan, apply);
    let replicas = Some(count(apply.replicas));
    match apply.kind {
        AppKind::Pod | AppKind::CustomResource => {
            let template = template();
            let inherited = template.metadata.unwrap_or_default();
            metadata.owner_references = (apply.kind == AppKind::CustomResource).then(|| vec![custom_resource(apply, number)]);
            metadata.annotations = inherited.annotations;
            metadata.labels.get_or_insert_default().extend(inherited.labels.unwrap_or_default());
            App::Pod(Box::new(Pod { metadata, spec: template.spec, status: None }))
        }
        AppKind::StatefulSet => {
            let pod_management_policy = apply.parallel.then(|| "Parallel".to_owned());
            let spec = StatefulSetSpec {
                replicas,
                selector,
                template: template(),
                pod_management_policy,
                service_name: Some(apply.app.clone()),
                ordinals: (apply.start > 0).then(|| StatefulSetOrdinals { start: Some(count(apply.start)) }),
                update_strategy: update_strategy(apply),
                ..StatefulSetSpec::default()
            };
            App::StatefulSet(Box::new(StatefulSet { metadata, spec, status: None }))
        }
        AppKind::Deployment => {
            let spec = DeploymentSpec { replicas, selector, template: template(), ..DeploymentSpec::default() };
            App::Deployment(Box::new(Deployment { metadata, spec, status: None }))
        }
        AppKind::ReplicaSet => {
            let spec = ReplicaSetSpec { replicas, selector, template: Some(template()), ..ReplicaSetSpec::default() };
            App::ReplicaSet(Box::new(ReplicaSet { metadata, spec, status: None }))
        }
        AppKind::DaemonSet => {
            let spec = DaemonSetSpec { selector, template: template(), ..DaemonSetSpec::default() };
            App::DaemonSet(Box::new(DaemonSet { metadata, spec, status: None }))
        }
        AppKind::Job => App::Job(Box::new(Job { metadata, spec: Some(job_spec(replicas, template())), status: None })),
        AppKind::CronJob => {
            let every = apply.every.map_or(60, |every| every.0.as_secs().max(1));
            let spec = CronJobSpec {
                schedule: format!("@every {every}s"),
                concurrency_policy: Some(if apply.parallel { "Allow" } else { "Forbid" }.to_owned()),
                job_template: JobTemplateSpec { metadata: None, spec: Some(job_spec(replicas, template())) },
                ..CronJobSpec::default()
            };
            App::CronJob(Box::new(CronJob { metadata, spec, status: None }))
        }
        AppKind::CloneSet => {
            let spec = CloneSetSpec { replicas, selector, template: template() };
            App::CloneSet(Box::new(CloneSet { metadata, spec, status: None }))
        }
        AppKind::VirtualMachine => {
            // The template for pods goes into the instances, whose pods inherit it.
            let PodTemplateSpec { metadata: inherited, spec: of_pods } = template();
            let PodSpec { node_selector, termination_grace_period_seconds, .. } = of_pods.unwrap_or_default();
            let spec =
                VirtualMachineInstanceSpec { node_selector, termination_grace_period_seconds, ..VirtualMachineInstanceSpec::default() };
            let template = InstanceTemplate { metadata: inherited, spec, ..InstanceTemplate::default() };
            let spec = VirtualMachineSpec { running: Some(true), template: Some(template), ..VirtualMachineSpec::default() };
            App::VirtualMachine(Box::new(VirtualMachine { metadata, spec, status: None }))
        }
    }
}

/// The owner of the pods of an [`AppKind::CustomResource`], a new one for each operation. It shares either its name or its API version with
/// the cluster's CloneSet.
fn custom_resource(apply: &ApplyApp, number: usize) -> OwnerReference {
    let hash = WordHash::new().text(&apply.namespace).text(&apply.app).word(number as u64).finish();
    let (api_version, kind) = if hash & 1 == 0 { ("apps.example.com/v1", "CloneSet") } else { (kruise::API_VERSION, "BroadcastJob") };
    OwnerReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: apply.app.clone(),
        uid: format!("{:08x}-0000-4000-8000-{:012x}", hash >> 32, hash & 0xffff_ffff_ffff),
        controller: Some(true),
        block_owner_deletion: None,
    }
}

/// A number in the type that Kubernetes uses.
fn count(number: u32) -> i32 {
    number.min(i32::MAX as u32) as i32
}

/// The update strategy of a StatefulSet; `None` = the default, a rolling update of all pods.
fn update_strategy(apply: &ApplyApp) -> Option<StatefulSetUpdateStrategy> {
    if apply.on_delete {
        return Some(StatefulSetUpdateStrategy { type_: Some("OnDelete".to_owned()), rolling_update: None });
    }
    let partition = Some(count(apply.partition)).filter(|partition| *partition > 0)?;
    let rolling_update =
        Some(RollingUpdateStatefulSetStrategy { partition: Some(partition), ..RollingUpdateStatefulSetStrategy::default() });
    Some(StatefulSetUpdateStrategy { type_: Some("RollingUpdate".to_owned()), rolling_update })
}

fn job_spec(completions: Option<i32>, template: PodTemplateSpec) -> JobSpec {
    JobSpec { completions, parallelism: completions.map(|completions| completions.min(4)), template, ..JobSpec::default() }
}

fn template(plan: &SpiderPlan, apply: &ApplyApp) -> PodTemplateSpec {
    let mut annotations = apply.annotations.clone();
    if let Some(completes) = apply.completes {
        annotations.insert(COMPLETES.to_owned(), sim_config::time::micros(completes.0).to_string());
    }
    if apply.fails {
        annotations.insert(FAILS.to_owned(), "true".to_owned());
    }
    let mut labels: BTreeMap<String, String> = apply.labels.clone();
    labels.insert(APP.to_owned(), app_label(&apply.app).to_owned());
    let ends = apply.completes.is_some();
    let spec = PodSpec {
        containers: vec![plain_container()],
        host_network: apply.host_network.then_some(true),
        node_name: apply.node.map(|node| plan.node_name(node)),
        node_selector: apply.unschedulable.then(|| [(NOWHERE.to_owned(), "true".to_owned())].into()),
        restart_policy: ends.then(|| "Never".to_owned()),
        termination_grace_period_seconds: apply.grace.map(i64::from),
        ..PodSpec::default()
    };
    let annotations = Some(annotations).filter(|annotations| !annotations.is_empty());
    let metadata = ObjectMeta { annotations, labels: Some(labels), ..ObjectMeta::default() };
    PodTemplateSpec { metadata: Some(metadata), spec: Some(spec) }
}

#[cfg(test)]
mod tests {
    use sim_config::draw::{Concern, Draw};
    use sim_config::time::Span;
    use sim_harness::workload::Draft;

    use super::super::draft::SpiderDraft;
    use super::*;

    #[test]
    fn what_an_application_says_of_its_pods_it_says_of_the_instance_of_a_vm_too() {
        let (plan, _) = SpiderDraft::default().draw(&mut Draw::new(1, Concern::Workload, 0));
        let labels = [("tier".to_owned(), "db".to_owned())].into();
        let vm = ApplyApp { kind: AppKind::VirtualMachine, app: "vm".to_owned(), grace: Some(2), labels, ..ApplyApp::default() };
        let vm = ApplyApp { completes: Some(Span::secs(3)), ..vm };
        let App::VirtualMachine(vm) = object(&plan, &vm, 0) else { panic!("it is a VM") };
        let InstanceTemplate { metadata, spec, .. } = vm.spec.template.unwrap();
        let metadata = metadata.unwrap();
        assert_eq!(spec.termination_grace_period_seconds, Some(2));
        assert_eq!(metadata.labels.unwrap()["tier"], "db");
        assert_eq!(metadata.annotations.unwrap()[COMPLETES], "3000000");
    }
}
