//! The number of requests that the server processes at a time: that of the queue whose waits are most like those of the log.
//!
//! ```text
//!  arrivals of the log ─► waits for one of `width` processors ─► share × what such a request takes when calm ─► the rest of it ─► answer
//! ```
//! Each candidate of width and share serves the log's own arrivals. The arrivals in a log depend on its answers, so that a slightly slow
//! candidate would lag more and more: it starts again every [`STRETCH`] requests, with the requests that were in flight at that time.

use ipam_reports::calibrate::{Kind, Level, Width};
use ipam_reports::statistics::{self, Estimate};
use sim_config::draw::{Concern, Draw};

use super::queue::Queue;
use super::requests::Log;
use super::times::{ENOUGH, Times, bin, ends};

/// The number of requests after which a candidate starts again.
const STRETCH: usize = 16;

/// The maximum number of requests that are served for each candidate; from a longer log they are sampled evenly.
const SERVED_MAX: usize = 60_000;

/// The number of parts of the log that are treated as independent.
const BLOCKS: usize = 40;

/// The number of times that the blocks are resampled.
const RESAMPLES: usize = 200;

/// The widths that are tried; with a larger width, requests hardly ever wait.
const WIDTHS: [u32; 14] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64];

/// The number of shares that are tried, in equal steps up to 1.
const STEPS: u32 = 50;

/// A queue is evident if the mean latency under some load exceeds that of calm requests by more than this fraction.
const RAISED: f64 = 0.1;

/// A server model that is tried.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Candidate {
    width: u32,
    /// The fraction of a calm latency during which a processor is busy.
    share: f64,
}

/// A request of the log that candidates serve.
struct Job {
    at: f64,
    load: u32,
    took: f64,
    /// Two drawn latencies of a calm request: a share of the first is spent on a processor, the rest of the second elsewhere.
    drawn: [f64; 2],
    /// The additional time on a processor.
    extra: f64,
    /// The index of its row in the table of levels.
    level: usize,
    block: usize,
    /// Whether its latency counts.
    counts: bool,
    begins: bool,
}

/// The measured latencies and those of each candidate, summed by block and level.
struct Sums {
    /// The number of requests, and the sum of their measured latencies.
    measured: Vec<[f64; 2]>,
    /// The latencies that each candidate gives.
    given: Vec<Vec<f64>>,
    levels: usize,
}

