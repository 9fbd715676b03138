//! Disruption budgets: limits on the number of pods of an application that evictions may remove (K §6.5).

use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use sim_config::draw::Draw;
use sim_harness::workload::InvalidValue;

use super::apps::{APP, app_label};
use super::ops::ApplyApp;
use super::pod_count::PodCount;

/// Gives an application of several pods a budget, in one of the usual forms. Each lets some pod go; otherwise a node could never be
/// drained.
pub(super) fn draw(draw: &mut Draw, apply: &mut ApplyApp) {
    match draw.below(4) {
        0 => apply.min_available = Some(PodCount::Number(apply.replicas - 1)),
        1 => apply.min_available = Some(PodCount::Percent(50)),
        2 => apply.max_unavailable = Some(PodCount::Number(1)),
        _ => apply.max_unavailable = Some(PodCount::Percent(25)),
    }
}

/// Checks that a budget has either a minimum of available or a maximum of unavailable pods, as the API server does.
pub(super) fn check(apply: &ApplyApp) -> Result<(), InvalidValue> {
    match (apply.min_available, apply.max_unavailable) {
        (Some(_), Some(most)) => {
            let wrong = "a budget has `min_available` or `max_unavailable`, not both";
            Err(InvalidValue::value(&most.to_string(), wrong, "one of the two"))
        }
        _ => Ok(()),
    }
}

impl ApplyApp {
    /// Whether the application has a budget.
    pub(super) fn has_budget(&self) -> bool {
        self.min_available.is_some() || self.max_unavailable.is_some()
    }

    /// The budget of its pods, if it has one.
    pub(super) fn budget(&self) -> Option<PodDisruptionBudget> {
        let match_labels = Some([(APP.to_owned(), app_label(&self.app).to_owned())].into());
        self.has_budget().then(|| PodDisruptionBudget {
            metadata: ObjectMeta { name: Some(self.app.clone()), namespace: Some(self.namespace.clone()), ..ObjectMeta::default() },
            spec: Some(PodDisruptionBudgetSpec {
                min_available: self.min_available.map(IntOrString::from),
                max_unavailable: self.max_unavailable.map(IntOrString::from),
                selector: Some(LabelSelector { match_labels, ..LabelSelector::default() }),
                ..PodDisruptionBudgetSpec::default()
            }),
            status: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_pods_is_a_number_or_a_percentage() {
        let read = |json: &str| serde_json::from_str::<PodCount>(json).map_err(|error| error.to_string());
        assert_eq!(read("2"), Ok(PodCount::Number(2)));
        assert_eq!(read("\"50%\""), Ok(PodCount::Percent(50)));
        assert_eq!(serde_json::to_string(&PodCount::Percent(50)).unwrap(), "\"50%\"");
        for bad in ["-1", "\"101%\"", "\"50\"", "\"%\"", "\"+5%\"", "5000000000"] {
            let error = read(bad).unwrap_err();
            assert!(error.contains("is not a number of pods, or a percentage"), "{bad}: {error}");
        }
    }
}
