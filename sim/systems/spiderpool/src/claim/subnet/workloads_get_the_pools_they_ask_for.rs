//! A L5: workloads get the pools that they ask for.

use std::sync::Arc;

use ipam_spiderpool::names::LABEL_IPPOOL_RECLAIM;
use ipam_spiderpool::ranges::IpSet;
use ipam_spiderpool::subnet::Demand;
use ipam_spiderpool::{PoolIPAllocation, RecordKey, SpiderEndpoint};
use kube_machinery::controller_of;

use super::super::pods_get_addresses::is_in_reach;
use super::super::view::{Application, Place, Pool, View, addresses_of, label, records_of, uid_of};
use super::super::{IpamClaim, told};
use super::wishes;

/// Eventually each workload that asks for a pool of a subnet has it, with the demanded number of addresses. The pool is larger only by
/// addresses that pods have, and smaller or missing only if the subnet has too few addresses that are neither taken nor reserved. Addresses
/// that a pool which is being deleted holds only for gone pods do not count as taken, once pods of the workload have their places. And the
/// pool is deleted with its workload if that asks for it.
///
/// Broken by `application-given-up` and `subnet-shrinks-lowest`. It does not wait for third-party workloads, whose pools agents create when
/// a pod comes, nor for a subnet that does not exist or is being deleted, nor while a pool of the workload is being deleted.
pub(crate) struct WorkloadsGetThePoolsTheyAskFor;

impl IpamClaim for WorkloadsGetThePoolsTheyAskFor {
    fn pending(&self, view: &View) -> Option<String> {
        let lacking = view.applications.iter().flat_map(|(name, application)| {
            let demands = wishes::of(view, application).unwrap_or_default();
            demands.into_iter().filter_map(move |demand| {
                let why = lacks(view, application, &demand)?;
                Some(format!("{} {name} for {} {}: {why}", application.kind(), demand.nic, demand.family))
            })
        });
        told(["pool is not as its workload asks for it", "pools are not as their workloads ask for them"], lacking.collect())
    }
}

/// The deviation of a pool from the demand, if there is one.
fn lacks(view: &View, application: &Application, demand: &Demand) -> Option<String> {
    let subnet = view.subnets.get(&demand.subnet).filter(|subnet| !subnet.is_terminating())?;
    if subnet.version() != demand.family.number() {
        return None;
    }
    let wanted = u128::from(demand.size);
    let mut pools = wishes::pools(view, application.uid(), demand).peekable();
    let Some((name, pool)) = pools.next() else {
        let room = wishes::room(view, subnet, "", &IpSet::default()).count();
        if room >= wanted {
            return Some(format!("there is none, and {} has {room} addresses for {wanted}", demand.subnet));
        }
        let left = left_behind(view, application, demand);
        let why = || format!("there is none, and {left} addresses of {} are only held for pods that are gone", demand.subnet);
        return (room + left >= wanted).then(why);
    };
    if pool.is_terminating() || pools.any(|(_, pool)| pool.is_terminating()) || pool.object.spec.subnet != subnet.object.spec.subnet {
        return None;
    }
    let goes = label(&pool.object, LABEL_IPPOOL_RECLAIM) == Some("true");
    if goes != demand.reclaim && !view.changes.touched_pool(name) {
        return Some(format!("{name} {} with its workload", if goes { "is to go" } else { "is not to go" }));
    }
    let has = pool.listed()?;
    let count = has.count();
    if count < wanted {
        let room = wishes::room(view, subnet, name, &has).count();
        return (room >= wanted - count).then(|| format!("{name} has {count} addresses, not {wanted}, and {room} are free"));
    }
    let recorded: IpSet = records_of(&pool.object)
        .into_iter()
        .flat_map(ipam_spiderpool::PoolIPAllocations::iter)
        .filter_map(|(key, _)| key.address())
        .collect();
    let unused = has.difference(&recorded).count();
    (count > wanted && unused > 0).then(|| format!("{name} has {count} addresses, not {wanted}, and {unused} of them are unused"))
}

