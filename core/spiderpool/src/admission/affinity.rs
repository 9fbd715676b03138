//! The pod affinity of a pool (A §9.1).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{Fault, Violation};
use crate::names::AFFINITY_APP;
use kube_machinery::label_selector::{key_faults, value_faults};

const FIELD: &str = "spec.podAffinity";

/// Collects the violations of an ordinary pool's affinity: it must select something, and Kubernetes must be able to evaluate it.
pub(super) fn check_ordinary(affinity: &LabelSelector, violations: &mut Vec<Violation>) {
    let labels = affinity.match_labels.iter().flatten();
    let expressions = affinity.match_expressions.as_deref().unwrap_or_default();
    if labels.clone().next().is_none() && expressions.is_empty() {
        violations.push(Violation::invalid(FIELD, "selects every pod; leave it out"));
    }
    let of_key = |key: &str| key_faults(key).into_iter().map(move |fault| format!("label {key:?} {fault}")).collect::<Vec<_>>();
    let of_value = |value: &str| value_faults(value).into_iter().map(move |fault| format!("value {value:?} {fault}")).collect::<Vec<_>>();
    for (key, value) in labels {
        let errors = of_key(key).into_iter().chain(of_value(value));
        violations.extend(errors.map(|error| Violation::invalid(format!("{FIELD}.matchLabels"), error)));
    }
    for (at, expression) in expressions.iter().enumerate() {
        let field = |name: &str| format!("{FIELD}.matchExpressions[{at}].{name}");
        let values = expression.values.as_deref().unwrap_or_default();
        let operator = &expression.operator;
        match operator.as_str() {
            "In" | "NotIn" if values.is_empty() => {
                violations.push(Violation::new(field("values"), Fault::Required, format_args!("operator {operator} needs values")));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                violations.push(Violation::forbidden(field("values"), format_args!("operator {operator} has none")));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => violations.push(Violation::invalid(field("operator"), format_args!("{operator:?} is no operator"))),
        }
        violations.extend(of_key(&expression.key).into_iter().map(|error| Violation::invalid(field("key"), error)));
        for (index, value) in values.iter().enumerate() {
            violations.extend(of_value(value).into_iter().map(|error| Violation::invalid(field(&format!("values[{index}]")), error)));
        }
    }
}

/// Collects the violations of an auto pool's affinity: it has the five labels that name a workload, and nothing else.
pub(super) fn check_auto(affinity: &LabelSelector, violations: &mut Vec<Violation>) {
    if affinity.match_expressions.as_ref().is_some_and(|expressions| !expressions.is_empty()) {
        violations.push(Violation::invalid(FIELD, "the pool of an application has no expressions"));
    }
    for key in affinity.match_labels.iter().flatten().map(|(key, _)| key).filter(|key| !AFFINITY_APP.contains(&key.as_str())) {
        violations.push(Violation::invalid(FIELD, format_args!("the pool of an application has no label {key:?}")));
    }
}
