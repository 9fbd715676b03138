//! The types that a simulated cluster serves.

use kube_sim::kinds::{Registry, TypeDef};

use crate::registered::Registered;

/// Makes those that the systems add, in the order of their registration.
pub(crate) static TYPES: Registered<fn() -> Vec<TypeDef>> = Registered::new();

/// Those of Kubernetes and of all systems. Who is registered later is served first: the numbers of types enter digests.
pub fn registry() -> Registry {
    Registry::new(kube_sim::kinds::all(TYPES.get()()))
}
