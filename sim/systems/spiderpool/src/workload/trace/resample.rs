//! Variations of a trace: arrivals resampled in blocks, and traces with a multiple of the pods.
//!
//! ```text
//!  arrivals of the trace, joined to a ring:  [  a  b |c  | d e f |   ]
//!  blocks of one length from anywhere on it: [d e f] [ a  b] [ f |  ]   one after the other: a resampled trace
//! ```
//! Within a block the gaps between arrivals stay, and so do bursts; each pod keeps its life. As the ring has no end, all arrivals are
//! equally likely, and on average there are as many as in the trace. (D. N. Politis and J. P. Romano, "A circular block-resampling
//! procedure for stationary data", 1992.)
//!
//! Pods that are never deleted are the cluster's permanent load, and are not resampled: they keep their arrival times.

use std::collections::BTreeSet;
use std::time::Duration;

use sim_config::draw::{Concern, Draw};

use super::{Row, TraceRows};

/// The minimum number of blocks of a trace, unless a length is given: with fewer, resampled traces are too similar to the original.
const BLOCKS: u64 = 10;
/// From this many days on, a trace has blocks of one day, so that the course of a day is kept.
const DAYS: u64 = 5;
const DAY: Duration = Duration::from_secs(24 * 3600);

/// The maximum distance of a copy of a pod from the original arrival, in microseconds; at most a hundredth of the time from the first
/// arrival to the last.
const JITTER: u64 = 60_000_000;

/// The arrival statistics of a trace, for the choice of a block length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrivals {
    /// The time from the first arrival to the last.
    pub lasts: Duration,
    /// The number of pods that are deleted, which are resampled.
    pub passing: usize,
    /// The number of pods that are never deleted.
    pub staying: usize,
    /// The life that nine of ten deleted pods do not exceed.
    pub life: Duration,
    /// The number of deleted pods that arrive in the first half of the time.
    pub first_half: usize,
}

impl Arrivals {
    /// The default length of a block: the life that nine of ten pods do not exceed, so that pods that live at the same time come together,
    /// but at most a tenth of the time; a day for a trace of several days.
    pub fn usual_block(&self) -> Duration {
        if self.lasts >= DAY * DAYS as u32 {
            return DAY;
        }
        let whole = |time: Duration| Duration::from_secs(time.as_secs());
        let block = self.life.min(self.lasts / BLOCKS as u32);
        // Whole seconds are easier to read.
        if block.as_secs() > 0 { whole(block) } else { block.max(Duration::from_micros(1)) }
    }
}

impl TraceRows {
    /// The arrival statistics of the trace.
    pub fn arrivals(&self) -> Arrivals {
        let (first, last) = self.window();
        let passing = || self.rows.iter().filter(|row| row.deleted.is_some());
        let mut lives: Vec<u64> =
            passing().map(|row| micros(row.deleted.unwrap_or_default()).saturating_sub(micros(row.created))).collect();
        lives.sort_unstable();
        let nine_of_ten = (lives.len() * 9).div_ceil(10).saturating_sub(1);
        let middle = first + (last - first) / 2;
        Arrivals {
            lasts: Duration::from_micros(last - first),
            passing: lives.len(),
            staying: self.rows.len() - lives.len(),
            life: Duration::from_micros(lives.get(nine_of_ten).copied().unwrap_or_default()),
            first_half: passing().filter(|row| micros(row.created) <= middle).count(),
        }
    }

    /// The first arrival and the last, in microseconds.
    fn window(&self) -> (u64, u64) {
        let times = || self.rows.iter().map(|row| micros(row.created));
        (times().min().unwrap_or_default(), times().max().unwrap_or_default())
    }

