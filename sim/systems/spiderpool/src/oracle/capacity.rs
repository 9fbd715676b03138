//! The capacity of a pool (D §0: pools without a free address are filtered, each with its own reason).

use ipam_spiderpool::ranges::{Cidr, IpSet, parse_range};
use ipam_spiderpool::{IPPoolSpec, Policy, PoolIPAllocations, SpiderIPPool};

use super::Asked;

impl Asked<'_> {
    /// The reason why a pool has no address to give; `None` if it has one, or if its status or spec cannot be parsed.
    pub(super) fn capacity_reason(&self, pool: &SpiderIPPool, nic: &str) -> Option<&'static str> {
        if self.policy.capacity_not_filtered {
            return None;
        }
        let none = PoolIPAllocations::default();
        let records = match pool.status.as_ref().map(|status| status.allocated_ips.parse()) {
            None => &none,
            Some(Ok(records)) => records,
            Some(Err(_)) => return None,
        };
        Cidr::parse(&pool.spec.subnet, &Policy::hardened()).ok()?;
        let uid = self.request.pod.metadata.uid.as_deref().unwrap_or_default();
        let is_own = |interface: &Option<String>| interface.as_ref().is_none_or(|interface| interface == nic);
        let mut own = records.of_pod_uid(uid).filter(|(_, record)| is_own(&record.interface));
        if own.next().is_some_and(|(key, _)| key.address().is_some()) {
            return None;
        }
        let spec = &pool.spec;
        let version = spec.ip_version?;
        let reserved = self.reserved(version);
        let full = records.len() as u64 >= self.request.settings.max_allocated_ips;
        if !full && has_plenty(spec, records, version, reserved) {
            return None;
        }
        let read = |texts: &'_ Option<Vec<String>>| {
            let read = |text: &String| parse_range(text, version, &Policy::hardened());
            texts.iter().flatten().map(read).collect::<Vec<_>>()
        };
        // An entry of `ips` that is not a range holds no address; one of `excludeIPs` leaves it unknown what is excluded (D §1.2).
        let all: IpSet = read(&spec.ips).into_iter().flatten().collect();
        let excluded: IpSet = read(&spec.exclude_ips).into_iter().collect::<Result<_, _>>().ok()?;
        let included = all.difference(&excluded);
        let usable = included.difference(reserved);
        let spelled = |text: String| parse_range(&text, version, &Policy::hardened()).ok();
        let held = records.others().filter_map(|(key, _)| spelled(key.to_string())).collect::<IpSet>();
        let free = usable.difference(&held);
        let is_free = free.ranges().any(|range| records.first_free_from(range.first()).is_some_and(|address| range.contains(address)));
        if all.is_empty() {
            Some("exhausted")
        } else if included.is_empty() {
            Some("excluded")
        } else if usable.is_empty() {
            Some("reserved")
        } else {
            (!is_free || full).then_some("exhausted")
        }
    }

    pub(super) fn reserved(&self, version: i64) -> &IpSet {
        self.reserved[usize::from(version == 6)].get_or_init(|| {
            let mut ranges = Vec::new();
            self.cluster.for_each_reserved_ip(&mut |object| {
                if object.metadata.deletion_timestamp.is_none() && object.spec.ip_version == Some(version) {
                    let texts = object.spec.ips.iter().flatten();
                    ranges.extend(texts.filter_map(|text| parse_range(text, version, &Policy::hardened()).ok()));
                }
            });
            ranges.into_iter().collect()
        })
    }

    /// Rule 11: the subnet contains an address of the physical function.
    pub(super) fn is_on_master(&self, spec: &IPPoolSpec) -> bool {
        let subnet = Cidr::parse(&spec.subnet, &Policy::hardened());
        subnet.is_ok_and(|subnet| self.request.master.iter().any(|address| subnet.contains(*address)))
    }
}

/// Whether a pool of a single range without exclusions has a free address that is not reserved. This is a fast path for most pools.
fn has_plenty(spec: &IPPoolSpec, records: &PoolIPAllocations, version: i64, reserved: &IpSet) -> bool {
    let ([text], [], None) =
        (spec.ips.as_deref().unwrap_or_default(), spec.exclude_ips.as_deref().unwrap_or_default(), records.others().next())
    else {
        return false;
    };
    let Ok(range) = parse_range(text, version, &Policy::hardened()) else { return false };
    let free = records.first_free_from(range.first());
    free.is_some_and(|address| range.contains(address) && !reserved.contains(address))
}
