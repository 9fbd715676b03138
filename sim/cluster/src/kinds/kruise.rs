//! A kind of workload that is not part of Kubernetes: OpenKruise's CloneSet.
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

/// The API group and version, as in an owner reference.
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
    /// The desired number of pods; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The selector of its pods.
    #[serde(default)]
    pub selector: LabelSelector,
    /// The template of its pods.
    #[serde(default)]
    pub template: PodTemplateSpec,
}

/// The status of a [`CloneSet`], written by its controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CloneSetStatus {
    /// The generation that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The number of pods that are neither ended nor terminating.
    pub replicas: i32,
    /// The number of these pods that are ready.
    pub ready_replicas: i32,
    /// The number of these pods that are made from the present template.
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
