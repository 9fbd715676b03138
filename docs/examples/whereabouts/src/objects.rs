//! The custom resource that holds who has which address, and how it is told.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use kube::CustomResource;
use kube_machinery::{ObjectKey, WordHash};
use kube_sim::kinds::Stored;
use kube_sim::object::Obj;
use kube_sim::trace::entity::{Entity, Touch};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The addresses of a range, and who has them.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "whereabouts.example.com",
    version = "v1alpha1",
    kind = "IPPool",
    plural = "ippools",
    namespaced,
    derive = "Default",
    derive = "PartialEq"
)]
pub struct IPPoolSpec {
    /// The pod, as `NAMESPACE/NAME`, by the offset of its address in the range.
    #[serde(default)]
    pub allocations: BTreeMap<u32, String>,
}

impl Stored for IPPool {
    const UNCONDITIONAL_UPDATE: bool = false;
    const CUSTOM: bool = true;

    fn spec_differs(&self, other: &Self) -> bool {
        self.spec != other.spec
    }

    fn content(&self) -> u64 {
        let allocations = self.spec.allocations.iter();
        allocations.fold(WordHash::new(), |hash, (offset, pod)| hash.word(u64::from(*offset)).text(pod)).finish()
    }
}

/// The key of the only pool.
pub fn pool_key() -> ObjectKey {
    ObjectKey::namespaced("kube-system", "10.9.0.0-24")
}

/// The pool at the beginning of a run: nobody has an address.
pub fn empty_pool() -> IPPool {
    let mut pool = IPPool::new(pool_key().name(), IPPoolSpec::default());
    pool.metadata.namespace = Some("kube-system".to_owned());
    pool
}

/// The address at an offset of the range.
pub fn address(offset: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(Ipv4Addr::new(10, 9, 0, 0).to_bits() + offset))
}

/// Who has which address, if the object is a pool.
pub fn allocations(object: Option<&Obj>) -> Option<&BTreeMap<u32, String>> {
    Some(&object?.as_any().downcast_ref::<IPPool>()?.spec.allocations)
}

/// What a commit changed.
pub fn touches(before: Option<&Obj>, after: Option<&Obj>) -> Option<Vec<Touch>> {
    let none = BTreeMap::new();
    allocations(after.or(before))?;
    let (before, after) = (allocations(before).unwrap_or(&none), allocations(after).unwrap_or(&none));
    let changed = |old: &BTreeMap<u32, String>, new: &BTreeMap<u32, String>, word: &str| {
        let different = old.iter().filter(|(offset, pod)| new.get(offset) != Some(*pod));
        let touch = |(offset, pod): (&u32, &String)| Touch {
            entities: vec![Entity::ip(address(*offset)), Entity::Pod(pod.as_str().into())],
            says: format!("{} is {word} {pod}", address(*offset)),
        };
        different.map(touch).collect::<Vec<_>>()
    };
    let mut all = changed(before, after, "taken from");
    all.extend(changed(after, before, "recorded for"));
    Some(all)
}

/// The state of a pool as names and short values.
pub fn fields(object: &Obj) -> Option<Vec<(String, String)>> {
    Some(allocations(Some(object))?.iter().map(|(offset, pod)| (address(*offset).to_string(), pod.clone())).collect())
}
