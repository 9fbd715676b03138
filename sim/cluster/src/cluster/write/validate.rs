//! Validation of metadata by an API server (K §1.1), in the words of its 422. Valid metadata costs one pass over its bytes and no
//! allocation.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube_machinery::ObjectKey;
use kube_machinery::api::Cause;
use kube_machinery::label_selector::{VALUE_MAX, is_key, is_value};

use super::field_invalid;
use super::metadata::annotations_size;
use crate::kinds::naming::{finalizer_fault, is_unit, name_fault};

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and \
                         end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an \
                     alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const NAME_PART: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character \
                         (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                         '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end \
                     with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
                     '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// The errors of the name of an object to be created, and of the prefix it was generated from.
pub(super) fn validate_name(kind: &str, key: &ObjectKey, meta: &ObjectMeta) -> Vec<Cause> {
    let name = key.name();
    let mut causes = Vec::new();
    if let Some(base) = meta.generate_name.as_deref().filter(|base| !base.is_empty()) {
        // The dash before a suffix does not count.
        let stem = match base.strip_suffix('-') {
            Some(stem) if !stem.is_empty() => Cow::Owned(format!("{}a", &stem[..stem.floor_char_boundary(stem.len() - 1)])),
            _ => Cow::Borrowed(base),
        };
        causes.extend(name_faults(kind, &stem).into_iter().map(|fault| invalid("metadata.generateName", base, fault)));
    }
    causes.extend(name_faults(kind, name).into_iter().map(|fault| invalid("metadata.name", name, fault)));
    causes
}

fn name_faults(kind: &str, name: &str) -> Vec<&'static str> {
    if name_fault(kind, name).is_none() {
        return Vec::new();
    }
    let is_subdomain = name.split('.').all(is_unit);
    let mut faults = Vec::new();
    match kind {
        "Namespace" | "StatefulSet" => {
            faults.extend((name.len() > 63).then_some("must be no more than 63 characters"));
            faults.extend((!is_unit(name)).then_some(if is_subdomain { "must not contain dots" } else { LABEL }));
        }
        "CronJob" if name_fault("", name).is_none() => faults.push("must be no more than 52 characters"),
        _ => {
            faults.extend((name.len() > 253).then_some("must be no more than 253 characters"));
            faults.extend((!is_subdomain).then_some(SUBDOMAIN));
        }
    }
    faults
}

/// The errors of metadata of a built-in type or a `custom` one (K014, K016). All of it is checked in every write, changed or not.
pub(super) fn validate_meta(custom: bool, meta: &ObjectMeta) -> Vec<Cause> {
    /// The limit for all keys and values of annotations together.
    const ANNOTATIONS_MAX: usize = 256 << 10;
    let mut causes = Vec::new();
    for (key, value) in meta.labels.iter().flatten() {
        if !is_key(key) {
            causes.extend(key_faults(key).into_iter().map(|fault| invalid("metadata.labels", key, fault)));
        }
        if !is_value(value) {
            let long = (value.len() > VALUE_MAX).then_some("must be no more than 63 bytes");
            let syntax = (!is_value_syntax(value)).then_some(VALUE);
            causes.extend(long.into_iter().chain(syntax).map(|fault| invalid("metadata.labels", value, fault)));
        }
    }
    for key in meta.annotations.iter().flatten().map(|(key, _)| key) {
        // The case of an annotation's key is ignored.
        if !is_key(key) {
            causes.extend(key_faults(&key.to_lowercase()).into_iter().map(|fault| invalid("metadata.annotations", key, fault)));
        }
    }
    if annotations_size(meta) > ANNOTATIONS_MAX {
        let message = format!("Too long: may not be more than {ANNOTATIONS_MAX} bytes");
        causes.push(Cause { reason: "FieldValueTooLong".into(), message: message.into(), field: "metadata.annotations".into() });
    }
    if let Some(owners) = &meta.owner_references {
        validate_owners(owners, &mut causes);
    }
    if let Some(finalizers) = &meta.finalizers {
        validate_finalizers(custom, finalizers, &mut causes);
    }
    causes
}

