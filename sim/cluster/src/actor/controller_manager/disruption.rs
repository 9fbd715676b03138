//! Disruption budgets: the number of pods selected by a budget that may be evicted (K §6.5).
//!
//! `minAvailable` as a whole number counts the existing pods. `maxUnavailable` and percentages refer to the desired number of pods, which
//! comes from their controllers: StatefulSets, ReplicaSets, and Deployments through their ReplicaSets. While one of the pods has a
//! controller without such a number (a DaemonSet, say), no pod may be evicted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use k8s_openapi::jiff::Timestamp;
use kube_machinery::informer::StoreReader;
use kube_machinery::label_selector::selects;
use kube_machinery::{ApiError, Env, Object, ObjectKey, controller_of};

use super::Item;
use super::deployment::share;
use super::shared::Shared;
use super::view::{View, name_of};

/// The time for which a pod counts as about to be deleted after its eviction was allowed (`DeletionTimeout`).
const DELETION_TIMEOUT: Duration = Duration::from_secs(120);

pub(super) struct Disruptions {
    pub(super) shared: Arc<Shared>,
    pub(super) budgets: StoreReader<PodDisruptionBudget>,
    pub(super) pods: StoreReader<Pod>,
    pub(super) scales: Scales,
}

/// The controllers that know the desired number of pods.
pub(super) struct Scales {
    pub(super) stateful_sets: StoreReader<StatefulSet>,
    pub(super) replica_sets: StoreReader<ReplicaSet>,
    pub(super) deployments: StoreReader<Deployment>,
}

impl Disruptions {
    pub(super) async fn reconcile(&self, item: &Item) -> Result<(), ApiError> {
        let Some(budget) = self.budgets.get(&item.key) else {
            self.shared.forget(item);
            return Ok(());
        };
        let mut pods = Vec::new();
        self.pods.for_each(|pod| {
            if is_covered(&budget, pod) {
                pods.push(pod.clone());
            }
        });
        let (status, again) = match desired(&budget, &pods, |owner, namespace| self.scales.of(owner, namespace)) {
            Some(desired) => status_of(&budget, &pods, desired, self.shared.env.wall()),
            None => {
                let status = budget.status.clone().unwrap_or_default();
                (PodDisruptionBudgetStatus { disruptions_allowed: Some(0), ..status }, None)
            }
        };
        if let Some(after) = again {
            self.shared.queue.add_after(item.clone(), after);
        }
        if self.shared.is_behind(item, &budget.metadata) || budget.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let mut budget = PodDisruptionBudget::clone(&budget);
        budget.status = Some(status);
        self.shared.write_status(item, budget).await
    }
}

/// Whether a budget applies to a pod.
pub(super) fn is_covered(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    budget.metadata.namespace == pod.metadata.namespace
        && selector.is_some_and(|selector| selects(selector, pod.metadata.labels.as_ref()) == Ok(true))
}

/// The number of pods of a budget that have to stay, and the desired number of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Desired {
    healthy: i32,
    expected: i32,
}

/// The demands of a budget on these pods; `scale` returns the controller whose number of pods counts, and that number. `None` = the number
/// is unknown.
fn desired(
    budget: &PodDisruptionBudget,
    pods: &[Arc<Pod>],
    scale: impl Fn(&OwnerReference, &str) -> Option<(String, i32)>,
) -> Option<Desired> {
    let spec = budget.spec.as_ref()?;
    let expected = match spec {
        PodDisruptionBudgetSpec { max_unavailable: None, min_available: Some(IntOrString::Int(_)), .. } => pods.len() as i32,
        _ => {
            // Each controller counts once, and pods without one do not.
            let mut scales = BTreeMap::new();
            for pod in pods {
                if let Some(owner) = controller_of(&pod.metadata) {
                    let (uid, replicas) = scale(owner, pod.metadata.namespace.as_deref().unwrap_or(""))?;
                    scales.insert(uid, replicas);
                }
            }
            scales.values().sum()
        }
    };
    let healthy = match spec {
        PodDisruptionBudgetSpec { max_unavailable: Some(most), .. } => (expected - share(most, expected, true)).max(0),
        PodDisruptionBudgetSpec { min_available: Some(least), .. } => share(least, expected, true),
        // No pod has to stay, and still none may be evicted.
        _ => return Some(Desired { healthy: 0, expected: 0 }),
    };
    Some(Desired { healthy, expected })
}

impl Scales {
    /// The controller whose replica count applies to pods of this owner, and that count.
    fn of(&self, owner: &OwnerReference, namespace: &str) -> Option<(String, i32)> {
        fn find<K: Object>(store: &StoreReader<K>, owner: &OwnerReference, namespace: &str) -> Option<Arc<K>> {
            let is_one = *owner.kind == *K::kind(&()) && *owner.api_version == *K::api_version(&());
            let found = is_one.then(|| store.get(&ObjectKey::namespaced(namespace, &owner.name))).flatten();
            found.filter(|object| object.meta().uid.as_ref() == Some(&owner.uid))
        }
        let told = |uid: &str, replicas: Option<i32>| Some((uid.to_owned(), replicas.unwrap_or(1)));
        if let Some(set) = find(&self.stateful_sets, owner, namespace) {
            return told(&owner.uid, set.spec.replicas);
        }
        let set = find(&self.replica_sets, owner, namespace)?;
        let Some(above) = controller_of(&set.metadata) else {
            return told(&owner.uid, set.spec.replicas);
        };
        let deployment = find(&self.deployments, above, namespace)?;
        told(&above.uid, deployment.spec.replicas)
    }
}

