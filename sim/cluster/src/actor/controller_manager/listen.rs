//! Maps changes of objects to the controllers and objects that have to be reconciled.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube_machinery::Object;
use kube_machinery::ObjectKey;
use kube_machinery::controller_of;
use kube_machinery::informer::{Index, Notification};
use kube_machinery::kubevirt::{VirtualMachine, VirtualMachineInstance, VirtualMachineInstanceMigration};
use parking_lot::Mutex;

use super::deployment::deployment_of;
use super::disruption::is_covered;
use super::kubevirt::BY_INSTANCE;
use super::shared::Shared;
use super::stateful_set::{self, ORPHANS};
use super::view::View;
use super::{Controller, Kind, OWNER, Set};
use crate::actor::garbage_collector::Collected;
use crate::actor::informers::Informers;
use crate::kinds::kruise::CloneSet;

/// The types that the garbage collector sees: pods, the types of the controllers, and those that were requested.
pub(super) fn collected(set: &Set) -> Arc<[Collected]> {
    let mut types = vec![Collected::of::<Pod>()];
    for controller in &set.controllers {
        match controller {
            Controller::StatefulSet => types.extend([Collected::of::<StatefulSet>(), Collected::of::<ControllerRevision>()]),
            Controller::ReplicaSet => types.push(Collected::of::<ReplicaSet>()),
            Controller::Deployment => types.push(Collected::of::<Deployment>()),
            Controller::DaemonSet => types.push(Collected::of::<DaemonSet>()),
            Controller::Job => types.push(Collected::of::<Job>()),
            Controller::Namespace | Controller::NodeLifecycle | Controller::PodGc | Controller::Disruption => {}
            Controller::CronJob => types.push(Collected::of::<CronJob>()),
            Controller::CloneSet => types.push(Collected::of::<CloneSet>()),
            Controller::KubeVirt => types.extend([
                Collected::of::<VirtualMachine>(),
                Collected::of::<VirtualMachineInstance>(),
                Collected::of::<VirtualMachineInstanceMigration>(),
            ]),
        }
    }
    for also in &set.collected {
        if !types.iter().any(|known| known.is(also)) {
            types.push(also.clone());
        }
    }
    types.into()
}

/// An index by the UID of the owner that controls an object.
fn by_owner<K: Object>() -> Index<K> {
    Index::new(OWNER, |object: &K, tell| {
        if let Some(owner) = controller_of(object.meta()) {
            tell(&owner.uid);
        }
    })
}

/// Queues a StatefulSet when there is a pod without a controller that it could adopt.
fn hear_of_orphans(shared: &Arc<Shared>, informers: &mut Informers) {
    let shared = shared.clone();
    informers.tell::<Pod>(move |notification| {
        let pod = match notification {
            Notification::Added { object, .. } => object,
            Notification::Updated { old, new } => {
                let (before, now) = (&old.metadata, &new.metadata);
                if before.uid == now.uid && before.labels == now.labels && before.owner_references == now.owner_references {
                    return;
                }
                new
            }
            Notification::Deleted { .. } | Notification::DeletedFinalStateUnknown { .. } => return,
        };
        if let Some(set) = set_of_orphan(pod) {
            shared.queue.add(Kind::StatefulSet.item(set));
        }
    });
}

/// The StatefulSet that could adopt a pod without a controller.
fn set_of_orphan(pod: &Pod) -> Option<ObjectKey> {
    let (set, _) = stateful_set::place_of(pod).filter(|_| controller_of(&pod.metadata).is_none())?;
    Some(ObjectKey::namespaced(pod.metadata.namespace.as_deref().unwrap_or(""), set))
}

/// An index of pods without a controller by the StatefulSet that could adopt them.
fn orphans() -> Index<Pod> {
    Index::new(ORPHANS, |pod: &Pod, tell| {
        if let Some(set) = set_of_orphan(pod) {
            tell(set.as_str());
        }
    })
}

/// Registers the controllers for the changes that concern them.
pub(super) fn listen(shared: &Arc<Shared>, informers: &mut Informers) {
    shared.hear_of_pods(informers);
    for controller in &shared.set.controllers {
        match controller {
            Controller::StatefulSet => {
                informers.index::<ControllerRevision>(by_owner());
                informers.index::<Pod>(orphans());
                shared.hear_of::<StatefulSet>(informers, |key| Kind::StatefulSet.item(key));
                hear_of_orphans(shared, informers);
            }
            Controller::ReplicaSet => shared.hear_of::<ReplicaSet>(informers, |key| Kind::ReplicaSet.item(key)),
            Controller::Deployment => deployments(shared, informers),
            Controller::DaemonSet => daemon_sets(shared, informers),
            Controller::Job => shared.hear_of::<Job>(informers, |key| Kind::Job.item(key)),
            Controller::Namespace => shared.hear_of::<Namespace>(informers, |key| Kind::Namespace.item(key)),
            Controller::KubeVirt => kubevirt(shared, informers),
            Controller::CronJob => cron_jobs(shared, informers),
            Controller::CloneSet => shared.hear_of::<CloneSet>(informers, |key| Kind::CloneSet.item(key)),
            Controller::Disruption => budgets(shared, informers),
            // These register themselves.
            Controller::NodeLifecycle | Controller::PodGc => {}
        }
    }
}

