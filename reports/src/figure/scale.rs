//! Axes: the positions of numbers, and the labels beside them.

use std::ops::Range;

use crate::{Seconds, human};

/// One axis of a figure: its label, and the format and scale of its numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The label of the axis, with its unit.
    pub label: String,
    /// The format of its numbers.
    pub kind: Kind,
    /// The scale of the axis.
    pub scale: Scale,
}

/// The format of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Plain numbers: `1,000`, `2.5`.
    Count,
    /// Percentages, where 1 is the whole.
    Share,
    /// Seconds, as a duration.
    Seconds,
}

/// The scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Even steps from 0 on, or from the smallest number if that is negative.
    Linear,
    /// Even steps from the smallest to the largest number, wherever 0 is.
    Close,
    /// A logarithmic scale; numbers that are not above 0 have no place.
    Log,
}

impl Axis {
    /// The place of a number; `None` if it has none.
    pub(super) fn place(&self, number: f64) -> Option<f64> {
        match self.scale {
            Scale::Linear | Scale::Close => Some(number),
            Scale::Log => (number > 0.0).then(|| number.log10()),
        }
    }

    /// The number at a place.
    pub(super) fn number(&self, place: f64) -> f64 {
        match self.scale {
            Scale::Linear | Scale::Close => place,
            Scale::Log => 10f64.powf(place),
        }
    }

    /// The range of places from the smallest to the largest of these numbers, with some room.
    pub(super) fn range(&self, numbers: impl Iterator<Item = f64>) -> Range<f64> {
        let (low, high) = numbers
            .filter_map(|number| self.place(number))
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), place| (low.min(place), high.max(place)));
        match self.scale {
            // Leaves room for a mark at 0.
            Scale::Linear if high <= 0.0 && low >= 0.0 || low > high => -0.03..1.0,
            Scale::Linear => {
                let (low, high) = (low.min(0.0), high.max(0.0));
                low - 0.03 * (high - low)..high + 0.05 * (high - low)
            }
            Scale::Log | Scale::Close if low > high => 0.0..1.0,
            Scale::Close => {
                let room = 0.04 * (high - low).max(1.0);
                low - room..high + room
            }
            Scale::Log => low - 0.05..high.max(low + 0.3) + 0.05,
        }
    }

    /// The places of round numbers, about as many as there is room for.
    pub(super) fn ticks(&self, range: &Range<f64>) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let apart = (range.end - range.start) / 6.0;
                let step = if self.kind == Kind::Seconds { nice_time(apart) } else { nice(apart) };
                let last = if self.kind == Kind::Share { range.end.min(1.0) } else { range.end };
                let first = (range.start / step).ceil().min(0.0) as i32;
                (first..).map(|n| f64::from(n) * step).take_while(|place| *place <= last + step * 1e-9).collect()
            }
            Scale::Close => {
                let step = nice((range.end - range.start) / 6.0);
                // Counts have no halves.
                let step = if self.kind == Kind::Count { step.max(1.0) } else { step };
                let first = (range.start / step).ceil();
                (0..).map(|n| (first + f64::from(n)) * step).take_while(|place| *place <= range.end).collect()
            }
            Scale::Log => {
                let wide = range.end - range.start > 2.4;
                let parts: &[f64] = if wide { &[1.0] } else { &[1.0, 2.0, 5.0] };
                // Seconds are counted to a minute, minutes to an hour, hours to a day, and all of them in tens.
                const UNITS: [f64; 4] = [1.0, 60.0, 3_600.0, 86_400.0];
                let units = if self.kind == Kind::Seconds { &UNITS[..] } else { &UNITS[..1] };
                let of_unit = |(number, unit): (usize, &f64)| {
                    let (unit, next) = (*unit, units.get(number + 1).copied().unwrap_or(f64::INFINITY));
                    let least = if number == 0 { 0.0 } else { unit };
                    let decades = (range.start - unit.log10()).floor() as i32..=(range.end - unit.log10()).ceil() as i32;
                    let multiples = decades.flat_map(|decade| parts.iter().map(move |part| part * 10f64.powi(decade) * unit));
                    // A number just below the next unit makes room for it.
                    multiples.filter(move |found| *found > least * (1.0 - 1e-9) && *found < next * 0.45).collect::<Vec<f64>>()
                };
                let all = units.iter().enumerate().flat_map(of_unit).map(f64::log10);
                all.filter(|place| (range.start..=range.end).contains(place)).collect()
            }
        }
    }

    /// A number as it is written beside the axis.
    pub(super) fn label(&self, number: f64) -> String {
        // Places are not exact: 0.30000000000000004 is 0.3.
        let rounded = if number == 0.0 { 0.0 } else { (number * 1e9).round() / 1e9 };
        match self.kind {
            Kind::Count if rounded >= 1_000.0 => human::count(rounded.round() as u64),
            Kind::Count if rounded >= 10.0 => format!("{}", (rounded * 100.0).round() / 100.0),
            Kind::Count => format!("{}", (rounded * 1e4).round() / 1e4),
            Kind::Share => format!("{} %", (rounded * 1e4).round() / 1e2),
            Kind::Seconds => {
                let sign = if rounded < 0.0 { "-" } else { "" };
                format!("{sign}{}", human::duration(Seconds::from_micros((rounded.abs() * 1e6).round() as u64)))
            }
        }
    }
}

