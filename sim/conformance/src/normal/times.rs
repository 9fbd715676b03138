//! Times: those that a case sends keep their text, all others look the same.

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use regex::Regex;

/// A time as in RFC 3339.
pub(super) static TIME: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)").expect("a constant"));

/// The layout of times in Go.
const LAYOUT: &str = "2006-01-02T15:04:05";

/// The times of one case.
pub(super) struct Times {
    /// The times that the case sends, to the second.
    own: BTreeSet<String>,
}

impl Times {
    pub(super) fn new(source: &str) -> Self {
        Self { own: TIME.find_iter(source).map(|found| to_the_second(found.as_str()).to_owned()).collect() }
    }

    /// The form of a time: whether it has a zone, and the number of decimals of its seconds.
    pub(super) fn form(&self, text: &str) -> String {
        let second = to_the_second(text);
        if self.own.contains(second) || second == LAYOUT {
            return text.to_owned();
        }
        let digits = text.split_once('.').map_or(0, |(_, rest)| rest.chars().take_while(char::is_ascii_digit).count());
        let digits = if digits > 0 { format!(".{digits}") } else { String::new() };
        let zone = if text.ends_with('Z') { "" } else { " with zone" };
        format!("<time{digits}{zone}>")
    }

    /// The name of a deletionTimestamp, in tens of seconds after the creation; the duration of the case so far makes no difference if it
    /// fits the grace period. `None` if the case sent it, or one of the two is not a time.
    pub(super) fn deadline(&self, text: &str, created: &str, grace: i64, elapsed: Duration) -> Option<String> {
        if self.own.contains(to_the_second(text)) {
            return None;
        }
        let mut after = seconds(text)? - seconds(created)?;
        // Both are cut to seconds, and may come from two clocks.
        if after - grace >= -1 && (after - grace) as f64 <= elapsed.as_secs_f64() + 2.0 {
            after = grace;
        }
        let tens = (after as f64 / 10.0).round_ties_even() as i64 * 10;
        let form = self.form(text);
        Some(match form.strip_suffix('>') {
            Some(open) if tens != 0 => format!("{open}{tens:+}>"),
            _ => form,
        })
    }
}

/// Whether a cell of a table is an age, such as `5m10s`.
pub(super) fn is_age(text: &str) -> bool {
    static AGE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^(\d+[smhd])+$").expect("a constant"));
    AGE.is_match(text)
}

fn to_the_second(text: &str) -> &str {
    text.char_indices().nth(LAYOUT.len()).map_or(text, |(end, _)| &text[..end])
}

/// The seconds since a fixed day, of a time that begins as in RFC 3339.
fn seconds(text: &str) -> Option<i64> {
    static PARTS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})").expect("a constant"));
    let (_, parts) = PARTS.captures(text)?.extract::<6>();
    let [year, month, day, hour, minute, second] = parts.map(|part| part.parse::<i64>().unwrap_or_default());
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_of_month = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if !(1..=12).contains(&month) || !(1..=days_of_month).contains(&day) || hour > 23 || minute > 59 || second > 61 {
        return None;
    }
    // The year begins in March: its last month has the leap day.
    let (years, months) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * years + years.div_euclid(4) - years.div_euclid(100) + years.div_euclid(400) + (153 * months + 2) / 5 + day - 1;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_counted_across_months_and_years() {
        let apart = |one: &str, other: &str| Some(seconds(other)? - seconds(one)?);
        assert_eq!(apart("2024-02-28T23:59:59Z", "2024-03-01T00:00:00Z"), Some(86_401));
        assert_eq!(apart("2023-02-28T23:59:59.5Z", "2023-03-01T00:00:00Z"), Some(1));
        assert_eq!(apart("1999-12-31T00:00:00Z", "2001-01-01T00:00:00Z"), Some(367 * 86_400));
        for wrong in ["2023-02-29T00:00:00Z", "2023-13-01T00:00:00Z", "2023-01-01T24:00:00Z", "2023-1-01T00:00:00Z", ""] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
