//! The custom resource of the adaptor that gives VMs to pods (B S1).

use crate::Byom;
use ipam_byom::{PeerPod, PoolConfigMap};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_machinery::WordHash;
use kube_sim::actor::controller_manager::NamespaceContent;
use kube_sim::kinds::{Stored, TypeDef, moment, status_subresource};

/// The registrations of the adaptor's types. All ConfigMaps are stored in a form that keeps a pool's document separate.
pub(super) fn all() -> Vec<TypeDef> {
    vec![
        TypeDef::by::<Byom, PoolConfigMap>().viewed_as::<PoolConfigMap, ConfigMap>(),
        TypeDef::by::<Byom, PeerPod>().with(NamespaceContent::of::<PeerPod>()),
    ]
}

impl Stored<Byom> for PeerPod {
    const UNCONDITIONAL_UPDATE: bool = false;
    const CUSTOM: bool = true;

    status_subresource!(initial: None);

    fn content(&self) -> u64 {
        let Self { spec, status, .. } = self;
        let texts = [&spec.allocation_id, &spec.node_name, &spec.pod_name].into_iter();
        let hash =
            texts.fold(WordHash::new().text(&spec.cloud_provider).text(&spec.instance_id), |hash, text| hash.option(text.as_deref()));
        let cleaned = status.as_ref().and_then(|status| status.cleaned);
        hash.word(moment(spec.allocated_at.as_ref())).word(cleaned.map_or(2, u64::from)).finish()
    }
}
