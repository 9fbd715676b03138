//! The wire forms of objects and lists.

use kube_sim::cluster::ApiReply;
use kube_sim::kinds::TypeDef;
use kube_sim::object::{AnyObject, Obj};
use serde_json::{Map, Value, json};

use crate::defaults;

/// The form of objects that the caller wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The objects with all of their fields.
    Whole,
    /// Only their metadata, as `PartialObjectMetadata` of `meta.k8s.io/v1`.
    Metadata,
}

/// The object with its type, outside of any list.
pub(crate) fn object_value(object: &dyn AnyObject, form: Form) -> Value {
    let mut value = object.to_value();
    defaults::show(&mut value);
    match form {
        Form::Whole => value,
        Form::Metadata => json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": value["metadata"]}),
    }
}

/// The object of a watch event.
pub(crate) fn event_value(object: &dyn AnyObject, form: Form) -> Value {
    object_value(object, form)
}

/// A list. The items of built-in types do not repeat their type.
pub(crate) fn list_value(def: &TypeDef, reply: ApiReply, form: Form) -> Value {
    let ApiReply::List { resource_version, items, continue_token, remaining } = reply else {
        unreachable!("a list is answered with a list")
    };
    let mut meta = Map::new();
    meta.insert("resourceVersion".to_owned(), json!(resource_version));
    match continue_token {
        Some(token) => drop(meta.insert("continue".to_owned(), json!(token))),
        // Lists of custom resources always have it.
        None if def.custom && form == Form::Whole => drop(meta.insert("continue".to_owned(), json!(""))),
        None => {}
    }
    if let Some(remaining) = remaining {
        meta.insert("remainingItemCount".to_owned(), json!(remaining));
    }
    let item = |object: &Obj| {
        let mut value = object_value(&**object, form);
        if !def.custom
            && form == Form::Whole
            && let Some(fields) = value.as_object_mut()
        {
            fields.remove("apiVersion");
            fields.remove("kind");
        }
        value
    };
    let (api_version, kind) = match form {
        Form::Whole => (def.api_version(), format!("{}List", def.kind)),
        Form::Metadata => ("meta.k8s.io/v1".to_owned(), "PartialObjectMetadataList".to_owned()),
    };
    json!({"apiVersion": api_version, "kind": kind, "metadata": meta, "items": items.iter().map(item).collect::<Vec<_>>()})
}
