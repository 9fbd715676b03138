//! The built-in types that operators use (K §1.3).

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job, JobSpec};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, Namespace, NamespaceSpec, NamespaceStatus, Node, Pod, PodCondition, PodStatus, PodTemplateSpec,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_machinery::WordHash;
use kube_machinery::api::Cause;

use super::kruise::CloneSet;
use super::naming::{finalizer_fault, name_fault};
use super::{Binding, Stored, TypeDef, content};
use crate::object::typed_ref;

/// The registrations of the built-in types.
pub fn builtin() -> Vec<TypeDef> {
    vec![
        TypeDef::of::<Namespace>(),
        TypeDef::of::<Node>(),
        TypeDef::of::<Pod>(),
        TypeDef::of::<ConfigMap>(),
        TypeDef::of::<Lease>(),
        stateful_set(),
        TypeDef::of::<ReplicaSet>(),
        TypeDef::of::<Deployment>(),
        TypeDef::of::<DaemonSet>(),
        TypeDef::of::<Job>(),
        TypeDef::of::<CronJob>(),
    ]
}

/// The registrations of types that were added after those of others: digests of kept plans depend on the numbers of types.
pub fn latecomers() -> Vec<TypeDef> {
    vec![TypeDef::of::<ControllerRevision>(), TypeDef::of::<CloneSet>(), TypeDef::of::<PodDisruptionBudget>()]
}

fn cause(reason: &'static str, field: &str, message: &str) -> Cause {
    Cause { reason: reason.into(), message: message.to_owned().into(), field: field.to_owned().into() }
}

/// A StatefulSet, whose `serviceName` may not change: its pods are named by it.
fn stateful_set() -> TypeDef {
    let mut def = TypeDef::of::<StatefulSet>();
    def.validate_update = |object, old| {
        let service = |object| typed_ref::<StatefulSet>(object).spec.service_name.as_deref().unwrap_or_default();
        if service(object) == service(old) {
            return Vec::new();
        }
        let message = format!("Invalid value: {:?}: field is immutable", service(object));
        vec![Cause { reason: "FieldValueInvalid".into(), message: message.into(), field: "spec.serviceName".into() }]
    };
    def
}

/// The error of a field whose value is not allowed to change.
pub fn immutable(field: &'static str) -> Cause {
    Cause { reason: "FieldValueInvalid".into(), message: "Invalid value: field is immutable".into(), field: field.into() }
}

