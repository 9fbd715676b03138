//! How far a sweep is, and whether it should stop.
//!
//! Each worker counts in a cache line of its own; the main thread adds the counters up when it draws. The only thing that
//! workers share is the stop flag, which nobody writes while a sweep runs on.
//!
//! ```text
//! worker 1 ──► SeedCounter ─┐
//! worker 2 ──► SeedCounter ─┼──◄ every 100 ms ── main thread ──► bar on standard error
//! Ctrl-C  ───► stop flag ───┴──► polled between seeds
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use ipam_reports::human;
use parking_lot::Mutex;

/// Shared between the main thread, which draws and handles Ctrl-C, and a sweep.
#[derive(Debug, Default)]
pub struct Progress {
    stop: Arc<AtomicBool>,
    stage: Mutex<Stage>,
}

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Unit {
    /// Seeds of a sweep; some violate a claim, which is bad.
    #[default]
    Seeds,
    /// Runs of candidates for a smaller plan; some still fail, which is what is wanted.
    Runs,
}

/// The scenario that runs now, or the claim whose plan is shrunk.
#[derive(Clone, Debug, Default)]
struct Stage {
    number: u64,
    name: String,
    unit: Unit,
    /// What there is to say besides.
    said: String,
    seeds_total: Option<u64>,
    counters: Vec<Arc<SeedCounter>>,
}

impl Progress {
    /// A scenario begins: `seeds_total` seeds, if their number is known. Gives one counter to each worker.
    pub fn begin(&self, scenario: &str, seeds_total: Option<u64>, workers: usize) -> Vec<Arc<SeedCounter>> {
        self.begin_stage(scenario, Unit::Seeds, seeds_total, workers)
    }

    /// The plan of a failure of `claim` begins to shrink. Gives one counter to each worker.
    pub fn begin_runs(&self, claim: &str, workers: usize) -> Vec<Arc<SeedCounter>> {
        self.begin_stage(claim, Unit::Runs, None, workers)
    }

    fn begin_stage(&self, name: &str, unit: Unit, seeds_total: Option<u64>, workers: usize) -> Vec<Arc<SeedCounter>> {
        let counters: Vec<_> = (0..workers).map(|_| Arc::default()).collect();
        let mut stage = self.stage.lock();
        let (number, name) = (stage.number + 1, name.to_owned());
        *stage = Stage { number, name, unit, said: String::new(), seeds_total, counters: counters.clone() };
        counters
    }

    /// Says how far it is in words, until the next stage begins.
    pub fn say(&self, text: String) {
        self.stage.lock().said = text;
    }

    /// Whether the user wants the sweep to end. A worker asks between two seeds.
    pub fn stop_requested(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Asks the sweep to end.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// The flag behind [`Progress::stop`], for a signal handler.
    pub(super) fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    fn stage(&self) -> Stage {
        self.stage.lock().clone()
    }
}

/// The seeds that one worker has finished. Aligned so that no two workers write to one cache line (or to a pair that is fetched together).
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct SeedCounter {
    done: AtomicU64,
    violated: AtomicU64,
}

impl SeedCounter {
    /// One more seed is done.
    pub fn count(&self, violated: bool) {
        self.done.fetch_add(1, Ordering::Relaxed);
        if violated {
            self.violated.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The sums over the workers: seeds done, seeds violated.
fn sums(counters: &[Arc<SeedCounter>]) -> (u64, u64) {
    counters.iter().fold((0, 0), |(done, violated), counter| {
        (done + counter.done.load(Ordering::Relaxed), violated + counter.violated.load(Ordering::Relaxed))
    })
}

/// How often the bar is drawn.
const INTERVAL: Duration = Duration::from_millis(100);

/// Draws a bar on standard error until the sender's side of `done` is dropped.
pub(super) fn draw_until(done: &Receiver<()>, progress: &Progress, color: bool) {
    let mut bar = ProgressBar::hidden();
    let mut stage_drawn = 0;
    while matches!(done.recv_timeout(INTERVAL), Err(RecvTimeoutError::Timeout)) {
        let stage = progress.stage();
        if stage.number == 0 {
            continue;
        }
        if stage.number != stage_drawn {
            stage_drawn = stage.number;
            bar.finish_and_clear();
            bar = ProgressBar::with_draw_target(stage.seeds_total, ProgressDrawTarget::stderr())
                .with_style(style(stage.unit, stage.seeds_total.is_some(), color))
                .with_prefix(stage.name.clone());
        }
        let (seeds, violated) = sums(&stage.counters);
        bar.set_position(seeds);
        bar.set_message(message(&stage, violated, progress.stop_requested()));
        bar.tick();
    }
    bar.finish_and_clear();
}

fn message(stage: &Stage, violated: u64, stopping: bool) -> String {
    match (violated, stopping) {
        (_, false) if stage.unit == Unit::Runs => format!("  {}", stage.said),
        (_, true) => "  stopping".to_owned(),
        (0, false) => String::new(),
        (violated, false) => format!("  {} violated", human::count(violated)),
    }
}

fn style(unit: Unit, bounded: bool, color: bool) -> ProgressStyle {
    let template = match (bounded, color) {
        (_, true) if unit == Unit::Runs => "shrinking {prefix:.bold}  {spinner:.cyan}  {human_pos} runs  {elapsed}{msg}",
        (_, false) if unit == Unit::Runs => "shrinking {prefix}  {spinner}  {human_pos} runs  {elapsed}{msg}",
        (true, true) => "{prefix:.bold}  {bar:30.cyan}  {human_pos}/{human_len} seeds  {eta} left{msg:.red}",
        (true, false) => "{prefix}  {bar:30}  {human_pos}/{human_len} seeds  {eta} left{msg}",
        (false, true) => "{prefix:.bold}  {spinner:.cyan}  {human_pos} seeds  {elapsed}{msg:.red}",
        (false, false) => "{prefix}  {spinner}  {human_pos} seeds  {elapsed}{msg}",
    };
    ProgressStyle::with_template(template).expect("the template is constant").progress_chars("━╸─")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_all_workers_add_up_and_a_new_scenario_starts_from_zero() {
        let progress = Progress::default();
        let workers = progress.begin("a", Some(4), 2);
        workers[0].count(false);
        workers[1].count(true);
        workers[1].count(false);
        assert_eq!(sums(&progress.stage().counters), (3, 1));
        progress.begin("b", None, 2);
        assert_eq!(sums(&progress.stage().counters), (0, 0));
    }

    #[test]
    fn a_plan_that_shrinks_says_how_small_it_is() {
        let progress = Progress::default();
        progress.begin_runs("no-increment-is-lost", 1)[0].count(true);
        progress.say("3 operations, 1 fault".to_owned());
        assert_eq!(message(&progress.stage(), 1, false), "  3 operations, 1 fault");
        assert_eq!(message(&progress.stage(), 1, true), "  stopping");
        progress.begin("next", None, 1);
        assert_eq!(message(&progress.stage(), 1, false), "  1 violated");
    }

    #[test]
    fn templates_are_valid() {
        for bounded in [true, false] {
            for color in [true, false] {
                style(Unit::Seeds, bounded, color);
                style(Unit::Runs, bounded, color);
            }
        }
    }

    #[test]
    fn workers_do_not_share_a_cache_line() {
        assert!(align_of::<SeedCounter>() >= 128);
    }
}