/// The levels of a log with the latencies of the best candidate, its width if the log shows a queue, and the number of concurrent requests
/// that were still answered as fast as a single one.
pub(super) fn fit(log: &Log, times: &Times) -> (Vec<Level>, Option<Width>, u32) {
    let (mut levels, jobs) = prepare(log, times);
    let mean = jobs.iter().map(|job| job.drawn[0]).sum::<f64>() / jobs.len().max(1) as f64;
    let candidates: Vec<Candidate> = WIDTHS
        .into_iter()
        .take_while(|width| *width == 1 || *width <= log.facts.load_max)
        .flat_map(|width| (1..=STEPS).map(move |step| Candidate { width, share: f64::from(step) / f64::from(STEPS) }))
        .collect();
    let given: Vec<Vec<f64>> = candidates.iter().map(|candidate| serve(&jobs, Some(*candidate), mean, levels.len())).collect();
    let free = serve(&jobs, None, mean, levels.len());
    let mut measured = vec![[0.0; 2]; BLOCKS * levels.len()];
    for job in jobs.iter().filter(|job| job.counts) {
        let cell = &mut measured[job.block * levels.len() + job.level];
        *cell = [cell[0] + 1.0, cell[1] + job.took];
    }
    let sums = Sums { measured, given, levels: levels.len() };
    let once = [1.0; BLOCKS];
    let at_least = width_at_least(&levels);
    let shows = is_raised(&levels);
    let best = sums.best(&once).filter(|_| shows);
    // If the log shows no queue, the settings have servers without one.
    let fitted = match best {
        Some((number, _)) => sums.given[number].clone(),
        None => free,
    };
    for (number, level) in levels.iter_mut().enumerate() {
        let over = |of: &dyn Fn(usize) -> f64| (0..BLOCKS).map(|block| of(block * sums.levels + number)).sum::<f64>();
        let requests = over(&|cell| sums.measured[cell][0]);
        level.fitted_s = (requests >= ENOUGH as f64).then(|| over(&|cell| fitted[cell]) / requests / 1e6);
    }
    let width = best.map(|(number, error)| {
        let rate = |candidate: Candidate| 1e6 * f64::from(candidate.width) / (candidate.share * mean);
        let mut draw = Draw::new(0, Concern::Shape, 0);
        let mut found: Vec<Candidate> = Vec::new();
        for _ in 0..RESAMPLES {
            let mut weights = [0.0; BLOCKS];
            (0..BLOCKS).for_each(|_| weights[draw.below(BLOCKS as u64) as usize] += 1.0);
            found.extend(sums.best(&weights).map(|(number, _)| candidates[number]));
        }
        let mut widths: Vec<u32> = found.iter().map(|candidate| candidate.width).collect();
        let mut rates: Vec<f64> = found.iter().map(|candidate| rate(*candidate)).collect();
        widths.sort_unstable();
        rates.sort_by(f64::total_cmp);
        let (low, high) = (found.len() / 40, found.len().saturating_sub(1 + found.len() / 40));
        let best = candidates[number];
        Width {
            value: best.width,
            low: widths.get(low).copied().unwrap_or(1).min(best.width),
            high: widths.get(high).copied().unwrap_or(best.width).max(best.width),
            share: best.share,
            per_second: Estimate {
                value: rate(best),
                low: rates.get(low).map(|low| low.min(rate(best))),
                high: rates.get(high).map(|high| high.max(rate(best))),
            },
            error,
        }
    });
    (levels, width, at_least)
}

/// The levels as measured, and the requests that candidates serve.
fn prepare(log: &Log, times: &Times) -> (Vec<Level>, Vec<Job>) {
    let requests = &log.requests;
    let block = |number: usize| number * BLOCKS / requests.len().max(1);
    let mut keys: Vec<(Kind, u32)> = requests.iter().map(|request| (request.kind, bin(request.load))).collect();
    keys.sort_unstable();
    keys.dedup();
    let level_of = |kind: Kind, load: u32| keys.binary_search(&(kind, bin(load))).unwrap_or_default();
    #[derive(Clone, Default)]
    struct Sum {
        requests: f64,
        load: f64,
        arrivals: f64,
        of_blocks: Vec<(f64, f64)>,
    }
    let mut sums = vec![Sum { of_blocks: vec![(0.0, 0.0); BLOCKS], ..Sum::default() }; keys.len()];
    for (number, request) in requests.iter().enumerate().filter(|(_, request)| request.counts) {
        let sum = &mut sums[level_of(request.kind, request.load)];
        sum.requests += 1.0;
        sum.load += f64::from(request.load);
        sum.arrivals += f64::from(request.arrivals);
        let of_block = &mut sum.of_blocks[block(number)];
        *of_block = (of_block.0 + request.took as f64, of_block.1 + 1.0);
    }
    let level = |((kind, bin), sum): (&(Kind, u32), &Sum)| {
        let (from, to) = ends(*bin);
        let mean = sum.of_blocks.iter().map(|(took, _)| took).sum::<f64>() / sum.requests.max(1.0);
        let measured = statistics::ratio(sum.of_blocks.iter().copied().filter(|(_, requests)| *requests > 0.0));
        let measured = measured.unwrap_or(Estimate { value: mean, low: None, high: None });
        Level {
            kind: *kind,
            from,
            to,
            requests: sum.requests as u64,
            load: sum.load / sum.requests.max(1.0),
            arrivals_per_s: sum.arrivals / sum.requests.max(1.0),
            measured_s: measured.clamped(0.0, f64::INFINITY).per(1e6),
            fitted_s: None,
        }
    };
    let levels = keys.iter().zip(&sums).map(level).collect();
    let every = requests.len().div_ceil(SERVED_MAX).max(1);
    let mut draw = Draw::new(0, Concern::Workload, 0);
    let mut jobs = Vec::new();
    for (number, stretch) in requests.chunks(STRETCH).enumerate().filter(|(number, _)| number.is_multiple_of(every)) {
        for (offset, request) in stretch.iter().enumerate() {
            let latency = times.of_request(request);
            let sampler = latency.delay().sampler();
            let mut drawn = || sampler.sample(draw.unit()).as_micros() as f64;
            let extra = if request.kind == Kind::Conflict { times.conflict.unwrap_or(0.0) } else { 0.0 };
            jobs.push(Job {
                at: request.at as f64,
                load: request.load,
                took: request.took as f64,
                drawn: [drawn(), drawn()],
                extra,
                level: level_of(request.kind, request.load),
                block: block(number * STRETCH + offset),
                counts: request.counts,
                begins: offset == 0,
            });
        }
    }
    (levels, jobs)
}

