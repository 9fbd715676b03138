//! The subjects of events: addresses, allocations, pods, objects.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use kube_machinery::ObjectKey;
use kube_machinery::address::AddressKey;

use crate::kinds::KindId;

/// Something that a reader may want to follow through a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Entity {
    /// An address, regardless of its spelling.
    Address(AddressKey),
    /// An allocation: the entitlement of one sandbox to an address. Unique in a run.
    Allocation(Arc<str>),
    /// A pod, as `NAMESPACE/NAME`.
    Pod(Arc<str>),
    /// An object of the API.
    Object(KindId, ObjectKey),
}

impl Entity {
    /// The entity of an IP address; an IPv4-mapped IPv6 address is that IPv4 address.
    pub fn ip(ip: IpAddr) -> Self {
        Entity::Address(AddressKey::Ip(ip.to_canonical()))
    }

    /// The allocation of this ID.
    pub fn allocation(id: &Arc<str>) -> Self {
        Entity::Allocation(id.clone())
    }

    /// The pod of this name, as `NAMESPACE/NAME`.
    pub fn pod(name: &Arc<str>) -> Self {
        Entity::Pod(name.clone())
    }

    /// The pod of this namespace and name.
    pub fn pod_of(namespace: &str, name: &str) -> Self {
        Entity::Pod(format!("{namespace}/{name}").into())
    }
}

/// The position of a note relative to the operations of its actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// An operation of the actor begins: its requests until the end belong to it.
    Begins,
    /// An operation of the actor ends: the last open one that is about one of the same entities.
    Ends,
    /// The note is made within an operation or outside of any, and neither begins nor ends one.
    Passes,
}

/// The subject of a note. See [`Note::about`](super::Note::about).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// The entities it names. They belong together: the allocation to its address and its pod.
    pub entities: Vec<Entity>,
    /// The beginning or the end of an operation, if the note is one.
    pub stage: Stage,
}

impl About {
    /// A note about these entities, with which no operation begins or ends.
    pub fn passing(entities: impl Into<Vec<Entity>>) -> Self {
        Self { entities: entities.into(), stage: Stage::Passes }
    }

    /// A note with which an operation of the actor about these entities begins.
    pub fn beginning(entities: impl Into<Vec<Entity>>) -> Self {
        Self { entities: entities.into(), stage: Stage::Begins }
    }

    /// A note with which an operation of the actor about these entities ends.
    pub fn ending(entities: impl Into<Vec<Entity>>) -> Self {
        Self { entities: entities.into(), stage: Stage::Ends }
    }
}

/// One thing that a commit changed, and the entities concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The entities, which belong together like those of [`About`].
    pub entities: Vec<Entity>,
    /// The new state, in half a sentence.
    pub says: String,
}

impl Touch {
    /// The change of `thing` from one state to another.
    pub fn moved(entities: impl IntoIterator<Item = Entity>, thing: impl fmt::Display, was: &str, is: &str) -> Self {
        let entities = entities.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        Self { entities, says: format!("{thing} {was} -> {is}") }
    }
}
