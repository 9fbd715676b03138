//! Figures that depend on the machine: real time and rates. Documents show them as measured; a comparison masks them on both sides.

use std::sync::LazyLock;

use regex::Regex;

/// A duration as the program prints it.
const TIME: &str = r"(?:\d[\d,]*(?:\.\d+)? (?:µs|ms|s|min|h|d)\b ?)+";
/// A number in the form of rates: commas between thousands, optionally a fraction.
const RATE: &str = r"\d[\d,]*(?:\.\d+)?";

static RULES: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let rules = [
        // The column `seeds/s` of `run`, before the digest.
        (format!(r"(?m)  {RATE}(  [0-9a-f]{{8}}(?:  .*)?)$"), "  #$1"),
        // `seeds/s` and `time` of `gate`.
        (format!(r"(?m)^(.{{6,9}}\S+ +[\d,]+ +[\d,]+) +{RATE} +{TIME}"), "$1  #  # "),
        // The last line of `run`, `gate` and `selftest`.
        (format!(r"(?m)^((?:All|Violated|Not|Vacuous|Passed|Failed|Nothing).*) in {TIME}"), "$1 in # "),
        (format!(r"\({RATE} seeds/s\)"), "(# seeds/s)"),
        // A column that is as wide as its widest figure.
        ("(?m)  +".to_owned(), "  "),
        ("(?m) +$".to_owned(), ""),
        // `...` may be indented like the lines around it.
        (r"(?m)^ *\.\.\.$".to_owned(), "..."),
    ];
    rules.map(|(rule, with)| (Regex::new(&rule).unwrap(), with)).to_vec()
});

/// A text with its machine-dependent figures masked.
pub(crate) fn masked(text: &str) -> String {
    let masked = RULES.iter().fold(text.to_owned(), |text, (rule, with)| rule.replace_all(&text, *with).into_owned());
    format!("{}\n", masked.trim_end())
}

#[test]
fn times_and_rates_are_left_out_and_nothing_else() {
    let pairs = [
        (
            "ok  byom-two     200     1 d 16 h    22,100        420    2,253  9215e5d7",
            "ok  byom-two     200     1 d 16 h    22,100        420      553  9215e5d7",
        ),
        (
            "ok  reclaim       50  16 h 40 min    15,339          1    541  06626c8c  50 excused",
            "ok  reclaim       50  16 h 40 min    15,339          1     41  06626c8c  50 excused",
        ),
        (
            "All held: 1 scenario, 50 seeds, 33 min 20 s simulated in 2.1 ms.",
            "All held: 1 scenario, 50 seeds, 33 min 20 s simulated in 1 min 2 s.",
        ),
        ("ok  regressions     17     17      293    58 ms  17 held", "ok  regressions     17     17      29  1 min 58 s  17 held"),
        (
            "Passed: 783 cases, 21,166 seeds in 1 min 1 s (345 seeds/s) of 5 min.",
            "Passed: 783 cases, 21,166 seeds in 2 s (5 seeds/s) of 5 min.",
        ),
    ];
    for (one, other) in pairs {
        assert_eq!(masked(one), masked(other));
    }
    for (one, other) in [
        (pairs[0].0, "ok  byom-two     200     1 d 16 h    22,100        421    2,253  9215e5d7"),
        (pairs[0].0, "ok  byom-two     200     1 d 16 h    22,100        420    2,253  9215e5d8"),
        (pairs[2].0, "All held: 1 scenario, 50 seeds, 33 min 21 s simulated in 2.1 ms."),
        (pairs[3].0, "ok  regressions     17     18      293    58 ms  17 held"),
        ("shrunk to 4 operations, 59 ms in 70 runs", "shrunk to 4 operations, 58 ms in 70 runs"),
    ] {
        assert_ne!(masked(one), masked(other));
    }
}