impl Stored for Pod {
    const GRACEFUL: bool = true;
    const RETURNS_DELETED: bool = true;
    const FIELDS: &'static [&'static str] = &[
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ];

    const TRIGGER: Option<&'static str> = Some("spec.nodeName");

    status_subresource!(initial: Some(PodStatus { phase: Some("Pending".to_owned()), ..Default::default() }));

    fn with_status_of(&self, other: &Self) -> Self {
        Self { metadata: self.metadata.clone(), spec: self.spec.clone(), status: other.status.clone() }
    }

    /// Sets the node, which is allowed only once, and its condition.
    fn bind(&mut self, body: &Self, now: Timestamp) -> Binding {
        let name = self.metadata.name.as_deref().unwrap_or_default();
        if self.metadata.deletion_timestamp.is_some() {
            return Some(Err(format!("pod {name} is being deleted, cannot be assigned to a host")));
        }
        let spec = self.spec.get_or_insert_default();
        if let Some(node) = spec.node_name.as_deref().filter(|node| !node.is_empty()) {
            return Some(Err(format!("pod {name} is already assigned to node {node:?}")));
        }
        if spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty()) {
            return Some(Err(format!("pod {name} has non-empty .spec.schedulingGates")));
        }
        spec.node_name = body.spec.as_ref().and_then(|spec| spec.node_name.clone());
        for (own, sent) in
            [(&mut self.metadata.labels, &body.metadata.labels), (&mut self.metadata.annotations, &body.metadata.annotations)]
        {
            if let Some(sent) = sent.as_ref().filter(|sent| !sent.is_empty()) {
                own.get_or_insert_default().extend(sent.clone());
            }
        }
        let conditions = self.status.get_or_insert_default().conditions.get_or_insert_default();
        conditions.retain(|condition| condition.type_ != "PodScheduled");
        conditions.push(PodCondition {
            type_: "PodScheduled".to_owned(),
            status: "True".to_owned(),
            last_transition_time: Some(Time(now)),
            ..PodCondition::default()
        });
        Some(Ok(()))
    }

    fn validate(&self) -> Vec<Cause> {
        let Some(spec) = &self.spec else { return vec![cause("FieldValueRequired", "spec.containers", "Required value")] };
        let mut causes = Vec::new();
        if spec.containers.is_empty() {
            causes.push(cause("FieldValueRequired", "spec.containers", "Required value"));
        }
        for (index, container) in spec.containers.iter().enumerate() {
            if let Some(why) = name_fault("Namespace", &container.name) {
                let message = format!("Invalid value: {:?}: {why}", container.name);
                causes.push(cause("FieldValueInvalid", &format!("spec.containers[{index}].name"), &message));
            }
            if container.image.as_deref().is_none_or(str::is_empty) {
                causes.push(cause("FieldValueRequired", &format!("spec.containers[{index}].image"), "Required value"));
            }
        }
        if let Some(other) = spec.restart_policy.as_deref().filter(|policy| !matches!(*policy, "Always" | "OnFailure" | "Never")) {
            let message = format!("Unsupported value: {other:?}: supported values: \"Always\", \"OnFailure\", \"Never\"");
            causes.push(cause("FieldValueNotSupported", "spec.restartPolicy", &message));
        }
        if let Some(node) = spec.node_name.as_deref().filter(|node| !node.is_empty())
            && let Some(why) = name_fault("Node", node)
        {
            causes.push(cause("FieldValueInvalid", "spec.nodeName", &format!("Invalid value: {node:?}: {why}")));
        }
        causes
    }

    fn validate_status_update(&self, _: &Self) -> Vec<Cause> {
        Vec::new()
    }

    /// Allows changes only of images, activeDeadlineSeconds, added tolerations and the scheduling gates.
    fn validate_update(&self, old: &Self) -> Vec<Cause> {
        let (Some(new), Some(old)) = (&self.spec, &old.spec) else {
            return if self.spec.is_some() == old.spec.is_some() { Vec::new() } else { vec![immutable("spec")] };
        };
        if new == old {
            return Vec::new();
        }
        let forbidden = |field: &str, why: &str| Cause {
            reason: "FieldValueForbidden".into(),
            message: format!("Forbidden: {why}").into(),
            field: field.to_owned().into(),
        };
        if new.containers.len() != old.containers.len() {
            return vec![forbidden("spec.containers", "pod updates may not add or remove containers")];
        }
        let mut allowed = old.clone();
        for (container, changed) in allowed.containers.iter_mut().zip(&new.containers) {
            container.image.clone_from(&changed.image);
        }
        for (container, changed) in allowed.init_containers.iter_mut().flatten().zip(new.init_containers.iter().flatten()) {
            container.image.clone_from(&changed.image);
        }
        allowed.active_deadline_seconds = new.active_deadline_seconds;
        let (had, has) = (old.tolerations.as_deref().unwrap_or_default(), new.tolerations.as_deref().unwrap_or_default());
        if !had.iter().all(|toleration| has.contains(toleration)) {
            return vec![forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")];
        }
        allowed.tolerations.clone_from(&new.tolerations);
        let (had, has) = (old.scheduling_gates.as_deref().unwrap_or_default(), new.scheduling_gates.as_deref().unwrap_or_default());
        if let Some((index, gate)) = has.iter().enumerate().find(|(_, gate)| !had.contains(gate)) {
            let why = format!("only deletion is allowed, but found new scheduling gate '{}'", gate.name);
            return vec![forbidden(&format!("spec.schedulingGates[{index}].name"), &why)];
        }
        allowed.scheduling_gates.clone_from(&new.scheduling_gates);
        if allowed == *new {
            return Vec::new();
        }
        vec![Cause {
            reason: "FieldValueForbidden".into(),
            message: "Forbidden: pod updates may not change fields other than `spec.containers[*].image`, `spec.initContainers[*].image`, \
                      `spec.activeDeadlineSeconds`, `spec.tolerations` (only additions to existing tolerations)"
                .into(),
            field: "spec".into(),
        }]
    }

    fn field(&self, name: &str) -> Cow<'_, str> {
        let (spec, status) = (self.spec.as_ref(), self.status.as_ref());
        fn text(value: Option<&String>) -> Cow<'_, str> {
            Cow::Borrowed(value.map_or("", String::as_str))
        }
        match name {
            "spec.nodeName" => text(spec.and_then(|spec| spec.node_name.as_ref())),
            "spec.restartPolicy" => text(spec.and_then(|spec| spec.restart_policy.as_ref())),
            "spec.schedulerName" => text(spec.and_then(|spec| spec.scheduler_name.as_ref())),
            "spec.serviceAccountName" => text(spec.and_then(|spec| spec.service_account_name.as_ref())),
            "spec.hostNetwork" => Cow::Borrowed(if spec.and_then(|spec| spec.host_network) == Some(true) { "true" } else { "false" }),
            "status.phase" => text(status.and_then(|status| status.phase.as_ref())),
            "status.podIP" => text(status.and_then(|status| status.pod_ip.as_ref())),
            // Accepted, but never set in the index: it matches no pod (K §2.2).
            "status.podIPs" => Cow::Borrowed(""),
            "status.nominatedNodeName" => text(status.and_then(|status| status.nominated_node_name.as_ref())),
            _ => Cow::Borrowed(""),
        }
    }

    /// Adds the condition of a gated pod.
    fn on_create(&mut self) {
        if self.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_ref()).is_some_and(|gates| !gates.is_empty()) {
            let created = self.metadata.creation_timestamp.clone();
            self.status.get_or_insert_default().conditions.get_or_insert_default().push(PodCondition {
                type_: "PodScheduled".to_owned(),
                status: "False".to_owned(),
                reason: Some("SchedulingGated".to_owned()),
                message: Some("Scheduling is blocked due to non-empty scheduling gates".to_owned()),
                last_transition_time: created,
                ..PodCondition::default()
            });
        }
    }

    fn default_grace_seconds(&self) -> i64 {
        self.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30)
    }

    fn deletes_at_once(&self) -> bool {
        let unscheduled = self.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or("").is_empty();
        let phase = self.status.as_ref().and_then(|status| status.phase.as_deref());
        unscheduled || matches!(phase, Some("Succeeded" | "Failed"))
    }

    fn content(&self) -> u64 {
        content::of_pod(self)
    }
}

