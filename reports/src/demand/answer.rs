//! The needs of pods, in sentences.

use crate::human;
use crate::leaks::answer::of_delay;

use super::need::Need;
use super::resampled::{Resampled, block};
use super::trial::{Trial, runs_for};
use super::{EVERY_DEL_ARRIVES, Form};

/// The largest share of runs that may contradict a decision for it to be confident.
const FEW: f64 = 0.05;

/// The size that is enough, its confidence, and its assumptions: for resampled traces if there are some, otherwise for the first form.
pub(super) fn headline(needs: &[Need], forms: &[Form], trials: &[Trial], resampled: Option<&Resampled>, assumed: &str) -> String {
    let wanted: Vec<String> = needs.iter().map(Need::to_string).collect();
    let wanted = wanted.join(" and ");
    let assumed = if assumed.is_empty() { String::new() } else { format!(" ({assumed})") };
    let Some(form) = forms.first() else { return "No size was tried to its end.".to_owned() };
    if let Some(resampled) = resampled {
        let many = human::count(resampled.traces.len() as u64);
        let recorded = form.smallest.map_or_else(String::new, |size| format!("; the recorded one needs {}", human::count(size)));
        let of = format!("resampled traces (blocks of {})", block(resampled.drawn.block_s));
        return match resampled.enough {
            Some(enough) => format!(
                "{} are enough so that {wanted} holds for {} of {many} {of}, with 95 % confidence for at least {:.1} % of such \
                 traces{recorded}{assumed}.",
                addresses(enough),
                human::count(resampled.enough_for),
                floor(resampled.enough_share),
            ),
            None => format!("No pool that was tried is enough so that {wanted} holds for 95 % of {many} {of}{recorded}{assumed}."),
        };
    }
    let Some(smallest) = form.smallest else {
        return if form.given.met {
            format!("{} are enough so that {wanted} holds, and maybe fewer{assumed}.", addresses(form.given.addresses))
        } else {
            format!("Not even {} are enough so that {wanted} holds{assumed}.", addresses(form.given.addresses))
        };
    };
    let enough = trials.iter().find(|trial| trial.form == form.name && trial.addresses == smallest);
    let met = enough.map_or(0.0, |trial| 1.0 - trial.missed_at_most());
    format!(
        "{} are enough so that {wanted} holds, with 95 % confidence in at least {:.1} % of such runs{assumed}.",
        addresses(smallest),
        floor(met)
    )
}

/// A lower bound in %, rounded down.
fn floor(share: f64) -> f64 {
    (1000.0 * share).floor() / 10.0
}

/// The sentences of each form on use, sufficient size, and lifetime of leaks; then on differences between forms, and the needs of resampled
/// traces.
pub(super) fn sentences(needs: &[Need], forms: &[Form], trials: &[Trial], resampled: Option<&Resampled>, compression: u32) -> Vec<String> {
    let wanted: Vec<String> = needs.iter().map(Need::to_string).collect();
    let wanted = wanted.join(" and ");
    let mut sentences: Vec<String> = Vec::new();
    for (number, form) in forms.iter().enumerate() {
        // For the other forms only the size is stated: the rest is in the tables.
        if number > 0 && form.name != EVERY_DEL_ARRIVES {
            sentences.push(of_size(form, needs, &wanted, trials));
            continue;
        }
        sentences.push(of_use(form));
        sentences.push(of_size(form, needs, &wanted, trials));
        sentences.extend(form.reclaimed.iter().filter_map(of_delay));
    }
    sentences.extend(difference(forms));
    let recorded = forms.first().and_then(|form| form.smallest);
    sentences.extend(resampled.map(|resampled| resampled.sentence(recorded)));
    sentences.extend(resampled.and_then(Resampled::trend));
    if compression > 1 {
        sentences.push(format!(
            "Time of the trace passes {} times as fast, graces and reclaim do not: what pods on their way out and leaks hold is up to as \
             many times too much, and the need of the living is as it was.",
            human::count(u64::from(compression))
        ));
    }
    sentences
}

fn addresses(count: u64) -> String {
    human::plural(count, "address", "addresses")
}

fn of_use(form: &Form) -> String {
    let Form { name, given, .. } = form;
    format!(
        "{name}: {} ask for addresses; at most {} are recorded at a time, up to {} of living pods, {} of pods on their way out and {} of \
         pods that are gone; of a pool of {}, {} are always free.",
        human::plural(given.asked, "pod", "pods"),
        human::count(given.peak),
        human::count(given.peak_living),
        human::count(given.peak_ending),
        human::count(given.peak_leaked),
        human::count(given.addresses),
        human::count(given.addresses.saturating_sub(given.peak)),
    )
}

/// The figures of the needs in a trial's worst run.
fn figures(trial: &Trial, needs: &[Need]) -> String {
    let told = |need: &Need| format!("{} {}", need.name(), need.of(trial).map_or_else(|| "unknown".to_owned(), |found| need.told(found)));
    needs.iter().map(told).collect::<Vec<_>>().join(", ")
}

fn of_size(form: &Form, needs: &[Need], wanted: &str, trials: &[Trial]) -> String {
    let name = &form.name;
    let Some(smallest) = form.smallest else {
        return if form.given.met {
            format!("{name}: the smallest pool for which {wanted} holds is not known yet.")
        } else {
            format!("{name}: {wanted} does not hold even with {} ({}).", addresses(form.given.addresses), figures(&form.given, needs))
        };
    };
    let of_form = || trials.iter().filter(|trial| trial.form == *name);
    let enough = of_form().find(|trial| trial.addresses == smallest);
    let proof = enough.map_or_else(String::new, |trial| {
        let runs = human::plural(trial.seeds, "run", "runs");
        let missed = trial.missed_at_most();
        let more =
            if missed > FEW { format!(" ({} runs would make that {:.0} %)", runs_for(FEW), 100.0 * (1.0 - FEW)) } else { String::new() };
        let met = floor(1.0 - missed);
        let figures = figures(trial, needs);
        format!(" in all of {runs} ({figures}), with 95 % confidence that at least {met:.1} % of such runs meet the objective{more}")
    });
    let less = of_form().filter(|trial| trial.addresses < smallest).max_by_key(|trial| trial.addresses);
    let less =
        less.map_or_else(String::new, |trial| format!("; {} are too few ({})", human::count(trial.addresses), figures(trial, needs)));
    let plan = form.plan.as_ref().map_or_else(String::new, |plan| format!(" A run that shows it: {plan}."));
    format!("{name}: {wanted} holds with {}{proof}{less}.{plan}", addresses(smallest))
}

/// The additional need of the first form compared with that where every DEL arrives.
fn difference(forms: &[Form]) -> Vec<String> {
    let Some((first, others)) = forms.split_first() else { return Vec::new() };
    let of = |other: &Form| {
        let (with, without) = (first.smallest?, other.smallest?);
        let more = with.saturating_sub(without);
        let part = 100.0 * more as f64 / without.max(1) as f64;
        Some(format!("Reclaim delay costs {}: {with} instead of {without} ({part:.1} % more).", addresses(more)))
    };
    others.iter().filter(|other| other.name == EVERY_DEL_ARRIVES).filter_map(of).collect()
}
