//! Types for clients of the API that the simulation itself does not use.

use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::{Secret, Service, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_machinery::api::Cause;
use kube_sim::kinds::{Stored, TypeDef};

use crate::definition;

/// Marks this crate as the one that declares the rules.
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

impl Stored<Here> for CustomResourceDefinition {
    const NAMESPACED: bool = false;
    const RETURNS_DELETED: bool = true;

    kube_sim::status_subresource!(initial: None);

    fn validate(&self) -> Vec<Cause> {
        definition::faults(self)
    }
}

impl Stored<Here> for MutatingWebhookConfiguration {
    const NAMESPACED: bool = false;

    fn validate(&self) -> Vec<Cause> {
        self.webhooks
            .iter()
            .flatten()
            .enumerate()
            .filter_map(|(number, webhook)| with_side_effects(number, &webhook.side_effects))
            .collect()
    }
}

impl Stored<Here> for ValidatingWebhookConfiguration {
    const NAMESPACED: bool = false;

    fn validate(&self) -> Vec<Cause> {
        self.webhooks
            .iter()
            .flatten()
            .enumerate()
            .filter_map(|(number, webhook)| with_side_effects(number, &webhook.side_effects))
            .collect()
    }
}

/// The problem of a webhook that may have side effects on dry runs (K195).
fn with_side_effects(number: usize, side_effects: &str) -> Option<Cause> {
    let message = format!("Unsupported value: {side_effects:?}: supported values: \"None\", \"NoneOnDryRun\"");
    let field = format!("webhooks[{number}].sideEffects");
    let cause = Cause { reason: "FieldValueNotSupported".into(), message: message.into(), field: field.into() };
    (!matches!(side_effects, "None" | "NoneOnDryRun")).then_some(cause)
}

/// The registrations of types that only clients over HTTP use.
pub fn types() -> Vec<TypeDef> {
    vec![
        TypeDef::by::<Here, ServiceAccount>(),
        TypeDef::by::<Here, Secret>(),
        TypeDef::by::<Here, Service>(),
        TypeDef::by::<Here, CustomResourceDefinition>(),
        TypeDef::by::<Here, MutatingWebhookConfiguration>(),
        TypeDef::by::<Here, ValidatingWebhookConfiguration>(),
    ]
}
