//! The types that a simulated cluster serves.

use kube_sim::kinds::{Registry, TypeDef};

use crate::registered::Registered;

/// The constructor of the types that the systems add, in the order of their registration.
pub(crate) static TYPES: Registered<fn() -> Vec<TypeDef>> = Registered::new();

/// The types of Kubernetes and of all systems. Systems registered later come later: the numbers of types enter digests.
pub fn registry() -> Registry {
    Registry::new(kube_sim::kinds::all(TYPES.get()()))
}
