//! The addresses that pools and subnets hold.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use ipam_spiderpool::ranges::{Cidr, IpSet};
use ipam_spiderpool::{IPPoolSpec, Policy, SpiderIPPool};
use kube_machinery::FxHashMap;

use super::block::Block;

/// A CIDR and its addresses, as far as they can be parsed.
#[derive(Debug)]
pub(super) struct Held {
    pub family: Option<i64>,
    cidr: Option<Cidr>,
    pub addresses: IpSet,
}

impl Held {
    pub(super) fn of(block: &Block) -> Self {
        Self { family: block.family(), cidr: block.cidr(), addresses: block.addresses() }
    }

    /// Whether the CIDRs are of the same family and overlap.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let (Some(cidr), Some(other_cidr)) = (&self.cidr, &other.cidr) else { return false };
        self.family == other.family && cidr.overlaps(other_cidr, &Policy::hardened())
    }
}

/// The addresses of each pool. Every request is judged against all pools, hardly any of which has changed since the last one, so each spec
/// is parsed only once.
#[derive(Debug, Default)]
pub struct HeldByPools(FxHashMap<String, (Arc<SpiderIPPool>, Arc<Held>)>);

impl HeldByPools {
    pub(super) fn of(&mut self, pool: &Arc<SpiderIPPool>) -> Arc<Held> {
        let read = || Arc::new(Held::of(&Block::from(&pool.spec)));
        match self.0.entry(pool.metadata.name.clone().unwrap_or_default()) {
            Entry::Vacant(entry) => entry.insert((pool.clone(), read())).1.clone(),
            Entry::Occupied(entry) => {
                let (known, held) = entry.into_mut();
                if !Arc::ptr_eq(known, pool) {
                    if !holds_the_same(&known.spec, &pool.spec) {
                        *held = read();
                    }
                    *known = pool.clone();
                }
                held.clone()
            }
        }
    }
}

fn holds_the_same(one: &IPPoolSpec, other: &IPPoolSpec) -> bool {
    let what = |spec: &IPPoolSpec| (spec.ip_version, spec.subnet == one.subnet, spec.ips == one.ips, spec.exclude_ips == one.exclude_ips);
    what(one) == what(other)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pool_that_was_edited_is_read_again() {
        let pool = |spec| Arc::new(serde_json::from_value::<SpiderIPPool>(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap());
        let mut held = HeldByPools::default();
        for spec in [
            json!({"ipVersion": 4, "subnet": "10.0.0.0/24", "ips": ["10.0.0.1-10.0.0.9"]}),
            json!({"ipVersion": 4, "subnet": "10.0.0.0/24", "ips": ["10.0.0.1-10.0.0.9"], "excludeIPs": ["10.0.0.5"]}),
            json!({"ipVersion": 4, "subnet": "10.0.0.0/24", "ips": ["10.0.0.1-10.0.0.9"], "disable": true}),
            json!({"ipVersion": 4, "subnet": "10.0.0.0/16", "ips": ["10.0.0.1-10.0.0.9"]}),
            json!({"ipVersion": 6, "subnet": "10.0.0.0/16", "ips": ["10.0.0.1-10.0.0.9"]}),
            json!({"ipVersion": 4, "subnet": "10.0.0.0/16", "ips": ["10.0.0.1"]}),
            json!({"ipVersion": 4, "subnet": "10.0.0.0/16"}),
        ] {
            let pool = pool(spec);
            for _ in 0..2 {
                let (known, fresh) = (held.of(&pool), Held::of(&Block::from(&pool.spec)));
                assert_eq!(format!("{known:?}"), format!("{fresh:?}"));
            }
        }
    }
}
