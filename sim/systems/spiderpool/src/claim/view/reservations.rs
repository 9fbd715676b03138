//! Reserved addresses, now and before: an agent that has not seen the last change goes by what it knows.

use std::net::IpAddr;
use std::sync::Arc;

use ipam_spiderpool::ranges::{IpSet, parse_range};
use ipam_spiderpool::{Policy, SpiderReservedIP};
use kube_machinery::FxHashMap;

/// The addresses that an object reserved from a revision on.
#[derive(Debug)]
struct Era {
    revision: u64,
    /// Empty if the object was gone, terminating or unreadable.
    set: Arc<IpSet>,
}

/// The addresses that each SpiderReservedIP reserved over time, by its name.
#[derive(Debug, Default)]
pub(in super::super) struct Reservations {
    by_name: FxHashMap<Arc<str>, Vec<Era>>,
}

impl Reservations {
    /// Whether nothing was ever reserved.
    pub(in super::super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Whether a process that has seen every change up to revision `seen` knows that an address is reserved, however much more it has seen.
    pub(in super::super) fn is_surely_reserved(&self, address: IpAddr, seen: u64) -> bool {
        self.by_name.values().any(|eras| {
            let known = eras.iter().rposition(|era| era.revision <= seen);
            known.is_some_and(|known| eras[known..].iter().all(|era| era.set.contains(address)))
        })
    }

    /// Whether a process that has seen every change up to revision `seen`, and maybe more, can have known an address as reserved.
    pub(in super::super) fn may_have_held(&self, address: IpAddr, seen: u64) -> bool {
        self.by_name.values().any(|eras| {
            let known = eras.iter().rposition(|era| era.revision <= seen).unwrap_or(0);
            eras[known..].iter().any(|era| era.set.contains(address))
        })
    }

    /// Whether one of these addresses is reserved, or ever was.
    pub(in super::super) fn ever_met(&self, addresses: &IpSet) -> bool {
        self.by_name.values().flatten().any(|era| !era.set.intersection(addresses).is_empty())
    }

    /// All addresses that are reserved now. Linear: only for use at the end of a run.
    pub(in super::super) fn now(&self) -> IpSet {
        let sets = self.by_name.values().filter_map(|eras| eras.last());
        sets.fold(IpSet::default(), |all, era| all.union(&era.set))
    }

    /// Takes in a version of an object, `None` if it is gone. Revision 0 = it existed when the run began.
    pub(super) fn see(&mut self, name: &str, revision: u64, object: Option<&SpiderReservedIP>) {
        let set = Arc::new(object.map(reserved_by).unwrap_or_default());
        match self.by_name.get_mut(name) {
            Some(eras) => eras.push(Era { revision, set }),
            None => drop(self.by_name.insert(name.into(), vec![Era { revision, set }])),
        }
    }
}

/// The addresses that an object reserves (A §1.2); text that cannot be parsed reserves nothing.
fn reserved_by(object: &SpiderReservedIP) -> IpSet {
    let Some(version) = object.spec.ip_version.filter(|_| object.metadata.deletion_timestamp.is_none()) else { return IpSet::default() };
    let texts = object.spec.ips.iter().flatten();
    texts.filter_map(|text| parse_range(text, version, &Policy::hardened()).ok()).collect()
}
