//! The addresses that were reclaimed in one way in one scenario.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::reclaim::{ReclaimPath, Reclaimed};
use crate::spread::Margin;
use crate::statistics::{self, Estimate};

use super::Found;

/// Figures of the addresses that were reclaimed in one way in one scenario. Times are in seconds, as defined in [`Reclaimed`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// The name of the scenario in whose runs they were reclaimed.
    pub scenario: String,
    /// The way in which they were reclaimed.
    pub path: ReclaimPath,
    /// The number of runs with such an address.
    pub runs: u64,
    /// The number of these addresses.
    pub addresses: u64,
    /// The median time for which they stayed recorded after the end of the pod's entitlement.
    pub delay_p50_s: Option<Estimate>,
    /// The 90 % quantile of that time.
    pub delay_p90_s: Option<Estimate>,
    /// The 99 % quantile of that time.
    pub delay_p99_s: Option<Estimate>,
    /// The longest such time; `None` if no address has one.
    pub delay_max_s: Option<f64>,
    /// The longest bound of G §10.2 of any of them; it holds while everything is healthy.
    pub bound_max_s: Option<f64>,
    /// The number of addresses that were recorded longer than their bound.
    pub late: u64,
    /// The share of these among the addresses that have a bound.
    pub late_share: Option<Estimate>,
    /// The least time from the end of the last sandbox that answered on an address to its removal.
    pub margin_min_s: Option<f64>,
    /// The 1 % quantile of that time.
    pub margin_p01_s: Option<Estimate>,
    /// The median of that time.
    pub margin_p50_s: Option<Estimate>,
    /// The number of addresses on which a sandbox still answered when they were removed.
    pub answered: u64,
    /// The share of these among all addresses of the group.
    pub answered_share: Option<Estimate>,
}

/// Some addresses, by run.
pub(super) type Runs<'a> = BTreeMap<u64, Vec<&'a Reclaimed>>;

/// The addresses of each scenario and each way, in the order in which scenarios first appear.
pub(super) fn sorted(found: &[Found]) -> Vec<(&str, ReclaimPath, Runs<'_>)> {
    let mut groups: Vec<(&str, ReclaimPath, Runs<'_>)> = Vec::new();
    for Found { scenario, seed, reclaimed } in found {
        let known = groups.iter().position(|(name, path, _)| name == scenario && *path == reclaimed.path);
        let at = known.unwrap_or_else(|| {
            groups.push((scenario, reclaimed.path, Runs::new()));
            groups.len() - 1
        });
        groups[at].2.entry(*seed).or_default().push(reclaimed);
    }
    let first = |scenario: &str| found.iter().position(|one| one.scenario == scenario);
    groups.sort_by_key(|(scenario, path, _)| (first(scenario), ReclaimPath::ALL.iter().position(|one| one == path)));
    groups
}

pub(crate) fn groups(found: &[Found]) -> Vec<Group> {
    sorted(found).into_iter().map(|(scenario, path, runs)| Group::of(scenario, path, &runs)).collect()
}

/// The 99 % quantile of the time for which the leaked addresses of a scenario stayed recorded, over all ways of reclaim; for each scenario
/// that has one.
pub(super) fn of_all_ways(found: &[Found]) -> Vec<(&str, Estimate)> {
    let mut scenarios: Vec<(&str, Runs<'_>)> = Vec::new();
    for Found { scenario, seed, reclaimed } in found {
        let at = scenarios.iter().position(|(name, _)| name == scenario).unwrap_or_else(|| {
            scenarios.push((scenario, Runs::new()));
            scenarios.len() - 1
        });
        scenarios[at].1.entry(*seed).or_default().push(reclaimed);
    }
    let p99 = |(name, runs): (_, Runs<'_>)| Some((name, quantile(&numbers(&runs, delay), 0.99)?));
    scenarios.into_iter().filter_map(p99).collect()
}

/// The values of `of` for the addresses of each run, where it has one.
pub(super) fn numbers(runs: &Runs<'_>, of: impl Fn(&Reclaimed) -> Option<f64>) -> Vec<Vec<f64>> {
    runs.values().map(|run| run.iter().filter_map(|one| of(one)).collect()).collect()
}

pub(super) fn delay(one: &Reclaimed) -> Option<f64> {
    one.delay.map(seconds)
}

pub(super) fn margin(one: &Reclaimed) -> Option<f64> {
    one.margin.map(seconds)
}

/// The part of its bound that an address took: 1 = all of it.
pub(super) fn part_of_bound(one: &Reclaimed) -> Option<f64> {
    Some(delay(one)? / one.bound?.as_f64())
}

fn seconds(margin: Margin) -> f64 {
    margin.as_micros() as f64 / 1e6
}

/// An offset for signed microseconds, so that they are counted from 0 on: 142 years.
const SHIFT: i64 = 1 << 52;

/// A quantile of signed seconds.
fn quantile(runs: &[Vec<f64>], p: f64) -> Option<Estimate> {
    let shifted: Vec<Vec<u64>> = runs
        .iter()
        .map(|run| {
            let mut run: Vec<u64> = run.iter().map(|seconds| ((seconds * 1e6).round() as i64 + SHIFT).max(0) as u64).collect();
            run.sort_unstable();
            run
        })
        .collect();
    let found = statistics::quantile(&shifted, p)?;
    let back = |shifted: f64| (shifted - SHIFT as f64) / 1e6;
    Some(Estimate { value: back(found.value), low: found.low.map(back), high: found.high.map(back) })
}

/// The share of addresses for which `hit` holds, among those for which `counts` holds, with their number.
fn share(runs: &Runs<'_>, counts: impl Fn(&Reclaimed) -> bool, hit: impl Fn(&Reclaimed) -> bool) -> (u64, Option<Estimate>) {
    let of = |run: &Vec<&Reclaimed>, wanted: &dyn Fn(&Reclaimed) -> bool| run.iter().filter(|one| wanted(one)).count() as f64;
    let pairs: Vec<(f64, f64)> = runs.values().map(|run| (of(run, &|one| counts(one) && hit(one)), of(run, &counts))).collect();
    (pairs.iter().map(|pair| pair.0 as u64).sum(), statistics::share(pairs.iter().copied()))
}

impl Group {
    fn of(scenario: &str, path: ReclaimPath, runs: &Runs<'_>) -> Self {
        let (delays, margins) = (numbers(runs, delay), numbers(runs, margin));
        let all = || runs.values().flatten();
        let (late, late_share) = share(runs, |one| part_of_bound(one).is_some(), |one| part_of_bound(one).is_some_and(|part| part > 1.0));
        let (answered, answered_share) = share(runs, |_| true, |one| one.answered);
        Self {
            scenario: scenario.to_owned(),
            path,
            runs: runs.len() as u64,
            addresses: all().count() as u64,
            delay_p50_s: quantile(&delays, 0.5),
            delay_p90_s: quantile(&delays, 0.9),
            delay_p99_s: quantile(&delays, 0.99),
            delay_max_s: delays.iter().flatten().copied().reduce(f64::max),
            bound_max_s: all().filter_map(|one| one.bound).max().map(|bound| bound.as_f64()),
            late,
            late_share,
            margin_min_s: margins.iter().flatten().copied().reduce(f64::min),
            margin_p01_s: quantile(&margins, 0.01),
            margin_p50_s: quantile(&margins, 0.5),
            answered,
            answered_share,
        }
    }
}
