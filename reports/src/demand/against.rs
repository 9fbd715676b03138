//! Comparison of two reports on pods that come and go: the smallest pools, the sizes that both tried, and reclaim.

use serde::Deserialize;

use super::trial::Trial;
use super::{DemandReport, EVERY_DEL_ARRIVES, Form};
use crate::Made;
use crate::against::{Compared, Differs, Incomparable, Kind, Pairs, Settings, Unit, differences, of_estimate};
use crate::leaks::against::{contradiction_of_group, figures_of};
use crate::schema::DemandReportSchema;
use crate::statistics::change::{self, Change, LEVEL};
use crate::statistics::{Estimate, wilson};

/// An earlier report on pods that come and go.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct OldDemand {
    /// The way in which it was made.
    pub made: Made,
    /// The objectives that the pool had to meet.
    pub needs: Vec<String>,
    /// The forms of its scenario.
    pub forms: Vec<Form>,
    /// The sizes that were tried.
    pub trials: Vec<Trial>,
    /// The factor by which the time of its trace was compressed.
    pub compression: u32,
    /// The difference between two neighbouring sizes; 0 = the report does not say.
    #[serde(default)]
    pub step: u64,
    /// The settings of its scenario, if the report has them.
    #[serde(default)]
    pub settings: Settings,
}

impl Kind for OldDemand {
    const SCHEMA: &'static str = DemandReportSchema::NAME;
    const VERB: &'static str = "report capacity SCENARIO";

    fn made(&self) -> &Made {
        &self.made
    }

    fn contradiction(&self) -> Option<String> {
        let of_trial = |(number, trial): (usize, &Trial)| {
            let missed = trial.missed.filter(|missed| *missed > trial.seeds || trial.met != (*missed == 0));
            let missed = missed
                .map(|missed| format!("`trials[{number}]` missed in {missed} of {} runs, and its `met` is {}", trial.seeds, trial.met));
            missed.or_else(|| of_estimate(&format!("trials[{number}].peak_mean"), trial.peak_mean?, false))
        };
        let of_form = |(number, form): (usize, &Form)| {
            form.reclaimed.iter().find_map(|group| contradiction_of_group(&format!("forms[{number}].reclaimed"), group))
        };
        self.trials.iter().enumerate().find_map(of_trial).or_else(|| self.forms.iter().enumerate().find_map(of_form))
    }
}

/// Checks that a report with these objectives can be compared with an earlier one.
///
/// # Errors
/// A sentence on what makes the figures incomparable.
pub fn comparable(old: &OldDemand, needs: &[String], compression: u32) -> Result<(), Incomparable> {
    let wanted = |needs: &[String]| needs.join(" and ");
    if old.needs != needs {
        return Err(Incomparable(format!(
            "`objective` was {} and is {}: a pool that is enough for one may not be for the other",
            wanted(&old.needs),
            wanted(needs)
        )));
    }
    if old.compression != compression {
        return Err(Incomparable(format!(
            "`workload.trace_compression` was {} and is {compression}: leaks are held so many times too long",
            old.compression
        )));
    }
    Ok(())
}

/// The sizes of a form, ascending.
fn sizes<'a>(trials: &'a [Trial], form: &str) -> Vec<&'a Trial> {
    let mut sizes: Vec<&Trial> = trials.iter().filter(|trial| trial.form == form).collect();
    sizes.sort_by_key(|trial| trial.addresses);
    sizes
}

/// The number of runs of a trial that missed a need, and the number of all runs. Tables from before this was counted only say that one did.
fn missed(trial: &Trial) -> (u64, u64) {
    (trial.missed.unwrap_or(u64::from(!trial.met)), trial.seeds)
}

/// A smallest pool, and the runs that show that it is enough.
struct Smallest<'a> {
    addresses: u64,
    runs: u64,
    sizes: Vec<&'a Trial>,
    step: u64,
}

