//! Tables in CSV: one row for each run, one for each call for an address, and one for each reclaimed address. Times are in seconds.
//!
//! Every row begins with the name of its format, so that a file can be split and joined. Columns are only ever added at the end. Names are
//! written so that no spreadsheet reads them as formulas ([`cell`]).

use std::borrow::Cow;
use std::net::IpAddr;

use serde::Serialize;

use crate::column::Unit;
use crate::pool::{PoolCall, PoolRun};
use crate::printable::{cell, json};
use crate::reclaim::{ReclaimPath, ReclaimRun, Reclaimed, RightEnd};
use crate::run::SeedRecord;
use crate::schema::{CallsSchema, ReclaimsSchema, RunsSchema};
use crate::spread::Margin;
use crate::{Digest, Seconds};

/// A row of `runs.csv`. The columns from `pool_reads` on are empty for runs without a BYOM pool, those from
/// `reclaimed` on for runs that reclaim nothing.
#[derive(Serialize)]
struct RunRow<'a> {
    /// The name of the format: `ipam-sim/runs/1`.
    schema: RunsSchema,
    scenario: Cow<'a, str>,
    seed: u64,
    /// The workload of the plan, as JSON.
    workload: Cow<'a, str>,
    digest: Digest,
    /// Model time at the end of the run.
    simulated_s: Seconds,
    events: u64,
    /// The number of claims that were violated without an excuse.
    violated: u64,
    /// The number of requests to the API servers, of those that changed an object, and of those that were refused with a conflict.
    requests: u64,
    writes: u64,
    conflicts: u64,
    retries_exhausted: u64,
    /// The number of calls for an address, of those that were granted one, and of the others.
    attempted: u64,
    succeeded: u64,
    failed: u64,
    /// Reads and writes of the document by calls, and the outcomes of the calls.
    pool_reads: Option<u64>,
    pool_attempts: Option<u64>,
    pool_conflicts: Option<u64>,
    pool_create_races: Option<u64>,
    pool_exhausted: Option<u64>,
    /// Acknowledged allocations whose record was lost without their release: at any time, and at the end.
    lost: Option<u64>,
    lost_at_end: Option<u64>,
    /// Addresses with two live holders, and the calls that were granted one of them.
    shared_addresses: Option<u64>,
    sharing: Option<u64>,
    /// Commits whose version is not higher than the one before.
    stuck_versions: Option<u64>,
    leaked: Option<u64>,
    foreign_reboots: Option<u64>,
    mutex_wait_s: Option<Seconds>,
    /// The time of the longest call that was granted an address.
    allocate_max_s: Option<Seconds>,
    /// The time from the first call to the last answer.
    makespan_s: Option<Seconds>,
    /// The times within which half, 90 % and 99 % of the calls that were granted an address received it.
    allocate_p50_s: Option<Seconds>,
    allocate_p90_s: Option<Seconds>,
    allocate_p99_s: Option<Seconds>,
    /// Releases of the pool that ended, done or given up.
    pool_releases: Option<u64>,
    /// Attempts of releases that met a conflict, and releases that gave up.
    pool_other_conflicts: Option<u64>,
    pool_other_exhausted: Option<u64>,
    /// Addresses that Spiderpool's controller reclaimed, and those of them on which a sandbox still answered.
    reclaimed: Option<u64>,
    reclaimed_negative: Option<u64>,
    /// The least margin and the longest delay of these.
    margin_min_s: Option<Margin>,
    delay_max_s: Option<Margin>,
    /// Scans of all records, scans of replicas that were not the leader, and reads of StatefulSets and VMs for reclaim.
    scans: Option<u64>,
    standby_scans: Option<u64>,
    owner_reads: Option<u64>,
}

/// A row of `calls.csv`.
#[derive(Serialize)]
struct CallRow<'a> {
    /// The name of the format: `ipam-sim/calls/1`.
    schema: CallsSchema,
    scenario: Cow<'a, str>,
    seed: u64,
    /// The name of the adaptor's process.
    process: Cow<'a, str>,
    /// The allocation ID of the call (B A1).
    allocation: Cow<'a, str>,
    /// The beginning of the call, since the beginning of the run.
    started_s: Seconds,
    /// The time that it took; empty = it never ended.
    took_s: Option<Seconds>,
    /// The outcome: `allocated`, `unanswered`, or the reason of the refusal.
    outcome: Cow<'a, str>,
    address: Option<Cow<'a, str>>,
    reads: u32,
    attempts: u32,
    conflicts: u32,
    create_races: u32,
    probes: u32,
    exhausted: bool,
    mutex_wait_s: Seconds,
    /// Whether its record was lost without its release.
    lost: bool,
    /// Whether its address had a second live holder.
    shared: bool,
}

