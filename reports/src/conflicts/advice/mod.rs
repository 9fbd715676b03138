//! `report conflicts --advise`: the gain of other retry policies, with the same settings and seeds.
//!
//! ```text
//!  today's policy ─┬─(the same bursts)─► Tried … ─► Advice: best first, each with its differences
//!  one thing else ─┘
//! ```

mod answer;
mod bursts;
mod show;

use serde::Serialize;

use super::metric::Metric;
use super::point::Point;
use crate::Seconds;
use crate::against::Unit;
use crate::pool::PoolRun;
use crate::statistics::paired::{correlation, difference, is_significant};
use crate::statistics::{self, Estimate};

pub(crate) use bursts::columns as burst_columns;
pub use bursts::{head as bursts_head, read as read_bursts, row as burst_row};
pub(crate) use show::columns;
pub use show::{csv, figure_of, told, verdict};
pub(super) use show::{figure, page};

/// The change that an alternative requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Needs {
    /// No change: it is in use.
    Nothing,
    /// A number in the code that retries.
    Number,
    /// A few lines in the code that retries.
    Code,
    /// More objects, and a component that spreads the writers over them.
    Objects,
    /// A component that does not exist yet.
    Part,
}

impl Needs {
    /// The change in a few words.
    pub fn told(self) -> &'static str {
        match self {
            Needs::Nothing => "in use",
            Needs::Number => "a number",
            Needs::Code => "a few lines",
            Needs::Objects => "more objects",
            Needs::Part => "a new part",
        }
    }
}

/// An alternative that was tried; the first one is today's policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    /// The change that it requires before it can be used.
    pub needs: Needs,
    /// Its cost or drawback, as a clause; empty = nothing that the table does not show.
    pub costs: String,
    /// The result of its bursts, under its name.
    pub point: Point,
    /// The bursts, by their seeds.
    pub runs: Vec<PoolRun>,
}

/// The gains of other retry policies.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// The number of bursts of each alternative: the same ones for all.
    pub bursts: u64,
    /// The seed of the first burst; those of the others follow it.
    pub first_seed: u64,
    /// The alternatives that were tried, best first.
    pub ranked: Vec<Ranked>,
}

/// An alternative that was tried, and its gains.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ranked {
    /// The rank of the alternative, from 1.
    pub rank: u64,
    /// The name of the policy.
    pub policy: String,
    /// Whether it is today's policy.
    pub today: bool,
    /// The change that it requires before it can be used.
    pub needs: Needs,
    /// Its cost or drawback.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub costs: String,
    /// The share of calls that end without an address that they can keep: they gave up, or lost their record.
    pub failing: f64,
    /// Its figures, compared with today's.
    pub figures: Vec<Gain>,
}

/// A figure compared with today's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gain {
    /// The name of the figure, as sentences use it.
    pub figure: &'static str,
    /// The unit of its values.
    pub unit: Unit,
    /// The value with today's policy.
    pub today: Estimate,
    /// The value with the alternative.
    pub with: Estimate,
    /// The difference, burst by burst, with its interval of 95 %.
    pub difference: Estimate,
    /// Whether the interval of the difference excludes 0.
    pub significant: bool,
}

/// The reason why there is no advice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{policy}` had other bursts than today's policy, so that nothing can be said of what differs")]
pub struct Unpaired {
    /// The policy that was tried with them.
    pub policy: String,
}

/// The figures that are compared.
pub const FIGURES: [Metric; 5] = [Metric::Exhausted, Metric::ConflictsPerCall, Metric::Lost, Metric::AllocateP50, Metric::AllocateP99];

/// The share below which failing calls count as none in the ranking.
const RARE: f64 = 0.01;

