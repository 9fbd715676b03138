//! Alternating time measurements, and the table of results.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The amount of work to spend on a figure.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Effort {
    /// Enough work for a meaningful figure.
    Full,
    /// Enough work to show that the benchmark runs.
    Smoke,
}

impl Effort {
    pub(crate) fn rounds(self, full: usize) -> usize {
        if self == Effort::Full { full } else { 1 }
    }

    pub(crate) fn scale(self, full: u64) -> u64 {
        if self == Effort::Full { full } else { (full / 50).max(2) }
    }
}

/// The CPU time that `work` uses: other work on the machine hardly matters. The clock is read outside the simulation, because inside it
/// would be the simulated clock.
pub(crate) fn time(work: &mut dyn FnMut()) -> Duration {
    let used = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default();
    let start = used();
    work();
    used().saturating_sub(start)
}

/// The times of each kind of work, measured once per round, so that disturbances of the machine affect all kinds alike.
pub(crate) fn alternate<const N: usize>(rounds: usize, mut works: [&mut dyn FnMut(); N]) -> [Vec<Duration>; N] {
    for work in &mut works {
        work();
    }
    let mut times = std::array::from_fn(|_| Vec::with_capacity(rounds));
    for _ in 0..rounds {
        for (work, times) in works.iter_mut().zip(&mut times) {
            times.push(time(work));
        }
    }
    times
}

/// The nanoseconds per item of each measurement of `count` items.
pub(crate) fn per(count: u64, times: &[Duration]) -> Vec<f64> {
    times.iter().map(|time| time.as_nanos() as f64 / count as f64).collect()
}

/// The memory that the process holds, in bytes; `None` where the system does not report it.
pub(crate) fn resident_bytes() -> Option<u64> {
    let pages: u64 = std::fs::read_to_string("/proc/self/statm").ok()?.split(' ').nth(1)?.parse().ok()?;
    Some(pages * 4_096)
}

/// The figure of an undisturbed round: a tenth of the rounds were faster. Rounds are short, so that some are undisturbed even on a machine
/// with other work to do, and a disturbance only ever adds time.
pub(crate) fn undisturbed(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 10]
}

/// Formats this many nanoseconds in a suitable unit.
fn nanos(value: f64) -> String {
    if value < 10_000.0 { format!("{value:.0} ns") } else { format!("{:.1} us", value / 1e3) }
}

/// A table whose rows are: subject, floor, product, ratio, target, verdict.
pub(crate) struct Table {
    rows: Vec<[String; 6]>,
}

impl Table {
    pub(crate) fn new() -> Self {
        let head = ["what", "floor", "product", "ratio", "target", ""];
        Self { rows: vec![head.map(str::to_owned)] }
    }

    fn row(&mut self, what: &str, floor: String, product: String, ratio: String, target: Option<(String, bool)>) {
        let (target, verdict) = target.map_or((String::new(), ""), |(target, met)| (target, if met { "met" } else { "MISSED" }));
        self.rows.push([what.to_owned(), floor, product, ratio, target, verdict.to_owned()]);
    }

    /// Adds a figure without floor and target.
    pub(crate) fn note(&mut self, what: &str, times: Vec<f64>) {
        self.row(what, String::new(), nanos(undisturbed(&times)), String::new(), None);
    }

    /// Adds the product's figure and its floor, both from undisturbed rounds; the target is met if their ratio is at most `target`.
    pub(crate) fn ratio(&mut self, what: &str, floor: &[f64], product: &[f64], target: Option<f64>) {
        let (floor, product) = (undisturbed(floor), undisturbed(product));
        let ratio = product / floor;
        let target = target.map(|target| (format!("<= {target:.2}"), ratio <= target));
        self.row(what, nanos(floor), nanos(product), format!("{ratio:.2}"), target);
    }

    /// Adds a time with an absolute target.
    pub(crate) fn absolute(&mut self, what: &str, times: &[f64], target: Option<Duration>) {
        let value = undisturbed(times);
        let target = target.map(|target| (format!("<= {}", nanos(target.as_nanos() as f64)), value <= target.as_nanos() as f64));
        self.row(what, String::new(), nanos(value), String::new(), target);
    }

    /// Adds a factor that should be at least `target`.
    pub(crate) fn factor(&mut self, what: &str, value: f64, target: f64) {
        self.row(what, String::new(), String::new(), format!("{value:.2}"), Some((format!(">= {target:.2}"), value >= target)));
    }

    /// Adds the bytes after few and after many repetitions; they should differ by at most `target`.
    pub(crate) fn growth(&mut self, what: &str, few: (u64, u64), many: (u64, u64), target: f64) {
        let megabytes = |(seeds, bytes): (u64, u64)| format!("{:.1} MB after {seeds}", bytes as f64 / 1e6);
        let ratio = many.1 as f64 / few.1 as f64;
        let limit = 1.0 + target;
        self.row(what, megabytes(few), megabytes(many), format!("{ratio:.3}"), Some((format!("<= {limit:.2}"), ratio <= limit)));
    }

    /// Prints the table in columns.
    pub(crate) fn print(&self) {
        let width = |column: usize| self.rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let widths: [usize; 6] = std::array::from_fn(width);
        println!();
        for [what, floor, product, ratio, target, verdict] in &self.rows {
            let [a, b, c, d, e, _] = widths;
            println!("{what:<a$}  {floor:>b$}  {product:>c$}  {ratio:>d$}  {target:>e$}  {verdict}");
        }
    }
}
