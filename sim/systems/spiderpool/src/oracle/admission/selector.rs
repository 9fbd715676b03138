//! The affinity of a pool (A §9.1 rule 5).

use ipam_spiderpool::SpiderIPPool;
use ipam_spiderpool::admission::Fault;
use ipam_spiderpool::names::AFFINITY_APP;
use ipam_spiderpool::select::is_auto_pool;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::Found;

/// The path of the selector, which precedes the paths of the fields in it.
const AFFINITY: &str = "spec.podAffinity";

/// Requires that a pool has a valid, non-empty selector. An auto pool may use only its five special labels, with any values. Other
/// affinities are not restricted.
pub(super) fn judge_affinity(pool: &SpiderIPPool, old: Option<&SpiderIPPool>, found: &mut Found) {
    let asked = |pool: &SpiderIPPool| (pool.spec.pod_affinity.clone(), is_auto_pool(pool));
    let Some(affinity) = &pool.spec.pod_affinity else { return };
    if old.is_some_and(|old| asked(old) == asked(pool)) {
        return;
    }
    let mut keys = affinity.match_labels.iter().flatten().map(|(key, _)| key.as_str());
    let expressions = affinity.match_expressions.as_deref().unwrap_or_default();
    let is_fine = if is_auto_pool(pool) {
        expressions.is_empty() && keys.all(|key| AFFINITY_APP.contains(&key))
    } else {
        let is_empty = expressions.is_empty() && keys.next().is_none();
        !is_empty && is_selector(affinity, found)
    };
    if !is_fine {
        found.add(AFFINITY, Fault::Invalid);
    }
}

/// Whether a selector is valid in Kubernetes; faults are reported as Kubernetes reports them.
fn is_selector(selector: &LabelSelector, found: &mut Found) -> bool {
    let before = found.0.len();
    if selector.match_labels.iter().flatten().any(|(key, value)| !is_label_key(key) || !is_label_value(value)) {
        found.add(format!("{AFFINITY}.matchLabels"), Fault::Invalid);
    }
    for (at, LabelSelectorRequirement { key, operator, values }) in selector.match_expressions.iter().flatten().enumerate() {
        let field = |name: &str| format!("{AFFINITY}.matchExpressions[{at}].{name}");
        let values = values.as_deref().unwrap_or_default();
        match (operator.as_str(), values) {
            ("In" | "NotIn", [_, ..]) | ("Exists" | "DoesNotExist", []) => {}
            ("In" | "NotIn", []) => found.add(field("values"), Fault::Required),
            ("Exists" | "DoesNotExist", _) => found.add(field("values"), Fault::Forbidden),
            _ => found.add(field("operator"), Fault::Invalid),
        }
        if !is_label_key(key) {
            found.add(field("key"), Fault::Invalid);
        }
        for (value_at, _) in values.iter().enumerate().filter(|(_, value)| !is_label_value(value)) {
            found.add(field("values"), Fault::Invalid);
            found.add(field(&format!("values[{value_at}]")), Fault::Invalid);
        }
    }
    found.0.len() == before
}

/// Whether a text is a valid label key: a name after an optional DNS subdomain and a slash (K §1.1).
fn is_label_key(key: &str) -> bool {
    let (domain, name) = key.rsplit_once('/').map_or((None, key), |(domain, name)| (Some(domain), name));
    let is_part = |part: &str| {
        let is_plain = part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        is_plain && !part.is_empty() && !part.starts_with('-') && !part.ends_with('-')
    };
    let is_domain = |domain: &str| domain.len() <= 253 && domain.split('.').all(is_part);
    !name.is_empty() && is_label_value(name) && domain.is_none_or(is_domain)
}

/// Whether a text is a valid label value: empty, or at most 63 letters, digits and `-_.` with alphanumeric ends (K §1.1).
fn is_label_value(value: &str) -> bool {
    let ends = || value.starts_with(|c: char| c.is_ascii_alphanumeric()) && value.ends_with(|c: char| c.is_ascii_alphanumeric());
    let is_plain = || value.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    value.is_empty() || value.len() <= 63 && ends() && is_plain()
}
