//! The custom resource of the adaptor that gives VMs to pods (B S1).

use ipam_byom::PeerPod;
use kube_machinery::WordHash;

use super::status::status_subresource;
use super::{Stored, TypeDef, content};

/// The registrations of the adaptor's types.
pub fn byom() -> Vec<TypeDef> {
    vec![TypeDef::of::<PeerPod>()]
}

impl Stored for PeerPod {
    const UNCONDITIONAL_UPDATE: bool = false;
    const CUSTOM: bool = true;

    status_subresource!(initial: None);

    fn content(&self) -> u64 {
        let Self { spec, status, .. } = self;
        let texts = [&spec.allocation_id, &spec.node_name, &spec.pod_name].into_iter();
        let hash =
            texts.fold(WordHash::new().text(&spec.cloud_provider).text(&spec.instance_id), |hash, text| hash.option(text.as_deref()));
        let cleaned = status.as_ref().and_then(|status| status.cleaned);
        hash.word(content::moment(spec.allocated_at.as_ref())).word(cleaned.map_or(2, u64::from)).finish()
    }
}