/// The smallest step of a clock or a calendar that is not below `step`, in seconds; a decimal one up to 20 s.
fn nice_time(step: f64) -> f64 {
    const MINUTE: f64 = 60.0;
    const HOUR: f64 = 60.0 * MINUTE;
    const DAY: f64 = 24.0 * HOUR;
    if step <= 20.0 {
        return nice(step);
    }
    let minutes = [0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0].map(|n| n * MINUTE);
    let hours = [1.0, 2.0, 4.0, 6.0, 12.0].map(|n| n * HOUR);
    minutes.into_iter().chain(hours).find(|nice| *nice >= step).unwrap_or_else(|| nice(step / DAY).max(1.0) * DAY)
}

/// The smallest step of 1, 2 or 5 times a power of ten that is not below `step`.
fn nice(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let found = [1.0, 2.0, 5.0].into_iter().map(|part| part * power).find(|nice| *nice >= step * (1.0 - 1e-9));
    found.unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn axis(kind: Kind, scale: Scale) -> Axis {
        Axis { label: String::new(), kind, scale }
    }

    fn labels(axis: &Axis, numbers: &[f64]) -> Vec<String> {
        let range = axis.range(numbers.iter().copied());
        axis.ticks(&range).into_iter().map(|place| axis.label(axis.number(place))).collect()
    }

    #[test]
    fn ticks_are_numbers_that_people_say() {
        assert_eq!(labels(&axis(Kind::Count, Scale::Linear), &[3.76]), ["0", "1", "2", "3"]);
        assert_eq!(labels(&axis(Kind::Share, Scale::Linear), &[0.869]), ["0 %", "20 %", "40 %", "60 %", "80 %"]);
        assert_eq!(labels(&axis(Kind::Seconds, Scale::Log), &[0.02, 0.4]), ["20 ms", "50 ms", "100 ms", "200 ms"]);
        assert_eq!(labels(&axis(Kind::Seconds, Scale::Log), &[0.001, 20.0]), ["1 ms", "10 ms", "100 ms", "1 s", "10 s"]);
        let long = labels(&axis(Kind::Seconds, Scale::Log), &[0.2, 900.0]);
        assert_eq!(long, ["1 s", "10 s", "1 min", "10 min"]);
        let minutes = labels(&axis(Kind::Seconds, Scale::Log), &[15.0, 700.0]);
        assert_eq!(minutes, ["20 s", "1 min", "2 min", "5 min", "10 min"]);
        assert_eq!(labels(&axis(Kind::Count, Scale::Close), &[95.0, 102.0]), ["96", "98", "100", "102"]);
        assert_eq!(labels(&axis(Kind::Count, Scale::Close), &[7.0]), ["7"]);
        assert_eq!(labels(&axis(Kind::Seconds, Scale::Linear), &[-30.0, 60.0]), ["-20 s", "0 s", "20 s", "40 s", "1 min"]);
        assert_eq!(labels(&axis(Kind::Seconds, Scale::Linear), &[5_000.0]), ["0 s", "15 min", "30 min", "45 min", "1 h", "1 h 15 min"]);
        assert_eq!(labels(&axis(Kind::Count, Scale::Linear), &[]), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
    }

    proptest! {
        #[test]
        fn every_number_lies_within_the_range_of_its_axis(
            numbers in prop::collection::vec(0.0001..1_000.0f64, 1..20),
            scale in prop::sample::select(vec![Scale::Linear, Scale::Close, Scale::Log]),
            kind in prop::sample::select(vec![Kind::Count, Kind::Seconds]),
        ) {
            let axis = axis(kind, scale);
            let range = axis.range(numbers.iter().copied());
            for number in &numbers {
                prop_assert!(range.contains(&axis.place(*number).unwrap()));
            }
            let ticks = axis.ticks(&range);
            prop_assert!(ticks.len() <= 12 && ticks.iter().all(|tick| *tick <= range.end + 1e-6));
        }
    }
}
