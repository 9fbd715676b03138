//! A first-come, first-served queue for several processors, like that of a simulated server.

/// A queue whose requests wait for the first of `k` processors that is free: the recursion of Kiefer and Wolfowitz. Times are in
/// microseconds.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    /// The times at which processors become free, the earliest first.
    free: Vec<f64>,
}

impl Queue {
    /// `width` processors, all free from a time on.
    pub(super) fn new(width: u32, from: f64) -> Self {
        Self { free: vec![from; width.max(1) as usize] }
    }

    /// Adds a request that keeps a processor busy for this long; returns the time at which it is done. Arrivals are in the order of time.
    pub(super) fn serve(&mut self, at: f64, takes: f64) -> f64 {
        let done = self.free[0].max(at) + takes;
        let place = self.free[1..].partition_point(|free| *free < done);
        self.free.copy_within(1..=place, 0);
        self.free[place] = done;
        done
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same queue, simulated event by event: arrivals, and processors that become free.
    fn naive(width: usize, arrivals: &[(u32, u32)]) -> Vec<u32> {
        let mut done = vec![0; arrivals.len()];
        let (mut line, mut busy): (std::collections::VecDeque<usize>, Vec<(u32, usize)>) = Default::default();
        let last = arrivals.iter().map(|(at, _)| at).max().unwrap() + arrivals.iter().map(|(_, takes)| takes).sum::<u32>() + 1;
        for now in 0..=last {
            busy.retain(|(end, _)| *end > now);
            line.extend((0..arrivals.len()).filter(|number| arrivals[*number].0 == now));
            while busy.len() < width
                && let Some(next) = line.pop_front()
            {
                done[next] = now + arrivals[next].1;
                // A request that takes no time leaves its processor at once.
                if arrivals[next].1 > 0 {
                    busy.push((done[next], next));
                }
            }
        }
        done
    }

    proptest! {
        #[test]
        fn the_recursion_is_a_simulation_tick_by_tick(
            width in 1usize..5,
            mut arrivals in prop::collection::vec((0u32..40, 0u32..12), 1..30),
        ) {
            arrivals.sort_by_key(|(at, _)| *at);
            let mut queue = Queue::new(width as u32, 0.0);
            let found: Vec<u32> = arrivals.iter().map(|(at, takes)| queue.serve(f64::from(*at), f64::from(*takes)) as u32).collect();
            prop_assert_eq!(found, naive(width, &arrivals));
        }
    }

    #[test]
    fn one_processor_waits_as_the_formula_of_pollaczek_and_khinchine_says() {
        use sim_config::draw::{Concern, Draw};
        let mut draw = Draw::new(1, Concern::Workload, 0);
        let (mut queue, mut at, mut waited) = (Queue::new(1, 0.0), 0.0, 0.0);
        const JOBS: u32 = 400_000;
        for _ in 0..JOBS {
            at += -(1.0 - draw.unit()).ln() / 0.7;
            waited += queue.serve(at, 1.0) - 1.0 - at;
        }
        // M/D/1 at a load of 0.7: 0.7 / (2 × 0.3).
        let mean = waited / f64::from(JOBS);
        assert!((mean - 0.7 / 0.6).abs() < 0.03, "{mean}");
    }
}