/// Queues a Deployment when it changes, and when one of its sets does: the sets show the progress of their pods.
fn deployments(shared: &Arc<Shared>, informers: &mut Informers) {
    informers.index::<ReplicaSet>(by_owner());
    shared.hear_of::<Deployment>(informers, |key| Kind::Deployment.item(key));
    let shared = shared.clone();
    informers.tell::<ReplicaSet>(move |notification| {
        if let Some(item) = deployment_of(notification.object()) {
            shared.queue.add(item);
        }
    });
}

/// Queues a CronJob when it changes, and when one of its Jobs does.
fn cron_jobs(shared: &Arc<Shared>, informers: &mut Informers) {
    informers.index::<Job>(by_owner());
    shared.hear_of::<CronJob>(informers, |key| Kind::CronJob.item(key));
    let shared = shared.clone();
    informers.tell::<Job>(move |notification| {
        let meta = &notification.object().metadata;
        if let Some(owner) = controller_of(meta).filter(|owner| owner.kind == "CronJob") {
            let key = ObjectKey::namespaced(meta.namespace.as_deref().unwrap_or(""), &owner.name);
            shared.queue.add(Kind::CronJob.item(key));
        }
    });
}

/// Queues every DaemonSet when a node comes, goes, or changes for the scheduler.
fn daemon_sets(shared: &Arc<Shared>, informers: &mut Informers) {
    shared.hear_of::<DaemonSet>(informers, |key| Kind::DaemonSet.item(key));
    let known: Arc<Mutex<BTreeSet<ObjectKey>>> = Arc::default();
    let sets = known.clone();
    informers.tell::<DaemonSet>(move |notification| {
        let key = notification.key();
        match notification {
            Notification::Added { .. } | Notification::Updated { .. } => sets.lock().insert(key),
            Notification::Deleted { .. } | Notification::DeletedFinalStateUnknown { .. } => sets.lock().remove(&key),
        };
    });
    let shared = shared.clone();
    informers.tell::<Node>(move |notification| {
        if let Notification::Updated { old, new } = notification {
            let taints = |node: &Node| node.spec.as_ref().and_then(|spec| spec.taints.clone());
            let (before, now) = (&old.metadata, &new.metadata);
            if before.uid == now.uid && before.labels == now.labels && taints(old) == taints(new) {
                return;
            }
        }
        for key in known.lock().iter() {
            shared.queue.add(Kind::DaemonSet.item(key.clone()));
        }
    });
}

/// Queues a budget when it changes, and when a pod that it selects comes, goes, or changes in a way that counts.
fn budgets(shared: &Arc<Shared>, informers: &mut Informers) {
    // A change of only a controller's desired number of pods goes unnoticed until one of the pods changes.
    informers.want::<StatefulSet>();
    informers.want::<ReplicaSet>();
    informers.want::<Deployment>();
    let known: Arc<Mutex<BTreeMap<ObjectKey, Arc<PodDisruptionBudget>>>> = Arc::default();
    let (budgets, told) = (known.clone(), shared.clone());
    // Also when an eviction has changed the status of the budget.
    informers.tell::<PodDisruptionBudget>(move |notification| {
        let key = notification.key();
        match notification {
            Notification::Added { object, .. } | Notification::Updated { new: object, .. } => {
                budgets.lock().insert(key.clone(), object.clone());
            }
            Notification::Deleted { .. } | Notification::DeletedFinalStateUnknown { .. } => drop(budgets.lock().remove(&key)),
        }
        told.queue.add(Kind::Budget.item(key));
    });
    let shared = shared.clone();
    informers.tell::<Pod>(move |notification| {
        if let Notification::Updated { old, new } = notification
            && (&old.metadata.uid, &old.metadata.labels, View::of(old)) == (&new.metadata.uid, &new.metadata.labels, View::of(new))
        {
            return;
        }
        let before = if let Notification::Updated { old, .. } = notification { Some(old) } else { None };
        for (key, budget) in known.lock().iter() {
            if before.into_iter().chain([notification.object()]).any(|pod| is_covered(budget, pod)) {
                shared.queue.add(Kind::Budget.item(key.clone()));
            }
        }
    });
}

/// Queues a VM when it or its instance changes, and an instance also when one of its migrations does.
fn kubevirt(shared: &Arc<Shared>, informers: &mut Informers) {
    shared.hear_of::<VirtualMachine>(informers, |key| Kind::Machine.item(key));
    let told = shared.clone();
    informers.tell::<VirtualMachineInstance>(move |notification| {
        let key = notification.key();
        told.queue.add(Kind::Machine.item(key.clone()));
        told.queue.add(Kind::Instance.item(key));
    });
    let instance_of = |migration: &VirtualMachineInstanceMigration| {
        ObjectKey::namespaced(migration.metadata.namespace.as_deref().unwrap_or(""), &migration.spec.vmi_name)
    };
    informers.index(Index::new(BY_INSTANCE, move |migration, tell| tell(instance_of(migration).as_str())));
    let told = shared.clone();
    informers.tell::<VirtualMachineInstanceMigration>(move |notification| {
        told.queue.add(Kind::Instance.item(instance_of(notification.object())));
    });
}