/// The latencies that a candidate gives, summed by block and level; `None` = all requests are processed at once. `mean` is the mean latency
/// of calm requests.
fn serve(jobs: &[Job], candidate: Option<Candidate>, mean: f64, levels: usize) -> Vec<f64> {
    let mut sums = vec![0.0; BLOCKS * levels];
    let mut queue = Queue::new(1, 0.0);
    for job in jobs {
        let latency = match candidate {
            None => job.drawn[0] + job.extra,
            Some(Candidate { width, share }) => {
                if job.begins {
                    queue = begun(job, width, share, mean);
                }
                queue.serve(job.at, share * job.drawn[0] + job.extra) - job.at + (1.0 - share) * job.drawn[1]
            }
        };
        if job.counts {
            sums[job.block * levels + job.level] += latency;
        }
    }
    sums
}

/// The queue at the start of a stretch. Of the requests in flight, the number outside the processors follows from Little's law: it is
/// limited by the full throughput of the server, and by their fraction of a calm latency. Requests on processors are half done.
fn begun(job: &Job, width: u32, share: f64, mean: f64) -> Queue {
    let in_flight = f64::from(job.load);
    let beyond = (in_flight * (1.0 - share)).min(f64::from(width) * (1.0 - share) / share);
    let waiting = (in_flight - beyond).round() as u32;
    let mut queue = Queue::new(width, job.at);
    for number in 0..waiting {
        queue.serve(job.at, share * mean * if number < width { 0.5 } else { 1.0 });
    }
    queue
}

impl Sums {
    /// The candidate whose mean latencies of the levels have the smallest error, and the root mean square of that error; each block counts
    /// by its weight.
    fn best(&self, weights: &[f64; BLOCKS]) -> Option<(usize, f64)> {
        let over = |of: &dyn Fn(usize) -> f64, level: usize| {
            (0..BLOCKS).map(|block| weights[block] * of(block * self.levels + level)).sum::<f64>()
        };
        let counted: Vec<(usize, f64)> = (0..self.levels)
            .filter(|level| over(&|cell| self.measured[cell][0], *level) >= ENOUGH as f64)
            .map(|level| (level, over(&|cell| self.measured[cell][1], level)))
            .filter(|(_, took)| *took > 0.0)
            .collect();
        let off = |given: &Vec<f64>| {
            let square = |(level, took): &(usize, f64)| (over(&|cell| given[cell], *level) / took).ln().powi(2);
            (counted.iter().map(square).sum::<f64>() / counted.len() as f64).sqrt()
        };
        let all = self.given.iter().map(off).enumerate().filter(|(_, error)| error.is_finite());
        all.min_by(|(_, one), (_, other)| one.total_cmp(other))
    }
}

