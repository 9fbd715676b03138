//! Names that API servers accept: those of objects, of their namespaces, and the keys and values of their labels and annotations (K §1.1).
//!
//! A create of an object with another name is answered with 422. No cluster holds such an object, so a manifest with one was not printed by
//! a cluster, or was damaged since.

use kube_machinery::label_selector::{key_faults, value_faults};
use serde_json::{Map, Value};
use sim_config::manifest::Manifest;
use sim_config::{Problem, Problems};

/// The definition of an RFC 1123 label in an API server's error.
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an \
                     alphanumeric character, and be no more than 63 characters";

/// The definition of an RFC 1123 subdomain in an API server's error.
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and \
                         end with an alphanumeric character, and be no more than 253 characters";

/// The error of a CronJob's name: it appends eleven characters for each Job, whose name is a label of its pods.
const CRON_JOB: &str = "the name of a CronJob must be no more than 52 characters, because its Jobs are called after it";

/// The definition of the keys of labels and annotations, which precedes the error of a key.
const QUALIFIED: &str = "must be a qualified name";

/// The definition of the values of labels, which precedes the error of a value.
const VALUE: &str = "must be empty or a name of at most 63 characters";

/// The labels that an object may have: its own, those of its pods, and those by which it selects them.
const LABELS: [&str; 4] =
    ["metadata.labels", "spec.selector.matchLabels", "spec.template.metadata.labels", "spec.jobTemplate.spec.template.metadata.labels"];

/// The annotations that an object may have: its own, and those of its pods.
const ANNOTATIONS: [&str; 3] =
    ["metadata.annotations", "spec.template.metadata.annotations", "spec.jobTemplate.spec.template.metadata.annotations"];

/// Whether a text is a part of a DNS name, regardless of its length.
pub(crate) fn is_unit(part: &str) -> bool {
    let edge = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = |byte: Option<&u8>| byte.is_some_and(edge);
    let bytes = part.as_bytes();
    ends(bytes.first()) && ends(bytes.last()) && bytes.iter().all(|byte| edge(byte) || *byte == b'-')
}

/// The reason why no object of a built-in type may have this finalizer, if it is a qualified name; `None` = it may.
pub(crate) fn finalizer_fault(finalizer: &str) -> Option<&'static str> {
    let is_standard = matches!(finalizer, "kubernetes" | "orphan" | "foregroundDeletion");
    (!is_standard && !finalizer.contains('/')).then_some("name is neither a standard finalizer name nor is it fully qualified")
}

/// The reason why no object of a kind may have this name; `None` = it may.
///
/// Names are DNS subdomains. Those of namespaces and StatefulSets are DNS labels: they become parts of DNS names (K §1.1).
pub fn name_fault(kind: &str, name: &str) -> Option<&'static str> {
    match kind {
        "Namespace" | "StatefulSet" => (name.len() > 63 || !is_unit(name)).then_some(LABEL),
        "CronJob" if name.len() > 52 => Some(CRON_JOB),
        _ => (name.len() > 253 || !name.split('.').all(is_unit)).then_some(SUBDOMAIN),
    }
}

/// All problems in the metadata of an object for which an API server refuses it: its name, its namespace if it has one, the node that a pod
/// names, labels and annotations, also those of its pods.
pub fn check(manifest: &Manifest, namespaced: bool) -> Problems {
    let mut problems = Problems::new();
    let mut refuse = |path: &str, field: &str, value: &str, why: String| problems.push(refused(manifest, path, field, value, why));
    let mut name = |path: &str, kind: &str, name: &str| {
        if let Some(why) = name_fault(kind, name) {
            refuse(path, path, name, why.to_owned());
        }
    };
    name("metadata.name", &manifest.kind, &manifest.name);
    if let Some(namespace) = manifest.namespace.as_deref().filter(|_| namespaced) {
        name("metadata.namespace", "Namespace", namespace);
    }
    let node = manifest.value["spec"]["nodeName"].as_str().filter(|node| manifest.kind == "Pod" && !node.is_empty());
    if let Some(node) = node {
        name("spec.nodeName", "Node", node);
    }
    for field in LABELS {
        for (key, value) in texts(manifest, field) {
            let path = format!("{field}[{key}]");
            let [of_key, of_value] = [key_faults(key), value_faults(value.as_str().unwrap_or_default())];
            if !of_key.is_empty() {
                refuse(&path, field, key, format!("the key of a label {QUALIFIED}, and this {}", of_key.join(" and ")));
            }
            if !of_value.is_empty() {
                refuse(
                    &path,
                    field,
                    value.as_str().unwrap_or_default(),
                    format!("the value of a label {VALUE}, and this {}", of_value.join(" and ")),
                );
            }
        }
    }
    for field in ANNOTATIONS {
        for (key, _) in texts(manifest, field) {
            // Kubernetes compares the keys of annotations as if they were lower case.
            let faults = key_faults(&key.to_lowercase());
            if !faults.is_empty() {
                refuse(
                    &format!("{field}[{key}]"),
                    field,
                    key,
                    format!("the key of an annotation {QUALIFIED}, and this {}", faults.join(" and ")),
                );
            }
        }
    }
    problems
}