impl Advice {
    /// Ranks the alternatives; the first is today's policy.
    ///
    /// # Errors
    /// The bursts are not paired.
    pub fn of(tried: &[Tried]) -> Result<Self, Unpaired> {
        let Some(today) = tried.first() else { return Ok(Self { bursts: 0, first_seed: 0, ranked: Vec::new() }) };
        let bursts = |tried: &Tried| (tried.point.first_seed, tried.runs.len());
        if let Some(other) = tried.iter().find(|other| bursts(other) != bursts(today)) {
            return Err(Unpaired { policy: other.point.setting.series.clone() });
        }
        let mut ranked: Vec<(&Tried, Ranked)> =
            tried.iter().enumerate().map(|(at, tried)| (tried, ranked(today, tried, at == 0))).collect();
        // An alternative that is only as good as today's policy is no reason to change it: today's comes first among equals.
        ranked.sort_by(|(one, left), (other, right)| key(one, left).partial_cmp(&key(other, right)).unwrap_or(std::cmp::Ordering::Equal));
        let ranked = (1..).zip(ranked).map(|(rank, (_, ranked))| Ranked { rank, ..ranked }).collect();
        Ok(Self { bursts: today.point.bursts, first_seed: today.point.first_seed, ranked })
    }

    /// The policy in use, with which all others are compared; unset = nothing was tried yet.
    pub fn today(&self) -> Option<&Ranked> {
        self.ranked.iter().find(|ranked| ranked.today)
    }
}

/// The key of the ranking, where smaller is better: calls that fail, unless that is rare; the time of the slowest; conflicts.
fn key(tried: &Tried, ranked: &Ranked) -> [f64; 3] {
    let failing = if ranked.failing < RARE { 0.0 } else { ranked.failing };
    let p99 = tried.point.get(Metric::AllocateP99).map_or(f64::INFINITY, |p99| p99.value);
    [failing, p99, tried.point.value(Metric::ConflictsPerCall)]
}

fn ranked(today: &Tried, tried: &Tried, is_today: bool) -> Ranked {
    let figures = FIGURES.into_iter().filter_map(|metric| gain(metric, today, tried)).collect();
    let failing = tried.runs.iter().map(|run| ((run.counts.exhausted + run.counts.lost_at_end) as f64, run.counts.calls as f64));
    Ranked {
        rank: 0,
        policy: tried.point.setting.series.clone(),
        today: is_today,
        needs: tried.needs,
        costs: tried.costs.clone(),
        failing: statistics::ratio(failing).map_or(0.0, |found| found.value),
        figures,
    }
}

fn gain(metric: Metric, today: &Tried, tried: &Tried) -> Option<Gain> {
    let (old, new) = (today.point.get(metric)?, tried.point.get(metric)?);
    let moves_together = correlation(&deviations(metric, old.value, &today.runs), &deviations(metric, new.value, &tried.runs));
    let difference = difference(old, new, moves_together);
    let unit = match metric {
        _ if metric.is_share() => Unit::Share,
        _ if metric.is_time() => Unit::Seconds,
        _ => Unit::Number,
    };
    let figure = match metric {
        Metric::Exhausted => "calls that give up",
        Metric::ConflictsPerCall => "conflicts per call",
        Metric::Lost => "lost records per burst",
        Metric::AllocateP50 => "time to allocate, p50",
        _ => "time to allocate, p99",
    };
    Some(Gain { figure, unit, today: old, with: new, difference, significant: is_significant(difference) })
}