impl Stored for Lease {
    const HAS_GENERATION: bool = false;
    const KEEPS_GENERATION: bool = true;
    const UNCONDITIONAL_UPDATE: bool = false;
    const CREATE_ON_UPDATE: bool = true;

    fn validate(&self) -> Vec<Cause> {
        let Some(spec) = &self.spec else { return Vec::new() };
        let least = |field: &'static str, value: Option<i32>, least: i32, told: &str| {
            value.filter(|value| *value < least).map(|value| Cause {
                reason: "FieldValueInvalid".into(),
                message: format!("Invalid value: {value}: must be greater than {told}").into(),
                field: field.into(),
            })
        };
        let duration = least("spec.leaseDurationSeconds", spec.lease_duration_seconds, 1, "0");
        let transitions = least("spec.leaseTransitions", spec.lease_transitions, 0, "or equal to 0");
        duration.into_iter().chain(transitions).collect()
    }

    fn content(&self) -> u64 {
        content::of_lease(self.spec.as_ref())
    }
}

impl Stored for Namespace {
    const NAMESPACED: bool = false;
    const HAS_GENERATION: bool = false;
    const RETURNS_DELETED: bool = true;
    const TERMINATES_FIRST: bool = true;

    status_subresource!(initial: Some(NamespaceStatus { phase: Some("Active".to_owned()), ..Default::default() }));

    /// Gives a namespace its name as a label, by which selectors find it.
    fn fill_defaults(&mut self) {
        if let Some(name) = self.metadata.name.clone() {
            self.metadata.labels.get_or_insert_default().insert("kubernetes.io/metadata.name".to_owned(), name);
        }
    }

    /// Adds the finalizer that keeps a namespace until its content is gone (K §1.3). One that exists from the beginning may come without a
    /// status, and no update of it would be valid.
    fn on_create(&mut self) {
        self.spec = Some(NamespaceSpec { finalizers: Some(vec!["kubernetes".to_owned()]) });
        self.status.get_or_insert_with(|| NamespaceStatus { phase: Some("Active".to_owned()), ..Default::default() });
    }

    fn keep(&mut self, stored: &Self) {
        self.spec.clone_from(&stored.spec);
    }

    fn validate(&self) -> Vec<Cause> {
        let finalizers = self.spec.iter().flat_map(|spec| spec.finalizers.iter().flatten()).enumerate();
        let cause = |(at, name): (usize, &String)| {
            finalizer_fault(name).map(|fault| Cause {
                reason: "FieldValueInvalid".into(),
                message: format!("Invalid value: {name:?}: {fault}").into(),
                field: format!("spec.finalizers[{at}]").into(),
            })
        };
        finalizers.filter_map(cause).collect()
    }

    /// Checks that the phase is Terminating exactly if the namespace is being deleted.
    fn validate_update(&self, _: &Self) -> Vec<Cause> {
        let phase = self.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
        let (only, when) = if self.metadata.deletion_timestamp.is_some() { ("Terminating", "not ") } else { ("Active", "") };
        if phase == only {
            return Vec::new();
        }
        let message = format!("Invalid value: {phase:?}: may only be '{only}' if `deletionTimestamp` is {when}empty");
        vec![Cause { reason: "FieldValueInvalid".into(), message: message.into(), field: "status.Phase".into() }]
    }

    /// Sets the phase, and removes the grace (K096).
    fn on_deletion(&mut self) {
        self.status.get_or_insert_default().phase = Some("Terminating".to_owned());
        self.metadata.deletion_grace_period_seconds = None;
    }

