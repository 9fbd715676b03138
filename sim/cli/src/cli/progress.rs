//! The progress of a sweep, and the request to stop it.
//!
//! Each worker counts in its own cache line; the main thread adds up the counters when it draws. The workers share only the stop flag,
//! which is not written while a sweep runs normally.
//!
//! ```text
//! worker 1 ──► WorkerCounter ─┐
//! worker 2 ──► WorkerCounter ─┼──◄ every 100 ms ── main thread ──► bar on standard error
//! signals ───► stop flag ─────┴──► polled between seeds
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use ipam_reports::{exit, human};
use parking_lot::Mutex;
use sim_harness::engine::progress::{Progress, Unit, WorkerCounter};

/// The progress of the running verb: shared by the main thread, which draws it, the thread that receives signals, and the workers.
#[derive(Debug, Default)]
pub struct LiveProgress {
    stop: StopHandle,
    stage: Mutex<Stage>,
}

/// A request to stop a sweep. Holds the exit code that the process then has; [`exit::HELD`] before any request.
#[derive(Clone, Debug, Default)]
pub(super) struct StopHandle(Arc<AtomicU8>);

impl StopHandle {
    /// Requests to stop and to exit with `code`. Returns whether this is the first request.
    pub(super) fn ask(&self, code: u8) -> bool {
        self.0.compare_exchange(exit::HELD, code, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    fn code(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The scenario that is running, or the claim whose plan is being shrunk.
#[derive(Clone, Debug, Default)]
struct Stage {
    number: u64,
    name: String,
    unit: Unit,
    /// An additional message.
    said: String,
    total: Option<u64>,
    counters: Vec<Arc<WorkerCounter>>,
}

impl Progress for LiveProgress {
    fn begin(&self, stage: &str, unit: Unit, total: Option<u64>, workers: usize) -> Vec<Arc<WorkerCounter>> {
        let counters: Vec<_> = (0..workers).map(|_| Arc::default()).collect();
        let mut now = self.stage.lock();
        let (number, name) = (now.number + 1, stage.to_owned());
        *now = Stage { number, name, unit, said: String::new(), total, counters: counters.clone() };
        counters
    }

    fn say(&self, text: String) {
        self.stage.lock().said = text;
    }

    fn stop_requested(&self) -> bool {
        self.stop.code() != exit::HELD
    }
}

impl LiveProgress {
    /// Asks the workers to stop.
    pub fn stop(&self) {
        self.stop.ask(exit::INTERRUPTED);
    }

    /// The handle behind [`LiveProgress::stop`], for the signal handler.
    pub(super) fn stop_handle(&self) -> StopHandle {
        self.stop.clone()
    }

    /// The exit code of the process: `code`, or the code for the signal if `code` says that the sweep was stopped.
    pub(super) fn ending(&self, code: u8) -> u8 {
        if exit::is_interruption(code) && self.stop_requested() { self.stop.code() } else { code }
    }

    fn stage(&self) -> Stage {
        self.stage.lock().clone()
    }
}

/// Sums over the workers: finished runs, failed runs.
fn sums(counters: &[Arc<WorkerCounter>]) -> (u64, u64) {
    counters.iter().fold((0, 0), |(done, failed), counter| (done + counter.done(), failed + counter.failed()))
}

/// The interval between two drawings of the bar.
const INTERVAL: Duration = Duration::from_millis(100);

/// Draws a bar on standard error until the sender of `done` is dropped.
pub(super) fn draw_until(done: &Receiver<()>, progress: &LiveProgress, color: bool) {
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
            bar = ProgressBar::with_draw_target(stage.total, ProgressDrawTarget::stderr())
                .with_style(style(stage.unit, stage.total.is_some(), color))
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
        (_, false) if stage.unit == Unit::Candidates => format!("  {}", stage.said),
        (_, true) => "  stopping".to_owned(),
        (0, false) => String::new(),
        (violated, false) => format!("  {} violated", human::count(violated)),
    }
}

fn style(unit: Unit, bounded: bool, color: bool) -> ProgressStyle {
    let template = match (bounded, color) {
        (_, true) if unit == Unit::Candidates => "shrinking {prefix:.bold}  {spinner:.cyan}  {human_pos} runs  {elapsed}{wide_msg}",
        (_, false) if unit == Unit::Candidates => "shrinking {prefix}  {spinner}  {human_pos} runs  {elapsed}{wide_msg}",
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
        let progress = LiveProgress::default();
        let workers = progress.begin("a", Unit::Seeds, Some(4), 2);
        workers[0].count(false);
        workers[1].count(true);
        workers[1].count(false);
        assert_eq!(sums(&progress.stage().counters), (3, 1));
        progress.begin("b", Unit::Seeds, None, 2);
        assert_eq!(sums(&progress.stage().counters), (0, 0));
    }

    #[test]
    fn the_first_signal_says_what_a_stopped_sweep_exits_with() {
        let progress = LiveProgress::default();
        assert_eq!((progress.stop_requested(), progress.ending(exit::INTERRUPTED)), (false, exit::INTERRUPTED));
        assert!(progress.stop_handle().ask(exit::TERMINATED) && !progress.stop_handle().ask(exit::INTERRUPTED));
        assert!(progress.stop_requested());
        assert_eq!((progress.ending(exit::INTERRUPTED), progress.ending(exit::HELD)), (exit::TERMINATED, exit::HELD));
    }

    #[test]
    fn a_plan_that_shrinks_says_how_small_it_is() {
        let progress = LiveProgress::default();
        progress.begin("no-increment-is-lost", Unit::Candidates, None, 1)[0].count(true);
        progress.say("3 operations, 1 fault".to_owned());
        assert_eq!(message(&progress.stage(), 1, false), "  3 operations, 1 fault");
        assert_eq!(message(&progress.stage(), 1, true), "  stopping");
        progress.begin("next", Unit::Seeds, None, 1);
        assert_eq!(message(&progress.stage(), 1, false), "  1 violated");
    }

    #[test]
    fn templates_are_valid() {
        for bounded in [true, false] {
            for color in [true, false] {
                style(Unit::Seeds, bounded, color);
                style(Unit::Candidates, bounded, color);
            }
        }
    }
}