/// A row of `reclaims.csv`.
#[derive(Serialize)]
struct ReclaimRow<'a> {
    /// The name of the format: `ipam-sim/reclaims/1`.
    schema: ReclaimsSchema,
    scenario: Cow<'a, str>,
    seed: u64,
    /// The time at which the record was removed, since the beginning of the run.
    at_s: Seconds,
    /// The way: `trace`, `scan` or `sweep`.
    path: ReclaimPath,
    /// The row of the decision table.
    row: Cow<'a, str>,
    pool: Cow<'a, str>,
    ip: IpAddr,
    /// The name under which it was recorded.
    pod: Cow<'a, str>,
    /// The time from the end of the last sandbox that answered on the address to the removal, below zero if it still answered. Empty = none
    /// ever answered.
    margin_s: Option<Margin>,
    /// The time from the end of the pod's entitlement to the removal. Empty = it is unknown, or had not ended.
    delay_s: Option<Margin>,
    /// Whether a sandbox of the pod still answered on it.
    answered: bool,
    /// The event that ended the pod's entitlement: `gone`, `ended` or `grace-over`. Empty as `delay_s` is.
    end: Option<RightEnd>,
    /// The upper bound of `delay_s` by G §10.2, while everything is healthy. Empty as `delay_s` is.
    bound_s: Option<Seconds>,
}

/// A column: its name, unit and meaning.
pub(crate) type Meaning = (&'static str, Unit, &'static str);

/// The columns of `runs.csv`, with their meanings.
pub(crate) const RUNS: [Meaning; 43] = [
    ("schema", Unit::Text, "The name of the format: `ipam-sim/runs/1`."),
    ("scenario", Unit::Text, "The scenario, and what is changed in it."),
    ("seed", Unit::Count, "The seed that the plan of the run was drawn from."),
    ("workload", Unit::Text, "What the workload of the plan is, in JSON; empty in reports."),
    ("digest", Unit::Text, "The digest of the run: same plan, same digest."),
    ("simulated_s", Unit::Seconds, "Model time at the end of the run."),
    ("events", Unit::Count, "Events of the trace."),
    ("violated", Unit::Count, "Claims that were violated without an excuse; reports judge none."),
    ("requests", Unit::Count, "Requests to the API servers."),
    ("writes", Unit::Count, "Requests that changed an object."),
    ("conflicts", Unit::Count, "Requests that were refused with a conflict."),
    ("retries_exhausted", Unit::Count, "Calls that gave up after all attempts."),
    ("attempted", Unit::Count, "Calls for an address."),
    ("succeeded", Unit::Count, "Calls that were told one."),
    ("failed", Unit::Count, "Calls that were told none."),
    ("pool_reads", Unit::Count, "Reads of the document of a BYOM pool by calls; this and the next are empty for runs without such a pool."),
    ("pool_attempts", Unit::Count, "Attempts of calls to write it."),
    ("pool_conflicts", Unit::Count, "Attempts of calls that met a conflict."),
    ("pool_create_races", Unit::Count, "Attempts to make it that another writer was faster with."),
    ("pool_exhausted", Unit::Count, "Calls that gave up after all attempts."),
    ("lost", Unit::Count, "Acknowledged allocations whose record was lost without their release."),
    ("lost_at_end", Unit::Count, "Of these, those without a record at the end."),
    ("shared_addresses", Unit::Count, "Addresses with two live holders."),
    ("sharing", Unit::Count, "Calls that were told one of these."),
    ("stuck_versions", Unit::Count, "Commits of a document whose version is not higher than that of the document before."),
    ("leaked", Unit::Count, "Records at the end whose sandbox holds nothing any more, or never did."),
    ("foreign_reboots", Unit::Count, "VMs that were booted while they served a live sandbox on whose behalf nobody had asked."),
    ("mutex_wait_s", Unit::Seconds, "How long all operations together waited for the mutex of their process."),
    ("allocate_max_s", Unit::Seconds, "The longest call that was told an address."),
    ("makespan_s", Unit::Seconds, "From the first call to the last answer."),
    ("allocate_p50_s", Unit::Seconds, "The time within which half of the calls that were told an address were told it."),
    ("allocate_p90_s", Unit::Seconds, "The same for 90 %."),
    ("allocate_p99_s", Unit::Seconds, "The same for 99 %."),
    ("pool_releases", Unit::Count, "Releases of the pool that ended, done or given up."),
    ("pool_other_conflicts", Unit::Count, "Attempts of releases that met a conflict."),
    ("pool_other_exhausted", Unit::Count, "Releases that gave up."),
    (
        "reclaimed",
        Unit::Count,
        "Addresses that the controller of Spiderpool reclaimed; this and the next are empty for runs that reclaim nothing.",
    ),
    ("reclaimed_negative", Unit::Count, "Of these, those that somebody still answered on."),
    ("margin_min_s", Unit::Seconds, "The least margin of them: from the last answer on an address to its removal."),
    ("delay_max_s", Unit::Seconds, "The longest delay of them: from the end of the right of a pod to the removal."),
    ("scans", Unit::Count, "Scans of all records."),
    ("standby_scans", Unit::Count, "Scans by replicas that did not lead."),
    ("owner_reads", Unit::Count, "Reads of StatefulSets and VMs for the sake of reclaim."),
];

