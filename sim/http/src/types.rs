//! Types that clients of the API meet and that the simulation has no use for itself.

use k8s_openapi::api::core::v1::{Secret, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_sim::kinds::{Stored, TypeDef};

/// Says that this crate declares the rules.
struct Here;

impl Stored<Here> for ServiceAccount {
    const HAS_GENERATION: bool = false;
    const RETURNS_DELETED: bool = true;
}

impl Stored<Here> for Secret {
    const HAS_GENERATION: bool = false;
    const FIELDS: &'static [&'static str] = &["type"];

    fn field(&self, name: &str) -> std::borrow::Cow<'_, str> {
        let value = if name == "type" { self.type_.as_deref() } else { None };
        value.unwrap_or("").into()
    }
}

impl Stored<Here> for Service {
    const HAS_GENERATION: bool = false;
    const RETURNS_DELETED: bool = true;

    kube_sim::status_subresource!(initial: None);
}

impl Stored<Here> for PodDisruptionBudget {
    const UNCONDITIONAL_UPDATE: bool = false;

    kube_sim::status_subresource!(initial: None);
}

impl Stored<Here> for CustomResourceDefinition {
    const NAMESPACED: bool = false;
    const RETURNS_DELETED: bool = true;

    kube_sim::status_subresource!(initial: None);
}

/// The registrations of types that only clients over HTTP meet.
pub fn types() -> Vec<TypeDef> {
    vec![
        TypeDef::by::<Here, ServiceAccount>(),
        TypeDef::by::<Here, Secret>(),
        TypeDef::by::<Here, Service>(),
        TypeDef::by::<Here, PodDisruptionBudget>(),
        TypeDef::by::<Here, CustomResourceDefinition>(),
    ]
}
