//! The advice in sentences.

use super::{Advice, Gain, Needs, Ranked};
use crate::against::Unit;
use crate::conflicts::answer::{number, share, time};
use crate::human;

/// Formats a value with its unit.
pub(super) fn value(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Share => format!("{:.1} %", 100.0 * value),
        Unit::Seconds if value < 0.0 => format!("-{}", time(-value)),
        Unit::Seconds => time(value),
        Unit::Number | Unit::Count => format!("{value:.2}"),
    }
}

impl Ranked {
    /// The gain in the figure of this name.
    pub(super) fn gain(&self, figure: &str) -> Option<&Gain> {
        self.figures.iter().find(|gain| gain.figure == figure)
    }

    /// Whether it is certainly better than today's policy, and calls do not fail more often.
    fn is_better(&self, today: &Ranked) -> bool {
        let better = |figure: &str| self.gain(figure).is_some_and(|gain| gain.significant && gain.difference.value < 0.0);
        let fails_less = (better("calls that give up") || better("lost records per burst")) && self.failing < today.failing;
        !self.today && (fails_less || self.failing <= today.failing && better("time to allocate, p99"))
    }
}

impl Advice {
    /// The headline, then the cost, and the certainty.
    pub fn answers(&self) -> Vec<String> {
        let Some(today) = self.today() else { return Vec::new() };
        let better: Vec<&Ranked> = self.ranked.iter().filter(|ranked| ranked.is_better(today)).collect();
        let mut answers = Vec::new();
        match better.first() {
            Some(best) => {
                answers.push(headline(best));
                if best.needs != Needs::Number {
                    let number = better.iter().find(|ranked| ranked.needs == Needs::Number);
                    answers.extend(number.map(|ranked| format!("Where only a number may change: {}", lower(&headline(ranked)))));
                }
                answers.extend(cost(best));
            }
            None => answers.push(format!("Nothing that was tried is better than {} for certain: {}", today.policy, of_today(today))),
        }
        answers.extend(self.longer());
        answers.push(self.certainty());
        answers
    }

    /// A sentence on what keeps calls waiting longer than today's policy does.
    fn longer(&self) -> Option<String> {
        let longer =
            |ranked: &&Ranked| ranked.gain("time to allocate, p99").is_some_and(|gain| gain.significant && gain.difference.value > 0.0);
        let said = |ranked: &Ranked| {
            ranked.gain("time to allocate, p99").map(|gain| format!("{} ({})", ranked.policy, time(gain.with.value))).unwrap_or_default()
        };
        let all: Vec<String> = self.ranked.iter().filter(longer).map(said).collect();
        let today = self.today()?.gain("time to allocate, p99")?;
        (!all.is_empty()).then(|| {
            let today = time(today.with.value);
            format!("The slowest calls take longer than the {today} of today (p99 of those that get an address) with {}.", all.join("; "))
        })
    }

    fn certainty(&self) -> String {
        let compared = self.ranked.iter().filter(|ranked| !ranked.today).map(|ranked| ranked.figures.len()).sum::<usize>();
        format!(
            "All had the same {}, from seed {} on, so that only what was changed differs; \
             of {} about {:.0} would seem significant by chance.",
            human::plural(self.bursts, "burst", "bursts"),
            self.first_seed,
            human::plural(compared as u64, "difference", "differences"),
            0.05 * compared as f64
        )
    }
}

fn lower(text: &str) -> String {
    text.strip_prefix("With ").map_or_else(|| text.to_owned(), |rest| format!("with {rest}"))
}

/// Writes `With full jitter 0.0 % of the calls give up instead of 31.8 % …`.
fn headline(best: &Ranked) -> String {
    let mut parts = Vec::new();
    if let Some(gain) = best.gain("calls that give up") {
        let points = |end: Option<f64>| end.map_or_else(|| "?".to_owned(), |end| format!("{:+.1}", 100.0 * end));
        let (low, high) = (points(gain.difference.low), points(gain.difference.high));
        let judged = if gain.significant { "significant" } else { "not significant" };
        parts.push(format!(
            "{} of the calls give up instead of {} ({low} to {high} points, {judged})",
            value(gain.unit, gain.with.value),
            value(gain.unit, gain.today.value)
        ));
    }
    if let Some(gain) = best.gain("lost records per burst").filter(|gain| gain.today.value > 0.0 || gain.with.value > 0.0) {
        parts.push(format!("{:.2} records of a burst are lost instead of {:.2}", gain.with.value, gain.today.value));
    }
    if let Some(gain) = best.gain("time to allocate, p99") {
        parts.push(format!(
            "99 % of those that get an address have it within {} instead of {}",
            time(gain.with.value),
            time(gain.today.value)
        ));
    }
    format!("With {} {}.", best.policy, parts.join(", and "))
}

fn cost(best: &Ranked) -> Option<String> {
    let needs = match best.needs {
        Needs::Nothing => return None,
        Needs::Number => "It takes another number in the code that tries again",
        Needs::Code => "It takes a few lines in the code that tries again",
        Needs::Objects => "It takes more objects, and writers that are spread over them",
        Needs::Part => "It takes a part that is not there yet",
    };
    Some(if best.costs.is_empty() { format!("{needs}.") } else { format!("{needs}, and {}.", best.costs) })
}

fn of_today(today: &Ranked) -> String {
    let gives_up = today.gain("calls that give up").map_or_else(String::new, |gain| share(gain.with));
    let conflicts = today.gain("conflicts per call").map_or_else(String::new, |gain| number(gain.with));
    format!("{gives_up} of the calls give up, with {conflicts} conflicts a call.")
}

#[cfg(test)]
mod tests {
    use super::super::tests::{nobody_gives_up, tried};
    use super::*;

    #[test]
    fn the_headline_says_what_is_gained_and_the_rest_what_it_costs() {
        let slower = |run: &mut crate::pool::PoolRun| {
            nobody_gives_up(run);
            run.took.iter_mut().for_each(|took| *took = crate::Seconds::from_micros(3 * took.as_micros()));
        };
        let mut lock = tried("a lock", Needs::Part, nobody_gives_up);
        lock.costs = "each call makes three requests more".to_owned();
        let all = [tried("in use", Needs::Nothing, |_| ()), tried("12 attempts", Needs::Number, slower), lock];
        insta::assert_snapshot!(Advice::of(&all).unwrap().answers().join("\n"));
    }

    #[test]
    fn where_nothing_is_better_that_is_said() {
        let all = [tried("in use", Needs::Nothing, |_| ()), tried("same", Needs::Number, |_| ())];
        let said = Advice::of(&all).unwrap().answers();
        assert!(said[0].starts_with("Nothing that was tried is better than in use for certain: 50.0 % ("), "{}", said[0]);
        assert_eq!(said.len(), 2);
    }
}
