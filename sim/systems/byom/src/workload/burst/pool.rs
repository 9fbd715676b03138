//! The pool of a burst as it is at the beginning.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use ipam_byom::{Address, Available, DEFAULT_NAMESPACE, IpAllocation, PoolConfig, PoolConfigMap, PoolDocument, Seconds};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_machinery::ObjectKey;
use kube_sim::cluster::{EPOCH, Fabric};
use kube_sim::object::Obj;

use super::{BurstPlan, adaptor_name};
use crate::workload::pool_key;

/// 10.64.0.0: the first address of every pool.
const FIRST: Ipv4Addr = Ipv4Addr::new(10, 64, 0, 0);

/// A pool that is made once for all runs that begin with it.
#[derive(Clone)]
pub(super) struct Initial {
    /// Of how many addresses and records it was made.
    of: (u32, u32),
    /// `VM_POOL_IPS`.
    pub(super) setting: Arc<str>,
    pub(super) config: PoolConfig,
    object: Obj,
}

thread_local! {
    /// The pool of the run before: a large one takes longer to make than to use. It is a function of its size, so nobody can
    /// tell which run made it.
    static LAST: RefCell<Option<Initial>> = const { RefCell::new(None) };
}

impl Initial {
    pub(super) fn of(plan: &BurstPlan) -> Self {
        let of = (plan.addresses, plan.taken.min(plan.addresses));
        LAST.with_borrow_mut(|last| match last {
            Some(initial) if initial.of == of => initial.clone(),
            _ => last.insert(Self::make(of)).clone(),
        })
    }

    fn make(of: (u32, u32)) -> Self {
        let (addresses, taken) = of;
        let pool: Vec<Address> = (0..addresses).map(address).collect();
        let available: Available = pool[taken as usize..].iter().cloned().collect();
        let record = |number: u32| {
            let id: Arc<str> = format!("taken-{number}-{number:016x}").into();
            let record = IpAllocation {
                allocation_id: id.clone(),
                ip: pool[number as usize].clone(),
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
        let object = PoolConfigMap::new(&pool_key(), document.into());
        Self { of, setting: setting.into(), config: PoolConfig::new(pool), object: Arc::new(object) }
    }
}

/// The address with this number.
pub(super) fn address(number: u32) -> Address {
    IpAddr::V4(Ipv4Addr::from_bits(FIRST.to_bits() + number)).into()
}

/// Puts the pool and its namespace into the store.
pub(super) fn preload(fabric: &Arc<Fabric>, plan: &BurstPlan) {
    let name = ObjectKey::cluster(DEFAULT_NAMESPACE);
    if !fabric.holds::<Namespace>(&name) {
        let metadata = ObjectMeta { name: Some(DEFAULT_NAMESPACE.to_owned()), ..ObjectMeta::default() };
        fabric.preload_typed(Namespace { metadata, ..Namespace::default() });
    }
    let initial = Initial::of(plan);
    fabric.preload(fabric.registry.id::<PoolConfigMap>(), initial.object);
}
