//! Runs with pools of one size.

use serde::{Deserialize, Serialize};

use crate::Seconds;
use crate::addresses::{AddressRun, Held};
use crate::statistics::{self, Estimate};

use super::need::Need;

/// The results of runs with pools of one size; each figure is that of the worst run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The form of the scenario.
    pub form: String,
    /// The total number of addresses in the pools.
    pub addresses: u64,
    /// The number of runs, one per seed.
    pub seeds: u64,
    /// Whether all needs were met in all of them.
    pub met: bool,
    /// The seed of the first run that missed a need.
    pub missed_seed: Option<u64>,
    /// The number of pods that asked for an address.
    pub asked: u64,
    /// The share of them that were refused one because none was free.
    pub refused: f64,
    /// The share of them that never got one.
    pub unserved: f64,
    /// The time from the first request of a pod to its address within which half of those that got one had it, in seconds.
    pub wait_p50_s: Option<f64>,
    /// The time within which 99 % of them had it, in seconds.
    pub wait_p99_s: Option<f64>,
    /// The most addresses recorded at the same time.
    pub peak: u64,
    /// The most addresses of pods that lived.
    pub peak_living: u64,
    /// The most addresses of pods that were terminating or had ended.
    pub peak_ending: u64,
    /// The most addresses of pods that were gone.
    pub peak_leaked: u64,
    /// The number of runs that missed a need; unset = a table from before this was kept.
    #[serde(default)]
    pub missed: Option<u64>,
    /// The mean over runs of the most addresses recorded at the same time; unset = a table from before this was kept.
    #[serde(default)]
    pub peak_mean: Option<Estimate>,
}

/// The number of runs, none of which misses a need, that show with 95 % confidence that at most this share of all do.
pub(super) fn runs_for(share: f64) -> u64 {
    (0.05_f64.ln() / (1.0 - share).ln()).ceil() as u64
}

/// A quantile of the sorted waits of a run.
fn quantile(sorted: &[Seconds], p: f64) -> Option<f64> {
    let rank = (p * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).map(|wait| wait.as_f64())
}

impl Trial {
    /// The results of these runs, with their seeds, measured by `needs`.
    pub fn of(form: &str, addresses: u64, needs: &[Need], runs: &[(u64, AddressRun)]) -> Self {
        let each: Vec<Self> = runs.iter().map(|(seed, run)| Self::of_run(form, addresses, needs, *seed, run)).collect();
        let peak_mean = statistics::mean(runs.iter().map(|(_, run)| run.peak as f64)).map(|mean| mean.clamped(0.0, f64::INFINITY));
        let missed = each.iter().filter(|one| !one.met).count() as u64;
        let mut all = Self { form: form.to_owned(), addresses, met: true, missed: Some(missed), peak_mean, ..Self::default() };
        for one in each {
            all.seeds += 1;
            all.met &= one.met;
            all.missed_seed = all.missed_seed.or(one.missed_seed);
            all.asked = all.asked.max(one.asked);
            all.refused = all.refused.max(one.refused);
            all.unserved = all.unserved.max(one.unserved);
            all.wait_p50_s = all.wait_p50_s.into_iter().chain(one.wait_p50_s).reduce(f64::max);
            all.wait_p99_s = all.wait_p99_s.into_iter().chain(one.wait_p99_s).reduce(f64::max);
            all.peak = all.peak.max(one.peak);
            all.peak_living = all.peak_living.max(one.peak_living);
            all.peak_ending = all.peak_ending.max(one.peak_ending);
            all.peak_leaked = all.peak_leaked.max(one.peak_leaked);
        }
        all
    }

    fn of_run(form: &str, addresses: u64, needs: &[Need], seed: u64, run: &AddressRun) -> Self {
        let mut waited = run.waited.clone();
        waited.sort_unstable();
        let share = |count: u64| if run.asked == 0 { 0.0 } else { count as f64 / run.asked as f64 };
        let mut trial = Self {
            form: form.to_owned(),
            addresses,
            seeds: 1,
            met: true,
            missed_seed: None,
            asked: run.asked,
            refused: share(run.refused),
            unserved: share(run.asked.saturating_sub(waited.len() as u64)),
            wait_p50_s: quantile(&waited, 0.5),
            wait_p99_s: quantile(&waited, 0.99),
            peak: run.peak,
            peak_living: run.peak_living,
            peak_ending: run.peak_ending,
            peak_leaked: run.peak_leaked,
            missed: None,
            peak_mean: None,
        };
        trial.met = needs.iter().all(|need| need.is_met(&trial));
        trial.missed_seed = (!trial.met).then_some(seed);
        trial
    }

    /// The largest share of such runs that miss a need, with 95 % confidence, when none of these did.
    pub fn missed_at_most(&self) -> f64 {
        if self.seeds == 0 { 1.0 } else { 1.0 - 0.05_f64.powf(1.0 / self.seeds as f64) }
    }
}

/// The means over runs at one instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Instant {
    /// The time since the beginning of the run.
    pub at_s: f64,
    /// Recorded addresses of pods that live.
    pub living: Estimate,
    /// Recorded addresses of pods that are terminating or have ended.
    pub ending: Estimate,
    /// Recorded addresses of pods that are gone.
    pub leaked: Estimate,
    /// All recorded addresses, whatever the state of their pods.
    pub total: Estimate,
}

/// Addresses over time, at equal intervals.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage(pub Vec<Instant>);

impl Usage {
    /// The means of these runs.
    pub fn of(runs: &[(u64, AddressRun)]) -> Self {
        let most = runs.iter().map(|(_, run)| run.samples.len()).max().unwrap_or(0);
        let at = |number: usize| {
            let samples = || runs.iter().filter_map(|(_, run)| run.samples.get(number));
            let mean = |of: fn(&Held) -> u64| {
                statistics::mean(samples().map(|sample| of(&sample.held) as f64)).map(|mean| mean.clamped(0.0, f64::INFINITY))
            };
            Some(Instant {
                at_s: samples().next()?.at.as_f64(),
                living: mean(|held| held.living)?,
                ending: mean(|held| held.ending)?,
                leaked: mean(|held| held.leaked)?,
                total: mean(Held::total)?,
            })
        };
        Self((0..most).filter_map(at).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_runs_as_are_said_bound_the_share_and_one_less_does_not() {
        for share in [0.5, 0.1, 0.05, 0.01] {
            let missed = |seeds| Trial { seeds, ..Trial::default() }.missed_at_most();
            let runs = runs_for(share);
            assert!(missed(runs) <= share && missed(runs - 1) > share, "{share}: {runs}");
        }
    }
}
