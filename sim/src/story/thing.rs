//! What events are about: addresses, allocations, pods, objects.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use ipam_byom::{Address, AddressKey};
use kube_machinery::ObjectKey;

use crate::kinds::KindId;

/// Something that a person may want to follow through a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Thing {
    /// An address, whatever its spelling.
    Address(AddressKey),
    /// An allocation: the right of one sandbox to an address. Unique in a run.
    Allocation(Arc<str>),
    /// A pod, as `NAMESPACE/NAME`.
    Pod(Arc<str>),
    /// An object of the API.
    Object(KindId, ObjectKey),
}

impl Thing {
    /// The address that `address` spells.
    pub fn address(address: &Address) -> Self {
        Thing::Address(address.key().clone())
    }

    /// This address.
    pub fn ip(ip: IpAddr) -> Self {
        Thing::Address(AddressKey::Ip(ip.to_canonical()))
    }

    /// The allocation of this ID.
    pub fn allocation(id: &Arc<str>) -> Self {
        Thing::Allocation(id.clone())
    }

    /// The pod of this name, as `NAMESPACE/NAME`.
    pub fn pod(name: &Arc<str>) -> Self {
        Thing::Pod(name.clone())
    }

    /// The pod of this namespace and name.
    pub fn pod_of(namespace: &str, name: &str) -> Self {
        Thing::Pod(format!("{namespace}/{name}").into())
    }
}

/// Where an actor stands with what it says it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// An operation of the actor begins: what it asks for until the end is for the sake of it.
    Begins,
    /// It ends.
    Ends,
    /// Neither.
    Passes,
}

/// What a note is about. Notes of all workloads give one; see [`Note::about`](crate::workload::Note::about).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// The things it names. They belong together: the allocation to its address and its pod.
    pub things: Vec<Thing>,
    /// Whether an operation begins or ends with it.
    pub stage: Stage,
}

impl About {
    /// About these things, and no operation begins or ends.
    pub fn passing(things: impl Into<Vec<Thing>>) -> Self {
        Self { things: things.into(), stage: Stage::Passes }
    }

    /// An operation begins.
    pub fn beginning(things: impl Into<Vec<Thing>>) -> Self {
        Self { things: things.into(), stage: Stage::Begins }
    }

    /// An operation ends.
    pub fn ending(things: impl Into<Vec<Thing>>) -> Self {
        Self { things: things.into(), stage: Stage::Ends }
    }
}

/// One thing that a commit changed, and the things that are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touch {
    /// They belong together, as those of [`About`].
    pub things: Vec<Thing>,
    /// What is the case from now on, in half a sentence.
    pub says: String,
}

/// An address in its canonical spelling, or the text that is none.
pub(super) struct Spelled<'a>(pub(super) &'a AddressKey);

impl fmt::Display for Spelled<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            AddressKey::Ip(ip) => ip.fmt(f),
            AddressKey::Zoned(ip, zone) => write!(f, "{ip}%{zone}"),
            AddressKey::Other(text) => f.write_str(text),
        }
    }
}