impl<'a> Smallest<'a> {
    fn of(form: &Form, trials: &'a [Trial], step: u64) -> Option<Self> {
        let addresses = form.smallest?;
        let sizes = sizes(trials, &form.name);
        let runs = sizes.iter().find(|trial| trial.addresses == addresses)?.seeds;
        Some(Self { addresses, runs, sizes, step: step.max(1) })
    }

    /// The smallest size that is not known to be too small, compared with `runs` runs in which none missed a need. Sizes are tested in
    /// ascending order up to the first that chance may explain, so that the p-values need no correction for multiple tests.
    fn least(&self, runs: u64) -> u64 {
        let too_small = |trial: &&&Trial| change::fisher(missed(trial), (0, runs)).is_some_and(|p| p < LEVEL);
        let known = self.sizes.iter().filter(|trial| trial.addresses < self.addresses).take_while(too_small).last();
        known.map_or(0, |trial| trial.addresses + self.step).min(self.addresses)
    }

    /// The probability that chance makes as many runs miss with `addresses` addresses when in the other report none of `runs` did: the
    /// largest p-value of the sizes that are tested before the answer is known.
    fn p(&self, addresses: u64, runs: u64) -> Option<f64> {
        let decides = self.sizes.iter().position(|trial| trial.addresses >= addresses && trial.addresses < self.addresses)?;
        self.sizes[..=decides].iter().map(|trial| change::fisher(missed(trial), (0, runs))).reduce(|p, q| Some(p?.max(q?)))?
    }
}

/// The change of a smallest pool. More addresses never miss what fewer meet, so that runs with one size bear on others.
fn smallest(place: &str, old: &Smallest<'_>, new: &Smallest<'_>) -> Compared {
    let estimate = |of: &Smallest<'_>, other: &Smallest<'_>| Estimate {
        value: of.addresses as f64,
        low: Some(of.least(other.runs) as f64),
        high: Some(of.addresses as f64),
    };
    let both = (estimate(old, new), estimate(new, old));
    let p = match old.addresses.cmp(&new.addresses) {
        std::cmp::Ordering::Equal => Some(1.0),
        std::cmp::Ordering::Greater => old.p(new.addresses, new.runs),
        std::cmp::Ordering::Less => new.p(old.addresses, old.runs),
    };
    let part = |new: f64, old: f64| (old > 0.0).then(|| new / old - 1.0);
    let ends = part(both.1.value, both.0.value).map(|value| Estimate {
        value,
        low: both.1.low.and_then(|low| part(low, both.0.value)),
        high: both.0.low.and_then(|low| part(both.1.value, low)),
    });
    let apart = both.1.value < both.0.low.unwrap_or(0.0) || both.0.value < both.1.low.unwrap_or(0.0);
    let compared = Compared::new(place, "addresses needed", Unit::Count, both, Change { part: ends, p }, "Fisher, of runs that miss");
    compared.judged(apart)
}

/// The changes of the other forms against the first: the addresses needed, and the most that are recorded.
pub(super) fn what_if(forms: &[Form], trials: &[Trial], step: u64) -> Vec<Compared> {
    let Some((first, others)) = forms.split_first() else { return Vec::new() };
    let step_of = |form: &Form| if form.step > 0 { form.step } else { step };
    let of = |form: &Form| {
        let both = Smallest::of(first, trials, step_of(first)).zip(Smallest::of(form, trials, step_of(form)));
        let needed = both.map(|(old, new)| smallest(&form.name, &old, &new));
        needed.into_iter().chain(peak(&form.name, &first.given, &form.given)).collect::<Vec<_>>()
    };
    others.iter().filter(|form| form.name != EVERY_DEL_ARRIVES).flat_map(of).collect()
}

/// The runs that miss a need with a size that both reports tried.
fn at_size(place: &str, old: &Trial, new: &Trial) -> Option<Compared> {
    let share = |trial: &Trial| {
        let (missed, of) = missed(trial);
        wilson(missed as f64, of as f64)
    };
    let both = (share(old)?, share(new)?);
    let change = Change { part: None, p: change::fisher(missed(old), missed(new)) };
    let name = format!("runs that miss with {} addresses", crate::human::count(new.addresses));
    Some(Compared::new(place, &name, Unit::Share, both, change, "Fisher"))
}

