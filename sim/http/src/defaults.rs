//! The additions of an API server to objects of built-in types when it reads them: the defaults of their fields, and the values that
//! admission sets.
//!
//! The simulation's own programs build complete objects and read absent fields as their defaults; callers over HTTP expect to see them.

use serde_json::{Map, Value, json};

use crate::definition;

/// Sets `name` unless it has a value.
fn default(fields: &mut Map<String, Value>, name: &str, value: Value) {
    if fields.get(name).is_none_or(Value::is_null) {
        fields.insert(name.to_owned(), value);
    }
}

/// The object under `name`, created if it is absent; `None` if the value is not an object.
fn child<'a>(fields: &'a mut Map<String, Value>, name: &str) -> Option<&'a mut Map<String, Value>> {
    default(fields, name, json!({}));
    fields.get_mut(name)?.as_object_mut()
}

/// Removes `name` if it holds an empty map or list: the wire form omits these.
fn drop_if_empty(fields: &mut Map<String, Value>, name: &str) {
    let is_empty = |value: &Value| value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty);
    if fields.get(name).is_some_and(is_empty) {
        fields.remove(name);
    }
}

/// Completes an object of a built-in type.
pub(crate) fn complete(kind: &str, object: &mut Value) {
    let Some(fields) = object.as_object_mut() else { return };
    match kind {
        "Pod" => {
            if let Some(spec) = child(fields, "spec") {
                pod_spec(spec);
                for (name, value) in
                    [("enableServiceLinks", json!(true)), ("serviceAccountName", json!("default")), ("serviceAccount", json!("default"))]
                {
                    default(spec, name, value);
                }
            }
        }
        "Node" | "Lease" => {
            child(fields, "spec");
        }
        "StatefulSet" => stateful_set(fields),
        "Deployment" => deployment(fields),
        "Namespace" => namespace(fields),
        "CustomResourceDefinition" => {
            if let Some(spec) = child(fields, "spec") {
                definition::complete(spec);
            }
        }
        "MutatingWebhookConfiguration" => webhooks(fields, true),
        "ValidatingWebhookConfiguration" => webhooks(fields, false),
        "ConfigMap" => ["data", "binaryData"].iter().for_each(|name| drop_if_empty(fields, name)),
        _ => {}
    }
}

/// Completes an object for an answer: adds fields that every such object shows.
pub(crate) fn show(object: &mut Value) {
    let times: &[&str] = match object["kind"].as_str() {
        Some("Pod") => &["lastProbeTime", "lastTransitionTime"],
        Some("Node") => &["lastHeartbeatTime", "lastTransitionTime"],
        _ => &[],
    };
    let conditions = object.pointer_mut("/status/conditions").filter(|_| !times.is_empty()).and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten().filter_map(Value::as_object_mut) {
        times.iter().for_each(|name| default(condition, name, Value::Null));
    }
    if object["kind"] == "Pod"
        && let Some(status) = object.get_mut("status").and_then(Value::as_object_mut)
    {
        status.retain(|name, value| name != "phase" || value != "");
    }
    if object["kind"] == "Service"
        && let Some(status) = object.as_object_mut().and_then(|fields| child(fields, "status"))
    {
        default(status, "loadBalancer", json!({}));
    }
    let numbers: &[&str] = match object["kind"].as_str() {
        Some("Node") => &[],
        Some("StatefulSet") => &["replicas", "availableReplicas"],
        Some("PodDisruptionBudget") => &["currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"],
        _ => return,
    };
    if let Some(status) = object.as_object_mut().and_then(|fields| child(fields, "status")) {
        numbers.iter().for_each(|name| default(status, name, json!(0)));
    }
}

