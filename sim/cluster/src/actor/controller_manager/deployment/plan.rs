//! The permitted sizes of a Deployment's sets at each moment of a roll-out, as pure arithmetic.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The desired number of pods of a set, and the number of them that are available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) wanted: i32,
    pub(super) available: i32,
}

/// The bounds of a roll-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) replicas: i32,
    /// The number of pods allowed above `replicas`.
    pub(super) surge: i32,
    /// The number of `replicas` that may be missing.
    pub(super) unavailable: i32,
    /// Whether the strategy is Recreate.
    pub(super) recreates: bool,
}

/// An absolute number, or the given percentage of `whole`.
pub(in super::super) fn share(value: &IntOrString, whole: i32, round_up: bool) -> i32 {
    match value {
        IntOrString::Int(count) => (*count).max(0),
        IntOrString::String(text) => {
            let percent = i64::from(text.strip_suffix('%').and_then(|text| text.parse::<i32>().ok()).unwrap_or(0).max(0));
            let hundredfold = percent * i64::from(whole);
            (if round_up { hundredfold.div_euclid(100) + i64::from(hundredfold % 100 > 0) } else { hundredfold / 100 }) as i32
        }
    }
}

impl Limits {
    pub(super) fn of(deployment: &Deployment) -> Self {
        let spec = &deployment.spec;
        let replicas = spec.replicas.unwrap_or(1).max(0);
        let strategy = spec.strategy.as_ref();
        let recreates = strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate");
        let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let quarter = || IntOrString::String("25%".to_owned());
        let surge = share(&rolling.and_then(|rolling| rolling.max_surge.clone()).unwrap_or_else(quarter), replicas, true);
        let unavailable = share(&rolling.and_then(|rolling| rolling.max_unavailable.clone()).unwrap_or_else(quarter), replicas, false);
        // If both were 0, a roll-out could not begin.
        let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable.min(replicas) };
        if recreates {
            Self { replicas, surge: 0, unavailable: replicas, recreates }
        } else {
            Self { replicas, surge, unavailable, recreates }
        }
    }
}

/// The size that the new set should have now; `new` = `None`: the set does not exist yet.
pub(super) fn size_of_new(limits: &Limits, new: Option<Size>, old: &[Size]) -> i32 {
    let now = new.map_or(0, |new| new.wanted);
    if limits.recreates || now >= limits.replicas {
        return limits.replicas;
    }
    let total = now + old.iter().map(|old| old.wanted).sum::<i32>();
    let room = limits.replicas + limits.surge - total;
    if room <= 0 { now } else { now + room.min(limits.replicas - now) }
}

/// The sizes that the old sets, oldest first, should have now.
pub(super) fn old_sizes(limits: &Limits, new: Size, old: &[Size]) -> Vec<i32> {
    let mut sizes: Vec<i32> = old.iter().map(|old| old.wanted).collect();
    let total = new.wanted + sizes.iter().sum::<i32>();
    let least = limits.replicas - limits.unavailable;
    let mut may_go = total - least - (new.wanted - new.available).max(0);
    // Pods that are not available go first.
    for (size, old) in sizes.iter_mut().zip(old) {
        let unhealthy = (*size - old.available).clamp(0, may_go.max(0));
        *size -= unhealthy;
        may_go -= unhealthy;
    }
    if may_go <= 0 {
        return sizes;
    }
    let mut spare = (new.available + old.iter().map(|old| old.available).sum::<i32>() - least).max(0);
    for size in &mut sizes {
        let going = (*size).min(spare).max(0);
        *size -= going;
        spare -= going;
    }
    sizes
}

/// The status of a Deployment.
pub(super) fn status<'s>(
    deployment: &Deployment,
    new: Option<&'s ReplicaSet>,
    old: impl Iterator<Item = &'s ReplicaSet>,
) -> DeploymentStatus {
    let (mut replicas, mut ready, mut available) = (0, 0, 0);
    for status in new.into_iter().chain(old).filter_map(|set| set.status.as_ref()) {
        replicas += status.replicas;
        ready += status.ready_replicas.unwrap_or(0);
        available += status.available_replicas.unwrap_or(0);
    }
    let wanted = deployment.spec.replicas.unwrap_or(1);
    let updated = new.and_then(|set| set.status.as_ref()).map_or(0, |status| status.replicas);
    let some = |count: i32| (count > 0).then_some(count);
    let known = deployment.status.as_ref();
    DeploymentStatus {
        replicas: some(replicas),
        updated_replicas: some(updated),
        ready_replicas: some(ready),
        available_replicas: some(available),
        unavailable_replicas: some(wanted.max(replicas) - available),
        observed_generation: deployment.metadata.generation,
        collision_count: known.and_then(|status| status.collision_count),
        conditions: known.and_then(|status| status.conditions.clone()),
        terminating_replicas: known.and_then(|status| status.terminating_replicas),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn limits(replicas: i32, surge: i32, unavailable: i32) -> Limits {
        Limits { replicas, surge, unavailable, recreates: false }
    }

    #[test]
    fn a_quarter_is_rounded_up_for_surge_and_down_for_unavailable() {
        let of = |replicas: i32| {
            let deployment = Deployment {
                spec: k8s_openapi::api::apps::v1::DeploymentSpec { replicas: Some(replicas), ..Default::default() },
                ..Default::default()
            };
            let limits = Limits::of(&deployment);
            (limits.surge, limits.unavailable)
        };
        assert_eq!([of(1), of(3), of(4), of(5), of(10)], [(1, 0), (1, 0), (1, 1), (2, 1), (3, 2)]);
    }

    proptest! {
        /// The rules of a roll-out, in whatever order pods become available: never more pods than replicas plus surge, never fewer
        /// available ones than allowed, and at the end only the new set is left.
        #[test]
        fn a_roll_out_stays_within_its_bounds_and_ends(
            replicas in 1..30i32, surge in 0..10i32, unavailable in 0..10i32, quick in proptest::collection::vec(0..5i32, 1..40),
        ) {
            let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable.min(replicas) };
            let limits = limits(replicas, surge, unavailable);
            let mut new = Size { wanted: 0, available: 0 };
            let mut old = vec![
                Size { wanted: replicas / 2, available: replicas / 2 },
                Size { wanted: replicas - replicas / 2, available: replicas - replicas / 2 },
            ];
            for turn in 0..2_000 {
                let size = size_of_new(&limits, Some(new), &old);
                if size != new.wanted {
                    new.wanted = size;
                } else {
                    let sizes = old_sizes(&limits, new, &old);
                    for (old, size) in old.iter_mut().zip(sizes) {
                        old.wanted = size;
                        old.available = old.available.min(size);
                    }
                }
                let total = new.wanted + old.iter().map(|old| old.wanted).sum::<i32>();
                let available = new.available + old.iter().map(|old| old.available).sum::<i32>();
                prop_assert!(total <= replicas + surge, "{total} pods");
                prop_assert!(available >= replicas - unavailable, "{available} are available");
                // Some of the new pods become available.
                new.available = (new.available + quick[turn % quick.len()] + i32::from(turn % 7 == 0)).min(new.wanted);
                if new == (Size { wanted: replicas, available: replicas }) && old.iter().all(|old| old.wanted == 0) {
                    return Ok(());
                }
            }
            prop_assert!(false, "it does not end: {new:?} {old:?}");
        }
    }
}
