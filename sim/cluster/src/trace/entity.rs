//! What events are about: addresses, allocations, pods, objects.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use kube_machinery::ObjectKey;
use kube_machinery::address::AddressKey;

use crate::kinds::KindId;

/// Something that a person may want to follow through a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Entity {
    /// An address, whatever its spelling.
    Address(AddressKey),
    /// An allocation: the right of one sandbox to an address. Unique in a run.
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

/// Where an actor stands with what it says it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// An operation of the actor begins: what it asks for until the end is for the sake of it.
    Begins,
    /// An operation of the actor ends: the last that is open and about one of the same entities.
    Ends,
    /// It is said within an operation or outside of any, and neither begins nor ends one.
    Passes,
}

/// What a note is about. See [`Note::about`](super::Note::about).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// The entities it names. They belong together: the allocation to its address and its pod.
    pub entities: Vec<Entity>,
    /// Whether an operation begins or ends with it.
    pub stage: Stage,
}

impl About {
    /// About these entities, and no operation begins or ends.
    pub fn passing(entities: impl Into<Vec<Entity>>) -> Self {
        Self { entities: entities.into(), stage: Stage::Passes }
    }

    /// An operation of the actor begins, and is about these entities.
    pub fn beginning(entities: impl Into<Vec<Entity>>) -> Self {
        Self { entities: entities.into(), stage: Stage::Begins }
    }

    /// The operation of the actor ends, and was about these entities.
    pub fn ending(entities: impl Into<Vec<Entity>>) -> Self {
        Self { entities: entities.into(), stage: Stage::Ends }
    }
}

/// One thing that a commit changed, and the entities that are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touch {
    /// They belong together, as those of [`About`].
    pub entities: Vec<Entity>,
    /// What is the case from now on, in half a sentence.
    pub says: String,
}

impl Touch {
    /// `thing` went from one state to another.
    pub fn moved(entities: impl IntoIterator<Item = Entity>, thing: impl fmt::Display, was: &str, is: &str) -> Self {
        let entities = entities.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        Self { entities, says: format!("{thing} {was} -> {is}") }
    }
}
