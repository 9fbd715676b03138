//! The sizes for traces that are resampled from the recorded one, each stored in `resamples.csv` as soon as it is known.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ipam_reports::capacity::smallest;
use ipam_reports::demand::{Drawn, Need, Resample, Resampled, Trial, resample_row, resamples_head, resamples_of};
use ipam_reports::human;
use sim_config::time::Span;
use sim_harness::engine::load::Ready;
use sim_harness::engine::run::run_plan;
use sim_harness::engine::thread_pool::ThreadPool;
use sim_harness::engine::{build, output};
use sim_harness::scenario::Scenario;
use sim_harness::system::RunOptions;
use sim_spiderpool::workload::{Arrivals, TraceRows};

use super::cases::{room, rows, total, with_addresses, with_rows};
use crate::cli::CliError;
use crate::cli::report::OtherTraces;

pub(super) const RESAMPLES: &str = "resamples.csv";

/// The trace to be resampled, and the number of resamples.
pub(super) struct Resampling {
    rows: TraceRows,
    block: Duration,
    drawn: Drawn,
}

impl Resampling {
    /// The resampling requested for a scenario; `None` = none is.
    ///
    /// # Errors
    /// There is no trace, its pods cannot be resampled, or a block is too long.
    pub(super) fn of(asked: &OtherTraces, scenario: &Scenario) -> Result<Option<Self>, CliError> {
        let Some(of) = asked.resample else { return Ok(None) };
        let refused = |wrong: String, right: &str| Err(CliError::usage(wrong).hint(right));
        let Some(rows) = rows(scenario) else {
            let wrong = format!("--resample draws the pods of a trace again, and `{}` has none", scenario.name);
            return refused(wrong, "name one with --trace, or a scenario with `workload.trace`");
        };
        if let Ok(Some(left_out)) = scenario.left_out() {
            let wrong = format!("--resample draws from all pods of the trace, and {left_out}");
            return refused(wrong, "let the run last as long as the trace, with --set phases.safety=…");
        }
        let arrivals @ Arrivals { lasts, passing, staying, first_half, .. } = rows.arrivals();
        if passing < 2 || lasts.is_zero() {
            let wrong = match passing {
                0 => "--resample draws pods again that come and go, and none of the trace is ever deleted".to_owned(),
                1 => "--resample draws pods again that come and go, and only one of the trace is ever deleted".to_owned(),
                _ => "--resample draws pods again by when they come, and all of the trace come at the same time".to_owned(),
            };
            return refused(wrong, "bring a trace of hours or more, in which pods come and go");
        }
        let block = asked.block.map_or_else(|| arrivals.usual_block(), |block| block.0);
        if block.is_zero() || block > lasts {
            let wrong =
                format!("--block {} is no part of the {} in which the pods of the trace come", Span(block), human::duration(lasts.into()));
            return refused(wrong, &format!("ask for e.g. --block {}, or leave it out", Span(arrivals.usual_block())));
        }
        let [staying, passing, first_half] = [staying, passing, first_half].map(|count| count as u64);
        let drawn = Drawn { block_s: block.as_secs_f64(), staying, passing, first_half, of };
        Ok(Some(Self { rows: rows.clone(), block, drawn }))
    }

    /// The key of this resampling among the reports on the same scenario.
    pub(super) fn key(&self) -> String {
        format!("{:?}", self.drawn)
    }

    /// Finds the sizes; `None` = the user stopped the search.
    ///
    /// # Errors
    /// Writing fails, or a run broke the harness.
    pub(super) fn find(&self, search: &Search<'_>, out: &Path, force: bool) -> Result<Option<Resampled>, CliError> {
        let path = out.join(RESAMPLES);
        let refused = |error: io::Error| CliError::usage(format!("cannot write {}: {error}", path.display()));
        let known = if force { Vec::new() } else { known(&path) };
        let row = |trace: &Resample| resample_row(build(), search.config, &self.drawn, trace);
        let whole = |traces: &[Resample]| resamples_head() + &traces.iter().map(row).collect::<String>();
        output::write(&path, whole(&known)).map_err(refused)?;
        let file = Mutex::new(OpenOptions::new().append(true).open(&path).map_err(refused)?);
        let left: Vec<u64> = (0..self.drawn.of).filter(|number| known.iter().all(|trace| trace.number != *number)).collect();
        let pool = ThreadPool { chunk: 1, label: "resampled traces", ..search.pool };
        let work = |(): &(), at: u64| {
            let found = self.one(search, left[at as usize]).map_err(CliError::harness)?;
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            output::append(&mut file, row(&found).as_bytes()).map_err(refused).map(|()| found)
        };
        let Some(found) = pool.each(0..left.len() as u64, || (), work)? else { return Ok(None) };
        let mut traces: Vec<Resample> = known.into_iter().chain(found).collect();
        traces.sort_by_key(|trace| trace.number);
        // Threads finish in any order.
        output::write(&path, whole(&traces)).map_err(refused)?;
        Ok(Resampled::new(self.drawn, traces))
    }

    /// Finds the smallest pool for one of the traces, in one run per size: first with the largest pool, then near the size that this run
    /// used.
    fn one(&self, search: &Search<'_>, number: u64) -> Result<Resample, String> {
        let rows = self.rows.resampled(self.block, number);
        let size = rows.size();
        let scenario = with_rows(&search.ready.scenario, rows)
            .map_err(|operations| format!("resampled trace {number} makes {operations} operations"))?;
        let most = room(&scenario, search.most);
        let run = |addresses: u32| {
            let plan = with_addresses(&scenario, addresses).draw(number);
            let options = RunOptions { planner: true, ..RunOptions::default() };
            let mut outcome =
                run_plan(&plan, &search.ready.stage, options).map_err(|message| format!("resampled trace {number}: {message}"))?;
            let held = outcome.figures.addresses.take().ok_or_else(|| "a run of Spiderpool has addresses".to_owned())?;
            Ok::<_, String>(Trial::of("", u64::from(addresses), search.needs, &[(number, held)]))
        };
        let whole = run(most)?;
        let guess = u32::try_from(whole.peak.div_ceil(search.step)).unwrap_or(most);
        let found = match whole.met {
            false => None,
            true => smallest(1, most, guess, |addresses| if addresses == most { Ok(true) } else { run(addresses).map(|trial| trial.met) })?,
        };
        Ok(Resample {
            number,
            pods: size.pods as u64,
            living: size.peak as u64,
            peak: whole.peak,
            addresses: found.map(|addresses| total(&with_addresses(&scenario, addresses))),
        })
    }
}

/// The parameters of a search for sizes.
pub(super) struct Search<'a> {
    /// The unchanged scenario.
    pub(super) ready: &'a Ready,
    /// The objectives of the pool.
    pub(super) needs: &'a [Need],
    /// The largest pool that is tried, unless a trace needs more room.
    pub(super) most: u32,
    /// The difference between two neighbouring sizes.
    pub(super) step: u64,
    /// The hash that identifies the report.
    pub(super) config: &'a str,
    /// The threads that search, each of them one trace at a time.
    pub(super) pool: ThreadPool<'a>,
}

/// The results of an earlier search, without an incomplete last line. The folder is known to be that of this search.
fn known(path: &Path) -> Vec<Resample> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    resamples_of(whole).map_or_else(|_| Vec::new(), |(_, traces)| traces)
}