fn validate_owners(owners: &[OwnerReference], causes: &mut Vec<Cause>) {
    let mut controller: Option<&OwnerReference> = None;
    for owner in owners {
        let mut missing = |field, value: &str, fault: &str| causes.push(invalid(field, value, fault));
        // A text with more than one slash is no version, either.
        let (_, version) = owner.api_version.split_once('/').unwrap_or(("", &owner.api_version));
        if version.is_empty() || version.contains('/') {
            missing("metadata.ownerReferences.apiVersion", &owner.api_version, "version must not be empty");
        }
        for (field, value) in [
            ("metadata.ownerReferences.kind", &owner.kind),
            ("metadata.ownerReferences.name", &owner.name),
            ("metadata.ownerReferences.uid", &owner.uid),
        ] {
            if value.is_empty() {
                missing(field, value, "must not be empty");
            }
        }
        if owner.api_version == "v1" && owner.kind == "Event" {
            let message = format!("Invalid value: {}: /v1, Kind=Event is disallowed from being an owner", json_of(owner));
            causes.push(field_invalid("metadata.ownerReferences", message));
        }
        if owner.controller != Some(true) {
            continue;
        }
        if let Some(first) = controller {
            let all: Vec<String> = owners.iter().map(json_of).collect();
            let message = format!(
                "Invalid value: [{}]: Only one reference can have Controller set to true. Found \"true\" in references for {}/{} and {}/{}",
                all.join(","),
                first.kind,
                first.name,
                owner.kind,
                owner.name
            );
            causes.push(field_invalid("metadata.ownerReferences", message));
        } else {
            controller = Some(owner);
        }
    }
}

/// Validates finalizers. Duplicates are valid, and are kept.
fn validate_finalizers(custom: bool, finalizers: &[String], causes: &mut Vec<Cause>) {
    for finalizer in finalizers.iter().filter(|finalizer| !is_key(finalizer)) {
        causes.extend(key_faults(finalizer).into_iter().map(|fault| invalid("metadata.finalizers", finalizer, fault)));
    }
    if ["orphan", "foregroundDeletion"].iter().all(|name| finalizers.iter().any(|finalizer| finalizer == name)) {
        let all = serde_json::to_string(finalizers).unwrap_or_default();
        let message = format!("Invalid value: {all}: finalizer orphan and foregroundDeletion cannot be both set");
        causes.push(field_invalid("metadata.finalizers", message));
    }
    if custom {
        // For a custom resource this is only a warning.
        return;
    }
    for (at, finalizer) in finalizers.iter().enumerate() {
        if let Some(fault) = finalizer_fault(finalizer) {
            causes.push(Cause { field: format!("metadata.finalizers[{at}]").into(), ..invalid("", finalizer, fault) });
        }
    }
}

fn invalid(field: &'static str, value: &str, fault: impl AsRef<str>) -> Cause {
    field_invalid(field, format!("Invalid value: {value:?}: {}", fault.as_ref()))
}