/// The status of a budget over these pods, and the time after which it changes if nothing else happens.
fn status_of(
    budget: &PodDisruptionBudget,
    pods: &[Arc<Pod>],
    desired: Desired,
    now: Timestamp,
) -> (PodDisruptionBudgetStatus, Option<Duration>) {
    let asked = budget.status.as_ref().and_then(|status| status.disrupted_pods.as_ref());
    let (mut disrupted, mut again) = (BTreeMap::new(), None::<Duration>);
    let mut healthy = 0;
    for pod in pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
        let since = asked.and_then(|asked| asked.get(name_of(pod)));
        let left = since.and_then(|Time(since)| DELETION_TIMEOUT.checked_sub(now.duration_since(*since).unsigned_abs()));
        match since.zip(left.filter(|left| !left.is_zero())) {
            Some((since, left)) => {
                disrupted.insert(name_of(pod).to_owned(), since.clone());
                again = Some(again.map_or(left, |again| again.min(left)));
            }
            None => healthy += i32::from(View::of(pod).healthy()),
        }
    }
    let status = PodDisruptionBudgetStatus {
        observed_generation: budget.metadata.generation,
        disruptions_allowed: Some(if desired.expected > 0 { (healthy - desired.healthy).max(0) } else { 0 }),
        current_healthy: Some(healthy),
        desired_healthy: Some(desired.healthy),
        expected_pods: Some(desired.expected),
        disrupted_pods: Some(disrupted).filter(|disrupted| !disrupted.is_empty()),
        conditions: None,
    };
    (status, again)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testbed::from_json;

    fn pod(name: &str, ready: bool) -> Arc<Pod> {
        let conditions = json!([{"type": "Ready", "status": if ready { "True" } else { "False" }}]);
        let status = json!({"phase": "Running", "conditions": conditions});
        Arc::new(from_json(json!({"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": []}, "status": status})))
    }

    fn budget(spec: Value, status: Value) -> PodDisruptionBudget {
        from_json(json!({"metadata": {"name": "web", "namespace": "default", "generation": 3}, "spec": spec, "status": status}))
    }

    fn allowed(budget: &PodDisruptionBudget, pods: &[Arc<Pod>], desired: Desired) -> Option<i32> {
        status_of(budget, pods, desired, Timestamp::UNIX_EPOCH).0.disruptions_allowed
    }

    #[test]
    fn as_many_may_go_as_are_healthy_beyond_those_that_have_to_stay() {
        let web = budget(json!({}), json!({}));
        let one_of = |expected| Desired { healthy: 1, expected };
        assert_eq!(allowed(&web, &[], one_of(0)), Some(0));
        assert_eq!(allowed(&web, &[pod("a", true), pod("b", false)], one_of(2)), Some(0));
        assert_eq!(allowed(&web, &[pod("a", true), pod("b", true), pod("c", true)], one_of(3)), Some(2));
    }

    #[test]
    fn percentages_and_what_may_be_missing_are_of_the_pods_that_controllers_ask_for() {
        let pod = |owner: Option<&str>| {
            let owned = |name| json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": name, "controller": true}]);
            let metadata = json!({"name": "a", "namespace": "default", "ownerReferences": owner.map(owned)});
            Arc::new(from_json::<Pod>(json!({"metadata": metadata, "spec": {"containers": []}})))
        };
        let scale = |owner: &OwnerReference, _: &str| match &*owner.name {
            "db" => Some(("db".to_owned(), 5)),
            "web-1" | "web-2" => Some(("web".to_owned(), 10)),
            _ => None,
        };
        let desired = |spec: Value, owners: &[Option<&str>]| {
            let pods: Vec<_> = owners.iter().map(|owner| pod(*owner)).collect();
            desired(&budget(spec, json!({})), &pods, scale).map(|desired| (desired.healthy, desired.expected))
        };
        assert_eq!(desired(json!({"minAvailable": 7}), &[Some("db")]), Some((7, 1)), "a number is of those that are there");
        assert_eq!(desired(json!({"maxUnavailable": 1}), &[Some("db"), Some("db")]), Some((4, 5)), "a controller counts once");
        assert_eq!(desired(json!({"minAvailable": "50%"}), &[Some("db")]), Some((3, 5)), "rounded up");
        assert_eq!(desired(json!({"maxUnavailable": "25%"}), &[Some("web-1"), Some("web-2")]), Some((7, 10)), "rounded up, too");
        assert_eq!(desired(json!({"maxUnavailable": 30}), &[Some("web-1"), Some("db")]), Some((0, 15)), "of all controllers");
        assert_eq!(desired(json!({"maxUnavailable": 1}), &[None, Some("db")]), Some((4, 5)), "who has no controller does not count");
        assert_eq!(desired(json!({"maxUnavailable": 1}), &[Some("each")]), None, "nobody says how many");
        assert_eq!(desired(json!({}), &[Some("db")]), Some((0, 0)), "nobody may go");
    }

    #[test]
    fn a_pod_whose_eviction_was_allowed_is_not_counted_until_its_deletion_is_overdue() {
        let pods = [pod("a", true), pod("b", true)];
        let web = budget(json!({"minAvailable": 1}), json!({"disruptedPods": {"a": "1970-01-01T00:00:00Z"}}));
        let at = |seconds| status_of(&web, &pods, Desired { healthy: 1, expected: 2 }, Timestamp::from_second(seconds).unwrap());
        let (status, again) = at(100);
        assert_eq!((status.disruptions_allowed, status.current_healthy, again), (Some(0), Some(1), Some(Duration::from_secs(20))));
        let (status, again) = at(120);
        assert_eq!((status.disruptions_allowed, status.disrupted_pods, again), (Some(1), None, None));
    }
}
