//! The initial state of a burst's pools.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::sync::Arc;

use ipam_byom::{Address, Available, DEFAULT_NAMESPACE, IpAllocation, PoolConfig, PoolConfigMap, PoolDocument, Seconds};
use kube_machinery::ObjectKey;
use kube_sim::cluster::{Cluster, EPOCH};
use kube_sim::object::Obj;
use sim_harness::workload::preload_namespace;

use super::{BurstPlan, adaptor_name, key_of_pool};

/// 10.64.0.0: the first address of every pool.
const FIRST: Ipv4Addr = Ipv4Addr::new(10, 64, 0, 0);

/// The initial state of a pool.
#[derive(Clone)]
pub(super) struct Initial {
    pub(super) key: ObjectKey,
    /// `VM_POOL_IPS` of this pool's adaptors: `FIRST-LAST`.
    pub(super) setting: Arc<str>,
    pub(super) config: PoolConfig,
    /// The numbers of its addresses that have no record.
    free: Range<u32>,
    object: Obj,
}

/// The numbers of addresses, records and pools.
type Size = (u32, u32, u32);

thread_local! {
    /// The pools of the previous run: large ones take longer to make than to use. They depend only on their size, so the run that made them
    /// does not matter.
    static LAST: RefCell<(Size, Arc<[Initial]>)> = RefCell::new(((0, 0, 0), Arc::new([])));
}

/// The range of the `total` things that belong to the part with this number.
pub(super) fn part(total: u32, parts: u32, number: u32) -> Range<u32> {
    let end = |number: u32| (u64::from(total) * u64::from(number) / u64::from(parts)) as u32;
    end(number)..end(number + 1)
}

impl Initial {
    /// The pools of a plan, by their numbers. They are made once for consecutive runs with the same sizes.
    pub(super) fn of(plan: &BurstPlan) -> Arc<[Self]> {
        let size = (plan.addresses, plan.taken.min(plan.addresses), plan.pools.max(1));
        LAST.with_borrow_mut(|(of, last)| {
            if *of != size {
                *last = (0..size.2).map(|number| Self::make(size, number)).collect();
                *of = size;
            }
            last.clone()
        })
    }

    fn make((addresses, taken, pools): Size, number: u32) -> Self {
        let all = part(addresses, pools, number);
        let taken = (part(taken, pools, number).len() as u32).min(all.len() as u32);
        let pool: Vec<Address> = all.clone().map(address).collect();
        let available: Available = pool[taken as usize..].iter().cloned().collect();
        let record = |place: u32| {
            let number = all.start + place;
            let id: Arc<str> = format!("taken-{number}-{number:016x}").into();
            let record = IpAllocation {
                allocation_id: id.clone(),
                ip: pool[place as usize].clone(),
                node_name: adaptor_name(number).into(),
                pod_name: format!("taken-{number}").into(),
                pod_namespace: Some("default".into()),
                allocated_at: Seconds::new(EPOCH),
            };
            (id, record)
        };
        let document = PoolDocument {
            allocated: (0..taken).map(record).collect(),
            available,
            last_updated: Seconds::new(EPOCH),
            version: 2 + i64::from(taken),
        };
        let setting = match pool.as_slice() {
            [] => String::new(),
            [only] => only.to_string(),
            [first, .., last] => format!("{first}-{last}"),
        };
        let key = key_of_pool(number);
        let object = PoolConfigMap::new(&key, document.into());
        let free = all.start + taken..all.end;
        Self { key, setting: setting.into(), config: PoolConfig::new(pool), free, object: Arc::new(object) }
    }

    /// The first free addresses of this pool.
    pub(super) fn first_free(&self, count: u32) -> impl Iterator<Item = Address> {
        self.free.clone().take(count as usize).map(address)
    }
}

/// The address with this number.
pub(super) fn address(number: u32) -> Address {
    IpAddr::V4(Ipv4Addr::from_bits(FIRST.to_bits() + number)).into()
}

/// Puts the pools and their namespace into the store, except those in the user's own manifests.
pub(super) fn preload(cluster: &Arc<Cluster>, plan: &BurstPlan) {
    let initial = Initial::of(plan);
    let is_there = |initial: &&Initial| cluster.holds::<PoolConfigMap>(&initial.key);
    if initial.iter().all(|initial| is_there(&initial)) {
        return;
    }
    preload_namespace(cluster, DEFAULT_NAMESPACE);
    if plan.absent {
        return;
    }
    for initial in initial.iter().filter(|initial| !is_there(initial)) {
        cluster.preload(cluster.registry.id::<PoolConfigMap>(), initial.object.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::burst::BurstDraft;
    use sim_config::draw::{Concern, Draw};
    use sim_harness::workload::Draft;

    #[test]
    fn pools_share_all_addresses_and_none_twice() {
        let draft = BurstDraft { pools: 3, ..BurstDraft::default() };
        let (plan, _) = draft.draw(&mut Draw::new(1, Concern::Workload, 0));
        let plan = BurstPlan { addresses: 20, taken: 7, dead: 4, ..plan };
        let all = Initial::of(&plan);
        let names: Vec<&str> = all.iter().map(|initial| initial.key.name()).collect();
        assert_eq!(names, ["byom-ip-pool-state", "byom-ip-pool-state-1", "byom-ip-pool-state-2"]);
        assert_eq!(all.iter().map(|initial| initial.config.pool().len()).collect::<Vec<_>>(), [6, 7, 7]);
        assert_eq!(all.iter().map(|initial| initial.free.clone()).collect::<Vec<_>>(), [2..6, 8..13, 16..20]);
        assert_eq!(all[2].first_free(2).collect::<Vec<_>>(), [address(16), address(17)]);
        let texts: std::collections::BTreeSet<&str> = all.iter().map(|initial| &*initial.setting).collect();
        assert_eq!(texts.len(), 3);
    }
}
