//! The pods that the scheduler is responsible for, and the nodes that fit a pod.

use k8s_openapi::api::core::v1::{Node, NodeSelectorRequirement, NodeSelectorTerm, Pod, Taint};

use crate::node::taints;

/// Whether the scheduler has to find a node for the pod.
pub(super) fn is_ours(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    pod.metadata.deletion_timestamp.is_none()
        && spec.node_name.as_deref().is_none_or(str::is_empty)
        && spec.scheduler_name.as_deref().is_none_or(|name| matches!(name, "" | "default-scheduler"))
        && spec.scheduling_gates.as_ref().is_none_or(Vec::is_empty)
}

/// Whether a pod may go to a node: the node is ready and accepts pods, the pod tolerates its taints, and the pod's selector and required
/// affinity match.
pub(super) fn fits(pod: &Pod, node: &Node) -> bool {
    let Some(spec) = &pod.spec else { return false };
    takes_pods(node, pod)
        && !taints::taints_of(node).iter().any(|taint| taints::repels(taint, taints::tolerations_of(pod)))
        && spec.node_selector.iter().flatten().all(|(key, value)| label(node, key) == Some(value))
        && spec
            .affinity
            .as_ref()
            .and_then(|affinity| affinity.node_affinity.as_ref()?.required_during_scheduling_ignored_during_execution.as_ref())
            .is_none_or(|required| required.node_selector_terms.iter().any(|term| selects(term, node)))
}

/// Whether a node accepts a pod. A node without the condition Ready counts as ready, as manifests often leave it out. Kubernetes' own
/// scheduler does not look at that condition, only at the taint that follows from it a moment later; pods that tolerate that taint are
/// scheduled there all the same. Pods that tolerate the taint of a cordoned node go there, too, as pods of DaemonSets do.
fn takes_pods(node: &Node, pod: &Pod) -> bool {
    let bears = |key: &str| {
        let taint = Taint { key: key.to_owned(), effect: taints::NO_SCHEDULE.to_owned(), ..Taint::default() };
        !taints::repels(&taint, taints::tolerations_of(pod))
    };
    (taints::is_ready(node) != Some(false) || bears(taints::NOT_READY) && bears(taints::UNREACHABLE))
        && (node.spec.as_ref().and_then(|spec| spec.unschedulable) != Some(true) || bears(taints::UNSCHEDULABLE))
        && node.metadata.deletion_timestamp.is_none()
}

fn label<'a>(node: &'a Node, key: &str) -> Option<&'a String> {
    node.metadata.labels.as_ref()?.get(key)
}

/// Whether all requirements of a term hold; a term without any selects nothing.
fn selects(term: &NodeSelectorTerm, node: &Node) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    (!expressions.is_empty() || !fields.is_empty())
        && expressions.iter().all(|one| holds(one, label(node, &one.key)))
        && fields.iter().all(|one| one.key == "metadata.name" && holds(one, node.metadata.name.as_ref()))
}

/// Whether a requirement holds; comparisons by size never do.
fn holds(requirement: &NodeSelectorRequirement, value: Option<&String>) -> bool {
    let among = || value.is_some_and(|value| requirement.values.iter().flatten().any(|known| known == value));
    match requirement.operator.as_str() {
        "In" => among(),
        "NotIn" => !among(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testbed::from_json;

    fn node(spec: Value, status: Value) -> Node {
        from_json(json!({"metadata": {"name": "node-0", "labels": {"zone": "a", "disk": "ssd"}}, "spec": spec, "status": status}))
    }

    fn pod(spec: Value) -> Pod {
        let mut spec = spec;
        spec["containers"] = json!([]);
        from_json(json!({"metadata": {"name": "web"}, "spec": spec}))
    }

    fn required(terms: Value) -> Pod {
        let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        pod(json!({"affinity": {"nodeAffinity": required}}))
    }

    #[test]
    fn a_node_takes_pods_unless_it_says_otherwise() {
        let web = pod(json!({}));
        assert!(fits(&web, &node(json!({}), json!({}))));
        for (status, takes) in [("True", true), ("False", false), ("Unknown", false)] {
            let status = json!({"conditions": [{"type": "Ready", "status": status}]});
            assert_eq!(fits(&web, &node(json!({}), status)), takes);
        }
        let cordoned = node(json!({"unschedulable": true}), json!({}));
        let of_daemon_set =
            pod(json!({"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}]}));
        assert!(!fits(&web, &cordoned) && fits(&of_daemon_set, &cordoned));
    }

    #[test]
    fn a_taint_keeps_pods_away_that_do_not_bear_it() {
        let tainted = |effect: &str| node(json!({"taints": [{"key": "gpu", "value": "a", "effect": effect}]}), json!({}));
        let bearing = pod(json!({"tolerations": [{"key": "gpu", "operator": "Exists"}]}));
        for (effect, keeps_away) in [("NoSchedule", true), ("NoExecute", true), ("PreferNoSchedule", false)] {
            assert_eq!(!fits(&pod(json!({})), &tainted(effect)), keeps_away, "{effect}");
            assert!(fits(&bearing, &tainted(effect)), "{effect}");
        }
    }

    #[test]
    fn a_pod_fits_where_its_selector_and_its_affinity_say_so() {
        let here = node(json!({}), json!({}));
        for (selector, fit) in [(json!({"zone": "a"}), true), (json!({"zone": "a", "disk": "hdd"}), false), (json!({"gpu": "x"}), false)] {
            assert_eq!(fits(&pod(json!({"nodeSelector": selector})), &here), fit, "{selector}");
        }
        let term = |key: &str, operator: &str, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
        for (expression, fit) in [
            (term("zone", "In", &["b", "a"]), true),
            (term("zone", "In", &["b"]), false),
            (term("zone", "NotIn", &["b"]), true),
            (term("gpu", "NotIn", &["b"]), true),
            (term("disk", "Exists", &[]), true),
            (term("disk", "DoesNotExist", &[]), false),
            (term("zone", "Gt", &["1"]), false),
        ] {
            assert_eq!(fits(&required(json!([{"matchExpressions": [expression]}])), &here), fit, "{expression}");
        }
        for (name, fit) in [("node-0", true), ("node-1", false)] {
            let terms = json!([{"matchFields": [term("metadata.name", "In", &[name])]}]);
            assert_eq!(fits(&required(terms), &here), fit, "{name}: as a DaemonSet asks for it");
        }
        let either = json!([{"matchExpressions": [term("zone", "In", &["b"])]}, {"matchExpressions": [term("disk", "Exists", &[])]}]);
        assert!(fits(&required(either), &here), "one of the terms is enough");
        assert!(!fits(&required(json!([{}])), &here), "a term without requirements selects nothing");
    }

    #[test]
    fn pods_with_a_node_gates_or_another_scheduler_are_left_alone() {
        assert!(is_ours(&pod(json!({}))) && is_ours(&pod(json!({"schedulerName": "default-scheduler"}))));
        for spec in [json!({"nodeName": "n"}), json!({"schedulerName": "mine"}), json!({"schedulingGates": [{"name": "g"}]})] {
            assert!(!is_ours(&pod(spec.clone())), "{spec}");
        }
    }
}
