//! Objectives that a pool has to meet in each run.

use std::fmt;
use std::str::FromStr;

use crate::human;
use crate::objective::Objective;

use super::trial::Trial;

/// A figure of the pods of a run, and its upper limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Need {
    figure: Figure,
    /// The limit: a share of 1, or seconds.
    below: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Refused,
    Unserved,
    WaitP50,
    WaitP99,
}

const FIGURES: [(Figure, &str); 4] =
    [(Figure::Refused, "refused"), (Figure::Unserved, "unserved"), (Figure::WaitP50, "wait_p50"), (Figure::WaitP99, "wait_p99")];

impl Need {
    /// The name of the figure.
    pub fn name(&self) -> &'static str {
        FIGURES.iter().find(|(figure, _)| *figure == self.figure).map_or("", |(_, name)| name)
    }

    /// The need in the form that [`FromStr`] reads, to the last digit.
    pub fn asked(&self) -> String {
        format!("{}<{}{}", self.name(), self.below, if self.is_share() { "" } else { "s" })
    }

    /// The limit of the share of pods that are refused, if that is the figure.
    pub(super) fn refused_below(&self) -> Option<f64> {
        (self.figure == Figure::Refused).then_some(self.below)
    }

    fn is_share(&self) -> bool {
        matches!(self.figure, Figure::Refused | Figure::Unserved)
    }

    /// The figure of a trial: that of its worst run.
    pub(super) fn of(&self, trial: &Trial) -> Option<f64> {
        match self.figure {
            Figure::Refused => Some(trial.refused),
            Figure::Unserved => Some(trial.unserved),
            Figure::WaitP50 => trial.wait_p50_s,
            Figure::WaitP99 => trial.wait_p99_s,
        }
    }

    /// Whether a trial meets it in its worst run. A missing time counts as missed: no pod was there to take it.
    pub fn is_met(&self, trial: &Trial) -> bool {
        self.of(trial).is_some_and(|found| found < self.below)
    }

    /// Formats a figure of this kind.
    pub(super) fn told(&self, found: f64) -> String {
        if self.is_share() { format!("{:.2} %", 100.0 * found) } else { human::duration(micros(found)) }
    }
}

fn micros(seconds: f64) -> crate::Seconds {
    crate::Seconds::from_micros((seconds * 1e6).round() as u64)
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let below = if self.is_share() { format!("{} %", (self.below * 1e6).round() / 1e4) } else { human::duration(micros(self.below)) };
        write!(f, "{} < {below}", self.name())
    }
}

impl FromStr for Need {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('<').ok_or_else(|| "expected METRIC<VALUE, e.g. refused<1% or wait_p99<30s".to_owned())?;
        let (name, value) = (name.trim(), value.trim());
        let found = FIGURES.iter().find(|(_, known)| *known == name);
        let (figure, _) = found.ok_or_else(|| {
            let all: Vec<&str> = FIGURES.iter().map(|(_, name)| *name).collect();
            format!("there is no metric `{name}`; there are {}", all.join(", "))
        })?;
        let need = Self { figure: *figure, below: 0.0 };
        let (number, unit) = value.split_at(value.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(value.len()));
        let factor = match (need.is_share(), unit.trim()) {
            (true, "%") => 0.01,
            (true, "") | (false, "s") => 1.0,
            (false, "ms") => 1e-3,
            (false, "m" | "min") => 60.0,
            (true, _) => return Err(format!("`{value}` is not a share, e.g. 1% or 0.01")),
            (false, _) => return Err(format!("`{value}` is not a duration, e.g. 500ms or 30s")),
        };
        let below = number.parse::<f64>().map_err(|_| format!("`{value}` is not a number"))? * factor;
        if below <= 0.0 || (need.is_share() && below > 1.0) {
            return Err(format!("nothing can stay below `{value}`, or everything does"));
        }
        Ok(Self { below, ..need })
    }
}

/// The value of `--objective`: for bursts at one pool, or for pods that come and go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wanted {
    /// An objective for the calls of a burst.
    Burst(Objective),
    /// An objective for the pods of a run.
    Pods(Need),
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.split('<').next().unwrap_or_default().trim();
        if FIGURES.iter().any(|(_, known)| *known == name) {
            let need: Need = text.parse()?;
            // Tables hold a share to its last digit, without a unit. Written by a person, `refused<1` may mean 1 % or everything.
            let value = text.split_once('<').map_or("", |(_, value)| value.trim());
            if value.parse::<f64>().is_ok() {
                return Err(format!("`{value}` has no unit; write {name}<{value}%"));
            }
            return Ok(Wanted::Pods(need));
        }
        let all: Vec<&str> = FIGURES.iter().map(|(_, name)| *name).collect();
        text.parse().map(Wanted::Burst).map_err(|error: String| {
            let of_pods = if error.starts_with("there is no metric") {
                format!("; for pods of a scenario {}", all.join(", "))
            } else {
                String::new()
            };
            error + &of_pods
        })
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wanted::Burst(objective) => objective.fmt(f),
            Wanted::Pods(need) => need.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_are_read_in_the_unit_of_their_figure() {
        for (text, written) in
            [("refused<1%", "refused < 1 %"), ("unserved<0.5%", "unserved < 0.5 %"), ("wait_p99<2min", "wait_p99 < 2 min")]
        {
            let need: Wanted = text.parse().unwrap();
            assert!(matches!(need, Wanted::Pods(_)));
            assert_eq!(need.to_string(), written);
            let Wanted::Pods(need) = need else { unreachable!() };
            assert_eq!(need.asked().parse::<Need>().unwrap(), need);
        }
        assert!(matches!("exhausted<1%".parse(), Ok(Wanted::Burst(_))));
    }

    #[test]
    fn what_is_no_need_gets_one_sentence() {
        for (text, expected) in [
            ("refused", "expected METRIC<VALUE"),
            ("refused<1s", "`1s` is not a share"),
            ("refused<1", "`1` has no unit; write refused<1%"),
            ("unserved<0.005", "`0.005` has no unit; write unserved<0.005%"),
            ("wait_p99<1", "`1` is not a duration"),
            ("wait_p99<1%", "`1%` is not a duration"),
            ("refused<0", "nothing can stay below `0`"),
            ("speed<1", "for pods of a scenario refused, unserved, wait_p50, wait_p99"),
        ] {
            let error = text.parse::<Wanted>().unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
