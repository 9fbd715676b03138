//! A workload of a kind that Kubernetes does not bring along: OpenKruise's CloneSet.
//!
//! ```text
//!   CloneSet ── owns ──► Pod NAME-xxxxx, straight, without a ReplicaSet
//! ```

use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use kube_machinery::WordHash;
use serde::{Deserialize, Serialize};

use super::Stored;

/// The API group and version, as an owner reference has it.
pub const API_VERSION: &str = "apps.kruise.io/v1alpha1";

/// The desired state of a [`CloneSet`].
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "apps.kruise.io",
    version = "v1alpha1",
    kind = "CloneSet",
    plural = "clonesets",
    singular = "cloneset",
    shortname = "clone",
    namespaced,
    schema = "disabled",
    status = "CloneSetStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Pods with random names that it owns itself; status as a subresource."
)]
#[serde(rename_all = "camelCase")]
pub struct CloneSetSpec {
    /// How many pods there shall be; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Which pods are its own.
    #[serde(default)]
    pub selector: LabelSelector,
    /// What they are made from.
    #[serde(default)]
    pub template: PodTemplateSpec,
}

/// What its controller says of a [`CloneSet`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CloneSetStatus {
    /// The generation that this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How many pods there are, neither ended nor terminating.
    pub replicas: i32,
    /// How many of them are ready.
    pub ready_replicas: i32,
    /// How many of them are made from the present template.
    pub updated_replicas: i32,
}

impl Stored for CloneSet {
    const UNCONDITIONAL_UPDATE: bool = false;
    const CUSTOM: bool = true;

    status_subresource!(initial: None);

    fn content(&self) -> u64 {
        let hash = WordHash::new().word(self.spec.replicas.map_or(u64::MAX, |replicas| replicas as u64));
        let Some(status) = &self.status else { return hash.finish() };
        let counts = [status.replicas, status.ready_replicas, status.updated_replicas];
        counts.into_iter().fold(hash, |hash, count| hash.word(count as u64)).finish()
    }
}