/// The columns of `calls.csv`, with their meanings.
pub(crate) const CALLS: [Meaning; 18] = [
    ("schema", Unit::Text, "The name of the format: `ipam-sim/calls/1`."),
    ("scenario", Unit::Text, "The scenario."),
    ("seed", Unit::Count, "The seed of the run."),
    ("process", Unit::Text, "The process of the adaptor."),
    ("allocation", Unit::Text, "The allocation ID that it asked under (B A1)."),
    ("started_s", Unit::Seconds, "When the call began, since the beginning of the run."),
    ("took_s", Unit::Seconds, "How long it took; empty = it never ended."),
    ("outcome", Unit::Text, "How it ended: `allocated`, `unanswered`, or why it was refused."),
    ("address", Unit::Text, "The address that it was told; empty = none."),
    ("reads", Unit::Count, "Reads of the pool."),
    ("attempts", Unit::Count, "Attempts to write it."),
    ("conflicts", Unit::Count, "Attempts that met a conflict."),
    ("create_races", Unit::Count, "Attempts to make the pool that another writer was faster with."),
    ("probes", Unit::Count, "VMs that were tried."),
    ("exhausted", Unit::Flag, "Whether it gave up after all attempts."),
    ("mutex_wait_s", Unit::Seconds, "How long it waited for the mutex of its process."),
    ("lost", Unit::Flag, "Whether its record was lost without its release."),
    ("shared", Unit::Flag, "Whether its address had a second live holder."),
];

/// The columns of `reclaims.csv`, with their meanings.
pub(crate) const RECLAIMS: [Meaning; 14] = [
    ("schema", Unit::Text, "The name of the format: `ipam-sim/reclaims/1`."),
    ("scenario", Unit::Text, "The scenario, and what is changed in it."),
    ("seed", Unit::Count, "The seed of the run."),
    ("at_s", Unit::Seconds, "When the record went, since the beginning of the run."),
    ("path", Unit::Text, "How the address was found: `trace`, `scan` or `sweep`."),
    ("row", Unit::Text, "The row of the decision table of reclaim."),
    ("pool", Unit::Text, "The pool of the address."),
    ("ip", Unit::Text, "The address."),
    ("pod", Unit::Text, "The pod under whose name it was recorded."),
    (
        "margin_s",
        Unit::Seconds,
        "From the end of the last sandbox that answered on the address to the removal, below 0 if \
            it still answered; empty = none ever answered.",
    ),
    ("delay_s", Unit::Seconds, "From the end of the right of the pod to the removal; empty = that is not known, or had not come."),
    ("answered", Unit::Flag, "Whether a sandbox of the pod still answered on it."),
    ("end", Unit::Text, "What ended the right of the pod: `gone`, `ended` or `grace-over`; empty as `delay_s` is."),
    ("bound_s", Unit::Seconds, "How large `delay_s` may be by G §10.2, while everything is healthy; empty as `delay_s` is."),
];

