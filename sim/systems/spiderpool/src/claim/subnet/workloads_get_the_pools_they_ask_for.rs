//! A L5: workloads get the pools that they ask for.

use ipam_spiderpool::ranges::IpSet;
use ipam_spiderpool::subnet::Demand;

use super::super::view::{Application, View, records_of};
use super::super::{IpamClaim, told};
use super::wishes;

/// In the end each workload that asks for a pool of a subnet has it, with as many addresses as it is to have. It is larger only by
/// addresses that pods have, and smaller or missing only if the subnet has too few that nobody has or reserves.
///
/// Broken by `application-given-up` and `subnet-shrinks-lowest`. It does not wait for third-party workloads, whose pools agents make when a
/// pod comes, nor for a subnet that is not there or is being deleted, nor while a pool of the workload is being deleted.
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

/// What is wrong with the pool that is asked for, if anything is.
fn lacks(view: &View, application: &Application, demand: &Demand) -> Option<String> {
    let subnet = view.subnets.get(&demand.subnet).filter(|subnet| !subnet.is_terminating())?;
    if subnet.version() != demand.family.number() {
        return None;
    }
    let wanted = u128::from(demand.size);
    let mut pools = wishes::pools(view, application.uid(), demand).peekable();
    let Some((name, pool)) = pools.next() else {
        let room = wishes::room(view, subnet, "", &IpSet::default()).count();
        return (room >= wanted).then(|| format!("there is none, and {} has {room} addresses for {wanted}", demand.subnet));
    };
    if pool.is_terminating() || pools.any(|(_, pool)| pool.is_terminating()) || pool.object.spec.subnet != subnet.object.spec.subnet {
        return None;
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
    (count > wanted && unused > 0).then(|| format!("{name} has {count} addresses, not {wanted}, and nobody has {unused} of them"))
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
            assert!(stage.pending().unwrap().ends_with("auto has 3 addresses, not 2, and nobody has 3 of them"));
            for (address, uid) in [("10.0.0.1", "a"), ("10.0.0.2", "b"), ("10.0.0.3", "c")] {
                stage.record(stage.agent, "auto", address, "ns/pod", uid);
            }
            assert_eq!(stage.pending(), None);
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
}
