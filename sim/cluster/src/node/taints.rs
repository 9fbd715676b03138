//! Taints of nodes and tolerations of pods (K §6.1, §6.2): shared by the scheduler, the DaemonSet controller, admission, and the
//! controllers that taint and evict.

use k8s_openapi::api::core::v1::{Node, Pod, Taint, Toleration};

/// The taint of a node whose kubelet reports that it is not ready.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// The taint of a node whose kubelet has been silent for the grace period.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// The taint of a node that is off, as an operator asserts (KEP-2268).
pub const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// The taint of a cordoned node.
pub const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// The effect that evicts.
pub const NO_EXECUTE: &str = "NoExecute";
/// The effect that only keeps new pods away.
pub const NO_SCHEDULE: &str = "NoSchedule";

/// Whether a toleration matches a taint.
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.as_deref().unwrap_or("");
    let key = toleration.key.as_deref().unwrap_or("");
    let exists = toleration.operator.as_deref() == Some("Exists");
    (effect.is_empty() || effect == taint.effect)
        && (key == taint.key || key.is_empty() && exists)
        && (exists || toleration.value.as_deref().unwrap_or("") == taint.value.as_deref().unwrap_or(""))
}

/// The taints of a node.
pub fn taints_of(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

/// The tolerations of a pod.
pub fn tolerations_of(pod: &Pod) -> &[Toleration] {
    pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default()
}

/// Whether a taint keeps a new pod away from its node. `PreferNoSchedule` never does.
pub fn repels(taint: &Taint, tolerations: &[Toleration]) -> bool {
    matches!(taint.effect.as_str(), NO_SCHEDULE | NO_EXECUTE) && !tolerations.iter().any(|toleration| tolerates(toleration, taint))
}

/// Whether a node is marked as out of service.
pub fn is_out_of_service(node: &Node) -> bool {
    taints_of(node).iter().any(|taint| taint.key == OUT_OF_SERVICE)
}

/// The value of a node's condition Ready, as True or not; `None` = it has no such condition.
pub fn is_ready(node: &Node) -> Option<bool> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == "Ready").map(|condition| condition.status == "True")
}

/// Adds the tolerations of the DefaultTolerationSeconds plugin to a new pod: it tolerates [`NOT_READY`] and [`UNREACHABLE`] for this many
/// seconds, unless it has tolerations of them (K §6.2).
pub fn tolerate_by_default(pod: &mut Pod, seconds: i64) {
    let Some(spec) = &mut pod.spec else { return };
    let about = |toleration: &Toleration, key: &str| {
        matches!(toleration.key.as_deref().unwrap_or(""), known if known == key || known.is_empty())
            && matches!(toleration.effect.as_deref().unwrap_or(""), "" | NO_EXECUTE)
    };
    for key in [NOT_READY, UNREACHABLE] {
        let tolerations = spec.tolerations.get_or_insert_default();
        if !tolerations.iter().any(|toleration| about(toleration, key)) {
            tolerations.push(Toleration {
                key: Some(key.to_owned()),
                operator: Some("Exists".to_owned()),
                effect: Some(NO_EXECUTE.to_owned()),
                toleration_seconds: Some(seconds),
                ..Toleration::default()
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testbed::from_json;

    fn taint(key: &str, value: &str, effect: &str) -> Taint {
        serde_json::from_value(json!({"key": key, "value": value, "effect": effect})).unwrap()
    }

    fn toleration(value: Value) -> Toleration {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_toleration_names_a_taint_by_key_value_and_effect_as_far_as_it_does() {
        let disk = taint("disk", "hdd", NO_SCHEDULE);
        for (text, holds) in [
            (json!({"operator": "Exists"}), true),
            (json!({"key": "disk", "operator": "Exists"}), true),
            (json!({"key": "disk", "value": "hdd"}), true),
            (json!({"key": "disk", "operator": "Equal", "value": "ssd"}), false),
            (json!({"key": "disk", "operator": "Exists", "effect": NO_EXECUTE}), false),
            (json!({"key": "gpu", "operator": "Exists"}), false),
            (json!({}), false),
        ] {
            assert_eq!(tolerates(&toleration(text.clone()), &disk), holds, "{text}");
        }
        assert!(repels(&disk, &[]) && !repels(&taint("disk", "", "PreferNoSchedule"), &[]));
    }

    #[test]
    fn a_new_pod_bears_lost_nodes_for_a_while_unless_it_says_otherwise() {
        let seconds = |tolerations: Value| {
            let mut pod: Pod = from_json(json!({"metadata": {"name": "web"}, "spec": {"containers": [], "tolerations": tolerations}}));
            tolerate_by_default(&mut pod, 300);
            let of = |key: &str| {
                let lost = taint(key, "", NO_EXECUTE);
                let found: Vec<_> =
                    tolerations_of(&pod).iter().filter(|one| tolerates(one, &lost)).map(|one| one.toleration_seconds).collect();
                found
            };
            (of(NOT_READY), of(UNREACHABLE))
        };
        assert_eq!(seconds(json!(null)), (vec![Some(300)], vec![Some(300)]));
        assert_eq!(seconds(json!([{"operator": "Exists"}])), (vec![None], vec![None]), "it bears everything for ever");
        let own = json!([{"key": UNREACHABLE, "operator": "Exists", "effect": NO_EXECUTE, "tolerationSeconds": 5}]);
        assert_eq!(seconds(own), (vec![Some(300)], vec![Some(5)]));
        let other = json!([{"key": UNREACHABLE, "operator": "Exists", "effect": NO_SCHEDULE}]);
        assert_eq!(seconds(other), (vec![Some(300)], vec![Some(300)]), "another effect is another taint");
    }
}