/// The errors of a qualified name; empty exactly if [`is_key`].
fn key_faults(key: &str) -> Vec<String> {
    let (prefix, name) = match key.split('/').collect::<Vec<_>>()[..] {
        [name] => (None, name),
        [prefix, name] => (Some(prefix), name),
        _ => {
            return vec![format!(
                "a valid label key {NAME_PART} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    let mut faults = Vec::new();
    match prefix {
        Some("") => faults.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => {
            faults.extend((prefix.len() > 253).then(|| "prefix part must be no more than 253 characters".to_owned()));
            faults.extend((!prefix.split('.').all(is_unit)).then(|| format!("prefix part {SUBDOMAIN}")));
        }
        None => {}
    }
    faults.extend(name.is_empty().then(|| "name part must be non-empty".to_owned()));
    faults.extend((name.len() > VALUE_MAX).then(|| "name part must be no more than 63 bytes".to_owned()));
    faults.extend((name.is_empty() || !is_value_syntax(name)).then(|| format!("name part {NAME_PART}")));
    faults
}

/// Whether a text has the syntax of a label value, regardless of its length.
fn is_value_syntax(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let ends = |byte: Option<u8>| byte.is_none_or(|byte| byte.is_ascii_alphanumeric());
    ends(text.bytes().next()) && ends(text.bytes().next_back()) && text.bytes().all(inner)
}

/// A reference in JSON as the real server prints it, with the fields in the same order.
fn json_of(owner: &OwnerReference) -> String {
    let text = |value: &str| serde_json::Value::from(value).to_string();
    let mut json = format!(
        "{{\"apiVersion\":{},\"kind\":{},\"name\":{},\"uid\":{}",
        text(&owner.api_version),
        text(&owner.kind),
        text(&owner.name),
        text(&owner.uid)
    );
    for (name, flag) in [("controller", owner.controller), ("blockOwnerDeletion", owner.block_owner_deletion)] {
        json.extend(flag.map(|flag| format!(",\"{name}\":{flag}")));
    }
    json + "}"
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// The errors of metadata: fields and messages.
    fn faults(custom: bool, meta: Value) -> Vec<String> {
        let causes = validate_meta(custom, &serde_json::from_value(meta).unwrap());
        causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    #[test]
    fn labels_have_qualified_names_and_values_of_63_bytes() {
        let (x63, x64) = ("x".repeat(63), "x".repeat(64));
        for value in [&*x63, "", "10.0.0.1", "A_b.C"] {
            assert_eq!(faults(false, json!({"labels": {"k": value}})), [""; 0], "{value}");
        }
        for value in ["-a", "a-", "a b", "a/b", "fd00::1", "é"] {
            assert_eq!(faults(true, json!({"labels": {"k": value}})), [format!("metadata.labels: Invalid value: {value:?}: {VALUE}")]);
        }
        let long = |text: &str| format!("metadata.labels: Invalid value: {text:?}: must be no more than 63 bytes");
        assert_eq!(faults(false, json!({"labels": {"k": x64}})), [long(&x64)]);
        let both = "-".repeat(64);
        assert_eq!(
            faults(false, json!({"labels": {"k": both}})),
            [long(&both), format!("metadata.labels: Invalid value: {both:?}: {VALUE}")]
        );
        for (key, told) in [
            (&*x63, vec![]),
            ("example.com/B_c", vec![]),
            (&x64, vec!["name part must be no more than 63 bytes".to_owned()]),
            ("/b", vec!["prefix part must be non-empty".to_owned()]),
            ("a/", vec!["name part must be non-empty".to_owned(), format!("name part {NAME_PART}")]),
            ("", vec!["name part must be non-empty".to_owned(), format!("name part {NAME_PART}")]),
            ("Example.com/b", vec![format!("prefix part {SUBDOMAIN}")]),
            ("-a", vec![format!("name part {NAME_PART}")]),
            (
                "a/b/c",
                vec![format!("a valid label key {NAME_PART} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')")],
            ),
        ] {
            let told: Vec<_> = told.iter().map(|fault| format!("metadata.labels: Invalid value: {key:?}: {fault}")).collect();
            assert_eq!(faults(false, json!({"labels": {key: "x"}})), told, "{key}");
            // The keys of annotations may be like this one, whose prefix is no subdomain.
            let of_annotation = if key == "Example.com/b" { 0 } else { told.len() };
            assert_eq!(faults(false, json!({"annotations": {key: "any\nthing é"}})).len(), of_annotation, "{key}");
        }
    }

    #[test]
    fn finalizers_are_qualified_names_of_a_domain_and_may_repeat() {
        for names in [&["example.com/a"][..], &["kubernetes"], &["orphan"], &["foregroundDeletion"], &["a.b/c", "a.b/c"]] {
            assert_eq!(faults(false, json!({"finalizers": names})), [""; 0], "{names:?}");
        }
        let standard = "name is neither a standard finalizer name nor is it fully qualified";
        for (name, built_in, custom) in [("plain", 1, 0), ("bad name", 2, 1), ("", 3, 2), ("example.com/", 2, 2), ("a/b/c", 1, 1)] {
            let told = faults(false, json!({"finalizers": ["a.b/c", name]}));
            assert_eq!((told.len(), faults(true, json!({"finalizers": ["a.b/c", name]})).len()), (built_in, custom), "{told:?}");
            if !name.contains('/') {
                assert_eq!(told[built_in - 1], format!("metadata.finalizers[1]: Invalid value: {name:?}: {standard}"));
            }
        }
        assert_eq!(
            faults(true, json!({"finalizers": ["orphan", "foregroundDeletion"]})),
            [
                r#"metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and foregroundDeletion cannot be both set"#
            ]
        );
    }

    #[test]
    fn owners_are_named_in_full_and_one_controls() {
        let owner = |api: &str, kind: &str, name: &str, uid: &str| json!({"apiVersion": api, "kind": kind, "name": name, "uid": uid});
        assert_eq!(faults(false, json!({"ownerReferences": [owner("apps/v1", "Frob", "none", "x")]})), [""; 0]);
        for (field, of, told) in [
            ("apiVersion", owner("", "Pod", "a", "x"), "\"\": version must not be empty"),
            ("apiVersion", owner("a/b/c", "Pod", "a", "x"), "\"a/b/c\": version must not be empty"),
            ("kind", owner("v1", "", "a", "x"), "\"\": must not be empty"),
            ("name", owner("v1", "Pod", "", "x"), "\"\": must not be empty"),
            ("uid", owner("v1", "Pod", "a", ""), "\"\": must not be empty"),
        ] {
            let told = format!("metadata.ownerReferences.{field}: Invalid value: {told}");
            assert_eq!(faults(true, json!({"ownerReferences": [of]})), [told]);
        }
        let mut two = [owner("v1", "Pod", "a", "x"), owner("v1", "Pod", "b", "y")];
        two.iter_mut().for_each(|owner| owner["controller"] = true.into());
        assert_eq!(
            faults(false, json!({"ownerReferences": two})),
            ["metadata.ownerReferences: Invalid value: \
              [{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"a\",\"uid\":\"x\",\"controller\":true},\
              {\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"b\",\"uid\":\"y\",\"controller\":true}]: \
              Only one reference can have Controller set to true. Found \"true\" in references for Pod/a and Pod/b"]
        );
    }

    #[test]
    fn names_are_told_what_is_wrong_with_them() {
        let told = |kind: &str, base: &str, name: &str| {
            let meta = ObjectMeta { generate_name: Some(base.to_owned()), ..ObjectMeta::default() };
            let causes = validate_name(kind, &ObjectKey::namespaced("default", name), &meta);
            causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect::<Vec<_>>()
        };
        let (x64, x254) = ("x".repeat(64), "x".repeat(254));
        assert_eq!(told("Pod", "gen-", "gen-12345"), [""; 0]);
        assert_eq!(
            told("Pod", "Bad_", "Bad_12345"),
            [
                format!("metadata.generateName: Invalid value: \"Bad_\": {SUBDOMAIN}"),
                format!("metadata.name: Invalid value: \"Bad_12345\": {SUBDOMAIN}")
            ]
        );
        assert_eq!(told("Lease", "", &x254), [format!("metadata.name: Invalid value: {x254:?}: must be no more than 253 characters")]);
        assert_eq!(told("Namespace", "", "a.b"), ["metadata.name: Invalid value: \"a.b\": must not contain dots"]);
        assert_eq!(told("Namespace", "", "-a"), [format!("metadata.name: Invalid value: \"-a\": {LABEL}")]);
        assert_eq!(told("Namespace", "", &x64), [format!("metadata.name: Invalid value: {x64:?}: must be no more than 63 characters")]);
        assert_eq!(told("CronJob", "", &x64), [format!("metadata.name: Invalid value: {x64:?}: must be no more than 52 characters")]);
    }

    proptest! {
        #[test]
        fn a_name_has_faults_exactly_if_it_is_not_valid(text in "[aA0é._/-]{0,6}(x{60,64}|x{250,254})?[a./-]{0,2}") {
            prop_assert_eq!(key_faults(&text).is_empty(), is_key(&text), "{}", text);
            let value = !faults(false, json!({"labels": {"k": text}})).is_empty();
            prop_assert_eq!(value, !is_value(&text), "{}", text);
            for kind in ["Pod", "Namespace", "CronJob"] {
                prop_assert_eq!(name_faults(kind, &text).is_empty(), name_fault(kind, &text).is_none(), "{} {}", kind, text);
            }
        }
    }
}
