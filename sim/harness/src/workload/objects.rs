//! Objects of Kubernetes' own types that workloads need.

use k8s_openapi::api::core::v1::{Container, Namespace, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_machinery::ObjectKey;
use kube_sim::cluster::Cluster;

/// Puts a namespace into the store unless it exists.
pub fn preload_namespace(cluster: &Cluster, name: &str) {
    cluster.preload_unless_held(Namespace { metadata: ObjectKey::cluster(name).metadata(), ..Namespace::default() });
}

/// A pod with these metadata and one container, for workloads that only need its existence.
pub fn plain_pod(metadata: ObjectMeta) -> Pod {
    Pod { metadata, spec: Some(PodSpec { containers: vec![plain_container()], ..PodSpec::default() }), ..Pod::default() }
}

/// A container, for workloads that only need its existence.
pub fn plain_container() -> Container {
    Container { name: "main".to_owned(), image: Some("registry.example/app:1".to_owned()), ..Container::default() }
}
