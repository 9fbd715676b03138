//! Disruption budgets: how many of the pods that a budget selects may be evicted (K §6.5).
//!
//! Of the ways to say how many have to stay there is `minAvailable` as a whole number. A budget that says it otherwise is never looked at,
//! and an eviction that it has a say in is refused.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use k8s_openapi::jiff::Timestamp;
use kube_machinery::informer::StoreReader;
use kube_machinery::label_selector::selects;
use kube_machinery::{ApiError, Env};

use super::Item;
use super::shared::Shared;
use super::view::{View, name_of};

/// How long a pod counts as about to be deleted after its eviction was allowed (`DeletionTimeout`).
const DELETION_TIMEOUT: Duration = Duration::from_secs(120);

pub(super) struct Disruptions {
    pub(super) shared: Arc<Shared>,
    pub(super) budgets: StoreReader<PodDisruptionBudget>,
    pub(super) pods: StoreReader<Pod>,
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
        let Some((status, again)) = status_of(&budget, &pods, self.shared.env.wall()) else { return Ok(()) };
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

/// Whether a budget has a say in what becomes of a pod.
pub(super) fn is_covered(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    budget.metadata.namespace == pod.metadata.namespace
        && selector.is_some_and(|selector| selects(selector, pod.metadata.labels.as_ref()) == Ok(true))
}

/// The status of a budget over these pods, and after which time it is another one, if nothing else happens; `None` = there is none to tell.
fn status_of(budget: &PodDisruptionBudget, pods: &[Arc<Pod>], now: Timestamp) -> Option<(PodDisruptionBudgetStatus, Option<Duration>)> {
    let Some(IntOrString::Int(desired)) = budget.spec.as_ref().and_then(|spec| spec.min_available.as_ref()) else { return None };
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
        disruptions_allowed: Some((healthy - desired).max(0)),
        current_healthy: Some(healthy),
        desired_healthy: Some(*desired),
        expected_pods: Some(pods.len() as i32),
        disrupted_pods: Some(disrupted).filter(|disrupted| !disrupted.is_empty()),
        conditions: None,
    };
    Some((status, again))
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

    fn allowed(budget: &PodDisruptionBudget, pods: &[Arc<Pod>]) -> Option<i32> {
        status_of(budget, pods, Timestamp::UNIX_EPOCH)?.0.disruptions_allowed
    }

    #[test]
    fn as_many_may_go_as_are_healthy_beyond_those_that_have_to_stay() {
        let web = budget(json!({"minAvailable": 1}), json!({}));
        assert_eq!(allowed(&web, &[]), Some(0));
        assert_eq!(allowed(&web, &[pod("a", true), pod("b", false)]), Some(0));
        assert_eq!(allowed(&web, &[pod("a", true), pod("b", true), pod("c", true)]), Some(2));
        assert_eq!(allowed(&budget(json!({"maxUnavailable": 1}), json!({})), &[pod("a", true), pod("b", true)]), None);
    }

    #[test]
    fn a_pod_whose_eviction_was_allowed_is_not_counted_until_its_deletion_is_overdue() {
        let pods = [pod("a", true), pod("b", true)];
        let web = budget(json!({"minAvailable": 1}), json!({"disruptedPods": {"a": "1970-01-01T00:00:00Z"}}));
        let at = |seconds| status_of(&web, &pods, Timestamp::from_second(seconds).unwrap()).unwrap();
        let (status, again) = at(100);
        assert_eq!((status.disruptions_allowed, status.current_healthy, again), (Some(0), Some(1), Some(Duration::from_secs(20))));
        let (status, again) = at(120);
        assert_eq!((status.disruptions_allowed, status.disrupted_pods, again), (Some(1), None, None));
    }
}
