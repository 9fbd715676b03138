//! The cause that dominates conflicts: lock step, long round trips, queues at the server, or faults.

use super::metric::Metric;
use super::point::Point;
use super::setting::{Setting, System, TOGETHER};

/// The regime of a point. Its numbers hold for another cluster only if that one is in the same regime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Regime {
    /// All start within one attempt, and nothing pulls them apart: one write wins each round, whatever the round trips are.
    LockStep,
    /// Starts are scattered, and requests hardly wait for one another: what counts is the length of round trips relative to the scatter.
    RoundTrips,
    /// Requests wait at the server for at least a tenth of a round trip: from about there on the size of the server affects the answer.
    Queue,
    /// Faults hold requests up and end them, each at its own time: the bursts of one point have different causes of conflicts.
    Faults,
}

impl Regime {
    /// The name of the regime in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Regime::LockStep => "lock-step",
            Regime::RoundTrips => "round-trips",
            Regime::Queue => "queue",
            Regime::Faults => "faults",
        }
    }
}

/// The part of a round trip from which waiting counts as a queue.
const QUEUE: f64 = 0.1;

impl Point {
    /// The regime in which the point lies.
    pub fn regime(&self) -> Regime {
        let Setting { read, write, .. } = self.setting;
        let round_trip = f64::midpoint(read.as_f64(), write.as_f64());
        if self.setting.has_faults() {
            Regime::Faults
        } else if self.setting.width > 0 && self.value(Metric::ServerWait) >= round_trip * QUEUE {
            Regime::Queue
        } else if self.setting.starts_together() {
            Regime::LockStep
        } else {
            Regime::RoundTrips
        }
    }
}

impl Setting {
    /// Whether all calls start within one attempt. Pods whose kubelets make sandboxes never do, since sandboxes take time; nor do those at
    /// agents that list pods and endpoints first.
    fn starts_together(&self) -> bool {
        (self.system == System::Byom || self.start == TOGETHER) && self.spread.as_f64() <= self.vulnerable_s()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seconds;
    use crate::conflicts::tests::{bursts, setting};
    use crate::conflicts::{BY_KUBELETS, RESTARTED};
    use crate::pool::ServerQueue;

    fn regime(setting: Setting, wait_us: u64) -> Regime {
        let mut runs = bursts(4, 10);
        let queue = ServerQueue { requests: 10, waited: Seconds::from_micros(10 * wait_us) };
        runs.iter_mut().for_each(|run| run.queue = (setting.width > 0).then_some(queue));
        Point::of(setting, 0, &runs).regime()
    }

    #[test]
    fn faults_decide_and_else_waiting_makes_a_queue_and_starts_tell_the_rest() {
        let sized = |spread| Setting { width: 1, ..setting(4, spread) };
        assert_eq!(regime(setting(4, 0), 0), Regime::LockStep);
        assert_eq!(regime(setting(4, 50), 0), Regime::RoundTrips);
        // The mean of 4 and 10 ms is 7 ms.
        assert_eq!(regime(sized(0), 690), Regime::LockStep);
        assert_eq!(regime(sized(50), 690), Regime::RoundTrips);
        assert_eq!(regime(sized(50), 700), Regime::Queue);
        let hostile = |setting| Setting { faults: "hostile".to_owned(), ..setting };
        assert_eq!(regime(hostile(setting(4, 0)), 0), Regime::Faults);
        assert_eq!(regime(hostile(sized(50)), 700), Regime::Faults);
        let agents = |start: &str| Setting { system: System::Spiderpool, start: start.to_owned(), ..setting(4, 0) };
        assert_eq!(regime(agents(BY_KUBELETS), 0), Regime::RoundTrips);
        assert_eq!(regime(agents(TOGETHER), 0), Regime::LockStep);
        assert_eq!(regime(agents(RESTARTED), 0), Regime::RoundTrips);
    }
}