/// The entries under a path; none if it is no mapping, which the decoding reports.
fn texts<'a>(manifest: &'a Manifest, path: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    let found = path.split('.').fold(&manifest.value, |value, step| &value[step]);
    found.as_object().into_iter().flat_map(Map::iter)
}

/// The problem in the words of an API server's 422.
fn refused(manifest: &Manifest, path: &str, field: &str, value: &str, why: String) -> Problem {
    let wrong = format!("the {} {:?} is invalid: {field}: Invalid value: {value:?}", manifest.kind, manifest.name);
    manifest.problem(path, wrong, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim_config::manifest;

    fn checked(text: &str) -> String {
        let manifests = manifest::parse("x.yaml", text.as_bytes()).unwrap();
        let mut problems = Problems::new();
        manifests.iter().for_each(|manifest| problems.append(check(manifest, manifest.kind != "Node" && manifest.kind != "Namespace")));
        problems.to_string()
    }

    #[test]
    fn finalizers_of_built_in_types_have_a_domain_or_are_standard() {
        for finalizer in ["kubernetes", "orphan", "foregroundDeletion", "example.com/x"] {
            assert_eq!(finalizer_fault(finalizer), None, "{finalizer}");
        }
        assert!(finalizer_fault("plain").is_some());
    }

    #[test]
    fn names_are_dns_subdomains_and_those_of_some_kinds_dns_labels() {
        for (kind, name, fine) in [
            ("Pod", "web-0", true),
            ("Pod", "a.b-c.d0", true),
            ("Pod", "0", true),
            ("Pod", "", false),
            ("Pod", "UPPER", false),
            ("Pod", "a/b", false),
            ("Pod", "-a", false),
            ("Pod", "a-", false),
            ("Pod", "a..b", false),
            ("Pod", "a.-b", false),
            ("Pod", "é", false),
            ("Pod", "a_b", false),
            ("Pod", "a\n", false),
            ("Namespace", "a.b", false),
            ("StatefulSet", "a.b", false),
            ("StatefulSet", "ab", true),
            ("ReplicaSet", "a.b", true),
        ] {
            assert_eq!(name_fault(kind, name).is_none(), fine, "{kind} {name}");
        }
        for (kind, longest) in [("Pod", 253), ("Namespace", 63), ("StatefulSet", 63), ("CronJob", 52)] {
            assert_eq!(name_fault(kind, &"a".repeat(longest)), None, "{kind}");
            assert!(name_fault(kind, &"a".repeat(longest + 1)).is_some(), "{kind}");
        }
    }

    #[test]
    fn whatever_an_api_server_refuses_has_its_place_and_the_words_of_its_422() {
        let text = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: UPPER case!\n  namespace: bad/ns\n  labels:\n    a b: fine\n    \
                    fine: a b\n  annotations:\n    Upper/fine: a b\n    a/b/c: d\nspec:\n  nodeName: Node_1\n---\n\
                    {apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {selector: {matchLabels: {app: a/b}}, \
                    template: {metadata: {labels: {app: a/b}}}}}\n---\n\
                    {apiVersion: v1, kind: Node, metadata: {name: n1, namespace: what/ever}}\n";
        let (told, expected) = (
            checked(text),
            [
                r#"x.yaml:4:9: the Pod "UPPER case!" is invalid: metadata.name: Invalid value: "UPPER case!"; a lowercase RFC 1123 subdomain must"#,
                r#"x.yaml:5:14: the Pod "UPPER case!" is invalid: metadata.namespace: Invalid value: "bad/ns"; a lowercase RFC 1123 label must"#,
                r#"x.yaml:13:13: the Pod "UPPER case!" is invalid: spec.nodeName: Invalid value: "Node_1"; a lowercase RFC 1123 subdomain must"#,
                r#"x.yaml:7:10: the Pod "UPPER case!" is invalid: metadata.labels: Invalid value: "a b"; the key of a label must"#,
                r#"x.yaml:8:11: the Pod "UPPER case!" is invalid: metadata.labels: Invalid value: "a b"; the value of a label must"#,
                r#"x.yaml:11:12: the Pod "UPPER case!" is invalid: metadata.annotations: Invalid value: "a/b/c"; the key of an annotation must"#,
                r#"x.yaml:15:101: the Deployment "web" is invalid: spec.selector.matchLabels: Invalid value: "a/b"; the value of a label must"#,
                r#"x.yaml:15:144: the Deployment "web" is invalid: spec.template.metadata.labels: Invalid value: "a/b"; the value of a label must"#,
            ],
        );
        assert_eq!(told.lines().count(), expected.len(), "{told}");
        for (line, start) in told.lines().zip(expected) {
            assert!(line.starts_with(start), "{line}: {start}");
        }
    }

    #[test]
    fn what_a_cluster_prints_passes() {
        let text = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web-7d9f.x\n  namespace: shop\n  labels:\n    \
                    app.kubernetes.io/name: Web_1.0\n    empty: ''\n  \
                    annotations: {example.io/pool: '{\"ipv4\": [\"a b\"]}'}\nspec: {nodeName: ''}\n";
        assert_eq!(checked(text), "");
    }
}
