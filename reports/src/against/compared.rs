//! One figure of two reports.

use serde::Serialize;

use crate::Seconds;
use crate::human;
use crate::spread::Margin;
use crate::statistics::Estimate;
use crate::statistics::change::Change;

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// A part of 1.
    Share,
    /// Seconds, which may be below 0.
    Seconds,
    /// A rate or a mean.
    Number,
    /// Whole things, such as addresses or writers.
    Count,
}

/// A figure that both reports have, and its change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// The place where it was measured, such as a point, a form or a way.
    pub place: String,
    /// The name of the figure, as sentences use it.
    pub figure: String,
    /// The unit of its values.
    pub unit: Unit,
    /// The earlier value, with its interval in that report.
    pub old: Estimate,
    /// The present value, with its interval in this report.
    pub new: Estimate,
    /// The change in % of the earlier value, with the interval of 95 %; unset = there is no ratio.
    pub change_percent: Option<Estimate>,
    /// The probability of a difference at least as large by chance; unset = no test applies, or the runs do not bound it.
    pub p: Option<f64>,
    /// Whether chance alone hardly explains the change.
    pub significant: bool,
    /// Whether the runs bound both values, so that the change could be judged.
    pub bounded: bool,
    /// The test that judged the change.
    pub test: &'static str,
}

impl Compared {
    /// A figure whose change was judged by `test`.
    pub fn new(place: &str, figure: &str, unit: Unit, (old, new): (Estimate, Estimate), change: Change, test: &'static str) -> Self {
        let percent = |part: f64| 100.0 * part;
        let change_percent =
            change.part.map(|part| Estimate { value: percent(part.value), low: part.low.map(percent), high: part.high.map(percent) });
        let significant = change.is_significant();
        let bounded = change.p.is_some();
        Self { place: place.to_owned(), figure: figure.to_owned(), unit, old, new, change_percent, p: change.p, significant, bounded, test }
    }

    /// Overrides the significance, for figures that are not judged by a p-value.
    #[must_use]
    pub fn judged(self, significant: bool) -> Self {
        Self { significant, bounded: true, ..self }
    }

    /// Whether there is nothing to show, because both values are 0.
    pub fn is_nothing(&self) -> bool {
        self.old.value == 0.0 && self.new.value == 0.0
    }

    /// Formats a value in the figure's unit.
    pub fn value(&self, value: f64) -> String {
        match self.unit {
            Unit::Share => format!("{:.1} %", 100.0 * value),
            Unit::Seconds if value < 0.0 => Margin::from_micros((value * 1e6).round() as i64).to_string(),
            Unit::Seconds => human::duration(Seconds::from_micros((value * 1e6).round() as u64)),
            Unit::Number => format!("{value:.2}"),
            Unit::Count => human::count(value.round() as u64),
        }
    }

    /// The change in %, such as `-12.0 %`; empty when there is no ratio.
    pub fn change(&self) -> String {
        self.change_percent.map_or_else(String::new, |change| percent(change.value))
    }

    /// The interval of the change, such as `-13.1 to -10.9 %`; `?` where nothing bounds it.
    pub fn interval(&self) -> String {
        let Some(change) = self.change_percent else { return String::new() };
        let end = |end: Option<f64>| end.map_or_else(|| "?".to_owned(), signed);
        if change.low.is_none() && change.high.is_none() { String::new() } else { format!("{} to {} %", end(change.low), end(change.high)) }
    }

    /// The verdict on the change, in a few words for a table.
    pub fn verdict(&self) -> &'static str {
        if self.significant {
            "significant"
        } else if self.old.value == self.new.value {
            "no change, not significant"
        } else if self.bounded {
            "not significant"
        } else {
            "not significant, too few runs"
        }
    }

    /// The change in words: `conflicts per call fell by 12.0 %, from 2.55 to 2.24 (95 % interval -13.1 to -10.9 %), significant`.
    pub fn told(&self) -> String {
        let (old, new) = (self.value(self.old.value), self.value(self.new.value));
        if self.old.value == self.new.value {
            return format!("{} did not change ({new}), not significant", self.figure);
        }
        let verb = if self.new.value > self.old.value { "rose" } else { "fell" };
        let by = self.change_percent.map_or_else(String::new, |change| format!(" by {:.1} %", change.value.abs()));
        let interval = match self.interval() {
            interval if interval.is_empty() => String::new(),
            interval => format!(" (95 % interval {interval})"),
        };
        format!("{} {verb}{by}, from {old} to {new}{interval}, {}", self.figure, self.verdict())
    }
}

fn percent(value: f64) -> String {
    format!("{} %", signed(value))
}

/// Formats a number with its sign and one decimal: `+0.4`, `-13.1`, `0.0`.
fn signed(value: f64) -> String {
    let text = format!("{value:+.1}");
    if text == "+0.0" || text == "-0.0" { "0.0".to_owned() } else { text }
}
