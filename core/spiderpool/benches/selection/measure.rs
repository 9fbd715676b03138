//! Measurement of times, and the table of results.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The amount of work to spend on a figure.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Effort {
    /// Enough for a figure.
    Full,
    /// Enough to see that it runs.
    Smoke,
}

/// The processor time of `work`, in nanoseconds: that of an undisturbed round of some milliseconds, the fastest tenth being left out.
/// Rounds are short, so that some are undisturbed even on a busy machine.
pub(crate) fn time(effort: Effort, work: &mut dyn FnMut() -> usize) -> f64 {
    const ROUNDS: usize = 41;
    let mut round = |count: u32| {
        let used = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default();
        let start = used();
        for _ in 0..count {
            std::hint::black_box(work());
        }
        used().saturating_sub(start)
    };
    let once = round(1);
    if effort == Effort::Smoke {
        return once.as_nanos() as f64;
    }
    let count = (Duration::from_millis(2).as_nanos() / once.as_nanos().max(1)).clamp(1, 10_000) as u32;
    let mut times: Vec<f64> = (0..ROUNDS).map(|_| round(count).as_nanos() as f64 / f64::from(count)).collect();
    times.sort_by(f64::total_cmp);
    times[ROUNDS / 10]
}

/// A figure in nanoseconds, formatted in a suitable unit.
pub(crate) fn nanos(value: f64) -> String {
    if value < 10_000.0 { format!("{value:.0} ns") } else { format!("{:.1} us", value / 1e3) }
}

/// Prints rows in columns: subject, figure, target, verdict.
pub(crate) fn print(rows: &[[String; 4]]) {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    for [what, figure, target, verdict] in rows {
        println!("{what:<0$}  {figure:>1$}  {target:>2$}  {verdict}", width(0), width(1), width(2));
    }
}
