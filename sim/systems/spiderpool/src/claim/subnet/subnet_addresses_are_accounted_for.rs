//! Conservation (A §1.3, L4, L6): each address of a subnet is free, or set aside for one existing pool.

use std::time::Duration;

use ipam_spiderpool::ranges::IpSet;
use ipam_spiderpool::select::is_auto_pool;

use super::super::view::{Pool, Subnet, View, entries_of};
use super::super::{IpamClaim, told};
use super::first;

/// The time for which addresses may be set aside for a pool that is about to be created, or that admission has just refused.
const MEANWHILE: Duration = Duration::from_secs(20);

/// Eventually nothing is set aside for a pool that does not exist, the addresses of manual pools are set aside for these, the counts of
/// each subnet are correct, and a subnet that is being deleted and has no pool is gone.
///
/// Broken by `refused-pool-keeps-addresses` and `namesake-keeps-preallocation`. Together with `no-address-is-set-aside-twice` and
/// `what-is-set-aside-is-of-the-subnet` it says that no address is lost.
pub(crate) struct SubnetAddressesAreAccountedFor;

impl IpamClaim for SubnetAddressesAreAccountedFor {
    fn pending(&self, view: &View) -> Option<String> {
        let wrong = view.subnets.iter().flat_map(|(name, subnet)| {
            let lines = if subnet.is_terminating() { ended(view, subnet) } else { account(view, subnet) };
            lines.into_iter().map(move |line| format!("{name} {line}"))
        });
        told(["subnet is not accounted for", "subnets are not accounted for"], wrong.collect())
    }
}

fn is_of(pool: &Pool, subnet: &Subnet) -> bool {
    pool.object.spec.subnet == subnet.object.spec.subnet
}

fn ended(view: &View, subnet: &Subnet) -> Vec<String> {
    let has_pools = view.pools.iter().any(|(_, pool)| is_of(pool, subnet));
    if has_pools { Vec::new() } else { vec!["is being deleted, has no pool and is still there".to_owned()] }
}

fn account(view: &View, subnet: &Subnet) -> Vec<String> {
    let mut lines = Vec::new();
    let status = subnet.object.status.clone().unwrap_or_default();
    if !status.controlled_ippools.is_absent() && entries_of(&subnet.object).is_none() {
        return vec!["has a status that cannot be parsed".to_owned()];
    }
    let gone = |pool: &str, since| view.pools.get(pool).is_none() && since + MEANWHILE <= view.at;
    let lost = subnet.shares.iter().filter(|(pool, share)| gone(pool, share.since));
    lines.extend(lost.map(|(pool, share)| {
        let ips = share.ips.as_deref().map_or_else(|| "an unreadable range".to_owned(), first);
        format!("sets {ips} aside for {pool}, which is not there")
    }));
    let Some(total) = &subnet.total else { return lines };
    for (name, pool) in view.pools.iter().filter(|(_, pool)| is_of(pool, subnet) && !is_auto_pool(&pool.object) && !pool.is_terminating()) {
        let has = pool.addresses.as_ref().map(|has| has.intersection(total)).unwrap_or_default();
        let share = subnet.share(name).map(|share| IpSet::clone(share)).unwrap_or_default();
        if share != has {
            lines.push(format!("sets aside {} for {name}, which has {}", first(&share), first(&has)));
        }
    }
    let set_aside = subnet.shares.values().filter_map(|share| share.ips.as_ref()).fold(0, |sum: u128, ips| sum.saturating_add(ips.count()));
    for (what, count, is) in
        [("totalIPCount", status.total_ip_count, total.count()), ("allocatedIPCount", status.allocated_ip_count, set_aside)]
    {
        if count.unwrap_or(0) != i64::try_from(is).unwrap_or(i64::MAX) {
            lines.push(count.map_or_else(|| format!("has no {what}, not {is}"), |count| format!("has {what} {count}, not {is}")));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{Stage, on_stage};
    use super::MEANWHILE;

    fn count(stage: &mut Stage, total: i64, allocated: i64) {
        stage.change_subnet(stage.replicas[0], "s", |subnet| {
            let status = subnet.status.get_or_insert_default();
            (status.total_ip_count, status.allocated_ip_count) = (Some(total), Some(allocated));
        });
    }

    #[test]
    fn each_address_is_free_or_in_a_pool() {
        on_stage("subnet-addresses-are-accounted-for", |stage| {
            let by = stage.replicas[0];
            stage.subnet("s", &["10.0.0.1-10.0.0.9"]);
            assert!(stage.pending().unwrap().ends_with("s has no totalIPCount, not 9"));
            count(stage, 9, 0);
            assert_eq!(stage.pending(), None);
            stage.set_aside(by, "s", "auto", &["10.0.0.1-10.0.0.3"]);
            count(stage, 9, 3);
            assert_eq!(stage.pending(), None, "it is about to be made");
            stage.pass(MEANWHILE);
            assert!(stage.pending().unwrap().ends_with("s sets 10.0.0.1-10.0.0.3 aside for auto, which is not there"));
            stage.auto_pool(by, "auto", "u", &["10.0.0.1-10.0.0.3"]);
            assert_eq!(stage.pending(), None);
            stage.pool("manual", &["10.0.0.5"]);
            assert!(stage.pending().unwrap().ends_with("s sets aside  for manual, which has 10.0.0.5"));
            stage.set_aside_for_manual(by, "s", "manual", &["10.0.0.5"]);
            assert!(stage.pending().unwrap().ends_with("s has allocatedIPCount 3, not 4"));
            count(stage, 9, 4);
            assert_eq!(stage.pending(), None);
        });
    }

    #[test]
    fn a_subnet_that_is_being_deleted_goes_with_its_last_pool() {
        on_stage("subnet-addresses-are-accounted-for", |stage| {
            stage.subnet("s", &["10.0.0.1-10.0.0.9"]);
            stage.pool("manual", &["10.0.0.5"]);
            stage.change_subnet(stage.person, "s", |subnet| {
                subnet.metadata.deletion_timestamp = serde_json::from_value(serde_json::json!("2026-01-05T09:00:00Z")).unwrap();
            });
            assert_eq!(stage.pending(), None);
            stage.pool_gone(stage.replicas[0], "manual");
            assert!(stage.pending().unwrap().ends_with("is being deleted, has no pool and is still there"));
        });
    }
}
