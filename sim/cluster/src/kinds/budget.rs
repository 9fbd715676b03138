//! Disruption budgets (K §6.5).

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube_machinery::WordHash;
use kube_machinery::api::Cause;
use serde_json::json;

use super::Stored;
use super::builtin::count;

impl Stored for PodDisruptionBudget {
    const UNCONDITIONAL_UPDATE: bool = false;

    status_subresource!(initial: None);

    fn validate(&self) -> Vec<Cause> {
        let Some(spec) = &self.spec else { return Vec::new() };
        let mut causes = Vec::new();
        if let (Some(least), Some(most)) = (&spec.min_available, &spec.max_unavailable) {
            let printed = |count: &IntOrString| json!(count).to_string();
            let message = format!(
                "Invalid value: {{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\"UnhealthyPodEvictionPolicy\":{}}}: \
                 minAvailable and maxUnavailable cannot be both set",
                printed(least),
                json!(spec.selector),
                printed(most),
                json!(spec.unhealthy_pod_eviction_policy),
            );
            causes.push(Cause { reason: "FieldValueInvalid".into(), message: message.into(), field: "spec".into() });
        }
        for (field, count) in [("spec.minAvailable", &spec.min_available), ("spec.maxUnavailable", &spec.max_unavailable)] {
            let fault = match count {
                Some(IntOrString::Int(number)) if *number < 0 => format!("Invalid value: {number}: must be greater than or equal to 0"),
                Some(IntOrString::String(text)) => match text.strip_suffix('%').filter(|digits| is_number(digits)) {
                    None => format!(
                        "Invalid value: {text:?}: a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  \
                         or '93%', regex used for validation is '[0-9]+%')"
                    ),
                    Some(digits) if digits.parse::<u32>().is_ok_and(|percent| percent <= 100) => continue,
                    Some(_) => format!("Invalid value: {text:?}: must not be greater than 100%"),
                },
                _ => continue,
            };
            causes.push(Cause { reason: "FieldValueInvalid".into(), message: fault.into(), field: field.into() });
        }
        causes
    }

    fn content(&self) -> u64 {
        let Some(status) = &self.status else { return 0 };
        let numbers = [status.disruptions_allowed, status.current_healthy, status.desired_healthy, status.expected_pods];
        let disrupted = status.disrupted_pods.as_ref().map_or(0, |pods| pods.len() as u64);
        numbers.into_iter().fold(WordHash::new(), |hash, number| hash.word(count(number))).word(disrupted).finish()
    }
}

fn is_number(digits: &str) -> bool {
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}
