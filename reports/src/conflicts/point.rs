//! One point: a setting, and the results of its bursts.

use crate::Seconds;
use crate::pool::PoolRun;
use crate::statistics::Estimate;

use super::closed_form::{self, ClosedForm};
use super::metric::{METRICS, Metric};
use super::model::{self, Modelled};
use super::setting::Setting;

/// The precision at which no more bursts of a point are needed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precision {
    /// Half the width of an interval, as a part of the value.
    pub relative: f64,
    /// Half the width of an interval, for small values.
    pub absolute: f64,
}

/// ±2 % of the value, or ±0.005.
pub const USUAL: Precision = Precision { relative: 0.02, absolute: 0.005 };

/// The metrics that decide whether a point is precise enough.
pub const DECIDING: [Metric; 2] = [Metric::ConflictsPerCall, Metric::Exhausted];

/// The results of the bursts of a setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The setting of the bursts, and the curve on which the point lies.
    pub setting: Setting,
    /// The number of bursts, one per seed, from `first_seed` on.
    pub bursts: u64,
    /// The seed of the first burst; the others have the seeds that follow.
    pub first_seed: u64,
    /// Whether the bursts were enough for the precision asked for.
    pub reached: bool,
    /// The number of calls in all bursts.
    pub calls: u64,
    /// The number of calls that were granted an address.
    pub allocated: u64,
    estimates: [Option<Estimate>; METRICS],
}

impl Point {
    /// The point of these bursts. Sets [`reached`](Self::reached); the caller clears it if more precision was asked for.
    pub fn of(setting: Setting, first_seed: u64, runs: &[PoolRun]) -> Self {
        let sorted = |run: &PoolRun| {
            let mut took: Vec<u64> = run.took.iter().map(|took| Seconds::as_micros(*took)).collect();
            took.sort_unstable();
            took
        };
        let took: Vec<Vec<u64>> = runs.iter().map(sorted).collect();
        let has_faults = setting.has_faults();
        let is_of = |metric| has_faults || !Metric::OF_FAULTS.contains(&metric);
        Self {
            setting,
            bursts: runs.len() as u64,
            first_seed,
            reached: true,
            calls: runs.iter().map(|run| run.counts.calls).sum(),
            allocated: runs.iter().map(|run| run.counts.allocated).sum(),
            estimates: Metric::ALL.map(|metric| if is_of(metric) { metric.estimate(runs, &took) } else { None }),
        }
    }

    /// A point made of known figures.
    pub(super) fn known(
        setting: Setting,
        bursts: (u64, u64),
        reached: bool,
        calls: (u64, u64),
        estimates: [Option<Estimate>; METRICS],
    ) -> Self {
        Self { setting, bursts: bursts.0, first_seed: bursts.1, reached, calls: calls.0, allocated: calls.1, estimates }
    }

    /// The estimate of a metric; `None` when there is nothing to take it from, such as times when no call was granted an address.
    pub fn get(&self, metric: Metric) -> Option<Estimate> {
        self.estimates[metric as usize]
    }

    /// The value of a metric, 0 when there is none.
    pub fn value(&self, metric: Metric) -> f64 {
        self.get(metric).map_or(0.0, |estimate| estimate.value)
    }

    /// The result in closed form (B §8.2).
    pub fn closed_form(&self) -> Option<ClosedForm> {
        closed_form::of(&self.setting)
    }

    /// The result of an independent model (B §8.3).
    pub fn modelled(&self) -> Option<Modelled> {
        model::of(&self.setting)
    }
}

/// Whether the bursts so far bound the [`DECIDING`] metrics as narrowly as `precision` asks.
pub fn precise(runs: &[PoolRun], precision: Precision) -> bool {
    DECIDING
        .iter()
        .all(|metric| metric.estimate(runs, &[]).is_none_or(|estimate| estimate.is_within(precision.relative, precision.absolute)))
}
