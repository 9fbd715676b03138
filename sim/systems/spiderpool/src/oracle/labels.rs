//! Label selectors.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// Whether a selector matches labels. An invalid selector matches none (A §14.14).
pub(super) fn holds(selector: &LabelSelector, labels: Option<&BTreeMap<String, String>>) -> bool {
    let label = |key: &String| labels.and_then(|labels| labels.get(key));
    let equal = selector.match_labels.iter().flatten().all(|(key, value)| label(key) == Some(value));
    let terms = selector.match_expressions.iter().flatten();
    equal
        && terms.into_iter().all(|term| {
            let values = term.values.as_deref().unwrap_or_default();
            let is_in = label(&term.key).is_some_and(|label| values.contains(label));
            match (term.operator.as_str(), values) {
                ("In", [_, ..]) => is_in,
                ("NotIn", [_, ..]) => !is_in,
                ("Exists", []) => label(&term.key).is_some(),
                ("DoesNotExist", []) => label(&term.key).is_none(),
                _ => false,
            }
        })
}
