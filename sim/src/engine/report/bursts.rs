//! The bursts of one point, on several threads, until they are enough.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use ipam_reports::conflicts::Point;
use ipam_reports::pool::PoolRun;
use ipam_reports::rows::Rows;

use super::points::Planned;
use crate::cli::{CliError, Progress};
use crate::engine::spawn_worker;
use crate::engine::sweep::{record_of, run_seed};
use crate::world::{Stage, Wish};

/// The first look at a point of `report conflicts`: what B §8.3 promises, it promises for so many. Each later one is at twice as many, so that few looks tempt
/// to stop at a lucky moment.
pub(super) const FIRST_LOOK: u64 = 1_000;
/// How many seeds a worker takes at a time.
const CHUNK: u64 = 16;

/// A finished point and its rows of `runs.csv`, without the head.
pub(super) struct Finished {
    pub(super) point: Point,
    pub(super) runs: Vec<u8>,
}

/// What one worker gave.
type Part = (u64, Vec<PoolRun>, Vec<u8>);

/// When a point has enough bursts.
pub(super) struct Enough<'a> {
    /// How many it has at least, if it may have as many.
    pub(super) first: u64,
    /// How many it has at most.
    pub(super) most: u64,
    /// Whether these are enough.
    pub(super) are: &'a dyn Fn(&[PoolRun]) -> bool,
}

/// Runs bursts until there are enough; `None` when the user stopped it.
///
/// # Errors
/// A burst broke the harness.
pub(super) fn run(
    planned: &Planned,
    enough: &Enough<'_>,
    jobs: usize,
    label: &str,
    progress: &Progress,
) -> Result<Option<Finished>, CliError> {
    let mut all: Vec<PoolRun> = Vec::new();
    let mut rows = Vec::new();
    loop {
        let have = all.len() as u64;
        let want = if have == 0 { enough.first } else { have * 2 }.min(enough.most);
        let Some(parts) = batch(planned, have..want, jobs, label, progress)? else { return Ok(None) };
        for (_, runs, more) in parts {
            all.extend(runs);
            rows.extend(more);
        }
        if want == enough.most || (enough.are)(&all) {
            let mut point = Point::of(planned.setting.clone(), planned.first_seed, &all);
            point.reached = (enough.are)(&all);
            return Ok(Some(Finished { point, runs: rows }));
        }
    }
}

/// Runs the bursts with these numbers, in their order whoever runs them.
fn batch(
    planned: &Planned,
    range: std::ops::Range<u64>,
    jobs: usize,
    label: &str,
    progress: &Progress,
) -> Result<Option<Vec<Part>>, CliError> {
    let counters = progress.begin(label, Some(range.end - range.start), jobs);
    let next = AtomicU64::new(range.start);
    let parts: Mutex<Vec<Part>> = Mutex::default();
    let broken: Mutex<Option<String>> = Mutex::default();
    let key = planned.setting.key();
    std::thread::scope(|scope| {
        for counter in &counters {
            let (next, parts, broken, key, end) = (&next, &parts, &broken, &key, range.end);
            spawn_worker(scope, move || {
                let stage = Stage::new(Vec::new());
                loop {
                    let first = next.fetch_add(CHUNK, Ordering::Relaxed);
                    if first >= end || progress.stop_requested() || lock(broken).is_some() {
                        return;
                    }
                    let mut part = (first, Vec::new(), Rows::default());
                    for number in first..end.min(first + CHUNK) {
                        let seed = planned.first_seed + number;
                        if let Err(message) = burst(planned, &stage, seed, key, &mut part.1, &mut part.2) {
                            lock(broken).get_or_insert(format!("seed {seed} of {key}: {message}"));
                            return;
                        }
                        counter.count(false);
                    }
                    lock(parts).push((part.0, part.1, part.2.runs));
                }
            });
        }
    });
    if let Some(message) = lock(&broken).take() {
        return Err(CliError::harness(message));
    }
    if progress.stop_requested() {
        return Ok(None);
    }
    let mut parts = std::mem::take(&mut *lock(&parts));
    parts.sort_by_key(|(first, ..)| *first);
    Ok(Some(parts))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Runs one burst and keeps what it did.
fn burst(planned: &Planned, stage: &Stage, seed: u64, key: &str, runs: &mut Vec<PoolRun>, rows: &mut Rows) -> Result<(), String> {
    let plan = planned.scenario.draw(seed);
    let outcome = run_seed(&plan, stage, Wish::default())?;
    record_of(&plan, seed, Ok(outcome), |mut record| {
        // What the workload is stands in `points.csv`, once for all bursts of the point.
        rows.add(key, "", &record);
        let run = record.pool.take().ok_or_else(|| "a burst has a pool".to_owned())?;
        let counts = run.counts;
        if counts.calls != counts.allocated + counts.refused {
            return Err(format!(
                "{} of {} calls had no answer when the burst ended",
                counts.calls - counts.allocated - counts.refused,
                counts.calls
            ));
        }
        runs.push(run);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::report::points::plan;

    #[test]
    fn a_point_that_is_stopped_leaves_nothing_half_done() {
        let planned = plan(&["instances=2".parse().unwrap()]).unwrap().remove(0);
        let progress = Progress::default();
        let enough = Enough { first: FIRST_LOOK, most: 20, are: &|_| false };
        let finished = run(&planned, &enough, 2, "point", &progress).unwrap().unwrap();
        assert_eq!((finished.point.bursts, finished.point.calls, finished.point.reached), (20, 40, false));
        assert_eq!(finished.runs.iter().filter(|byte| **byte == b'\n').count(), 20);
        progress.stop();
        assert!(run(&planned, &enough, 2, "point", &progress).unwrap().is_none());
    }
}
