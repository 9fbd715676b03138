//! Runs the bursts of one point, on several threads, until there are enough.

use ipam_reports::conflicts::{Point, System};
use ipam_reports::pool::PoolRun;
use ipam_reports::rows::Rows;
use sim_harness::engine::Progress;
use sim_harness::engine::run::{record_of, run_plan};
use sim_harness::engine::thread_pool::ThreadPool;
use sim_harness::world::Stage;

use super::points::Planned;
use crate::cli::CliError;

/// The number of bursts at the first look at a point of `report conflicts`: the promises of B §8.3 are for this many. Each later look is at
/// twice as many, so that there are few chances to stop at a lucky moment.
pub(super) const FIRST_LOOK: u64 = 1_000;
/// The first look at a point with agents is smaller: such a burst includes nodes, kubelets and sandboxes.
const FIRST_LOOK_AGENTS: u64 = 50;

/// The first look at a point of a system, given that at a point of BYOM, `byom`.
pub(super) fn first_look(system: System, byom: u64) -> u64 {
    match system {
        System::Byom => byom,
        System::Spiderpool => FIRST_LOOK_AGENTS,
    }
}

/// The number of seeds that a worker takes at a time.
const CHUNK: u64 = 8;

/// A finished point and its rows of `runs.csv`, without the header.
pub(super) struct Finished {
    pub(super) point: Point,
    pub(super) runs: Vec<u8>,
}

/// The result of one burst, and its row.
type Part = (PoolRun, Vec<u8>);

/// The results of bursts, and their rows.
type Runs = (Vec<PoolRun>, Vec<u8>);

/// The criterion for having enough bursts of a point.
pub(super) struct Enough<'a> {
    /// The minimum number of bursts, unless `most` is smaller.
    pub(super) first: u64,
    /// The maximum number of bursts.
    pub(super) most: u64,
    /// Whether these results are enough.
    pub(super) are: &'a dyn Fn(&[PoolRun]) -> bool,
}

/// Runs bursts until there are enough; `None` if the user stopped them.
///
/// # Errors
/// A burst broke the harness.
pub(super) fn run(
    planned: &Planned,
    enough: &Enough<'_>,
    jobs: usize,
    label: &str,
    progress: &dyn Progress,
) -> Result<Option<Finished>, CliError> {
    let Some((all, runs)) = all(planned, enough, jobs, label, progress)? else { return Ok(None) };
    Ok(Some(Finished { point: point(planned, enough, &all), runs }))
}

/// The point with the results of its bursts, and whether they are enough.
pub(super) fn point(planned: &Planned, enough: &Enough<'_>, runs: &[PoolRun]) -> Point {
    let mut point = Point::of(planned.setting.clone(), planned.first_seed, runs);
    point.reached = (enough.are)(runs);
    point
}

/// Runs bursts until there are enough, and returns them with their rows of `runs.csv`; `None` if the user stopped them.
///
/// # Errors
/// A burst broke the harness.
pub(super) fn all(
    planned: &Planned,
    enough: &Enough<'_>,
    jobs: usize,
    label: &str,
    progress: &dyn Progress,
) -> Result<Option<Runs>, CliError> {
    let mut all: Vec<PoolRun> = Vec::new();
    let mut rows = Vec::new();
    loop {
        let have = all.len() as u64;
        let want = if have == 0 { enough.first } else { have * 2 }.min(enough.most);
        let Some(parts) = batch(planned, have..want, jobs, label, progress)? else { return Ok(None) };
        for (run, row) in parts {
            all.push(run);
            rows.extend(row);
        }
        if want == enough.most || (enough.are)(&all) {
            return Ok(Some((all, rows)));
        }
    }
}

/// Runs the bursts with these numbers, and returns them in order, whichever threads run them.
fn batch(
    planned: &Planned,
    range: std::ops::Range<u64>,
    jobs: usize,
    label: &str,
    progress: &dyn Progress,
) -> Result<Option<Vec<Part>>, CliError> {
    let key = planned.setting.key();
    let pool = ThreadPool { jobs, chunk: CHUNK, label, progress };
    pool.each(
        range,
        || Stage::new(Vec::new()),
        |stage, number| {
            let seed = planned.first_seed + number;
            burst(planned, stage, seed, &key).map_err(|message| CliError::harness(format!("seed {seed} of {key}: {message}")))
        },
    )
}

/// Runs one burst and keeps its results.
fn burst(planned: &Planned, stage: &Stage, seed: u64, key: &str) -> Result<Part, String> {
    let plan = planned.draw(seed);
    let outcome = run_plan(&plan, stage, planned.options()).map_err(|bug| bug.to_string())?;
    record_of(&plan, seed, Ok(outcome), |mut record| {
        let mut rows = Rows::default();
        // The workload is described in `points.csv`, once for all bursts of the point.
        rows.add(key, "", &record);
        let run = record.pool.take().ok_or_else(|| "a burst has a pool".to_owned())?;
        let counts = run.counts;
        // Kubelets keep asking: calls that are open at the end of a run have no answer. Nor have calls of a process that a fault takes
        // down.
        if planned.setting.system == System::Byom && !planned.setting.has_faults() && counts.calls != counts.allocated + counts.refused {
            return Err(format!(
                "{} of {} calls had no answer when the burst ended",
                counts.calls - counts.allocated - counts.refused,
                counts.calls
            ));
        }
        Ok((run, rows.runs))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::LiveProgress;
    use crate::cli::report::Sharing;
    use crate::cli::verbs::report::points::plan;

    #[test]
    fn a_point_that_is_stopped_leaves_nothing_half_done() {
        let planned = plan(&Sharing { vary: vec!["instances=2".parse().unwrap()], ..Sharing::default() }).unwrap().remove(0);
        let progress = LiveProgress::default();
        let enough = Enough { first: FIRST_LOOK, most: 20, are: &|_| false };
        let finished = run(&planned, &enough, 2, "point", &progress).unwrap().unwrap();
        assert_eq!((finished.point.bursts, finished.point.calls, finished.point.reached), (20, 40, false));
        assert_eq!(finished.runs.iter().filter(|byte| **byte == b'\n').count(), 20);
        progress.stop();
        assert!(run(&planned, &enough, 2, "point", &progress).unwrap().is_none());
    }
}