    /// A trace whose deleted pods are resampled in blocks of this length; the same `seed` gives the same trace. A longer block is cut to
    /// the time from the first arrival to the last.
    #[must_use]
    pub fn resampled(&self, block: Duration, seed: u64) -> Self {
        let (first, last) = self.window();
        let ring = last - first + 1;
        let block = (block.as_micros() as u64).clamp(1, ring);
        let mut passing: Vec<&Row> = self.rows.iter().filter(|row| row.deleted.is_some()).collect();
        // Rows with the same time stay in the order of the file.
        passing.sort_by_key(|row| micros(row.created));
        let mut draw = Draw::new(seed, Concern::Workload, RESAMPLED);
        let mut rows: Vec<Row> = self.rows.iter().filter(|row| row.deleted.is_none()).cloned().collect();
        let mut begin = 0;
        while begin < ring {
            let length = block.min(ring - begin);
            let from = draw.below(ring);
            // A block that extends past the end of the ring continues at its beginning.
            for turn in [0, ring] {
                let (low, high) = (from.saturating_sub(turn), (from + length).saturating_sub(turn).min(ring));
                let at = |row: &&Row| micros(row.created) - first;
                let begins = passing.partition_point(|row| at(row) < low);
                let taken = passing[begins..].iter().take_while(|row| at(row) < high);
                rows.extend(taken.map(|row| row.moved_to(first + begin + (at(row) + turn - from))));
            }
            begin += length;
        }
        self.with(rows)
    }

    /// A trace with `factor` times as many pods: whole copies of each pod, and of some, evenly spread, one more. The first copy keeps its
    /// arrival; the others come up to a minute before or after it, drawn from `seed`. With a factor below 1 pods are left out, evenly
    /// spread.
    #[must_use]
    pub fn grown(&self, factor: f64, seed: u64) -> Self {
        let (first, last) = self.window();
        let jitter = JITTER.min((last - first) / 100);
        let mut draw = Draw::new(seed, Concern::Workload, GROWN);
        let mut ordered: Vec<&Row> = self.rows.iter().collect();
        ordered.sort_by_key(|row| micros(row.created));
        let mut rows = Vec::new();
        // Rounded to the middle, so that the first pod is not always the one that is left out.
        let until = |number: usize| (number as f64).mul_add(factor, 0.5).floor() as u64;
        for (number, row) in ordered.into_iter().enumerate() {
            for copy in 0..until(number + 1).saturating_sub(until(number)) {
                let at = micros(row.created);
                let at = match copy {
                    0 => at,
                    _ => {
                        let (low, high) = (at.saturating_sub(jitter).max(first), (at + jitter).min(last));
                        low + draw.below(high - low + 1)
                    }
                };
                rows.push(row.moved_to(at));
            }
        }
        self.with(rows)
    }

    /// These rows in the order of their arrivals, each with a unique name: operations on one name run one after the other.
    fn with(&self, mut rows: Vec<Row>) -> Self {
        rows.sort_by_key(|row| micros(row.created));
        let mut names: BTreeSet<String> = BTreeSet::new();
        // Names of the trace stay reserved for the pods that had them.
        let known: BTreeSet<&str> = self.rows.iter().map(|row| &*row.name).collect();
        for row in &mut rows {
            if !names.contains(&row.name) {
                names.insert(row.name.clone());
                continue;
            }
            let free = (2_u64..).map(|number| numbered(&row.name, number)).find(|name| !names.contains(name) && !known.contains(&**name));
            row.name = free.unwrap_or_default();
            names.insert(row.name.clone());
        }
        Self { rows, file: self.file.clone() }
    }
}

/// The sub-streams of a seed for these draws: far from those of scenarios, which count from 0.
const RESAMPLED: u64 = u64::MAX;
const GROWN: u64 = u64::MAX - 1;

/// The maximum length of an object's name.
const NAME_MAX: usize = 253;

/// A name with a number, such as `web-0-2`, cut to the maximum length.
fn numbered(name: &str, number: u64) -> String {
    let ending = format!("-{number}");
    // Names are ASCII.
    let room = NAME_MAX - ending.len();
    format!("{}{ending}", &name[..name.len().min(room)])
}

