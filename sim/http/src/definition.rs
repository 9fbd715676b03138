//! The checks of a CustomResourceDefinition before an API server accepts it. As recorded: case `definition-incomplete`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceDefinition, CustomResourceDefinitionVersion};
use kube_machinery::api::Cause;
use serde_json::{Map, Value, json};

fn invalid(field: &'static str, value: &str, message: &str) -> Cause {
    Cause { reason: "FieldValueInvalid".into(), message: format!("Invalid value: {value}: {message}").into(), field: field.into() }
}

fn required(field: impl Into<std::borrow::Cow<'static, str>>) -> Cause {
    Cause { reason: "FieldValueRequired".into(), message: "Required value".into(), field: field.into() }
}

/// A version as the server's own types print it. A schema that all versions share is not part of it.
fn printed(version: &CustomResourceDefinitionVersion) -> String {
    format!(
        "{{\"Name\":{:?},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":null,\"Schema\":null,\"Subresources\":null,\
         \"AdditionalPrinterColumns\":null,\"SelectableFields\":null}}",
        version.name,
        version.served,
        version.storage,
        version.deprecated.unwrap_or(false),
    )
}

/// The problems of a definition.
pub(crate) fn faults(crd: &CustomResourceDefinition) -> Vec<Cause> {
    let (spec, name) = (&crd.spec, crd.metadata.name.as_deref().unwrap_or_default());
    let mut causes = Vec::new();
    if name != format!("{}.{}", spec.names.plural, spec.group) {
        causes.push(invalid("metadata.name", &format!("{name:?}"), "must be spec.names.plural+\".\"+spec.group"));
    }
    if spec.group.is_empty() {
        causes.push(required("spec.group"));
    }
    match spec.scope.as_str() {
        "Cluster" | "Namespaced" => {}
        "" => causes.push(required("spec.scope")),
        other => {
            let message = format!("Unsupported value: {other:?}: supported values: \"Cluster\", \"Namespaced\"");
            causes.push(Cause { reason: "FieldValueNotSupported".into(), message: message.into(), field: "spec.scope".into() });
        }
    }
    let stored: Vec<&str> = spec.versions.iter().filter(|version| version.storage).map(|version| version.name.as_str()).collect();
    if stored.len() != 1 {
        let all: Vec<_> = spec.versions.iter().map(printed).collect();
        // An empty list and an absent one look the same here.
        let all = if all.is_empty() { "null".to_owned() } else { format!("[{}]", all.join(",")) };
        causes.push(invalid("spec.versions", &all, "must have exactly one version marked as storage version"));
    }
    for (number, version) in spec.versions.iter().enumerate() {
        if version.schema.as_ref().is_none_or(|schema| schema.open_api_v3_schema.is_none()) {
            causes.push(required(format!("spec.versions[{number}].schema.openAPIV3Schema")));
        }
    }
    let names = &spec.names;
    for (field, value) in [
        ("spec.names.plural", Some(&names.plural)),
        ("spec.names.singular", names.singular.as_ref()),
        ("spec.names.kind", Some(&names.kind)),
        ("spec.names.listKind", names.list_kind.as_ref()),
    ] {
        if value.is_none_or(String::is_empty) {
            causes.push(required(field));
        }
    }
    match stored.as_slice() {
        [] => causes.push(invalid("status.storedVersions", "null", "must have at least one stored version")),
        [first, .., last] => {
            causes.push(invalid("status.storedVersions", &format!("[{first:?}]"), &format!("must have the storage version {last}")));
        }
        [_] => {}
    }
    causes
}

/// Adds the defaults of a definition.
pub(crate) fn complete(spec: &mut Map<String, Value>) {
    let names = spec.get_mut("names").and_then(Value::as_object_mut);
    if let Some(names) = names
        && let Some(kind) = names.get("kind").and_then(Value::as_str).filter(|kind| !kind.is_empty()).map(str::to_owned)
    {
        for (name, value) in [("singular", kind.to_lowercase()), ("listKind", format!("{kind}List"))] {
            if names.get(name).and_then(Value::as_str).is_none_or(str::is_empty) {
                names.insert(name.to_owned(), value.into());
            }
        }
    }
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
    }
}
