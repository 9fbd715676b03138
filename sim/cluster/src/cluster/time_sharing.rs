//! Processors that share their time between all jobs: processor sharing, as by the schedulers of operating systems and of Go.
//!
//! ```text
//!  in turn   ██████▒▒▒▒▒▒░░░░░░    one after the other: the first is done early, the last one late
//!  shared    █▒░█▒░█▒░█▒░█▒░█▒░    all at once, each as much slower: they are done nearly together
//! ```
//! All jobs progress at the same speed, so that one number, the time given to each of them so far, determines when the next one is done.

use std::collections::BTreeMap;
use std::time::Duration;

use sim_config::time::SimTime;

/// The jobs of processors that share their time.
pub(super) struct TimeSharing<J> {
    /// The processor time given to a job that has been there from the beginning, in nanoseconds.
    given: u64,
    /// The time up to which `given` has been computed.
    at: SimTime,
    added: u64,
    /// The jobs by the value of `given` at which they are done, then in the order of arrival.
    jobs: BTreeMap<(u64, u64), J>,
}

impl<J> Default for TimeSharing<J> {
    fn default() -> Self {
        Self { given: 0, at: SimTime::ZERO, added: 0, jobs: BTreeMap::new() }
    }
}

/// A machine whose `width` processors share their time: `background` other jobs never stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Machine {
    pub width: u32,
    pub background: u32,
}

impl<J> TimeSharing<J> {
    /// The number of jobs that want a processor, and the number of processors for them: a job never has more than one.
    fn shares(&self, machine: Machine) -> (u64, u64) {
        let wanted = (self.jobs.len() as u64 + u64::from(machine.background)).max(1);
        (wanted, u64::from(machine.width).min(wanted))
    }

    fn advance(&mut self, machine: Machine, now: SimTime) {
        let elapsed = now.since(self.at).as_nanos() as u64;
        let (wanted, processors) = self.shares(machine);
        self.given += elapsed * processors / wanted;
        self.at = now;
    }

    /// Starts a job that takes `takes` if it has a processor for itself.
    pub(super) fn add(&mut self, machine: Machine, now: SimTime, takes: Duration, job: J) {
        self.advance(machine, now);
        self.added += 1;
        self.jobs.insert((self.given + takes.as_nanos() as u64, self.added), job);
    }

    /// The next job that is done by now.
    pub(super) fn done(&mut self, machine: Machine, now: SimTime) -> Option<J> {
        self.advance(machine, now);
        let first = self.jobs.first_entry()?;
        (first.key().0 <= self.given).then(|| first.remove())
    }

    /// The time at which the next job is done, if none is added before that.
    pub(super) fn next(&self, machine: Machine) -> Option<SimTime> {
        let ((end, _), _) = self.jobs.first_key_value()?;
        let (wanted, processors) = self.shares(machine);
        let left = end.saturating_sub(self.given).saturating_mul(wanted).div_ceil(processors);
        Some(self.at + Duration::from_nanos(left))
    }

    /// Removes all jobs, which are lost.
    pub(super) fn take(&mut self) -> impl Iterator<Item = J> {
        std::mem::take(&mut self.jobs).into_values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn machine(width: u32) -> Machine {
        Machine { width, background: 0 }
    }

    /// Runs jobs with their arrival and size in milliseconds. Returns the time at which each is done.
    fn run(machine: Machine, jobs: &[(u64, u64)]) -> Vec<u64> {
        let ms = |ms: u64| SimTime::from_micros(ms * 1_000);
        let mut sharing = TimeSharing::default();
        let mut done = vec![0; jobs.len()];
        let mut arrivals: Vec<(u64, u64, usize)> = jobs.iter().enumerate().map(|(number, &(at, takes))| (at, takes, number)).collect();
        arrivals.sort();
        let mut arrivals = arrivals.into_iter().peekable();
        loop {
            let arrival = arrivals.peek().map(|&(at, ..)| ms(at));
            let end = sharing.next(machine);
            let Some(now) = arrival.into_iter().chain(end).min() else { return done };
            while let Some(number) = sharing.done(machine, now) {
                done[number] = now.as_micros().div_ceil(1_000);
            }
            while let Some((at, takes, number)) = arrivals.next_if(|&(at, ..)| ms(at) == now) {
                sharing.add(machine, ms(at), Duration::from_millis(takes), number);
            }
        }
    }

    #[test]
    fn jobs_slow_each_other_down_and_the_small_one_is_done_first() {
        assert_eq!(run(machine(1), &[(0, 10), (0, 10)]), [20, 20]);
        assert_eq!(run(machine(1), &[(0, 10), (0, 2)]), [12, 4]);
        assert_eq!(run(machine(1), &[(0, 10), (4, 3)]), [13, 10], "six and three, side by side: three each until the small one is done");
        assert_eq!(run(machine(2), &[(0, 10), (0, 10)]), [10, 10], "a job never has more than one processor");
        assert_eq!(run(machine(2), &[(0, 10), (0, 10), (0, 10)]), [15, 15, 15]);
        assert_eq!(run(machine(4), &[(0, 10), (20, 10)]), [10, 30]);
    }

    #[test]
    fn what_else_runs_takes_its_share() {
        assert_eq!(run(Machine { width: 2, background: 1 }, &[(0, 10)]), [10], "a processor is left");
        assert_eq!(run(Machine { width: 2, background: 3 }, &[(0, 10)]), [20]);
        assert_eq!(run(Machine { width: 2, background: 2 }, &[(0, 10), (0, 10)]), [20, 20]);
    }

    #[test]
    fn no_work_is_lost_or_made() {
        use sim_config::draw::{Concern, Draw};
        let mut draw = Draw::new(1, Concern::Workload, 0);
        for width in 1..4 {
            // One busy period: all arrive before the first could be done.
            let jobs: Vec<(u64, u64)> = (0..40).map(|_| (draw.below(20), 100 + draw.below(50))).collect();
            let done = run(machine(width), &jobs);
            let work: u64 = jobs.iter().map(|(_, takes)| takes).sum();
            let (last, first) = (*done.iter().max().unwrap(), jobs.iter().map(|(at, _)| at).min().unwrap());
            assert!(last - first >= work / u64::from(width), "{last}: {work}");
            if width == 1 {
                assert!((last - first).abs_diff(work) <= 1, "one processor is never idle: {last}, {work}");
            }
        }
    }
}