/// The deviation of each burst from the figure of all of them, which correlates between bursts of one seed.
fn deviations(metric: Metric, value: f64, runs: &[PoolRun]) -> Vec<f64> {
    let within = |p: f64| {
        let below = move |run: &PoolRun| {
            let below = run.took.iter().filter(|took| Seconds::as_f64(**took) <= value).count();
            below as f64 - p * run.took.len() as f64
        };
        runs.iter().map(below).collect()
    };
    let per_call =
        |count: fn(&PoolRun) -> u64| runs.iter().map(|run| count(run) as f64 - value * run.counts.calls as f64).collect::<Vec<f64>>();
    match metric {
        Metric::Exhausted => per_call(|run| run.counts.exhausted),
        Metric::ConflictsPerCall => per_call(|run| run.counts.conflicts),
        Metric::AllocateP50 => within(0.5),
        Metric::AllocateP99 => within(0.99),
        _ => runs.iter().map(|run| run.counts.lost_at_end as f64 - value).collect(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::conflicts::Setting;
    use crate::conflicts::tests::{bursts, setting};

    /// An alternative whose bursts are those of `instances` adaptors, changed by `change`.
    pub(crate) fn tried(name: &str, needs: Needs, change: impl Fn(&mut PoolRun)) -> Tried {
        let mut runs = bursts(8, 400);
        runs.iter_mut().for_each(change);
        let setting = Setting { series: name.to_owned(), panels: "advice".to_owned(), ..setting(8, 0) };
        Tried { needs, costs: String::new(), point: Point::of(setting, 7, &runs), runs }
    }

    pub(crate) fn nobody_gives_up(run: &mut PoolRun) {
        run.counts.exhausted = 0;
        run.counts.allocated = run.counts.calls;
        run.counts.refused = 0;
        run.took = [run.took.clone(), run.took.clone()].concat();
    }

    #[test]
    fn what_nobody_gives_up_with_comes_first_and_the_quicker_of_two_before_the_other() {
        let slower = |run: &mut PoolRun| {
            nobody_gives_up(run);
            run.took.iter_mut().for_each(|took| *took = Seconds::from_micros(2 * took.as_micros()));
        };
        let loses = |run: &mut PoolRun| {
            nobody_gives_up(run);
            run.counts.lost_at_end = 7;
        };
        let all = [
            tried("today", Needs::Nothing, |_| ()),
            tried("slow", Needs::Number, slower),
            tried("loses", Needs::Code, loses),
            tried("same", Needs::Number, |_| ()),
            tried("quick", Needs::Part, nobody_gives_up),
        ];
        let advice = Advice::of(&all).unwrap();
        let order: Vec<&str> = advice.ranked.iter().map(|ranked| &*ranked.policy).collect();
        assert_eq!(order, ["quick", "slow", "today", "same", "loses"]);
        assert_eq!(advice.ranked.iter().map(|ranked| ranked.rank).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        let gives_up = &advice.ranked[0].figures[0];
        assert_eq!((gives_up.figure, gives_up.difference.value, gives_up.significant), ("calls that give up", -0.5, true));
        let same = &advice.ranked[3].figures;
        assert!(same.iter().all(|gain| gain.difference.value == 0.0 && !gain.significant), "{same:?}");
    }

    #[test]
    fn other_bursts_are_no_pairs() {
        let today = tried("today", Needs::Nothing, |_| ());
        let mut other = tried("other", Needs::Number, |_| ());
        other.point.first_seed += 1;
        let refused = Advice::of(&[today.clone(), other]).unwrap_err();
        assert_eq!(refused, Unpaired { policy: "other".to_owned() });
        let mut fewer = tried("fewer", Needs::Number, |_| ());
        fewer.runs.pop();
        assert!(Advice::of(&[today, fewer]).is_err());
    }

    #[test]
    fn pairs_make_intervals_narrower() {
        let all = [tried("today", Needs::Nothing, |_| ()), tried("more", Needs::Number, |run| run.counts.conflicts += 1)];
        let conflicts = &Advice::of(&all).unwrap().ranked;
        let gain = conflicts.iter().find(|ranked| !ranked.today).unwrap().figures[1].clone();
        // One conflict more in each burst of eight calls: none of the difference is chance, though bursts differ.
        assert!((gain.difference.value - 0.125).abs() < 1e-9 && gain.difference.half_width() < 1e-6, "{gain:?}");
        assert!(gain.today.half_width() > 1e-3);
    }
}
