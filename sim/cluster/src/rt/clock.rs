//! The two clocks of a host.

use std::time::Duration;

use sim_config::time::SimTime;

/// Wall and monotonic clock of one host: both run at the same rate, the wall clock also has an offset (K §9.2 F1 to F3).
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// The time since which the present rate holds.
    since: SimTime,
    /// The monotonic clock at `since`, in microseconds.
    base: u64,
    /// The difference from the rate of model time, in parts per billion; negative = slower.
    drift_ppb: i64,
    /// Wall clock minus true wall time, in microseconds, at `since`. Drift adds to it.
    offset: i64,
}

impl Default for Clock {
    fn default() -> Self {
        Self { since: SimTime::ZERO, base: 0, drift_ppb: 0, offset: 0 }
    }
}

const BILLION: i128 = 1_000_000_000;

impl Clock {
    /// The monotonic clock at model time `now`.
    pub fn monotonic(&self, now: SimTime) -> Duration {
        Duration::from_micros(self.base + self.run(now))
    }

    /// The lead of the wall clock over model time at `now`, in microseconds; negative = behind.
    pub fn wall_ahead(&self, now: SimTime) -> i64 {
        self.offset.saturating_add(self.run(now) as i64 - now.since(self.since).as_micros() as i64)
    }

    /// Whether the clock runs at the rate of model time.
    pub fn runs_true(&self) -> bool {
        self.drift_ppb == 0
    }

    /// Whether the clock has ever run at another rate than model time.
    pub(super) fn has_changed(&self) -> bool {
        self.since != SimTime::ZERO || self.drift_ppb != 0
    }

    /// Microseconds on this clock since `since`.
    fn run(&self, now: SimTime) -> u64 {
        let model = i128::from(now.as_micros().saturating_sub(self.since.as_micros()));
        if self.drift_ppb == 0 { model as u64 } else { (model * (BILLION + i128::from(self.drift_ppb)) / BILLION) as u64 }
    }

    /// The model time that passes while this clock advances by `duration`; rounded up.
    pub fn to_model(&self, duration: Duration) -> Duration {
        if self.drift_ppb == 0 {
            return duration;
        }
        let rate = BILLION + i128::from(self.drift_ppb);
        let micros = i128::from(sim_config::time::micros(duration)) * BILLION;
        Duration::from_micros(u64::try_from((micros + rate - 1) / rate).unwrap_or(u64::MAX))
    }

    /// Makes the clock run at another rate from `now` on.
    pub fn set_drift(&mut self, now: SimTime, drift_ppb: i64) {
        assert!(drift_ppb > -1_000_000_000, "a clock does not run backwards");
        let (monotonic, ahead) = (self.monotonic(now), self.wall_ahead(now));
        *self = Self { since: now, base: monotonic.as_micros() as u64, drift_ppb, offset: ahead };
    }

    /// Moves the wall clock by `delta_us` microseconds, as NTP or an operator does. The monotonic clock does not move.
    pub fn step_wall(&mut self, delta_us: i64) {
        self.offset = self.offset.saturating_add(delta_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_fast_clock_runs_ahead_and_its_sleeps_are_short() {
        let mut clock = Clock::default();
        clock.set_drift(SimTime::ZERO, 100_000_000);
        assert_eq!(clock.monotonic(SimTime::from_secs(10)), Duration::from_secs(11));
        assert_eq!(clock.wall_ahead(SimTime::from_secs(10)), 1_000_000);
        assert_eq!(clock.to_model(Duration::from_secs(11)), Duration::from_secs(10));
    }

    #[test]
    fn a_change_of_rate_does_not_make_either_clock_jump() {
        let mut clock = Clock::default();
        clock.set_drift(SimTime::ZERO, -200_000_000);
        let at = SimTime::from_secs(5);
        let before = (clock.monotonic(at), clock.wall_ahead(at));
        clock.set_drift(at, 300_000_000);
        assert_eq!((clock.monotonic(at), clock.wall_ahead(at)), before);
    }

    #[test]
    fn a_sleep_without_end_has_none_on_a_slow_clock_either() {
        let mut clock = Clock::default();
        clock.set_drift(SimTime::ZERO, -900_000_000);
        assert_eq!(clock.to_model(Duration::MAX), Duration::from_micros(u64::MAX));
    }

    #[test]
    fn a_step_moves_the_wall_clock_only() {
        let mut clock = Clock::default();
        clock.step_wall(-3_000_000);
        assert_eq!(clock.wall_ahead(SimTime::ZERO + SECOND), -3_000_000);
        assert_eq!(clock.monotonic(SimTime::ZERO + SECOND), SECOND);
    }
}
