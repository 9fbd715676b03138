//! Safety and delay of reclaim: the margin between the last use of an address and its removal, and the time for which it was left unused.
//! Sums over runs, and one record for each reclaimed address (G §10).
//!
//! ```text
//!        the sandbox is silent            the record goes
//!   ─────────────┼───────────────────────────────┼─────►      margin: positive
//!   ─────────────┼───────────────────────────────┼─────►      margin: negative, somebody answered on an address of nobody
//!          the record goes            the sandbox is silent
//! ```

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Seconds;
use crate::spread::{Margin, Spread};

/// The way in which an address was reclaimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReclaimPath {
    /// A pod was traced, and its deadline passed.
    Trace,
    /// A scan found the record.
    Scan,
    /// A scan found an endpoint to which no record leads, or that was marked before.
    Sweep,
}

impl ReclaimPath {
    /// All ways, in the order of tables.
    pub const ALL: [ReclaimPath; 3] = [ReclaimPath::Trace, ReclaimPath::Scan, ReclaimPath::Sweep];

    /// The name of the way in tables.
    pub fn name(self) -> &'static str {
        match self {
            ReclaimPath::Trace => "trace",
            ReclaimPath::Scan => "scan",
            ReclaimPath::Sweep => "sweep",
        }
    }
}

/// The event that ended a pod's entitlement to its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RightEnd {
    /// Its object was gone.
    Gone,
    /// It had ended, and its object said so.
    Ended,
    /// Its grace period and the additional delay were over.
    GraceOver,
}

/// One address that was reclaimed.
#[derive(Clone, Debug, PartialEq)]
pub struct Reclaimed {
    /// The time at which its record was removed, since the beginning of the run.
    pub at: Seconds,
    /// The way in which reclaim found the record.
    pub path: ReclaimPath,
    /// The row of the decision table: `S-6`.
    pub row: Cow<'static, str>,
    /// The name of the SpiderIPPool that held the record.
    pub pool: Arc<str>,
    /// The address, without the length of its prefix.
    pub address: IpAddr,
    /// The name under which it was recorded: `NAMESPACE/NAME`, of the pod or of its VM.
    pub pod: Arc<str>,
    /// The time from the end of the last sandbox of the recorded pod that answered on the address to the removal. A sandbox that still
    /// answered at the end of the run counts as ending there. Unset = none ever answered.
    pub margin: Option<Margin>,
    /// Whether such a sandbox still answered: the margin is negative then.
    pub answered: bool,
    /// The time from the end of the pod's entitlement (its object was gone, it had ended, or its grace was over) to the removal. Negative =
    /// the entitlement ended later. Unset = the run did not see the pod, or it lived on.
    pub delay: Option<Margin>,
    /// The event that ended the entitlement. Unset as `delay` is.
    pub end: Option<RightEnd>,
    /// The time after that end within which the bounds of G §10.2 permit the record, while everything is healthy. Unset as `delay` is.
    pub bound: Option<Seconds>,
}

/// The addresses that one run reclaimed, by time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReclaimRun {
    /// Each address whose record was removed.
    pub records: Vec<Reclaimed>,
    /// The effort of finding them.
    pub effort: Effort,
}

/// The effort of the controller's replicas to find addresses to reclaim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Effort {
    /// The number of scans of all records that were begun.
    pub scans: u64,
    /// The number of these by replicas that were not the leader.
    pub standby_scans: u64,
    /// The number of reads of StatefulSets, VMs and their instances, to ask whether they keep an address.
    pub owner_reads: u64,
}

impl Effort {
    fn join(&mut self, other: &Self) {
        self.scans = self.scans.saturating_add(other.scans);
        self.standby_scans = self.standby_scans.saturating_add(other.standby_scans);
        self.owner_reads = self.owner_reads.saturating_add(other.owner_reads);
    }
}

impl ReclaimRun {
    /// The number of addresses on which a sandbox still answered when their records were removed.
    pub fn negative(&self) -> u64 {
        self.records.iter().filter(|record| record.answered).count() as u64
    }

    /// The least margin; `None` if there is none.
    pub fn least_margin(&self) -> Option<Margin> {
        self.records.iter().filter_map(|record| record.margin).min()
    }

    /// The longest delay; `None` if there is none.
    pub fn longest_delay(&self) -> Option<Margin> {
        self.records.iter().filter_map(|record| record.delay).max()
    }
}

/// The addresses that were reclaimed in one way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PathFigures {
    /// The number of addresses that were reclaimed in this way.
    pub records: u64,
    /// The number of these on which a sandbox still answered when their records were removed.
    pub negative: u64,
    /// The [`Reclaimed::margin`] of those that have one.
    pub margin: Spread,
    /// The [`Reclaimed::delay`] of those that have one.
    pub delay: Spread,
}

impl PathFigures {
    fn add(&mut self, record: &Reclaimed) {
        self.records += 1;
        self.negative += u64::from(record.answered);
        record.margin.into_iter().for_each(|margin| self.margin.add(margin));
        record.delay.into_iter().for_each(|delay| self.delay.add(delay));
    }

