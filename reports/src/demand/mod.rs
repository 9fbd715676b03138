//! `report capacity` of pods that come and go, as in a trace: the addresses that they hold, and the size of the pool that they need.
//!
//! ```text
//!  needs ──────────┐
//!  runs at a size ─┴─► Trial: met in all seeds? ─► bisect ─► the smallest pool
//!  runs at the given size ─► Usage over time, reclaimed addresses ─► head-room, time to reclaim
//! ```
//! Each trial has one run per seed. The pods of a trace come at fixed times: only round trips and faults differ, so a need is checked in
//! each run separately.

pub mod against;
mod answer;
mod figures;
mod need;
mod page;
pub(crate) mod resampled;
pub(crate) mod table;
mod trial;

use serde::{Deserialize, Serialize};

pub use figures::{Plate, plates};
pub use need::{Need, Wanted};
pub use page::page;
pub use resampled::{Drawn, Resample, Resampled, resample_row, resamples_head, resamples_of};
pub use table::{Asked, Sizes, size_row, sizes_head, sizes_of, usage_head, usage_of, usage_rows};
pub use trial::{Instant, Trial, Usage};

use crate::against::{Against, Baseline, Compared, Incomparable, Settings};
use crate::exit;
use crate::leaks::{Found, Group};
use crate::schema::DemandReportSchema;
use crate::{Made, Report};

/// The question of `report capacity` about pods that come and go.
pub const QUESTION: &str = "How many addresses do these pods need?";

/// The form of a scenario without faults; each other form after the first has something else changed.
pub const EVERY_DEL_ARRIVES: &str = "every DEL arrives";

/// The demand of a form of the scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Form {
    /// The name of the form.
    pub name: String,
    /// The result with the pool that the scenario has.
    pub given: Trial,
    /// The smallest pool that meets all needs: addresses in total. Unset = the given one does not, or the search was stopped.
    pub smallest: Option<u64>,
    /// The plan of a run that misses a need with fewer addresses, if there is one.
    pub plan: Option<String>,
    /// The addresses reclaimed with the given pool.
    pub reclaimed: Vec<Group>,
    /// The difference between two neighbouring sizes; 0 = as in the report as a whole.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub step: u64,
    /// Addresses over time, with the given pool.
    #[serde(skip)]
    pub usage: Usage,
}

/// The report of `report capacity` for pods that come and go.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DemandReport {
    schema: DemandReportSchema,
    /// The way in which it was made.
    pub made: Made,
    /// The headline: one number, its confidence and its assumptions, in a sentence.
    pub headline: String,
    /// The results of the forms, a sentence each.
    pub answers: Vec<String>,
    /// The objectives of the pool.
    pub needs: Vec<String>,
    /// The forms of the scenario.
    pub forms: Vec<Form>,
    /// The sizes that were tried, of all forms.
    pub trials: Vec<Trial>,
    /// The changes under what-if questions, if any: figures of the scenario as given, and with something changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub what_if: Vec<Compared>,
    /// The needs of resampled traces; unset = nothing was resampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resampled: Option<Resampled>,
    /// The factor by which the time of a trace is compressed; 1 = it is not.
    pub compression: u32,
    /// The difference between two neighbouring sizes; 0 = unknown.
    #[serde(skip_serializing_if = "is_zero")]
    pub step: u64,
    /// The settings of the scenario; empty = a table was drawn again, which does not have them.
    #[serde(skip_serializing_if = "Settings::is_empty")]
    pub settings: Settings,
    /// The changes since an earlier report; unset = there is none to compare with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<Against>,
    /// Whether the user stopped it before its last run.
    pub interrupted: bool,
    /// Sentences on what could not be written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unwritten: Vec<String>,
    /// The exit code of the process, one of the codes of [`exit`].
    pub exit_code: u8,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl DemandReport {
    /// The report of these forms; `step` is the difference between two neighbouring sizes, 0 = unknown; `resampled` holds the needs of
    /// resampled traces; `limits` are sentences that hold whatever the pods do.
    #[expect(clippy::too_many_arguments, reason = "each is a part of what was found")]
    pub fn new(
        made: Made,
        needs: &[Need],
        forms: Vec<Form>,
        trials: Vec<Trial>,
        compression: u32,
        step: u64,
        resampled: Option<Resampled>,
        limits: impl IntoIterator<Item = String>,
        interrupted: bool,
    ) -> Self {
        let headline = answer::headline(needs, &forms, &trials, resampled.as_ref(), &made.assumed);
        let mut answers = answer::sentences(needs, &forms, &trials, resampled.as_ref(), compression);
        let what_if = against::what_if(&forms, &trials, step);
        answers.extend(limits);
        let needs = needs.iter().map(Need::to_string).collect();
        let exit_code = if interrupted { exit::INTERRUPTED } else { exit::HELD };
        Self {
            schema: DemandReportSchema,
            made,
            headline,
            answers,
            needs,
            forms,
            trials,
            what_if,
            resampled,
            compression,
            step,
            settings: Settings::new(),
            against: None,
            interrupted,
            unwritten: Vec::new(),
            exit_code,
        }
    }

    /// Compares the report with an earlier one.
    ///
    /// # Errors
    /// Their figures are incomparable.
    pub fn compare(&mut self, old: &Baseline<against::OldDemand>) -> Result<(), Incomparable> {
        let pairs = against::compare(&old.report, self)?;
        self.against = Some(Against::new(&old.from, &old.report.made, &self.made, pairs));
        Ok(())
    }
}