fn micros(seconds: f64) -> u64 {
    (seconds * 1e6).round() as u64
}

impl Row {
    /// The same pod with another arrival, in microseconds, and the same life.
    fn moved_to(&self, at: u64) -> Self {
        let life = self.deleted.map(|deleted| micros(deleted).saturating_sub(micros(self.created)));
        let seconds = |micros: u64| micros as f64 / 1e6;
        Self { created: seconds(at), deleted: life.map(|life| seconds(at + life)), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A trace of pods with arrivals and lives in microseconds; pods without a life are never deleted.
    fn trace(pods: &[(u64, Option<u64>)]) -> TraceRows {
        let row = |(number, (at, life)): (usize, &(u64, Option<u64>))| Row {
            name: format!("pod-{number}"),
            created: *at as f64 / 1e6,
            deleted: life.map(|life| (at + life) as f64 / 1e6),
            scheduled: number % 3 > 0,
        };
        TraceRows { rows: pods.iter().enumerate().map(row).collect(), file: "t.csv".to_owned() }
    }

    /// The arrival and life of a pod in microseconds, and whether it was scheduled.
    type Pod = (u64, Option<u64>, bool);

    fn pods(rows: &TraceRows) -> Vec<Pod> {
        let pod = |row: &Row| (micros(row.created), row.deleted.map(|deleted| micros(deleted) - micros(row.created)), row.scheduled);
        rows.rows.iter().map(pod).collect()
    }

    fn sorted(mut pods: Vec<Pod>) -> Vec<Pod> {
        pods.sort_unstable();
        pods
    }

    /// The expected resampled trace, microsecond by microsecond: each place of a block has the arrivals at the same distance on the ring.
    fn oracle(all: &[Pod], block: u64, seed: u64) -> Vec<Pod> {
        let first = all.iter().map(|pod| pod.0).min().unwrap();
        let ring = all.iter().map(|pod| pod.0).max().unwrap() - first + 1;
        let mut draw = Draw::new(seed, Concern::Workload, RESAMPLED);
        let mut from = 0;
        let mut found: Vec<Pod> = all.iter().filter(|pod| pod.1.is_none()).copied().collect();
        for place in 0..ring {
            let within = place % block.min(ring);
            if within == 0 {
                from = draw.below(ring);
            }
            let there = first + (from + within) % ring;
            found.extend(all.iter().filter(|pod| pod.1.is_some() && pod.0 == there).map(|pod| (first + place, pod.1, pod.2)));
        }
        sorted(found)
    }

    fn some_pods() -> impl Strategy<Value = Vec<(u64, Option<u64>)>> {
        prop::collection::vec((0_u64..300, prop::option::weighted(0.8, 0_u64..500)), 1..40)
    }

    proptest! {
        /// Walks along the ring: each pod comes from the trace with its life, blocks keep their gaps, and pods without an end stay.
        #[test]
        fn a_resampled_trace_is_what_blocks_of_the_ring_hold(given in some_pods(), block in 1_u64..400, seed in any::<u64>()) {
            let rows = trace(&given);
            let drawn = rows.resampled(Duration::from_micros(block), seed);
            prop_assert_eq!(sorted(pods(&drawn)), oracle(&pods(&rows), block, seed));
            prop_assert_eq!(&drawn, &rows.resampled(Duration::from_micros(block), seed), "one seed, one trace");
            let names: BTreeSet<&str> = drawn.rows.iter().map(|row| &*row.name).collect();
            prop_assert_eq!(names.len(), drawn.rows.len(), "each has a name of its own");
        }

        /// Over all places where a block can begin, all arrivals come equally often: the mean is that of the trace, whatever is left over
        /// for the last block.
        #[test]
        fn as_many_pods_come_as_in_the_trace_on_average(given in some_pods(), block in 20_u64..400) {
            let rows = trace(&given);
            let many = 300;
            let counts: Vec<f64> = (0..many).map(|seed| rows.resampled(Duration::from_micros(block), seed).rows.len() as f64).collect();
            let mean = counts.iter().sum::<f64>() / f64::from(many as u32);
            let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / f64::from(many as u32);
            // Five standard errors, which are exceeded once in two million runs.
            let most = 5.0 * (variance / f64::from(many as u32)).sqrt() + 1e-9;
            prop_assert!((mean - given.len() as f64).abs() <= most, "{mean} instead of {}, give or take {most}", given.len());
        }

        #[test]
        fn a_grown_trace_has_as_many_times_the_pods_near_where_they_were(
            given in some_pods(), factor in 0.05_f64..5.0, seed in any::<u64>(),
        ) {
            let rows = trace(&given);
            let grown = rows.grown(factor, seed);
            let expected = factor * given.len() as f64;
            prop_assert!((grown.rows.len() as f64 - expected).abs() <= 0.5 + 1e-9, "{} of {expected}", grown.rows.len());
            let (before, after) = (pods(&rows), pods(&grown));
            let (first, last) = rows.window();
            for pod in &after {
                let near = |other: &&Pod| other.0.abs_diff(pod.0) <= (last - first) / 100 && (other.1, other.2) == (pod.1, pod.2);
                prop_assert!(before.iter().any(|other| near(&other)) && (first..=last).contains(&pod.0), "{pod:?}");
            }
            if factor >= 1.0 {
                let mut left = after;
                for pod in before {
                    let at = left.iter().position(|other| *other == pod);
                    prop_assert!(at.is_some(), "the first copy of {pod:?} comes when it came");
                    left.swap_remove(at.unwrap());
                }
            }
        }
    }

    #[test]
    fn as_many_pods_as_there_were_are_the_trace() {
        let rows = trace(&[(5, Some(10)), (7, None), (90, Some(1))]);
        assert_eq!(rows.grown(1.0, 3), rows);
    }

    #[test]
    fn names_that_are_taken_are_numbered_and_stay_short() {
        let long = "a".repeat(NAME_MAX);
        let mut rows = trace(&[(0, Some(1)), (1, Some(1)), (2, Some(1))]);
        let named = ["web", "web-2", &long];
        rows.rows.iter_mut().zip(named).for_each(|(row, name)| name.clone_into(&mut row.name));
        let mut names: Vec<String> = rows.grown(3.0, 0).rows.into_iter().map(|row| row.name).collect();
        names.sort_by_key(String::len);
        assert_eq!(names[..6], ["web", "web-3", "web-4", "web-2", "web-2-2", "web-2-3"]);
        assert!(names[6..].iter().all(|name| name.len() == NAME_MAX) && names[7].ends_with("a-2"), "{names:?}");
    }

    #[test]
    fn a_usual_block_is_as_long_as_pods_live_a_tenth_of_the_time_or_a_day() {
        let arrivals = |lasts, life| Arrivals {
            lasts: Duration::from_secs(lasts),
            passing: 10,
            staying: 0,
            life: Duration::from_secs(life),
            first_half: 5,
        };
        assert_eq!(arrivals(3_600, 90).usual_block(), Duration::from_secs(90));
        assert_eq!(arrivals(3_605, 1_295).usual_block(), Duration::from_secs(360));
        assert_eq!(arrivals(149 * 86_400, 6_574).usual_block(), DAY);
        assert_eq!(arrivals(0, 0).usual_block(), Duration::from_micros(1));
        let rows = trace(&[(0, Some(50)), (10, None), (40, Some(70)), (100, Some(20))]);
        let expected =
            Arrivals { lasts: Duration::from_micros(100), passing: 3, staying: 1, life: Duration::from_micros(70), first_half: 2 };
        assert_eq!(rows.arrivals(), expected);
    }
}