    fn join(&mut self, other: &Self) {
        self.records = self.records.saturating_add(other.records);
        self.negative = self.negative.saturating_add(other.negative);
        self.margin.join(&other.margin);
        self.delay.join(&other.delay);
    }
}

/// The addresses that the runs of a scenario reclaimed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReclaimFigures {
    /// The number of runs summed up here.
    pub runs: u64,
    /// The number of runs in which a sandbox still answered on an address when its record was removed.
    pub runs_negative: u64,
    /// Figures of pods that were traced until their deadline.
    pub trace: PathFigures,
    /// Figures of records that scans found.
    pub scan: PathFigures,
    /// Figures of addresses reclaimed with endpoints that scans found.
    pub sweep: PathFigures,
    /// The effort of finding them.
    pub effort: Effort,
}

impl ReclaimFigures {
    /// Adds the addresses that a run reclaimed, each to its way.
    pub fn add(&mut self, run: &ReclaimRun) {
        self.runs += 1;
        self.runs_negative += u64::from(run.negative() > 0);
        self.effort.join(&run.effort);
        for record in &run.records {
            let path = match record.path {
                ReclaimPath::Trace => &mut self.trace,
                ReclaimPath::Scan => &mut self.scan,
                ReclaimPath::Sweep => &mut self.sweep,
            };
            path.add(record);
        }
    }

    /// Adds the runs of another part.
    pub fn join(&mut self, other: &Self) {
        self.runs = self.runs.saturating_add(other.runs);
        self.runs_negative = self.runs_negative.saturating_add(other.runs_negative);
        self.trace.join(&other.trace);
        self.scan.join(&other.scan);
        self.sweep.join(&other.sweep);
        self.effort.join(&other.effort);
    }

    /// The figures of all ways together.
    pub fn total(&self) -> PathFigures {
        let mut total = self.trace.clone();
        total.join(&self.scan);
        total.join(&self.sweep);
        total
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A run of three addresses, one for each way, whose numbers follow from `number`. A sandbox still answered on the one that a scan
    /// found.
    pub(crate) fn run(number: u64) -> ReclaimRun {
        let number = number as i64;
        let record = |path, row, margin: Option<i64>, delay: Option<i64>| Reclaimed {
            at: Seconds::from_micros(90_000_000),
            path,
            row: Cow::Borrowed(row),
            pool: "pool-0".into(),
            address: "10.0.0.1".parse().unwrap(),
            pod: "default/web-0".into(),
            margin: margin.map(Margin::from_micros),
            answered: margin.is_some_and(|margin| margin < 0),
            delay: delay.map(Margin::from_micros),
            end: delay.map(|_| RightEnd::Gone),
            bound: delay.map(|_| Seconds::from_micros(15_000_000)),
        };
        let records = vec![
            record(ReclaimPath::Trace, "TD-3", Some(number * 1_000_000), Some(500_000)),
            record(ReclaimPath::Scan, "G-over", Some(-1_500_000 - number), Some(0)),
            record(ReclaimPath::Sweep, "C8", None, None),
        ];
        let number = number.unsigned_abs();
        ReclaimRun { records, effort: Effort { scans: number + 2, standby_scans: number, owner_reads: 3 * number } }
    }

    #[test]
    fn parts_give_the_whole_and_read_back() {
        let figures = |numbers: std::ops::Range<u64>| {
            let mut figures = ReclaimFigures::default();
            numbers.for_each(|number| figures.add(&run(number)));
            figures
        };
        let mut joined = figures(5..9);
        joined.join(&figures(0..5));
        assert_eq!(joined, figures(0..9));
        let text = serde_json::to_string(&joined).unwrap();
        assert_eq!(serde_json::from_str::<ReclaimFigures>(&text).unwrap(), joined);
    }

    #[test]
    fn the_json_tells_each_way_by_itself() {
        let mut figures = ReclaimFigures::default();
        figures.add(&run(3));
        figures.add(&ReclaimRun::default());
        let value = serde_json::to_value(&figures).unwrap();
        assert_eq!((&value["runs"], &value["runs_negative"]), (&2.into(), &1.into()));
        let numbers =
            |path: &str, which: &str| ["count", "min_s", "p50_s", "p99_s", "max_s"].map(|name| value[path][which][name].as_f64().unwrap());
        assert_eq!(numbers("trace", "margin"), [1.0, 3.0, 3.0, 3.0, 3.0]);
        assert_eq!(numbers("scan", "margin"), [1.0, -1.500_003, -1.500_003, -1.500_003, -1.500_003]);
        assert_eq!(numbers("scan", "delay"), [1.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!((&value["sweep"]["margin"]["count"], &value["sweep"]["margin"]["min_s"]), (&0.into(), &serde_json::Value::Null));
        assert_eq!([&value["trace"]["negative"], &value["scan"]["negative"]], [&0, &1]);
        assert_eq!(value["effort"], serde_json::json!({"scans": 5, "standby_scans": 3, "owner_reads": 9}));
        assert_eq!((figures.total().records, figures.total().negative), (3, 1));
    }
}
