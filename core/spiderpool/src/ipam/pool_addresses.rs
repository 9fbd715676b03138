//! The ranges of pools and reservations, parsed once per text (A §1.6).

use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use crate::ranges::{IpSet, IpVersion, PoolAddresses, RangeError};
use crate::select::{Cluster, reserved};
use crate::{Policy, SpiderIPPool, SpiderReservedIP};
use kube_machinery::FxHashMap;

/// The ranges that a process has parsed so far. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct AddressBook(Arc<Mutex<Book>>);

#[derive(Debug, Default)]
struct Book {
    reservations: [Option<Arc<Reservations>>; 2],
    pools: FxHashMap<Arc<str>, Entry>,
}

/// The reserved addresses of a family.
#[derive(Debug)]
pub(super) struct Reservations {
    /// The objects that they are made of, kept alive so that no other object can get their memory address.
    of: Vec<Arc<SpiderReservedIP>>,
    /// The addresses, or the first text that could not be read.
    pub(super) set: Result<IpSet, RangeError>,
}

#[derive(Debug)]
struct Entry {
    version: Option<i64>,
    ips: Option<Vec<String>>,
    exclude_ips: Option<Vec<String>>,
    reservations: Arc<Reservations>,
    addresses: Result<Arc<PoolAddresses>, RangeError>,
}

impl AddressBook {
    /// The reserved addresses of a family, as the cache shows them.
    pub(super) fn reservations<C: Cluster + ?Sized>(&self, cluster: &C, family: IpVersion, policy: &Policy) -> Arc<Reservations> {
        let mut objects = Vec::new();
        cluster.for_each_reserved_ip(&mut |object| objects.push(Arc::clone(object)));
        let slot = usize::from(family == IpVersion::V6);
        if let Some(known) = &self.0.lock().unwrap().reservations[slot]
            && known.of.len() == objects.len()
            && known.of.iter().zip(&objects).all(|(one, other)| Arc::ptr_eq(one, other))
        {
            return Arc::clone(known);
        }
        let made = Arc::new(Reservations { of: objects, set: reserved(cluster, family, policy) });
        self.0.lock().unwrap().reservations[slot] = Some(Arc::clone(&made));
        made
    }

    /// The addresses that a pool can allocate. `reservations` are readable.
    pub(super) fn addresses(
        &self,
        pool: &SpiderIPPool,
        reservations: &Arc<Reservations>,
        policy: &Policy,
    ) -> Result<Arc<PoolAddresses>, RangeError> {
        let set = reservations.set.as_ref().map_err(Clone::clone)?;
        let (name, spec) = (pool.metadata.name.as_deref().unwrap_or_default(), &pool.spec);
        if let Some(known) = self.0.lock().unwrap().pools.get(name)
            && Arc::ptr_eq(&known.reservations, reservations)
            && known.version == spec.ip_version
            && known.ips == spec.ips
            && known.exclude_ips == spec.exclude_ips
        {
            return known.addresses.clone();
        }
        let addresses = PoolAddresses::of(spec, set, policy).map(Arc::new);
        let entry = Entry {
            version: spec.ip_version,
            ips: spec.ips.clone(),
            exclude_ips: spec.exclude_ips.clone(),
            reservations: Arc::clone(reservations),
            addresses: addresses.clone(),
        };
        self.0.lock().unwrap().pools.insert(name.into(), entry);
        addresses
    }
}

/// The addresses that a pool can allocate to a pod that must not get the `avoided` ones.
pub(super) fn without(
    pool: &SpiderIPPool,
    reservations: &Reservations,
    avoided: &[IpAddr],
    policy: &Policy,
) -> Result<PoolAddresses, RangeError> {
    let set = reservations.set.as_ref().map_err(Clone::clone)?;
    PoolAddresses::of(&pool.spec, &set.union(&avoided.iter().copied().collect()), policy)
}
