//! Spiderpool's finalizer, which keeps an object until its addresses are released. Other finalizers are left alone (K §1.1).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_machinery::api::Patch;
use serde_json::{Value, json};

use crate::names::FINALIZER;

/// Whether the object has the finalizer.
pub(crate) fn is_on(meta: &ObjectMeta) -> bool {
    meta.finalizers.iter().flatten().any(|name| name == FINALIZER)
}

/// Adds the finalizer, unless the object has it.
pub(crate) fn put_on(meta: &mut ObjectMeta) {
    if !is_on(meta) {
        meta.finalizers.get_or_insert_default().push(FINALIZER.to_owned());
    }
}

/// Removes the finalizer from the object and leaves all others.
pub(crate) fn take_off(meta: &mut ObjectMeta) {
    let mut finalizers = meta.finalizers.take().unwrap_or_default();
    finalizers.retain(|name| name != FINALIZER);
    meta.finalizers = Some(finalizers).filter(|finalizers| !finalizers.is_empty());
}

/// The patch that removes the finalizer. `exact`: only if the object is unchanged since it was read.
pub(crate) fn patch_off(meta: &ObjectMeta, exact: bool) -> Patch {
    let others: Vec<&String> = meta.finalizers.iter().flatten().filter(|name| *name != FINALIZER).collect();
    let finalizers = if others.is_empty() { Value::Null } else { json!(others) };
    let mut metadata = json!({ "finalizers": finalizers });
    if exact {
        metadata["resourceVersion"] = json!(meta.resource_version);
    }
    Patch::merge(json!({ "metadata": metadata }))
}
