//! The propagation policy of a delete: finalizers that request the garbage collector's treatment of dependents (K105).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_machinery::api::Propagation;

use crate::object::{Obj, make_mut};

/// The finalizer of an object whose dependents are to lose it as their owner.
const ORPHAN: &str = "orphan";
/// The finalizer of an object whose dependents are deleted first.
const FOREGROUND: &str = "foregroundDeletion";

/// The finalizer for a policy.
fn finalizer(policy: Propagation) -> Option<&'static str> {
    match policy {
        Propagation::Background => None,
        Propagation::Foreground => Some(FOREGROUND),
        Propagation::Orphan => Some(ORPHAN),
    }
}

/// The object with the finalizers for the policy of a delete, in place of those of an earlier policy. `None`: they need no change. Without
/// a policy that of an earlier delete applies.
pub(super) fn marked(policy: Option<Propagation>, current: &Obj) -> Option<Obj> {
    let wanted = finalizer(policy?);
    let of_policy = |name: &str| matches!(name, ORPHAN | FOREGROUND);
    let meta: &ObjectMeta = current.meta();
    let present: Vec<&str> = meta.finalizers.iter().flatten().map(String::as_str).filter(|name| of_policy(name)).collect();
    if present == wanted.as_slice() {
        return None;
    }
    let mut object = current.deep_copy();
    let finalizers = &mut make_mut(&mut object).meta_mut().finalizers;
    let mut names = finalizers.take().unwrap_or_default();
    names.retain(|name| !of_policy(name));
    names.extend(wanted.map(str::to_owned));
    *finalizers = (!names.is_empty()).then_some(names);
    Some(object)
}