impl Report for DemandReport {
    fn made(&self) -> &Made {
        &self.made
    }

    fn headline(&self) -> Option<&str> {
        Some(&self.headline)
    }

    fn answers(&self) -> &[String] {
        &self.answers
    }

    fn against(&self) -> Option<&Against> {
        self.against.as_ref()
    }

    fn what_if(&self) -> &[Compared] {
        &self.what_if
    }

    fn interrupted(&self) -> bool {
        self.interrupted
    }
}

impl Form {
    /// A form with the results of its runs with the given pool, and the addresses that they reclaimed.
    pub fn new(name: &str, given: Trial, usage: Usage, found: &[Found]) -> Self {
        let reclaimed = crate::leaks::group::groups(found);
        Self { name: name.to_owned(), given, smallest: None, plan: None, reclaimed, step: 0, usage }
    }
}

impl Sizes {
    /// The names of the forms, in the order in which they were searched.
    pub fn forms(&self) -> Vec<&str> {
        let mut forms: Vec<&str> = Vec::new();
        for trial in &self.trials {
            if !forms.contains(&&*trial.form) {
                forms.push(&trial.form);
            }
        }
        forms
    }

    /// The result of a form with the given pool, which is the largest one tried.
    pub fn given(&self, form: &str) -> Option<&Trial> {
        self.trials.iter().filter(|trial| trial.form == form).max_by_key(|trial| trial.addresses)
    }

    /// The difference between two neighbouring sizes of a form.
    pub fn step(&self, form: &str) -> u64 {
        self.steps.get(form).copied().unwrap_or(self.asked.step)
    }

    /// The smallest pool of a form that is enough, if the next smaller one is known not to be.
    pub fn smallest(&self, form: &str) -> Option<u64> {
        let of_form = || self.trials.iter().filter(|trial| trial.form == form);
        let enough = of_form().filter(|trial| trial.met).map(|trial| trial.addresses).min()?;
        let less = enough.checked_sub(self.step(form))?;
        (less == 0 || of_form().any(|trial| trial.addresses == less)).then_some(enough)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Seconds;
    use crate::addresses::{AddressRun, Held, Sample};

    /// A run in a pool of `capacity`, in which ten pods of a hundred are refused for each address below 40.
    pub(crate) fn run(capacity: u64, seed: u64) -> AddressRun {
        let refused = 10 * 40u64.saturating_sub(capacity);
        let held = |at: u64| Held { living: at.min(30) + seed % 2, ending: at / 20, leaked: at / 30 };
        AddressRun {
            capacity,
            peak: 37 + seed % 2,
            peak_living: 30 + seed % 2,
            peak_ending: 5,
            peak_leaked: 3,
            asked: 100,
            refused: refused.min(100),
            waited: (0..100).map(|n| Seconds::from_micros(n * 1_000)).collect(),
            samples: (0..100).map(|at| Sample { at: Seconds::from_micros(at * 10_000_000), held: held(at) }).collect(),
        }
    }

    pub(crate) fn report() -> DemandReport {
        let needs: Vec<Need> = ["refused<1%", "wait_p99<10s"].map(|text| text.parse().unwrap()).into();
        let runs = |capacity| (0..4).map(|seed| (seed, run(capacity, seed))).collect::<Vec<_>>();
        let trials: Vec<Trial> = [38, 39, 40, 100].map(|capacity| Trial::of("as it is", capacity, &needs, &runs(capacity))).into();
        let samples = runs(100);
        let mut form = Form::new("as it is", trials[3].clone(), Usage::of(&samples), &crate::leaks::tests::found(20));
        form.smallest = Some(40);
        form.plan = Some("out/demand-39-0.toml".to_owned());
        let mut other =
            Form::new("every DEL arrives", Trial { form: "every DEL arrives".to_owned(), ..trials[3].clone() }, Usage::of(&samples), &[]);
        other.smallest = Some(36);
        let made = Made { question: QUESTION.to_owned(), command: "ipam-sim report capacity x.toml".to_owned(), ..Made::default() };
        DemandReport::new(made, &needs, vec![form, other], trials, 100, 1, None, ["A limit.".to_owned()], false)
    }

    #[test]
    fn a_need_is_asked_of_every_run() {
        let report = report();
        let met: Vec<(u64, bool, Option<u64>)> =
            report.trials.iter().map(|trial| (trial.addresses, trial.met, trial.missed_seed)).collect();
        assert_eq!(met, [(38, false, Some(0)), (39, false, Some(0)), (40, true, None), (100, true, None)]);
        assert_eq!((report.trials[0].refused, report.trials[0].peak, report.trials[0].peak_living), (0.2, 38, 31));
    }

    #[test]
    fn a_search_is_at_its_end_when_the_next_smaller_pool_was_tried() {
        let asked = Asked { step: 1, ..Asked::default() };
        let mut sizes = Sizes { asked, trials: report().trials, ..Sizes::default() };
        assert_eq!((sizes.forms(), sizes.smallest("as it is")), (vec!["as it is"], Some(40)));
        assert_eq!(sizes.given("as it is").map(|trial| trial.addresses), Some(100));
        sizes.trials.retain(|trial| trial.addresses != 39);
        assert_eq!(sizes.smallest("as it is"), None);
        sizes.asked.step = 2;
        assert_eq!(sizes.smallest("as it is"), Some(40));
    }

    #[test]
    fn the_sentences_say_what_a_planner_asks() {
        insta::assert_snapshot!(report().answers.join("\n"));
    }
}
