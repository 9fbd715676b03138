//! What pods need, in sentences.

use crate::human;
use crate::leaks::answer::of_delay;

use super::Form;
use super::need::Need;
use super::trial::{Trial, runs_for};

/// A decision is confident when at most so many runs can be otherwise.
const FEW: f64 = 0.05;

/// For each form what is held, what is enough, and how long leaks last; then what the forms differ in.
pub(super) fn sentences(needs: &[Need], forms: &[Form], trials: &[Trial], compression: u32) -> Vec<String> {
    let wanted: Vec<String> = needs.iter().map(Need::to_string).collect();
    let wanted = wanted.join(" and ");
    let mut sentences: Vec<String> = Vec::new();
    for form in forms {
        sentences.push(of_use(form));
        sentences.push(of_size(form, needs, &wanted, trials));
        sentences.extend(form.reclaimed.iter().filter_map(of_delay));
    }
    sentences.extend(difference(forms));
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

/// What the needs come to in a trial's worst run.
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
        // Rounded down: it is a lower bound.
        let met = (1000.0 * (1.0 - missed)).floor() / 10.0;
        let figures = figures(trial, needs);
        format!(" in all of {runs} ({figures}), with 95 % confidence that at least {met:.1} % of such runs meet the objective{more}")
    });
    let less = of_form().filter(|trial| trial.addresses < smallest).max_by_key(|trial| trial.addresses);
    let less =
        less.map_or_else(String::new, |trial| format!("; {} are too few ({})", human::count(trial.addresses), figures(trial, needs)));
    let plan = form.plan.as_ref().map_or_else(String::new, |plan| format!(" A run that shows it: {plan}."));
    format!("{name}: {wanted} holds with {}{proof}{less}.{plan}", addresses(smallest))
}

/// What the first form needs more than each other one.
fn difference(forms: &[Form]) -> Vec<String> {
    let Some((first, others)) = forms.split_first() else { return Vec::new() };
    let of = |other: &Form| {
        let (with, without) = (first.smallest?, other.smallest?);
        let more = with.saturating_sub(without);
        let part = 100.0 * more as f64 / without.max(1) as f64;
        Some(format!("Reclaim delay costs {}: {with} instead of {without} ({part:.1} % more).", addresses(more)))
    };
    others.iter().filter_map(of).collect()
}
