//! DaemonSets: one pod for each node that suits it (K §7.3).
//!
//! The pod of a node has a node affinity on the node's name, and the scheduler binds it. A pod that has ended or has an older template is
//! deleted, and its successor is made when the informer has reported the deletion.
//!
//! Not modelled: maxSurge, and the growing backoff after pods that fail again and again.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetStatus};
use k8s_openapi::api::core::v1::{
    Affinity, Node, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodTemplateSpec, Taint, Toleration,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use k8s_openapi::jiff::Timestamp;
use kube_machinery::informer::StoreReader;
use kube_machinery::{ApiError, Env};

use super::Item;
use super::deployment::share;
use super::families::{Family, Member};
use super::names::REVISION_LABEL;
use super::replica_set::available_in;
use super::shared::Shared;
use super::template;
use super::view::{label, node_of};
use crate::node::taints::{UNSCHEDULABLE, taints_of, tolerates};

/// The taints that every pod of a DaemonSet tolerates, and the effect of each.
const BORNE: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    (UNSCHEDULABLE, "NoSchedule"),
];

pub(super) struct DaemonSets {
    pub(super) shared: Arc<Shared>,
    pub(super) sets: StoreReader<DaemonSet>,
    pub(super) nodes: StoreReader<Node>,
}

/// The work to do for a set.
#[derive(Debug, Default)]
struct Plan {
    /// The nodes that need a pod.
    create: Vec<String>,
    delete: Vec<Arc<Pod>>,
    status: DaemonSetStatus,
    available_in: Option<std::time::Duration>,
}

impl DaemonSets {
    pub(super) async fn reconcile(&self, item: &Item) -> Result<(), ApiError> {
        let Some(set) = self.sets.get(&item.key) else {
            self.shared.forget(item);
            return Ok(());
        };
        if set.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let behind = self.shared.is_behind(item, &set.metadata);
        let wanted = &set.spec.template;
        let hash = self.shared.hash_of(item, &*set, wanted);
        let acts = !self.shared.waits(item);
        let now = self.shared.env.wall();
        let nodes = self.nodes.list();
        let Plan { create, delete, status, available_in } =
            self.shared.family(set.metadata.uid.as_deref(), |family| plan(&set, &nodes, family, &hash, acts, now));
        if let Some(wait) = available_in {
            self.shared.queue.add_after(item.clone(), wait);
        }
        let mut done = Ok(());
        if !delete.is_empty() {
            done = self.shared.delete_pods(item, &delete).await;
        } else if !create.is_empty() {
            let pod = pod(&set, wanted, &hash);
            let of_node = |index: usize| Arc::new(bound_for(pod.clone(), &create[index]));
            done = self.shared.create_each_pod(item, create.len(), of_node).await;
        }
        if !behind && set.status.as_ref() != Some(&status) && self.shared.may_write_status(item) {
            let mut set = DaemonSet::clone(&set);
            set.status = Some(status);
            self.shared.write_status(item, set).await?;
        }
        done
    }
}

/// The node that a pod is for, by its binding or by its affinity.
fn target(pod: &Pod) -> Option<&str> {
    if let Some(node) = node_of(pod) {
        return Some(node);
    }
    let required =
        pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?.required_during_scheduling_ignored_during_execution.as_ref()?;
    let fields = required.node_selector_terms.iter().filter_map(|term| term.match_fields.as_ref()).flatten();
    fields.filter(|field| field.key == "metadata.name").find_map(|field| field.values.as_ref()?.first().map(String::as_str))
}

fn bears(tolerations: &[Toleration], taint: &Taint) -> bool {
    let by_itself = BORNE.iter().any(|(key, effect)| taint.key == *key && taint.effect == *effect);
    by_itself || tolerations.iter().any(|toleration| tolerates(toleration, taint))
}

/// Whether a node should get a pod of this template, and whether it may keep one that it has.
fn suits(template: &PodTemplateSpec, node: &Node) -> (bool, bool) {
    let spec = template.spec.as_ref();
    let labels = node.metadata.labels.as_ref();
    let selector = spec.and_then(|spec| spec.node_selector.as_ref());
    let has = |(key, value): (&String, &String)| labels.and_then(|labels| labels.get(key)) == Some(value);
    if !selector.into_iter().flatten().all(has) {
        return (false, false);
    }
    let tolerations = spec.and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
    let taints = taints_of(node);
    let repels = |effect: &str| taints.iter().any(|taint| taint.effect == effect && !bears(tolerations, taint));
    (!repels("NoSchedule") && !repels("NoExecute"), !repels("NoExecute"))
}

