//! Numbers and durations in a form for people.

use crate::Seconds;

/// A number with thousands separators: `48,210`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with its noun: `1 seed`, `2,000 seeds`.
pub fn plural(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// A rate: whole from ten on, with one decimal below.
pub fn rate(per_second: f64) -> String {
    if per_second >= 9.95 { count(per_second.round() as u64) } else { format!("{per_second:.1}") }
}

/// A duration in the unit that people would use: `850 µs`, `12.3 ms`, `41.2 s`, `6 min 40 s`, `2 h 13 min`, `3 d 4 h`.
pub fn duration(time: Seconds) -> String {
    const SECOND: u64 = 1_000_000;
    const MINUTE: u64 = 60 * SECOND;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    let micros = time.as_micros();
    // Rounding first keeps `59.96 s` from being written as `60.0 s`.
    let rounded = |unit: u64| micros.saturating_add(unit / 2) / unit;
    let decimal = |unit: u64, name: &str| {
        let tenths = rounded(unit / 10);
        if tenths.is_multiple_of(10) { format!("{} {name}", tenths / 10) } else { format!("{}.{} {name}", tenths / 10, tenths % 10) }
    };
    let pair = |small: u64, per_large: u64, large_name: &str, small_name: &str| {
        let total = rounded(small);
        let (large, rest) = (total / per_large, total % per_large);
        if rest == 0 { format!("{} {large_name}", count(large)) } else { format!("{} {large_name} {rest} {small_name}", count(large)) }
    };
    if micros == 0 {
        "0 s".to_owned()
    } else if micros < 1_000 {
        format!("{micros} µs")
    } else if rounded(100) < 10_000 {
        decimal(1_000, "ms")
    } else if rounded(SECOND / 10) < 600 {
        decimal(SECOND, "s")
    } else if rounded(SECOND) < 3_600 {
        pair(SECOND, 60, "min", "s")
    } else if rounded(MINUTE) < 24 * 60 {
        pair(MINUTE, 60, "h", "min")
    } else {
        debug_assert!(rounded(HOUR) >= DAY / HOUR);
        pair(HOUR, 24, "d", "h")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_thousands_separators() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (48_210, "48,210"), (u64::MAX, "18,446,744,073,709,551,615")] {
            assert_eq!(count(number), text);
        }
    }

    #[test]
    fn one_is_singular() {
        assert_eq!(plural(0, "seed", "seeds"), "0 seeds");
        assert_eq!(plural(1, "seed", "seeds"), "1 seed");
        assert_eq!(plural(2_000, "seed", "seeds"), "2,000 seeds");
    }

    #[test]
    fn rates_are_as_exact_as_anybody_needs() {
        for (per_second, text) in [(0.04, "0.0"), (0.44, "0.4"), (9.94, "9.9"), (9.96, "10"), (312.4, "312"), (12_345.6, "12,346")] {
            assert_eq!(rate(per_second), text);
        }
    }

    #[test]
    fn durations_are_in_the_unit_a_person_would_say() {
        for (micros, text) in [
            (0, "0 s"),
            (850, "850 µs"),
            (12_345, "12.3 ms"),
            (999_949, "999.9 ms"),
            (999_950, "1 s"),
            (41_207_000, "41.2 s"),
            (59_949_999, "59.9 s"),
            (59_950_000, "1 min"),
            (400_000_000, "6 min 40 s"),
            (3_599_499_999, "59 min 59 s"),
            (3_599_500_000, "1 h"),
            (7_980_000_000, "2 h 13 min"),
            (86_369_999_999, "23 h 59 min"),
            (86_370_000_000, "1 d"),
            (273_600_000_000, "3 d 4 h"),
        ] {
            assert_eq!(duration(Seconds::from_micros(micros)), text, "{micros} µs");
        }
    }
}