/// Rows of all tables, without their heads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// The rows of `runs.csv`, one for each run.
    pub runs: Vec<u8>,
    /// The rows of `calls.csv`, one for each call of an adaptor.
    pub calls: Vec<u8>,
    /// The rows of `reclaims.csv`, one for each reclaimed address.
    pub reclaims: Vec<u8>,
}

fn write(table: &mut Vec<u8>, row: impl Serialize, head: bool) {
    let mut writer = csv::WriterBuilder::new().has_headers(head).from_writer(table);
    writer.serialize(row).unwrap_or_else(|error| panic!("a row does not serialise: {error}"));
    writer.flush().unwrap_or_else(|error| panic!("writing to memory does not fail: {error}"));
}

impl Rows {
    /// The heads of all tables.
    pub fn heads() -> Self {
        let mut rows = Self::default();
        write(&mut rows.runs, RunRow::of("", "", &SeedRecord::default()), true);
        write(&mut rows.calls, CallRow::of("", 0, &PoolCall::default()), true);
        write(&mut rows.reclaims, ReclaimRow::of("", 0, &nothing()), true);
        for table in [&mut rows.runs, &mut rows.calls, &mut rows.reclaims] {
            let end = table.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            table.truncate(end);
        }
        rows
    }

    /// Adds a run of a plan with this `workload` (as JSON), its calls, and its reclaimed addresses.
    pub fn add(&mut self, scenario: &str, workload: &str, record: &SeedRecord<'_>) {
        write(&mut self.runs, RunRow::of(scenario, workload, record), false);
        for call in record.pool.iter().flat_map(|pool| &pool.calls) {
            write(&mut self.calls, CallRow::of(scenario, record.seed, call), false);
        }
        for reclaimed in record.reclaim.iter().flat_map(|run| &run.records) {
            write(&mut self.reclaims, ReclaimRow::of(scenario, record.seed, reclaimed), false);
        }
    }
}

/// An empty reclaimed address, for the names of its columns.
fn nothing() -> Reclaimed {
    Reclaimed {
        at: Seconds::ZERO,
        path: ReclaimPath::Scan,
        row: "".into(),
        pool: "".into(),
        address: IpAddr::from([0; 4]),
        pod: "".into(),
        margin: None,
        answered: false,
        delay: None,
        end: None,
        bound: None,
    }
}

/// Columns of `runs.csv` that are no figures: those that identify the run, the totals of its phases, and the number of violated claims.
const NO_FIGURES: [&str; 8] = ["schema", "scenario", "seed", "workload", "digest", "simulated_s", "events", "violated"];

/// The columns of `runs.csv`, in their order.
pub fn columns() -> impl Iterator<Item = &'static str> {
    RUNS.iter().map(|(name, ..)| *name)
}

/// The position of a column in `runs.csv`; `None` = it has none of this name.
pub fn place(column: &str) -> Option<usize> {
    columns().position(|known| known == column)
}

/// Whether a column of `runs.csv` of this name holds a figure of the run.
pub fn is_figure(column: &str) -> bool {
    place(column).is_some() && !NO_FIGURES.contains(&column)
}

/// The figures that a run has, by their columns in `runs.csv`.
pub fn figures(record: &SeedRecord<'_>) -> Vec<(&'static str, f64)> {
    let mut text = Vec::new();
    write(&mut text, RunRow::of("", "", record), false);
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(&text[..]);
    let row = reader.records().next().and_then(Result::ok).unwrap_or_default();
    columns().zip(&row).filter(|(column, _)| is_figure(column)).filter_map(|(column, cell)| Some((column, cell.parse().ok()?))).collect()
}

/// The `percent` % quantile of these `sorted` times: the smallest time that at least this share of them do not exceed.
fn quantile(sorted: &[Seconds], percent: usize) -> Option<Seconds> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.max(1) - 1).copied()
}

