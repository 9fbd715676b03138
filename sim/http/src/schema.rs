//! Structural schemas of custom resources: pruning, defaults, validation (K §1.3).
//!
//! Errors have the words of the real server. Validation is ratcheting: parts that an update leaves unchanged are not checked again.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool};
use kube_machinery::api::Cause;
use serde_json::{Map, Value};

type Object = Map<String, Value>;

/// Converts whole numbers to integers, however they are written: 1000.0 is 1000.
pub(crate) fn whole_numbers(mut value: Value) -> Value {
    match &mut value {
        Value::Number(number) => {
            if let Some(float) = number.as_f64().filter(|_| number.is_f64())
                && float.fract() == 0.0
                && float.abs() < 9e15
            {
                return Value::from(float as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = whole_numbers(item.take())),
        Value::Object(fields) => fields.values_mut().for_each(|field| *field = whole_numbers(field.take())),
        _ => {}
    }
    value
}

/// The length of an object as the server stores it: without blanks, and with `<`, `>` and `&` escaped.
pub(crate) fn json_size(fields: &Object) -> usize {
    fn escaped(text: &str) -> usize {
        let more = |byte: u8| match byte {
            b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 2,
            b'<' | b'>' | b'&' | 0..=0x1f => 6,
            _ => 1,
        };
        2 + text.bytes().map(more).sum::<usize>()
    }
    fn of(value: &Value) -> usize {
        match value {
            Value::String(text) => escaped(text),
            Value::Array(items) => 1 + items.iter().map(|item| of(item) + 1).sum::<usize>().max(1),
            Value::Object(fields) => json_size(fields),
            other => other.to_string().len(),
        }
    }
    1 + fields.iter().map(|(name, value)| escaped(name) + 2 + of(value)).sum::<usize>().max(1)
}

/// Drops unknown fields of an object and adds defaults. Returns the paths of the dropped fields.
pub(crate) fn shape(schema: &JSONSchemaProps, object: &mut Object) -> Vec<String> {
    let mut dropped = Vec::new();
    let keep = ["apiVersion", "kind", "metadata"];
    if schema.x_kubernetes_preserve_unknown_fields != Some(true) {
        let known = |name: &String| keep.contains(&name.as_str()) || schema.properties.iter().flatten().any(|(own, _)| own == name);
        dropped.extend(object.keys().filter(|name| !known(name)).cloned());
        object.retain(|name, _| known(name));
    }
    for (name, of) in schema.properties.iter().flatten().filter(|(name, _)| !keep.contains(&name.as_str())) {
        shape_field(of, object, name, "", &mut dropped);
    }
    dropped
}

/// Adds defaults, and nothing else: other nulls stay, even in fields that are not nullable.
pub(crate) fn add_defaults(schema: &JSONSchemaProps, object: &mut Object) {
    for (name, of) in schema.properties.iter().flatten() {
        if let Some(default) = &of.default
            && object.get(name).is_none_or(|value| value.is_null() && of.nullable != Some(true))
        {
            object.insert(name.clone(), default.0.clone());
        }
        match object.get_mut(name) {
            Some(Value::Object(fields)) => match &of.additional_properties {
                Some(JSONSchemaPropsOrBool::Schema(of)) => {
                    fields.values_mut().filter_map(Value::as_object_mut).for_each(|fields| add_defaults(of, fields));
                }
                _ => add_defaults(of, fields),
            },
            Some(Value::Array(items)) => {
                if let Some(JSONSchemaPropsOrArray::Schema(of)) = &of.items {
                    items.iter_mut().filter_map(Value::as_object_mut).for_each(|fields| add_defaults(of, fields));
                }
            }
            _ => {}
        }
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Drops unknown parts of one field that a schema knows, and adds defaults.
fn shape_field(schema: &JSONSchemaProps, object: &mut Object, name: &str, path: &str, dropped: &mut Vec<String>) {
    // A null in a field that is not nullable counts as absent.
    if object.get(name).is_some_and(Value::is_null) && schema.nullable != Some(true) {
        object.remove(name);
    }
    if !object.contains_key(name)
        && let Some(default) = &schema.default
    {
        object.insert(name.to_owned(), default.0.clone());
    }
    if let Some(value) = object.get_mut(name) {
        shape_value(schema, value, &join(path, name), dropped);
    }
}

fn shape_value(schema: &JSONSchemaProps, value: &mut Value, path: &str, dropped: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(JSONSchemaPropsOrBool::Schema(of)) = &schema.additional_properties {
                for (name, field) in fields.iter_mut() {
                    shape_value(of, field, &join(path, name), dropped);
                }
                return;
            }
            let open = schema.x_kubernetes_preserve_unknown_fields == Some(true)
                || matches!(schema.additional_properties, Some(JSONSchemaPropsOrBool::Bool(true)));
            let known = |name: &String| schema.properties.as_ref().is_some_and(|properties| properties.contains_key(name));
            if !open {
                dropped.extend(fields.keys().filter(|name| !known(name)).map(|name| join(path, name)));
                fields.retain(|name, _| known(name));
            }
            for (name, of) in schema.properties.iter().flatten() {
                shape_field(of, fields, name, path, dropped);
            }
        }
        Value::Array(items) => {
            if let Some(JSONSchemaPropsOrArray::Schema(of)) = &schema.items {
                for (index, item) in items.iter_mut().enumerate() {
                    shape_value(of, item, &format!("{path}[{index}]"), dropped);
                }
            }
        }
        _ => {}
    }
}

/// The problems of an object. `old`: the object that an update replaces.
pub(crate) fn validate(schema: &JSONSchemaProps, object: &Object, old: Option<&Object>) -> Vec<Cause> {
    let mut causes = Vec::new();
    fields(schema, object, old, "", &mut causes);
    causes
}

fn cause(reason: &'static str, field: &str, message: String) -> Cause {
    Cause { reason: reason.into(), message: message.into(), field: field.to_owned().into() }
}

fn fields(schema: &JSONSchemaProps, object: &Object, old: Option<&Object>, path: &str, causes: &mut Vec<Cause>) {
    for name in schema.required.iter().flatten().filter(|name| !object.contains_key(*name)) {
        if old.is_none_or(|old| old.contains_key(name)) {
            causes.push(cause("FieldValueRequired", &join(path, name), "Required value".to_owned()));
        }
    }
    for (name, of) in schema.properties.iter().flatten() {
        if let Some(field) = object.get(name) {
            value(of, field, old.and_then(|old| old.get(name)), &join(path, name), causes);
        }
    }
    if let Some(JSONSchemaPropsOrBool::Schema(of)) = &schema.additional_properties {
        let known = |name: &String| schema.properties.as_ref().is_some_and(|properties| properties.contains_key(name));
        for (name, field) in object.iter().filter(|(name, _)| !known(name)) {
            value(of, field, old.and_then(|old| old.get(name)), &join(path, name), causes);
        }
    }
}

/// The type of a value in the words of the server.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn value(schema: &JSONSchemaProps, value: &Value, old: Option<&Value>, path: &str, causes: &mut Vec<Cause>) {
    if old == Some(value) || value.is_null() && schema.nullable == Some(true) {
        return;
    }
    let is = type_of(value);
    let expected = if schema.x_kubernetes_int_or_string == Some(true) { Some("integer,string") } else { schema.type_.as_deref() };
    let fits = expected.is_none_or(|expected| expected.split(',').any(|one| one == is || one == "number" && is == "integer"));
    if !fits {
        let expected = expected.unwrap_or_default();
        causes.push(cause(
            "FieldValueTypeInvalid",
            path,
            format!("Invalid value: {is:?}: {path} in body must be of type {expected}: {is:?}"),
        ));
        return;
    }
    let invalid = |what: String| cause("FieldValueInvalid", path, format!("Invalid value: {value}: {path} in body should be {what}"));
    if let Some(number) = value.as_f64() {
        if let Some(most) = schema.maximum.filter(|most| number > *most) {
            causes.push(invalid(format!("less than or equal to {most}")));
        }
        if let Some(least) = schema.minimum.filter(|least| number < *least) {
            causes.push(invalid(format!("greater than or equal to {least}")));
        }
    }
    if let Some(text) = value.as_str() {
        let length = text.chars().count() as i64;
        if let Some(least) = schema.min_length.filter(|least| length < *least) {
            causes.push(invalid(format!("at least {least} chars long")));
        }
        if let Some(most) = schema.max_length.filter(|most| length > *most) {
            causes.push(cause("FieldValueTooLong", path, format!("Too long: may not be more than {most} bytes")));
        }
    }
    if let Some(choices) = &schema.enum_
        && !choices.iter().any(|choice| choice.0 == *value)
    {
        let told = |choice: &Value| choice.as_str().map_or_else(|| format!("\"{choice}\""), |text| format!("{text:?}"));
        let choices: Vec<String> = choices.iter().map(|choice| told(&choice.0)).collect();
        causes.push(cause("FieldValueNotSupported", path, format!("Unsupported value: {value}: supported values: {}", choices.join(", "))));
    }
    match value {
        Value::Object(object) => fields(schema, object, old.and_then(Value::as_object), path, causes),
        Value::Array(items) => list(schema, items, old.and_then(Value::as_array), path, causes),
        _ => {}
    }
}

fn list(schema: &JSONSchemaProps, items: &[Value], old: Option<&Vec<Value>>, path: &str, causes: &mut Vec<Cause>) {
    if let Some(most) = schema.max_items.filter(|most| items.len() as i64 > *most) {
        causes.push(cause("FieldValueTooMany", path, format!("Too many: {}: must have at most {most} items", items.len())));
    }
    if let Some(least) = schema.min_items.filter(|least| (items.len() as i64) < *least) {
        let array = Value::Array(items.to_vec());
        causes.push(cause("FieldValueInvalid", path, format!("Invalid value: {array}: {path} in body should have at least {least} items")));
    }
    let keys = schema.x_kubernetes_list_map_keys.as_deref().unwrap_or_default();
    let key_of = |item: &Value| -> Value {
        if keys.is_empty() { item.clone() } else { keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone()))).collect() }
    };
    if matches!(schema.x_kubernetes_list_type.as_deref(), Some("set" | "map")) {
        for (index, item) in items.iter().enumerate() {
            let key = key_of(item);
            if key.as_object().is_some_and(|key| !keys.is_empty() && key.len() < keys.len()) {
                continue;
            }
            if items[..index].iter().any(|other| key_of(other) == key) {
                causes.push(cause("FieldValueDuplicate", &format!("{path}[{index}]"), format!("Duplicate value: {key}")));
            }
        }
    }
    if let Some(JSONSchemaPropsOrArray::Schema(of)) = &schema.items {
        for (index, item) in items.iter().enumerate() {
            let before = match schema.x_kubernetes_list_type.as_deref() {
                Some("map") => old.and_then(|old| old.iter().find(|other| key_of(other) == key_of(item))),
                _ => None,
            };
            value(of, item, before, &format!("{path}[{index}]"), causes);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pool() -> JSONSchemaProps {
        serde_json::from_value(json!({
            "type": "object",
            "required": ["spec"],
            "properties": {"spec": {"type": "object", "required": ["subnet"], "properties": {
                "subnet": {"type": "string", "minLength": 1},
                "vlan": {"type": "integer", "default": 0, "maximum": 4094},
                "gateway": {"type": "string", "nullable": true},
                "version": {"type": "integer", "enum": [4, 6]},
                "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                "routes": {"type": "array", "items": {"type": "object", "properties": {"metric": {"type": "integer", "default": 100}}}},
                "extra": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            }}},
        }))
        .unwrap()
    }

    fn object(spec: Value) -> Object {
        let Value::Object(object) = json!({"apiVersion": "a/v1", "kind": "Pool", "spec": spec}) else { unreachable!("just made") };
        object
    }

    fn told(new: Value, old: Option<Value>) -> Vec<String> {
        let causes = validate(&pool(), &object(new), old.map(object).as_ref());
        causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    #[test]
    fn unknown_fields_go_and_defaults_come_at_every_level() {
        let mut shaped = object(json!({
            "subnet": "s", "frob": 1, "vlan": null, "gateway": null, "tags": null, "routes": [{"x": 1}], "extra": {"any": [1]},
        }));
        let dropped = shape(&pool(), &mut shaped);
        assert_eq!(dropped, ["spec.frob", "spec.routes[0].x"]);
        let expected = json!({"subnet": "s", "vlan": 0, "gateway": null, "routes": [{"metric": 100}], "extra": {"any": [1]}});
        assert_eq!(shaped["spec"], expected);
    }

    #[test]
    fn defaults_alone_leave_the_nulls_that_have_none() {
        let mut fields = object(json!({"subnet": "s", "vlan": null, "tags": null, "routes": [{}]}));
        add_defaults(&pool(), &mut fields);
        assert_eq!(fields["spec"], json!({"subnet": "s", "vlan": 0, "tags": null, "routes": [{"metric": 100}]}));
    }

    #[test]
    fn what_does_not_fit_is_told_in_the_words_of_the_server() {
        assert_eq!(told(json!({"subnet": "s", "vlan": 4}), None), Vec::<String>::new());
        for (spec, expected) in [
            (json!({}), "spec.subnet: Required value"),
            (json!({"subnet": ""}), "spec.subnet: Invalid value: \"\": spec.subnet in body should be at least 1 chars long"),
            (
                json!({"subnet": "s", "vlan": 5000}),
                "spec.vlan: Invalid value: 5000: spec.vlan in body should be less than or equal to 4094",
            ),
            (json!({"subnet": 1}), "spec.subnet: Invalid value: \"integer\": spec.subnet in body must be of type string: \"integer\""),
            (json!({"subnet": "s", "version": 5}), "spec.version: Unsupported value: 5: supported values: \"4\", \"6\""),
            (json!({"subnet": "s", "tags": ["a", "a"]}), "spec.tags[1]: Duplicate value: \"a\""),
        ] {
            assert_eq!(told(spec, None), [expected]);
        }
    }

    #[test]
    fn an_update_is_held_to_what_it_changes() {
        let stored = || Some(json!({"subnet": "s", "vlan": 5000}));
        assert_eq!(told(json!({"subnet": "t", "vlan": 5000}), stored()), Vec::<String>::new());
        assert_eq!(told(json!({"subnet": "s", "vlan": 5001}), stored()).len(), 1);
    }

    #[test]
    fn the_size_is_that_of_the_stored_text() {
        let fields = object(json!({"text": "a\"b<"}));
        let text = serde_json::to_string(&fields).unwrap();
        // The server escapes `<` in six bytes where serde writes one.
        assert_eq!(json_size(&fields), text.len() + 5);
    }

    #[test]
    fn whole_numbers_are_integers() {
        assert_eq!(whole_numbers(json!({"a": [1000.0, 1.5, 9007199254740993u64]})), json!({"a": [1000, 1.5, 9007199254740993u64]}));
    }
}