    fn is_held(&self) -> bool {
        self.spec.as_ref().and_then(|spec| spec.finalizers.as_ref()).is_some_and(|finalizers| !finalizers.is_empty())
    }

    fn content(&self) -> u64 {
        let phase = self.status.as_ref().and_then(|status| status.phase.as_deref());
        WordHash::new().option(phase).word(u64::from(self.is_held())).finish()
    }
}

impl Stored for Node {
    const NAMESPACED: bool = false;
    const HAS_GENERATION: bool = false;
    const KEEPS_GENERATION: bool = true;
    const KEEPS_STATUS_ON_CREATE: bool = true;

    status_subresource!();

    fn content(&self) -> u64 {
        let unschedulable = self.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
        let conditions = self.status.as_ref().and_then(|status| status.conditions.as_ref());
        WordHash::new().word(u64::from(unschedulable)).word(content::of_conditions(conditions)).finish()
    }
}

/// A ControllerRevision never changes, except for its number.
impl Stored for ControllerRevision {
    fn validate_update(&self, old: &Self) -> Vec<Cause> {
        if self.data == old.data { Vec::new() } else { vec![immutable("data")] }
    }

    fn content(&self) -> u64 {
        self.revision.unwrap_or(0) as u64
    }
}

/// A number in a spec or a status, which may be missing, as a word of a digest.
pub(super) fn count(number: Option<i32>) -> u64 {
    number.map_or(u64::MAX, |number| number as u64)
}

/// Completes a Job: one that sets no number of pods is for one; one that sets only the completions has one pod at a time (K206).
fn fill_job(job: &mut JobSpec) {
    if job.completions.is_none() && job.parallelism.is_none() {
        job.completions = Some(1);
    }
    job.parallelism.get_or_insert(1);
}

/// Declares a workload, whose content is the desired state and the controller's status; templates are distinguished by the images of their
/// containers.
macro_rules! workload {
    ($($kind:ty, $object:ident, $template:expr, $defaults:expr, [$($number:expr),*];)*) => {$(
        impl Stored for $kind {
            status_subresource!(initial: None);

            fn fill_defaults(&mut self) {
                let fill: fn(&mut Self) = $defaults;
                fill(self);
            }

            fn content(&self) -> u64 {
                let $object = (&self.spec, self.status.as_ref());
                let hash = WordHash::new()$(.word($number))*;
                let template: Option<&PodTemplateSpec> = $template;
                let containers = template.and_then(|template| template.spec.as_ref()).map(|spec| spec.containers.as_slice());
                hash.texts(containers.unwrap_or_default().iter().flat_map(|container| &container.image).map(String::as_str)).finish()
            }
        }
    )*};
}
workload! {
    StatefulSet, of, Some(&of.0.template), |it| _ = it.spec.replicas.get_or_insert(1), [
        count(of.0.replicas),
        of.1.map_or(0, |status| status.replicas as u64),
        count(of.1.and_then(|status| status.ready_replicas)),
        count(of.1.and_then(|status| status.updated_replicas))
    ];
    ReplicaSet, of, of.0.template.as_ref(), |it| _ = it.spec.replicas.get_or_insert(1), [
        count(of.0.replicas),
        of.1.map_or(0, |status| status.replicas as u64),
        count(of.1.and_then(|status| status.ready_replicas)),
        count(of.1.and_then(|status| status.available_replicas))
    ];
    Deployment, of, Some(&of.0.template), |it| _ = it.spec.replicas.get_or_insert(1), [
        count(of.0.replicas),
        count(of.1.and_then(|status| status.replicas)),
        count(of.1.and_then(|status| status.ready_replicas)),
        count(of.1.and_then(|status| status.updated_replicas))
    ];
    DaemonSet, of, Some(&of.0.template), |_| {}, [
        of.1.map_or(0, |status| status.current_number_scheduled as u64),
        of.1.map_or(0, |status| status.desired_number_scheduled as u64),
        of.1.map_or(0, |status| status.number_ready as u64),
        count(of.1.and_then(|status| status.updated_number_scheduled))
    ];
    Job, of, of.0.as_ref().map(|spec| &spec.template), |it| it.spec.iter_mut().for_each(fill_job), [
        count(of.1.and_then(|status| status.active)),
        count(of.1.and_then(|status| status.succeeded)),
        count(of.1.and_then(|status| status.failed)),
        of.1.and_then(|status| status.conditions.as_ref()).map_or(0, |conditions| conditions.len() as u64)
    ];
    CronJob, of, of.0.job_template.spec.as_ref().map(|spec| &spec.template), |_| {}, [
        u64::from(of.0.suspend == Some(true)),
        of.1.and_then(|status| status.active.as_ref()).map_or(0, |active| active.len() as u64)
    ];
}
