//! The custom resources of Spiderpool (A §1).

use crate::Spiderpool;
use ipam_spiderpool::{EndpointStatus, IPAllocationDetail, SpiderEndpoint, SpiderIPPool, SpiderReservedIP, SpiderSubnet};
use kube_machinery::WordHash;
use kube_machinery::json_text::escaped_len;
use kube_sim::actor::controller_manager::NamespaceContent;
use kube_sim::kinds::{Stored, TypeDef, status_subresource};

/// The size in bytes of a list of strings as JSON, each with its quotes and a comma.
fn texts(list: Option<&Vec<String>>) -> usize {
    list.into_iter().flatten().map(|text| escaped_len(text.as_bytes()) + 3).sum()
}

/// The hash of an object's address ranges.
fn hash_of(ips: Option<&Vec<String>>, exclude_ips: Option<&Vec<String>>) -> WordHash {
    let of = |hash: WordHash, list: Option<&Vec<String>>| hash.texts(list.into_iter().flatten().map(String::as_str));
    of(of(WordHash::new(), ips), exclude_ips)
}

/// A counter of a status as a word; a missing counter differs from 0.
fn count(counter: Option<i64>) -> u64 {
    counter.map_or(u64::MAX, |counter| counter as u64)
}

/// The registrations of Spiderpool's types.
pub(super) fn all() -> Vec<TypeDef> {
    vec![
        TypeDef::by::<Spiderpool, SpiderSubnet>(),
        TypeDef::by::<Spiderpool, SpiderIPPool>(),
        TypeDef::by::<Spiderpool, SpiderReservedIP>(),
        TypeDef::by::<Spiderpool, SpiderEndpoint>().with(NamespaceContent::of::<SpiderEndpoint>()),
    ]
}

/// Items that the cluster-scoped custom resources share.
macro_rules! cluster_scoped {
    () => {
        const NAMESPACED: bool = false;
        const UNCONDITIONAL_UPDATE: bool = false;
        const CUSTOM: bool = true;
    };
}

impl Stored<Spiderpool> for SpiderIPPool {
    cluster_scoped!();
    status_subresource!(initial: None);

    fn size(&self) -> usize {
        let records = self.status.as_ref().map_or(0, |status| status.allocated_ips.escaped_len());
        records + texts(self.spec.ips.as_ref()) + texts(self.spec.exclude_ips.as_ref())
    }

    fn content(&self) -> u64 {
        let Self { spec, status, .. } = self;
        let hash = hash_of(spec.ips.as_ref(), spec.exclude_ips.as_ref()).word(u64::from(spec.disable) << 1 | u64::from(spec.default));
        let Some(status) = status else { return hash.finish() };
        hash.word(status.allocated_ips.content_hash()).word(count(status.total_ip_count)).word(count(status.allocated_ip_count)).finish()
    }
}

impl Stored<Spiderpool> for SpiderSubnet {
    cluster_scoped!();
    status_subresource!(initial: None);

    fn size(&self) -> usize {
        let records = self.status.as_ref().map_or(0, |status| status.controlled_ippools.escaped_len());
        records + texts(self.spec.ips.as_ref()) + texts(self.spec.exclude_ips.as_ref())
    }

    fn content(&self) -> u64 {
        let hash = hash_of(self.spec.ips.as_ref(), self.spec.exclude_ips.as_ref());
        let Some(status) = &self.status else { return hash.finish() };
        hash.word(status.controlled_ippools.content_hash())
            .word(count(status.total_ip_count))
            .word(count(status.allocated_ip_count))
            .finish()
    }
}

impl Stored<Spiderpool> for SpiderReservedIP {
    cluster_scoped!();

    fn spec_differs(&self, other: &Self) -> bool {
        self.spec != other.spec
    }

    fn content(&self) -> u64 {
        hash_of(self.spec.ips.as_ref(), None).finish()
    }
}

/// Without a status subresource the status is an ordinary field, and a change of it increases the generation.
impl Stored<Spiderpool> for SpiderEndpoint {
    const UNCONDITIONAL_UPDATE: bool = false;
    const CUSTOM: bool = true;

    fn spec_differs(&self, other: &Self) -> bool {
        self.status != other.status
    }

    fn content(&self) -> u64 {
        let Some(status) = &self.status else { return 0 };
        let EndpointStatus { current, owner_controller_type, owner_controller_name } = status;
        let hash = [&current.uid, &current.node, owner_controller_type, owner_controller_name].into_iter();
        let hash = hash.fold(WordHash::new(), |hash, text| hash.text(text));
        let detail = |hash: WordHash, detail: &IPAllocationDetail| {
            let texts = [&detail.ipv4, &detail.ipv6, &detail.ipv4_pool, &detail.ipv6_pool].into_iter();
            texts.fold(hash.text(&detail.interface), |hash, text| hash.option(text.as_deref()))
        };
        current.ips.iter().fold(hash, detail).finish()
    }
}
