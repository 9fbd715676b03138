//! Coverage points: the rows of decision tables, rules, reasons and errors of the system under test that a run reached.
//!
//! They are not events: they do not enter the digest, and no listener sees them.

use std::fmt;
use std::time::Duration;

use kube_machinery::FxHashMap;
use sim_config::time::SimTime;

/// A point that runs can reach. It consists of static names, so that reaching it needs no text to be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoveragePoint {
    /// The group of the point, after the system: `counter/refused` for the errors of a call.
    pub group: &'static str,
    /// Its name in the group.
    pub name: &'static str,
}

impl fmt::Display for CoveragePoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.group, self.name)
    }
}

/// Declares a function that names the variants of an enumeration for coverage, and the list of all names: one that is left out does not
/// compile.
#[macro_export]
macro_rules! coverage_names {
    ($(#[$about:meta])* $function:ident, $all:ident: $of:ty { $($variant:pat => $name:literal,)* }) => {
        $(#[$about])*
        fn $function(value: &$of) -> &'static str {
            match value {
                $($variant => $name,)*
            }
        }

        const $all: &[&str] = &[$($name),*];
    };
}

/// The number of times that a run reached a point.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    all: u32,
    /// The number of times while a fault was active.
    under_faults: u32,
}

/// The points that a run reached, with the number of times.
#[derive(Debug, Default)]
pub struct Coverage {
    points: FxHashMap<CoveragePoint, Times>,
    /// The number of active faults that are not instantaneous.
    active: u32,
    /// The time until which an instantaneous fault counts as active.
    brief: Option<SimTime>,
}

/// The time for which an instantaneous fault counts as active: its consequences come later.
pub const BRIEF: Duration = Duration::from_secs(1);

impl Coverage {
    /// Records that the run reaches `point` at `now`.
    pub fn reach(&mut self, point: CoveragePoint, now: SimTime) {
        let is_under_faults = self.active > 0 || self.brief.is_some_and(|until| now <= until);
        let times = self.points.entry(point).or_default();
        times.all = times.all.saturating_add(1);
        times.under_faults = times.under_faults.saturating_add(u32::from(is_under_faults));
    }

    /// Records that a fault begins at `now`. `lasts`: whether it ends later, and [`fault_ends`](Self::fault_ends) is called then.
    pub fn fault_begins(&mut self, now: SimTime, lasts: bool) {
        if lasts {
            self.active += 1;
        } else {
            self.brief = Some(now + BRIEF);
        }
    }

    /// Records the end of a fault that was recorded as lasting.
    pub fn fault_ends(&mut self) {
        // A recorder that replaces another one from then on has not seen the beginning.
        self.active = self.active.saturating_sub(1);
    }

    /// The points that it reached while a fault was active, sorted.
    pub fn under_faults(&self) -> Vec<CoveragePoint> {
        let reached = self.points.iter().filter(|(_, times)| times.under_faults > 0);
        let mut points: Vec<CoveragePoint> = reached.map(|(point, _)| *point).collect();
        points.sort_unstable();
        points
    }

    /// All points that the run reached, sorted.
    pub fn sorted(&self) -> Vec<CoveragePoint> {
        self.counts().into_iter().map(|(point, _)| point).collect()
    }

    /// All points that the run reached, sorted, with the number of times.
    pub fn counts(&self) -> Vec<(CoveragePoint, u32)> {
        let mut counts: Vec<(CoveragePoint, u32)> = self.points.iter().map(|(point, times)| (*point, times.all)).collect();
        counts.sort_unstable();
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_kept_once_and_sorted() {
        let mut coverage = Coverage::default();
        for (group, name) in [("tier", "namespace"), ("rule", "node-name"), ("tier", "namespace")] {
            coverage.reach(CoveragePoint { group, name }, SimTime::ZERO);
        }
        let told: Vec<String> = coverage.sorted().iter().map(CoveragePoint::to_string).collect();
        assert_eq!(told, ["rule/node-name", "tier/namespace"]);
        assert_eq!(coverage.counts().iter().map(|(_, times)| *times).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn what_is_reached_while_a_fault_is_active_is_kept_apart() {
        let point = |name| CoveragePoint { group: "tier", name };
        let mut coverage = Coverage::default();
        let reach = |coverage: &mut Coverage, name, at| coverage.reach(point(name), SimTime::from_secs(at));
        reach(&mut coverage, "calm", 1);
        coverage.fault_begins(SimTime::from_secs(2), true);
        reach(&mut coverage, "while-it-lasts", 3);
        coverage.fault_ends();
        reach(&mut coverage, "calm", 4);
        coverage.fault_begins(SimTime::from_secs(5), false);
        reach(&mut coverage, "right-after", 6);
        reach(&mut coverage, "calm", 7);
        assert_eq!(coverage.under_faults(), [point("right-after"), point("while-it-lasts")]);
        assert_eq!(coverage.sorted().len(), 3);
    }
}