/// The number of addresses in pools that are being deleted and hold records only of gone pods whose places pods of the workload have by
/// now: a pod that finds no pool gives back its predecessor's addresses there, as its endpoint says (A §8.6).
fn left_behind(view: &View, application: &Application, demand: &Demand) -> u128 {
    let is_left = |name: &str, (key, record): (&RecordKey, &PoolIPAllocation)| {
        let Some((_, pod)) = view.pods.named(&record.pod) else { return false };
        let owner = controller_of(&pod.object.metadata).map(|owner| owner.uid.as_str());
        let is_successor = owner == Some(application.uid()) && matches!(pod.place, Some(Place::Ordinal(..)));
        let is_gone = view.pods.get(&record.pod_uid).is_none_or(|pod| pod.gone);
        let names = |endpoint: &SpiderEndpoint| {
            let is_it = |(_, pool, address)| pool == name && key.address() == Some(address);
            uid_of(endpoint) == record.pod_uid && addresses_of(endpoint).any(is_it)
        };
        let is_named = view.endpoint_of(pod).is_some_and(|(endpoint, _)| names(endpoint));
        is_gone && is_successor && pod.is_alive() && is_in_reach(view, pod) && is_named
    };
    let goes = |(name, pool): &(&Arc<str>, &Pool)| {
        let is_of_before = wishes::is_for(&pool.object, demand) && wishes::is_of_nobody(view, &pool.object);
        is_of_before && pool.is_terminating() && pool.records().iter().all(|record| is_left(name, record))
    };
    view.pools.iter().filter(goes).filter_map(|(_, pool)| pool.listed()).map(|has| has.count()).sum()
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{Stage, on_stage};

    fn staged(test: impl FnOnce(&mut Stage)) {
        on_stage("workloads-get-the-pools-they-ask-for", |stage| {
            stage.subnet("s", &["10.0.0.1-10.0.0.9"]);
            stage.application("u", 3, Some("s"));
            test(stage);
        });
    }

    #[test]
    fn a_pool_is_waited_for_until_it_has_its_size() {
        staged(|stage| {
            assert!(stage.pending().unwrap().ends_with("there is none, and s has 9 addresses for 3"));
            let by = stage.replicas[0];
            stage.set_aside(by, "s", "auto", &["10.0.0.1-10.0.0.2"]);
            stage.auto_pool(by, "auto", "u", &["10.0.0.1-10.0.0.2"]);
            assert!(stage.pending().unwrap().ends_with("auto has 2 addresses, not 3, and 7 are free"));
            stage.resize(by, "auto", &["10.0.0.1-10.0.0.3"]);
            assert_eq!(stage.pending(), None);
            stage.application("u", 2, Some("s"));
            assert!(stage.pending().unwrap().ends_with("auto has 3 addresses, not 2, and 3 of them are unused"));
            for (address, uid) in [("10.0.0.1", "a"), ("10.0.0.2", "b"), ("10.0.0.3", "c")] {
                stage.record(stage.agent, "auto", address, "ns/pod", uid);
            }
            assert_eq!(stage.pending(), None);
        });
    }

    #[test]
    fn a_pool_goes_with_its_workload_if_that_says_so() {
        staged(|stage| {
            let by = stage.replicas[0];
            stage.set_aside(by, "s", "auto", &["10.0.0.1-10.0.0.3"]);
            stage.auto_pool(by, "auto", "u", &["10.0.0.1-10.0.0.3"]);
            assert_eq!(stage.pending(), None);
            stage.change_pool(by, "auto", |pool| {
                pool.metadata.labels.get_or_insert_default().insert(super::LABEL_IPPOOL_RECLAIM.to_owned(), "false".to_owned());
            });
            assert!(stage.pending().unwrap().ends_with("auto is not to go with its workload"));
        });
    }

    #[test]
    fn what_a_subnet_has_no_room_for_is_not_waited_for() {
        staged(|stage| {
            stage.reserve("r", &["10.0.0.8-10.0.0.9"]);
            stage.set_aside(stage.replicas[0], "s", "other", &["10.0.0.1-10.0.0.5"]);
            assert_eq!(stage.pending(), None);
            stage.set_aside(stage.replicas[0], "s", "other", &["10.0.0.1-10.0.0.4"]);
            assert!(stage.pending().is_some());
            stage.pool("manual", &["10.0.0.5"]);
            assert_eq!(stage.pending(), None);
            stage.pool_gone(stage.person, "manual");
            stage.application("u", 3, None);
            assert_eq!(stage.pending(), None);
        });
    }

    #[test]
    fn what_only_pods_that_are_gone_have_in_a_pool_that_goes_is_waited_for_once_their_places_are_taken() {
        staged(|stage| {
            let by = stage.replicas[0];
            stage.set_aside(by, "s", "old", &["10.0.0.1-10.0.0.8"]);
            stage.auto_pool(by, "old", "before", &["10.0.0.1-10.0.0.8"]);
            stage.static_pod_of("ns/app-0", "a", "before");
            stage.record(stage.agent, "old", "10.0.0.1", "ns/app-0", "a");
            stage.endpoint(stage.agent, "ns/app-0", "a", &[("eth0", "old", "10.0.0.1")]);
            stage.terminate_pool(stage.person, "old");
            assert_eq!(stage.pending(), None, "its pod is there");
            stage.pod_gone("ns/app-0");
            assert_eq!(stage.pending(), None, "nobody is there who would give it back");
            stage.static_pod_of("ns/app-0", "b", "u");
            assert!(stage.pending().unwrap().ends_with("there is none, and 8 addresses of s are only held for pods that are gone"));
            stage.record(stage.agent, "old", "10.0.0.2", "ns/other", "c");
            assert_eq!(stage.pending(), None, "another has an address of it, too");
        });
    }
}