fn pod_spec(spec: &mut Map<String, Value>) {
    for (name, value) in [
        ("restartPolicy", json!("Always")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("dnsPolicy", json!("ClusterFirst")),
        ("schedulerName", json!("default-scheduler")),
        ("securityContext", json!({})),
    ] {
        default(spec, name, value);
    }
    // A negative grace period is stored as the 1 s that it counts as.
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|grace| grace < 0) {
        spec.insert("terminationGracePeriodSeconds".to_owned(), json!(1));
    }
    let on_host = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut) {
            default(container, "imagePullPolicy", json!("IfNotPresent"));
            default(container, "terminationMessagePath", json!("/dev/termination-log"));
            default(container, "terminationMessagePolicy", json!("File"));
            default(container, "resources", json!({}));
            for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut) {
                default(port, "protocol", json!("TCP"));
                if on_host && let Some(own) = port.get("containerPort").cloned() {
                    default(port, "hostPort", own);
                }
            }
        }
    }
}

fn template(spec: &mut Map<String, Value>) {
    if let Some(pod) = child(spec, "template").and_then(|template| child(template, "spec")) {
        pod_spec(pod);
    }
}

fn stateful_set(fields: &mut Map<String, Value>) {
    if let Some(spec) = child(fields, "spec") {
        template(spec);
        default(spec, "podManagementPolicy", json!("OrderedReady"));
        default(spec, "updateStrategy", json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}));
        default(spec, "revisionHistoryLimit", json!(10));
        default(spec, "persistentVolumeClaimRetentionPolicy", json!({"whenDeleted": "Retain", "whenScaled": "Retain"}));
    }
}

fn deployment(fields: &mut Map<String, Value>) {
    if let Some(spec) = child(fields, "spec") {
        template(spec);
        default(spec, "strategy", json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}));
        default(spec, "revisionHistoryLimit", json!(10));
        default(spec, "progressDeadlineSeconds", json!(600));
    }
}

fn namespace(fields: &mut Map<String, Value>) {
    if let Some(spec) = child(fields, "spec") {
        drop_if_empty(spec, "finalizers");
    }
}

fn webhooks(fields: &mut Map<String, Value>, mutating: bool) {
    let webhooks = fields.get_mut("webhooks").and_then(Value::as_array_mut);
    for webhook in webhooks.into_iter().flatten().filter_map(Value::as_object_mut) {
        default(webhook, "failurePolicy", json!("Fail"));
        default(webhook, "matchPolicy", json!("Equivalent"));
        default(webhook, "namespaceSelector", json!({}));
        default(webhook, "objectSelector", json!({}));
        default(webhook, "timeoutSeconds", json!(10));
        if mutating {
            default(webhook, "reinvocationPolicy", json!("Never"));
        }
        let rules = webhook.get_mut("rules").and_then(Value::as_array_mut);
        rules.into_iter().flatten().filter_map(Value::as_object_mut).for_each(|rule| default(rule, "scope", json!("*")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_caller_says_is_kept_and_the_rest_is_filled_in() {
        let mut pod = json!({"spec": {"terminationGracePeriodSeconds": -1, "dnsPolicy": "None", "hostNetwork": true,
                                      "containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}});
        complete("Pod", &mut pod);
        let spec = &pod["spec"];
        assert_eq!(
            (&spec["terminationGracePeriodSeconds"], &spec["dnsPolicy"], &spec["restartPolicy"]),
            (&json!(1), &json!("None"), &json!("Always"))
        );
        assert_eq!(spec["containers"][0]["ports"], json!([{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]));
    }

    #[test]
    fn numbers_that_every_such_object_has_are_shown() {
        let mut set = json!({"kind": "StatefulSet", "status": {"replicas": 2}});
        show(&mut set);
        assert_eq!(set["status"], json!({"replicas": 2, "availableReplicas": 0}));
        let mut pod = json!({"kind": "Pod", "status": {"phase": "", "conditions": [{"type": "Ready"}]}});
        show(&mut pod);
        assert_eq!(pod["status"], json!({"conditions": [{"type": "Ready", "lastProbeTime": null, "lastTransitionTime": null}]}));
    }
}