/// The most addresses that a run records at the same time, with the given pool.
fn peak(place: &str, old: &Trial, new: &Trial) -> Option<Compared> {
    let both = (old.peak_mean?, new.peak_mean?);
    let change = change::means((both.0, old.seeds), (both.1, new.seeds));
    Some(Compared::new(place, "most addresses at a time", Unit::Number, both, change, "Welch"))
}

pub(super) fn compare(old: &OldDemand, new: &DemandReport) -> Result<Pairs, Incomparable> {
    comparable(old, &new.needs, new.compression)?;
    let mut pairs = Pairs::default();
    if !old.settings.is_empty() && !new.settings.is_empty() {
        pairs.differs = differences(&old.settings, &new.settings);
        // The explanation of a scenario is not a setting.
        pairs.differs.retain(|Differs { setting, .. }| setting != "why");
    }
    let step = |form: &Form, whole: u64| if form.step > 0 { form.step } else { whole };
    for form in &new.forms {
        let Some(other) = old.forms.iter().find(|other| other.name == form.name) else {
            pairs.apart.push(format!("The form `{}` is in this report only.", form.name));
            continue;
        };
        let (before, now) =
            (Smallest::of(other, &old.trials, step(other, old.step)), Smallest::of(form, &new.trials, step(form, new.step)));
        let place = &*form.name;
        let needed = before.as_ref().zip(now.as_ref()).map(|(before, now)| smallest(place, before, now));
        match needed {
            Some(needed) => pairs.changes.push(needed),
            None => {
                let lacks = |known: bool, which: &str| (!known).then(|| which.to_owned());
                let which: Vec<String> =
                    lacks(before.is_some(), "the earlier report").into_iter().chain(lacks(now.is_some(), "this one")).collect();
                pairs.apart.push(format!("{place}: the smallest pool is not known in {}.", which.join(" and in ")));
            }
        }
        pairs.changes.extend(peak(place, &other.given, &form.given));
        let before = sizes(&old.trials, place);
        for trial in sizes(&new.trials, place) {
            let like = before.iter().find(|other| other.addresses == trial.addresses);
            pairs.changes.extend(like.and_then(|like| at_size(place, like, trial)));
        }
        for group in &form.reclaimed {
            let like = other.reclaimed.iter().find(|other| other.path == group.path);
            pairs.changes.extend(like.into_iter().flat_map(|like| figures_of(&format!("{place}, {}", group.path.name()), like, group)));
        }
    }
    for form in &old.forms {
        if new.forms.iter().all(|other| other.name != form.name) {
            pairs.apart.push(format!("The form `{}` is in the earlier report only.", form.name));
        }
    }
    pairs.headline =
        pairs.changes.iter().take(1).filter(|change| change.unit == Unit::Count).count().max(usize::from(!pairs.changes.is_empty()));
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::against::Baseline;
    use crate::demand::tests::report;

    fn read_back(report: &DemandReport) -> Baseline<OldDemand> {
        Baseline::read("old", &serde_json::to_string_pretty(report).unwrap()).unwrap()
    }

    /// A report whose first form needs `smallest` addresses: with fewer, `missed` of eight runs miss, and with enough none of 20.
    fn needs(smallest: u64, missed: u64) -> DemandReport {
        let mut new = report();
        let given = new.forms[0].given.clone();
        new.step = 1;
        new.trials = (1..=3)
            .map(|less| (smallest - less, 8, missed))
            .chain([(smallest, 20, 0), (100, 20, 0)])
            .map(|(addresses, seeds, missed)| Trial { addresses, seeds, met: missed == 0, missed: Some(missed), ..given.clone() })
            .collect();
        new.forms.truncate(1);
        new.forms[0].smallest = Some(smallest);
        new
    }

    fn needed(old: &DemandReport, mut new: DemandReport) -> Compared {
        new.compare(&read_back(old)).unwrap();
        new.against.unwrap().changes[0].clone()
    }

    #[test]
    fn a_report_beside_itself_did_not_change() {
        let mut new = needs(40, 8);
        new.compare(&read_back(&new)).unwrap();
        let against = new.against.unwrap();
        assert!(
            against.changes.len() > 8 && against.changes.iter().all(|change| !change.significant && change.p == Some(1.0)),
            "{against:?}"
        );
        assert_eq!(against.answers[0], "as it is: addresses needed did not change (40), not significant.");
    }

    #[test]
    fn fewer_addresses_are_significant_when_enough_runs_missed_before() {
        let change = needed(&needs(40, 8), needs(36, 8));
        assert!(change.significant && change.p.unwrap() < 1e-4, "{change:?}");
        let percent = change.change_percent.unwrap();
        assert!((percent.value + 10.0).abs() < 1e-9, "{percent:?}");
        assert!(percent.high.unwrap() <= -10.0 + 1e-9, "with 39 addresses all of eight runs missed: {percent:?}");
        // One run of eight may miss where none of twenty did.
        let change = needed(&needs(40, 1), needs(36, 1));
        assert!(
            !change.significant && change.p.unwrap() > 0.2 && change.change_percent.unwrap().high.is_none_or(|high| high > 0.0),
            "{change:?}"
        );
        let change = needed(&needs(36, 8), needs(40, 8));
        assert!(change.significant && change.change_percent.unwrap().low.unwrap() > 0.0, "{change:?}");
    }

    proptest::proptest! {
        /// The interval contains 0 exactly when the change is not significant, and the p-value agrees.
        #[test]
        fn the_interval_the_verdict_and_p_agree(old in 10u64..60, new in 10u64..60, before in 1u64..=8, now in 1u64..=8) {
            let change = needed(&needs(old, before), needs(new, now));
            let percent = change.change_percent.unwrap();
            let holds_none = percent.low.is_none_or(|low| low <= 0.0) && percent.high.is_none_or(|high| high >= 0.0);
            proptest::prop_assert_eq!(holds_none, !change.significant, "{:?}", change);
            if let Some(p) = change.p {
                proptest::prop_assert_eq!(p < LEVEL, change.significant, "{:?}", change);
            }
        }
    }

    #[test]
    fn settings_are_told_and_other_questions_are_refused() {
        let with = |delay: &str| DemandReport {
            settings: Settings::from([("delay".to_owned(), delay.to_owned()), ("why".to_owned(), delay.to_owned())]),
            ..needs(40, 8)
        };
        let mut new = with("0");
        new.compare(&read_back(&with("120"))).unwrap();
        assert_eq!(new.against.unwrap().differs, [Differs::new("delay", "120", "0")]);
        let other = DemandReport { needs: vec!["refused < 5 %".to_owned()], ..needs(40, 8) };
        let refused = needs(40, 8).compare(&read_back(&other)).unwrap_err().0;
        assert!(refused.starts_with("`objective` was refused < 5 % and is refused < 1 % and wait_p99 < 10 s"), "{refused}");
        let faster = DemandReport { compression: 1, ..needs(40, 8) };
        let refused = needs(40, 8).compare(&read_back(&faster)).unwrap_err().0;
        assert!(refused.starts_with("`workload.trace_compression` was 1 and is 100"), "{refused}");
    }

    #[test]
    fn a_report_that_contradicts_itself_is_refused() {
        let mut wrong = needs(40, 8);
        wrong.trials[0].missed = Some(9);
        let error = Baseline::<OldDemand>::read("old", &serde_json::to_string(&wrong).unwrap()).unwrap_err();
        assert!(error.reason.contains("`trials[0]` missed in 9 of 8 runs"), "{error}");
    }
}
