//! The server's information about itself: versions, groups, resources, health.

use bytes::Bytes;
use kube_machinery::Status;
use kube_machinery::api::Reason;
use kube_sim::kinds::{Registry, TypeDef};
use serde_json::{Value, json};

use crate::response::{bare_refusal, json_response, text_response};

/// 404 in the words of the API.
pub(crate) fn no_such_resource() -> http::Response<Bytes> {
    bare_refusal(&Status::new(Reason::NotFound, "the server could not find the requested resource"))
}

/// 404 in the words of the server for paths outside all groups.
pub(crate) fn no_such_page() -> http::Response<Bytes> {
    text_response(404, "404 page not found\n")
}

/// 405: the path belongs to the API, but does not permit this method.
pub(crate) fn not_allowed() -> http::Response<Bytes> {
    bare_refusal(&Status::new(Reason::MethodNotAllowed, "the server does not allow this method on the requested resource"))
}

/// Whether a group is one of the server's own; unknown paths below the others are not handled by it.
pub(crate) fn is_own_group(registry: &Registry, group: &str) -> bool {
    group.is_empty() || registry.iter().any(|(_, def)| def.group == group && !def.custom)
}

/// The answer for a path that is not a resource.
pub(crate) fn answer(registry: &Registry, method: &http::Method, parts: &[String]) -> http::Response<Bytes> {
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let answer = match parts.as_slice() {
        ["healthz" | "livez" | "readyz"] | ["healthz" | "livez" | "readyz", "ping"] => text_response(200, "ok"),
        ["version"] => json_response(200, &version()),
        ["api"] => json_response(
            200,
            &json!({
                "kind": "APIVersions", "versions": ["v1"],
                "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "10.0.0.1:6443"}],
            }),
        ),
        ["api", "v1"] => json_response(200, &resources(registry, "", "v1")),
        ["apis"] => json_response(200, &groups(registry)),
        ["apis", group] if registry.iter().any(|(_, def)| def.group == *group) => {
            let mut value = group_value(registry, group);
            value["kind"] = json!("APIGroup");
            value["apiVersion"] = json!("v1");
            json_response(200, &value)
        }
        ["apis", group, version] if registry.iter().any(|(_, def)| def.group == *group && def.version == *version) => {
            json_response(200, &resources(registry, group, version))
        }
        ["api", ..] => no_such_resource(),
        ["apis", group, _] if is_own_group(registry, group) => no_such_resource(),
        _ => no_such_page(),
    };
    if answer.status() == http::StatusCode::OK && method != http::Method::GET { not_allowed() } else { answer }
}

fn version() -> Value {
    json!({
        "major": "1", "minor": "37", "gitVersion": "v1.37.0-ipam-sim", "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z",
        "goVersion": "none", "compiler": "rustc", "platform": "simulated", "emulationMajor": "1", "emulationMinor": "37",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "36",
    })
}

fn group_value(registry: &Registry, group: &str) -> Value {
    let mut versions: Vec<&str> = registry.iter().filter(|(_, def)| def.group == group).map(|(_, def)| def.version).collect();
    versions.sort_unstable();
    versions.dedup();
    let of = |version: &&str| json!({"groupVersion": format!("{group}/{version}"), "version": version});
    let preferred = versions.first().map(of);
    json!({"name": group, "versions": versions.iter().map(of).collect::<Vec<_>>(), "preferredVersion": preferred})
}

fn groups(registry: &Registry) -> Value {
    let mut names: Vec<&str> = registry.iter().map(|(_, def)| def.group).filter(|group| !group.is_empty()).collect();
    names.sort_unstable();
    names.dedup();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": names.iter().map(|name| group_value(registry, name)).collect::<Vec<_>>()})
}

fn resources(registry: &Registry, group: &str, version: &str) -> Value {
    let entries = |def: &TypeDef| -> Vec<Value> {
        let of = |name: String, verbs: &[&str]| {
            json!({
                "name": name, "singularName": def.kind.to_lowercase(), "namespaced": def.namespaced, "kind": def.kind, "verbs": verbs,
            })
        };
        let all = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
        let mut entries = vec![of(def.plural.to_owned(), &all)];
        if def.has_status {
            entries.push(of(format!("{}/status", def.plural), &["get", "patch", "update"]));
        }
        entries
    };
    let listed = registry.iter().filter(|(_, def)| def.group == group && def.version == version).flat_map(|(_, def)| entries(def));
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": listed.collect::<Vec<_>>()})
}
