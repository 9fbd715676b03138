//! Objectives: figures of bursts and their upper limits.

use std::fmt;
use std::str::FromStr;

use crate::conflicts::Metric;
use crate::human;
use crate::statistics::Estimate;

/// A figure and its upper limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Objective {
    /// The figure of bursts that is bounded.
    pub metric: Metric,
    /// The limit, in the unit of the figure: a share of 1, seconds, or a number.
    pub below: f64,
}

/// The decision on an objective that an interval permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The whole interval is below the limit.
    Met,
    /// The whole interval is at or above the limit.
    Missed,
    /// More bursts are needed.
    Open,
}

impl Objective {
    /// The name of the figure in an objective: its column without the unit.
    pub fn name(&self) -> &'static str {
        let name = self.metric.name();
        name.strip_suffix("_s").unwrap_or(name)
    }

    /// Judges the objective by this interval. A missing time counts as missed: no call was granted an address.
    pub fn judge(&self, found: Option<Estimate>) -> Decision {
        match found {
            None => Decision::Missed,
            Some(Estimate { high: Some(high), .. }) if high < self.below => Decision::Met,
            Some(Estimate { low: Some(low), .. }) if low >= self.below => Decision::Missed,
            Some(_) => Decision::Open,
        }
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} < ", self.name())?;
        if self.metric.is_share() {
            write!(f, "{} %", (self.below * 1e6).round() / 1e4)
        } else if self.metric.is_time() {
            f.write_str(&human::duration(crate::Seconds::from_micros((self.below * 1e6).round() as u64)))
        } else {
            write!(f, "{}", self.below)
        }
    }
}

impl FromStr for Objective {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('<').ok_or_else(|| "expected METRIC<VALUE, e.g. exhausted<1% or allocate_p99<1s".to_owned())?;
        let (name, value) = (name.trim(), value.trim());
        let known = |metric: &Metric| Objective { metric: *metric, below: 0.0 }.name();
        let metric = Metric::ALL.into_iter().find(|metric| known(metric) == name || metric.name() == name).ok_or_else(|| {
            let all: Vec<&str> = Metric::ALL.iter().map(known).collect();
            format!("there is no metric `{name}`; there are {}", all.join(", "))
        })?;
        let (number, unit) = value.split_at(value.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(value.len()));
        // `exhausted<1` may mean 1 % or everything, and a user who guesses wrong gets no error.
        if unit.is_empty() && number.parse::<f64>().is_ok() && (metric.is_share() || metric.is_time()) {
            let right = if metric.is_time() { format!("{name}<{number}s or {name}<{number}ms") } else { format!("{name}<{number}%") };
            return Err(format!("`{value}` has no unit; write {right}"));
        }
        let (factor, form) = match (metric.is_share(), metric.is_time(), unit.trim()) {
            (true, _, "%") => (0.01, ""),
            (true, ..) => (f64::NAN, "a share, e.g. 1%"),
            (_, true, "us" | "µs") => (1e-6, ""),
            (_, true, "ms") => (1e-3, ""),
            (_, true, "s") => (1.0, ""),
            (_, true, _) => (f64::NAN, "a duration, e.g. 500ms or 1s"),
            (.., "") => (1.0, ""),
            _ => (f64::NAN, "a number, e.g. 0.5"),
        };
        let below = number.parse::<f64>().unwrap_or(f64::NAN) * factor;
        if !below.is_finite() {
            let form = if form.is_empty() { "a number" } else { form };
            return Err(format!("`{value}` is not {form}"));
        }
        if below <= 0.0 || (metric.is_share() && below > 1.0) {
            return Err(format!("nothing can stay below `{value}`, or everything does"));
        }
        Ok(Self { metric, below })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_are_read_in_the_unit_of_their_metric() {
        for (text, metric, below, written) in [
            ("exhausted<1%", Metric::Exhausted, 0.01, "exhausted < 1 %"),
            ("exhausted < 0.5 %", Metric::Exhausted, 0.005, "exhausted < 0.5 %"),
            ("allocate_p99<1s", Metric::AllocateP99, 1.0, "allocate_p99 < 1 s"),
            ("allocate_p999_s<250ms", Metric::AllocateP999, 0.25, "allocate_p999 < 250 ms"),
            ("conflicts_per_call<0.5", Metric::ConflictsPerCall, 0.5, "conflicts_per_call < 0.5"),
        ] {
            let read: Objective = text.parse().unwrap();
            assert_eq!((read, read.to_string().as_str()), (Objective { metric, below }, written));
        }
    }

    #[test]
    fn what_is_no_objective_gets_one_sentence() {
        for (text, expected) in [
            ("exhausted", "expected METRIC<VALUE"),
            ("speed<1", "there is no metric `speed`; there are conflicts_per_call,"),
            ("exhausted<1s", "`1s` is not a share"),
            ("exhausted<1", "`1` has no unit; write exhausted<1%"),
            ("exhausted < 0.005", "`0.005` has no unit; write exhausted<0.005%"),
            ("allocate_p99<1", "`1` has no unit; write allocate_p99<1s or allocate_p99<1ms"),
            ("allocate_p99<1h", "`1h` is not a duration"),
            ("lost<many", "`many` is not a number"),
            ("exhausted<0%", "nothing can stay below `0%`"),
            ("exhausted<101%", "nothing can stay below `101%`, or everything does"),
        ] {
            let error = text.parse::<Objective>().unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn an_interval_decides_only_as_a_whole() {
        let objective = Objective { metric: Metric::Exhausted, below: 0.01 };
        let judge = |low, high| objective.judge(Some(Estimate { value: 0.01, low, high }));
        assert_eq!(judge(Some(0.0), Some(0.009)), Decision::Met);
        assert_eq!(judge(Some(0.01), Some(0.02)), Decision::Missed);
        assert_eq!(judge(Some(0.009), Some(0.02)), Decision::Open);
        assert_eq!(judge(Some(0.0), None), Decision::Open);
        assert_eq!(objective.judge(None), Decision::Missed);
    }
}
