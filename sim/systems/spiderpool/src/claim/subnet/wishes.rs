//! The pools that workloads ask for, and the number of addresses available for them.

use std::sync::Arc;

use ipam_spiderpool::SpiderIPPool;
use ipam_spiderpool::names::{LABEL_INTERFACE, LABEL_IP_VERSION, LABEL_OWNER_APPLICATION_KIND, LABEL_OWNER_APPLICATION_UID};
use ipam_spiderpool::owner_label::{application_version_of, subnet_of};
use ipam_spiderpool::ranges::IpSet;
use ipam_spiderpool::subnet::Demand;

use super::super::view::{Application, Pool, Subnet, View, label};

/// The present demands of a workload; empty if it is being deleted, `None` = unknown.
pub(super) fn of(view: &View, application: &Application) -> Option<Vec<Demand>> {
    if application.is_terminating() { Some(Vec::new()) } else { application.demands(&view.terms.select) }
}

/// Whether a pool is the demanded one.
pub(super) fn is_for(pool: &SpiderIPPool, demand: &Demand) -> bool {
    subnet_of(pool) == Some(&demand.subnet)
        && label(pool, LABEL_INTERFACE) == Some(&demand.nic)
        && label(pool, LABEL_IP_VERSION) == Some(&demand.family.to_string())
}

/// Whether the workload with an auto pool's UID asks for the pool; `None` = unknown, `Some(None)` = there is no such workload.
pub(super) fn wants(view: &View, uid: &str, pool: &SpiderIPPool) -> Option<Option<bool>> {
    let Some((_, application)) = view.applications.of_uid(uid) else { return Some(None) };
    of(view, application).map(|demands| Some(demands.iter().any(|demand| is_for(pool, demand))))
}

/// Whether the workload of an auto pool is of a known kind.
pub(super) fn is_of_known_kind(view: &View, pool: &SpiderIPPool) -> bool {
    let kind = application_version_of(pool).zip(label(pool, LABEL_OWNER_APPLICATION_KIND));
    kind.is_some_and(|(api_version, kind)| view.applications.knows(&api_version, kind))
}

/// Whether the workload of an auto pool is of a known kind and does not exist.
pub(super) fn is_of_nobody(view: &View, pool: &SpiderIPPool) -> bool {
    is_of_known_kind(view, pool) && label(pool, LABEL_OWNER_APPLICATION_UID).is_none_or(|uid| view.applications.of_uid(uid).is_none())
}

/// The pools of a workload that match a demand, with their names.
pub(super) fn pools<'a>(view: &'a View, uid: &'a str, demand: &'a Demand) -> impl Iterator<Item = (&'a Arc<str>, &'a Pool)> {
    let found = view.applications.pools_of(uid).iter().filter_map(|name| Some((name, view.pools.get(name)?)));
    found.filter(move |(_, pool)| is_for(&pool.object, demand))
}

/// The addresses of a subnet that a pool could have in addition to its own: not set aside for another pool, in no other pool, and not
/// reserved.
pub(super) fn room(view: &View, subnet: &Subnet, pool: &str, has: &IpSet) -> IpSet {
    let Some(total) = &subnet.total else { return IpSet::default() };
    let set_aside: IpSet = subnet.intervals.others(pool, total).map(|(_, range)| range).collect();
    let free = total.difference(&set_aside).difference(&view.pools.overlaps.of_others(pool, total));
    free.difference(&view.reservations.now()).difference(has)
}