impl<'a> RunRow<'a> {
    fn of(scenario: &'a str, workload: &'a str, record: &SeedRecord<'_>) -> Self {
        let SeedRecord { seed, digest, simulated, api, allocations, events, .. } = *record;
        let pool = record.pool.as_ref();
        let count = |count: fn(&PoolRun) -> u64| pool.map(count);
        let mut took = pool.map(|run| run.took.clone()).unwrap_or_default();
        took.sort_unstable();
        let within = |percent| quantile(&took, percent);
        let reclaim = record.reclaim.as_ref();
        Self {
            schema: RunsSchema,
            scenario: cell(scenario),
            seed,
            workload: json(workload),
            digest,
            simulated_s: simulated,
            events,
            violated: record.violations.iter().filter(|violation| violation.excuse.is_none()).count() as u64,
            requests: api.requests,
            writes: api.writes,
            conflicts: api.conflicts,
            retries_exhausted: api.retries_exhausted,
            attempted: allocations.attempted,
            succeeded: allocations.succeeded,
            failed: allocations.failed,
            pool_reads: count(|run| run.counts.reads),
            pool_attempts: count(|run| run.counts.attempts),
            pool_conflicts: count(|run| run.counts.conflicts),
            pool_create_races: count(|run| run.counts.create_races),
            pool_exhausted: count(|run| run.counts.exhausted),
            lost: count(|run| run.counts.lost),
            lost_at_end: count(|run| run.counts.lost_at_end),
            shared_addresses: count(|run| run.counts.shared_addresses),
            sharing: count(|run| run.counts.sharing),
            stuck_versions: count(|run| run.counts.stuck_versions),
            leaked: count(|run| run.counts.leaked),
            foreign_reboots: count(|run| run.counts.foreign_reboots),
            mutex_wait_s: pool.map(|run| run.mutex_wait),
            allocate_max_s: took.last().copied(),
            makespan_s: pool.map(|run| run.makespan),
            allocate_p50_s: within(50),
            allocate_p90_s: within(90),
            allocate_p99_s: within(99),
            pool_releases: count(|run| run.counts.releases),
            pool_other_conflicts: count(|run| run.counts.other_conflicts),
            pool_other_exhausted: count(|run| run.counts.other_exhausted),
            reclaimed: reclaim.map(|run| run.records.len() as u64),
            reclaimed_negative: reclaim.map(ReclaimRun::negative),
            margin_min_s: reclaim.and_then(ReclaimRun::least_margin),
            delay_max_s: reclaim.and_then(ReclaimRun::longest_delay),
            scans: reclaim.map(|run| run.effort.scans),
            standby_scans: reclaim.map(|run| run.effort.standby_scans),
            owner_reads: reclaim.map(|run| run.effort.owner_reads),
        }
    }
}

impl<'a> CallRow<'a> {
    fn of(scenario: &'a str, seed: u64, call: &'a PoolCall) -> Self {
        Self {
            schema: CallsSchema,
            scenario: cell(scenario),
            seed,
            process: cell(&call.process),
            allocation: cell(&call.id),
            started_s: call.started,
            took_s: call.took,
            outcome: cell(&call.outcome),
            address: call.address.as_deref().map(cell),
            reads: call.reads,
            attempts: call.attempts,
            conflicts: call.conflicts,
            create_races: call.create_races,
            probes: call.probes,
            exhausted: call.exhausted,
            mutex_wait_s: call.mutex_wait,
            lost: call.lost,
            shared: call.shared,
        }
    }
}