fn plan(set: &DaemonSet, nodes: &[Arc<Node>], family: Option<&Family>, hash: &str, acts: bool, now: Timestamp) -> Plan {
    let (spec, template) = (&set.spec, &set.spec.template);
    let min_ready = spec.min_ready_seconds.unwrap_or(0);
    let mut by_node: BTreeMap<&str, Vec<&Member>> = BTreeMap::new();
    for member in family.into_iter().flat_map(Family::members) {
        by_node.entry(target(&member.pod).unwrap_or("")).or_default().push(member);
    }
    let mut plan = Plan::default();
    let (mut desired, mut current, mut ready, mut available, mut updated, mut misplaced) = (0, 0, 0, 0, 0, 0);
    let (mut outdated_unavailable, mut outdated_available, mut missing) = (Vec::new(), Vec::new(), 0);
    for node in nodes {
        let (wanted, kept) = suits(template, node);
        let mut members = by_node.remove(node.metadata.name.as_deref().unwrap_or("")).unwrap_or_default();
        let any = !members.is_empty();
        desired += i32::from(wanted);
        current += i32::from(wanted && any);
        misplaced += i32::from(!wanted && any);
        if wanted && !any {
            plan.create.push(node.metadata.name.clone().unwrap_or_default());
        }
        members.retain(|member| !member.view.terminating);
        let (ended, mut live): (Vec<&Member>, Vec<&Member>) = members.into_iter().partition(|member| member.view.ended());
        plan.delete.extend(ended.into_iter().map(|member| member.pod.clone()));
        // If there are several, the oldest stays.
        live.sort_by(|a, b| a.pod.metadata.creation_timestamp.cmp(&b.pod.metadata.creation_timestamp));
        let stays = usize::from(kept);
        plan.delete.extend(live.iter().skip(stays).map(|member| member.pod.clone()));
        live.truncate(stays);
        let Some(member) = live.first().filter(|_| wanted) else {
            missing += i32::from(wanted);
            continue;
        };
        let wait = if member.view.serves() { available_in(&member.pod, min_ready, now) } else { None };
        let is_available = member.view.serves() && wait.is_none();
        if let Some(wait) = wait {
            plan.available_in = Some(plan.available_in.map_or(wait, |next| next.min(wait)));
        }
        ready += i32::from(member.view.serves());
        available += i32::from(is_available);
        let is_updated = label(&member.pod, REVISION_LABEL) == Some(hash);
        updated += i32::from(is_updated);
        match (is_updated, is_available) {
            (true, true) => {}
            (true, false) => missing += 1,
            (false, false) => outdated_unavailable.push(member.pod.clone()),
            (false, true) => outdated_available.push(member.pod.clone()),
        }
    }
    // Pods of deleted nodes are left to the pod garbage collector, which Kubernetes has beside this controller.
    let strategy = spec.update_strategy.as_ref();
    if plan.delete.is_empty() && plan.create.is_empty() && strategy.and_then(|strategy| strategy.type_.as_deref()) != Some("OnDelete") {
        let limit = strategy.and_then(|strategy| strategy.rolling_update.as_ref()?.max_unavailable.as_ref());
        let limit = share(limit.unwrap_or(&IntOrString::Int(1)), desired, true).max(1);
        let room = (limit - missing - outdated_unavailable.len() as i32).max(0) as usize;
        plan.delete.extend(outdated_unavailable);
        plan.delete.extend(outdated_available.into_iter().take(room));
    }
    if !acts {
        plan.create.clear();
        plan.delete.clear();
    }
    plan.status = DaemonSetStatus {
        current_number_scheduled: current,
        desired_number_scheduled: desired,
        number_misscheduled: misplaced,
        number_ready: ready,
        updated_number_scheduled: (updated > 0).then_some(updated),
        number_available: (available > 0).then_some(available),
        number_unavailable: (desired > available).then_some(desired - available),
        observed_generation: set.metadata.generation,
        collision_count: set.status.as_ref().and_then(|status| status.collision_count),
        conditions: set.status.as_ref().and_then(|status| status.conditions.clone()),
    };
    plan
}

/// A pod of the set, without a node.
fn pod(set: &DaemonSet, template: &PodTemplateSpec, hash: &str) -> Pod {
    let mut pod = template::pod(template, set, set.metadata.name.as_deref().unwrap_or(""));
    template::set_label(&mut pod.metadata, REVISION_LABEL, hash);
    let tolerations = pod.spec.get_or_insert_default().tolerations.get_or_insert_default();
    tolerations.extend(BORNE.iter().map(|(key, effect)| Toleration {
        key: Some((*key).to_owned()),
        operator: Some("Exists".to_owned()),
        effect: Some((*effect).to_owned()),
        ..Toleration::default()
    }));
    pod
}

/// Adds an affinity to one node to the pod.
fn bound_for(mut pod: Pod, node: &str) -> Pod {
    let field = NodeSelectorRequirement { key: "metadata.name".to_owned(), operator: "In".to_owned(), values: Some(vec![node.to_owned()]) };
    let affinity = pod.spec.get_or_insert_default().affinity.get_or_insert_with(Affinity::default);
    let required = affinity.node_affinity.get_or_insert_with(NodeAffinity::default);
    let required = required.required_during_scheduling_ignored_during_execution.get_or_insert_with(NodeSelector::default);
    if required.node_selector_terms.is_empty() {
        required.node_selector_terms.push(NodeSelectorTerm::default());
    }
    // As in Kubernetes, this replaces the field requirements of the template, which name nodes.
    for term in &mut required.node_selector_terms {
        term.match_fields = Some(vec![field.clone()]);
    }
    pod
}
