//! Results of sweeps, replays, listings and checks as records, and pure functions on them.
//!
//! The simulator fills the records in; everything a person or another program sees of a result is made from them. Nothing here runs a
//! simulation, reads a clock or touches the disk.
//!
//! | module | holds |
//! |---|---|
//! | [`run`] | one [`RunReport`] per `run`, one [`ScenarioResult`] per scenario in it, filled seed by seed |
//! | [`figure`] | curves with their intervals, as SVG and PNG |
//! | [`finding`] | the findings of a run: violations, claims that were seen, problems |
//! | [`Finding`] | violations grouped by cause |
//! | [`replay`] | one [`ReplayReport`] per `replay`: violations, remarks, the event at which two runs diverge |
//! | [`shrink`] | one [`ShrinkReport`] per `shrink`: the smaller plan, and what the failure needs of it |
//! | [`listing`] | the results of `list` and `check` |
//! | [`explain`] | one [`ExplainReport`] per `explain`: tier, candidates, reasons, order, address |
//! | [`explain_reclaim`] | one [`ExplainReclaimReport`] per `explain --reclaim`: the action of reclaim on each address |
//! | [`mod@merge`] | shards of one sweep merged into the report that one machine would have given |
//! | [`history`] | one run as data: operations, requests, faults, events, verdicts |
//! | [`mod@perfetto`] | the same in the Trace Event Format of Chrome |
//! | [`jepsen`] | its operations as a history for external checkers |
//! | [`provenance`] | the origin of a plan |
//! | [`timeline`] | one run as a picture, and the HTML page that shows it |
//! | [`gate`] | one [`GateReport`] per `gate`, and its forms for CI systems: JUnit, Markdown, annotations |
//! | [`shards`] | the parts of a whole that a result covers |
//! | [`command`] | the command that reproduces a failure |
//! | [`verdict`] | the verdict on one scenario |
//! | [`exit`] | the exit codes, and their precedence when several apply |
//! | [`page`] | the HTML file of a report |
//! | [`pool`] | the effects of the instances of a BYOM pool on each other |
//! | [`addresses`] | the addresses that a run of Spiderpool held, by the state of their pods |
//! | [`reclaim`] | the times of reclaim's releases relative to the ends of sandboxes and of entitlements |
//! | [`calibrate`] | `report calibrate`: latencies of a real server by load, and the settings that fit them |
//! | [`capacity`] | `report capacity`: objectives, the search for the largest number that meets them |
//! | [`conflicts`] | `report conflicts`: points, tables, sentences, figures |
//! | [`leaks`] | `report reclaim`: times and margins of each way, their tables, sentences, figures |
//! | [`mod@reference`] | citations of the behavioural reference, and links to them |
//! | [`rows`] | tables in CSV: one row for each run, call or reclaimed address |
//! | [`demand`] | `report capacity` of pods that come and go: the smallest pool, head-room over time |
//! | [`against`] | changes since an earlier report of the same kind |
//! | [`distribution`] | durations as histograms that can be joined |
//! | [`spread`] | the same for signed durations |
//! | [`metric`] | numbers of the metrics of a system over seeds |
//! | [`metrics`] | `report metrics`: their distributions over the seeds of each point |
//! | [`tables`] | every table that reports write, and the meanings of its columns |
//! | [`column`] | columns of tables: names, units, meanings and cells |
//! | [`digest`] | 128-bit digests and the sum that shards can merge |
//! | [`schema`] | names of the JSON formats |
//! | [`statistics`] | estimates from runs, with their intervals |
//! | [`seconds`] | durations: whole microseconds in memory, seconds in JSON |
//! | [`seeds`] | ranges of seeds, and how shards divide them |
//! | [`printable`] | external text made safe to show |
//! | [`human`] | numbers and durations in a form for people |
//!
//! JSON written by a later version may hold more fields. Readers skip fields that they do not know, except those that join results, which
//! would lose them. Fields added after the first version are optional when read.
//!
//! # Examples
//!
//! Two machines run a part each of a sweep. Their results, read from their output and merged, are those of one machine:
//!
//! ```
//! use std::ops::Range;
//!
//! use ipam_reports::finding::{Kind, Violation};
//! use ipam_reports::{RunReport, ScenarioResult, Seconds, SeedRange, SeedRecord, Shards, Verdict, exit, merge};
//!
//! let doubled = Violation {
//!     claim: "no-address-has-two-owners".to_owned(),
//!     kind: Kind::Always,
//!     at: Seconds::from_micros(3_204_000),
//!     event: None,
//!     excuse: None,
//!     detail: vec!["192.0.2.7 is given to shop/web-0 and to shop/web-1".to_owned()],
//!     needs: None,
//! };
//! let part = |index, seeds: Range<u64>| {
//!     let mut result = ScenarioResult::new("swarm", "scenarios/swarm.toml", []);
//!     result.shard_of = SeedRange::new(0, 6);
//!     for seed in seeds {
//!         let violations = if seed == 4 { vec![doubled.clone()] } else { Vec::new() };
//!         result.add(SeedRecord { seed, violations, ..SeedRecord::default() });
//!     }
//!     RunReport::of_shards(vec![result], false, Shards::one(index, 2))
//! };
//! let written = [serde_json::to_string(&part(1, 0..3))?, serde_json::to_string(&part(2, 3..6))?];
//!
//! let parts = written.iter().map(|text| RunReport::from_json(text)).collect::<Result<Vec<_>, _>>()?;
//! assert_eq!(parts[0].exit_code, exit::HELD);
//! let whole = merge(parts)?;
//! assert_eq!(whole.exit_code, exit::VIOLATED);
//!
//! let swarm = &whole.scenarios[0];
//! assert_eq!((swarm.verdict(), swarm.seeds, swarm.violated), (Verdict::Violated, 6, 1));
//! assert_eq!((swarm.failures[0].seed, &*swarm.failures[0].detail[0]), (4, "192.0.2.7 is given to shop/web-0 and to shop/web-1"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod addresses;
pub mod against;
pub mod calibrate;
pub mod capacity;
mod cells;
mod claim_kind;
pub mod column;
pub mod command;
pub mod conflicts;
pub mod conformance;
pub mod coverage;
pub mod demand;
pub mod digest;
pub mod distribution;
pub mod exit;
pub mod explain;
pub mod explain_reclaim;
pub mod figure;
pub mod finding;
pub mod gate;
pub mod history;
pub mod human;
pub mod hunt;
pub mod jepsen;
pub mod leaks;
pub mod listing;
mod made;
pub mod matrix;
pub mod merge;
pub mod metric;
pub mod metrics;
mod objective;
pub mod page;
pub mod perfetto;
pub mod placements;
mod plausible;
pub mod pool;
pub mod printable;
pub mod provenance;
pub mod reclaim;
pub mod reference;
pub mod replay;
mod report;
mod requests;
pub mod rows;
pub mod run;
pub mod schema;
pub mod seconds;
pub mod seeds;
pub mod shards;
pub mod shrink;
pub mod spread;
pub mod statistics;
pub mod tables;
pub mod timeline;
pub mod verdict;

pub use calibrate::CalibrateReport;
pub use capacity::CapacityReport;
pub use cells::TableError;
pub use conflicts::ConflictsReport;
pub use conformance::ConformanceReport;
pub use demand::DemandReport;
pub use digest::{Digest, fold};
pub use explain::ExplainReport;
pub use explain_reclaim::ExplainReclaimReport;
pub use gate::{GateCase, GateReport};
pub use history::History;
pub use leaks::LeaksReport;
pub use listing::{CheckReport, ListReport};
pub use made::Made;
pub use matrix::MatrixReport;
pub use merge::{MergeError, merge, merge_gates};
pub use metrics::MetricsReport;
pub use provenance::Provenance;
pub use replay::ReplayReport;
pub use report::{Report, Tabular};
pub use run::{Finding, RunReport, ScenarioResult, SeedRecord};
pub use schema::ReadError;
pub use seconds::Seconds;
pub use seeds::SeedRange;
pub use shards::Shards;
pub use shrink::ShrinkReport;
pub use timeline::Timeline;
pub use verdict::Verdict;