impl<'a> ReclaimRow<'a> {
    fn of(scenario: &'a str, seed: u64, reclaimed: &'a Reclaimed) -> Self {
        Self {
            schema: ReclaimsSchema,
            scenario: cell(scenario),
            seed,
            at_s: reclaimed.at,
            path: reclaimed.path,
            row: cell(&reclaimed.row),
            pool: cell(&reclaimed.pool),
            ip: reclaimed.address,
            pod: cell(&reclaimed.pod),
            margin_s: reclaimed.margin,
            delay_s: reclaimed.delay,
            answered: reclaimed.answered,
            end: reclaimed.end,
            bound_s: reclaimed.bound,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::PoolCounts;

    #[test]
    fn the_times_of_a_run_are_those_of_its_sorted_list() {
        let times = |count: u64| (1..=count).map(Seconds::from_micros).collect::<Vec<_>>();
        let all = |count| [50, 90, 99].map(|percent| quantile(&times(count), percent).map(Seconds::as_micros));
        assert_eq!(all(0), [None; 3]);
        assert_eq!(all(1), [Some(1); 3]);
        assert_eq!(all(2), [Some(1), Some(2), Some(2)]);
        assert_eq!(all(200), [Some(100), Some(180), Some(198)]);
        let pool = PoolRun { took: times(200).into_iter().rev().collect(), ..PoolRun::default() };
        let record = SeedRecord { pool: Some(pool), ..SeedRecord::default() };
        let row = RunRow::of("s", "{}", &record);
        assert_eq!(
            [row.allocate_p50_s, row.allocate_p99_s, row.allocate_max_s].map(|time| time.map(Seconds::as_micros)),
            [Some(100), Some(198), Some(200)]
        );
    }

    #[test]
    fn each_column_is_explained_in_the_order_of_the_table() {
        let heads = Rows::heads();
        for (table, explained) in [(heads.runs, &RUNS[..]), (heads.calls, &CALLS[..]), (heads.reclaims, &RECLAIMS[..])] {
            let names: Vec<&str> = explained.iter().map(|(name, ..)| *name).collect();
            assert_eq!(String::from_utf8(table).unwrap().trim_end().split(',').collect::<Vec<_>>(), names);
        }
    }

    #[test]
    fn the_figures_of_a_run_are_the_numbers_of_its_row() {
        let mut record = SeedRecord { seed: 7, ..SeedRecord::default() };
        record.api.writes = 3;
        let names = |record: &SeedRecord<'_>| figures(record).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        let any = ["requests", "writes", "conflicts", "retries_exhausted"];
        assert_eq!(names(&record), [&any[..], &["attempted", "succeeded", "failed"]].concat(), "empty cells are no figures");
        assert_eq!(figures(&record)[1], ("writes", 3.0));
        record.pool = Some(PoolRun::default());
        assert!(names(&record).contains(&"pool_conflicts"));
        assert!(is_figure("allocate_p99_s") && !is_figure("seed") && !is_figure("speed"));
    }

    #[test]
    fn every_row_has_the_columns_of_its_head() {
        let mut rows = Rows::heads();
        let call = PoolCall { process: "adaptor-0".into(), id: "pod-0-ab".into(), outcome: "exhausted".into(), ..PoolCall::default() };
        let pool = PoolRun { counts: PoolCounts { calls: 1, ..PoolCounts::default() }, calls: vec![call], ..PoolRun::default() };
        rows.add("s, with a comma", r#"{"kind":"k","instances":2}"#, &SeedRecord { seed: 7, ..SeedRecord::default() });
        rows.add(
            "s",
            "{}",
            &SeedRecord { seed: 8, pool: Some(pool), reclaim: Some(crate::reclaim::tests::run(3)), ..SeedRecord::default() },
        );
        for (table, first) in [(&rows.runs, "ipam-sim/runs/1"), (&rows.calls, "ipam-sim/calls/1"), (&rows.reclaims, "ipam-sim/reclaims/1")]
        {
            let mut reader = csv::Reader::from_reader(&table[..]);
            let head = reader.headers().unwrap().clone();
            assert_eq!(&head[0], "schema");
            // The reader refuses rows of another length.
            let read: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>().unwrap();
            assert!(read.iter().all(|row| &row[0] == first));
            assert_eq!(read.last().map(|row| row[2].to_owned()), Some("8".to_owned()));
        }
        let calls = String::from_utf8(rows.calls).unwrap();
        let reclaims = String::from_utf8(rows.reclaims).unwrap();
        assert_eq!(
            reclaims.lines().collect::<Vec<_>>(),
            [
                "schema,scenario,seed,at_s,path,row,pool,ip,pod,margin_s,delay_s,answered,end,bound_s",
                "ipam-sim/reclaims/1,s,8,90.0,trace,TD-3,pool-0,10.0.0.1,default/web-0,3.0,0.5,false,gone,15.0",
                "ipam-sim/reclaims/1,s,8,90.0,scan,G-over,pool-0,10.0.0.1,default/web-0,-1.500003,0.0,true,gone,15.0",
                "ipam-sim/reclaims/1,s,8,90.0,sweep,C8,pool-0,10.0.0.1,default/web-0,,,false,,",
            ]
        );
        let runs = String::from_utf8(rows.runs).unwrap();
        assert!(runs.lines().next_back().is_some_and(|row| row.ends_with(",3,1,-1.500003,0.5,5,3,9")), "{runs}");
        assert!(calls.ends_with("\nipam-sim/calls/1,s,8,adaptor-0,pod-0-ab,0.0,,exhausted,,0,0,0,0,0,false,0.0,false,false\n"), "{calls}");
    }
}