/// The level of calm requests of a kind, if there are enough.
fn calm(levels: &[Level], kind: Kind) -> Option<&Level> {
    levels.iter().find(|level| level.kind == kind && level.requests >= ENOUGH as u64)
}

/// Whether requests wait under some load: its whole interval is above that of calm requests.
fn is_raised(levels: &[Level]) -> bool {
    let is = |level: &Level| {
        let calm = calm(levels, level.kind)?;
        Some(level.requests >= ENOUGH as u64 && level.load > calm.load && level.measured_s.low? > calm.measured_s.value * (1.0 + RAISED))
    };
    levels.iter().any(|level| is(level) == Some(true))
}

/// The number of concurrent requests that were still answered as fast as one: loads whose whole interval is not above that of calm
/// requests.
fn width_at_least(levels: &[Level]) -> u32 {
    let is_fine = |level: &&Level| {
        let calm = calm(levels, level.kind).and_then(|calm| Some((calm.measured_s.value, calm.measured_s.high?)));
        let bound = calm.map(|(value, high)| high.max(value * (1.0 + RAISED)));
        let high = level.measured_s.high.filter(|_| level.requests >= ENOUGH as u64);
        high.zip(bound).is_some_and(|(high, bound)| high <= bound)
    };
    // Loads above one that made requests wait give no information.
    let mut most = 1;
    for kind in Kind::ALL {
        let of_kind = levels.iter().filter(|level| level.kind == kind);
        for level in of_kind.take_while(is_fine) {
            most = most.max(level.load.floor() as u32 + 1);
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::verbs::report::calibrate::requests::tests::log_of;

    /// Writes with random arrivals, each of which occupies one of this many processors for 2 ms, and then takes 2 ms more.
    fn served(width: u32, per_second: f64, requests: usize) -> Log {
        let mut draw = Draw::new(7, Concern::Workload, 1);
        let (mut queue, mut at) = (Queue::new(width, 0.0), 0.0);
        let all: Vec<(i64, i64, Kind)> = (0..requests)
            .map(|_| {
                at += -(1.0 - draw.unit()).ln() * 1e6 / per_second;
                let work = 2_000.0 * (0.5 + draw.unit());
                let rest = 2_000.0 * (0.5 + draw.unit());
                (at as i64, (queue.serve(at, work) - at + rest) as i64, Kind::Write)
            })
            .collect();
        log_of(&all)
    }

    #[test]
    fn a_queue_is_found_by_its_own_waits() {
        for (width, per_second) in [(1, 400.0), (2, 850.0)] {
            let log = served(width, per_second, 8_000);
            let (levels, found, _) = fit(&log, &Times::of(&log, None));
            let found = found.unwrap();
            let true_rate = 500.0 * f64::from(width);
            assert!((found.per_second.value / true_rate - 1.0).abs() < 0.15, "{found:?}");
            assert!((found.low..=found.high).contains(&width), "{found:?}");
            assert!(found.error < 0.12, "{found:?}");
            assert!(levels.iter().filter(|level| level.requests > 200).all(|level| level.error().unwrap().abs() < 0.2), "{levels:?}");
        }
    }

    #[test]
    fn a_log_that_is_too_calm_gives_a_lower_bound_and_no_width() {
        let log = served(64, 400.0, 4_000);
        let (_, width, at_least) = fit(&log, &Times::of(&log, None));
        assert_eq!(width, None);
        assert!((3..=9).contains(&at_least), "{at_least}");
        let alone: Vec<(i64, i64, Kind)> = (0..100).map(|number| (number * 10_000, 1_000, Kind::Read)).collect();
        let log = log_of(&alone);
        let (_, width, at_least) = fit(&log, &Times::of(&log, None));
        assert_eq!((width, at_least), (None, 1));
    }

    #[test]
    fn the_same_log_gives_the_same_fit() {
        let log = served(1, 400.0, 2_000);
        let times = Times::of(&log, None);
        assert_eq!(fit(&log, &times), fit(&log, &times));
    }
}
