//! The rate at which nodes are tainted so that their pods are evicted: slower the more of a zone is gone, and zero when everything is (K
//! §6.1).

use std::collections::BTreeMap;
use std::time::Duration;

use sim_config::time::SimTime;

/// The time between two nodes of a zone (`--node-eviction-rate` 0.1).
const PACE: Duration = Duration::from_secs(10);
/// The same in a large zone of which most is gone (`--secondary-node-eviction-rate` 0.01).
const SLOW_PACE: Duration = Duration::from_secs(100);
/// The number of nodes above which a zone is large (`--large-cluster-size-threshold`).
const LARGE: usize = 50;

/// The share of a zone that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disruption {
    /// Less than the other states require, or none.
    Normal,
    /// 55 % or more (`--unhealthy-zone-threshold`), and more than two nodes.
    Partial,
    /// All of it: there are nodes, and none is ready.
    Full,
}

impl Disruption {
    fn of(ready: usize, lost: usize) -> Self {
        if ready == 0 && lost > 0 {
            Disruption::Full
        } else if lost > 2 && lost * 100 >= (ready + lost) * 55 {
            Disruption::Partial
        } else {
            Disruption::Normal
        }
    }

    /// The time between two nodes; `None` = nothing is evicted.
    fn pace(self, nodes: usize) -> Option<Duration> {
        match self {
            Disruption::Normal | Disruption::Full => Some(PACE),
            Disruption::Partial if nodes > LARGE => Some(SLOW_PACE),
            Disruption::Partial => None,
        }
    }
}

#[derive(Debug)]
struct Zone {
    pace: Option<Duration>,
    /// The time at which a node was last tainted.
    last: Option<SimTime>,
}

/// The state of the cluster as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whole {
    /// Some zone has a node that is ready.
    There,
    /// Some zone has a ready node again: the silence before is not held against any node.
    Back,
    /// No zone has one: probably the controller is cut off, so nothing is evicted.
    Gone,
}

/// The zones of a cluster.
#[derive(Debug, Default)]
pub(super) struct Zones {
    zones: BTreeMap<String, Zone>,
    gone: bool,
}

impl Zones {
    /// Takes in the numbers of ready and not ready nodes of each zone.
    pub(super) fn count(&mut self, counts: BTreeMap<String, (usize, usize)>) -> Whole {
        self.zones.retain(|name, _| counts.contains_key(name));
        let gone = !counts.is_empty() && counts.values().all(|&(ready, lost)| Disruption::of(ready, lost) == Disruption::Full);
        for (name, (ready, lost)) in counts {
            let pace = Disruption::of(ready, lost).pace(ready + lost);
            self.zones.entry(name).or_insert(Zone { pace, last: None }).pace = pace;
        }
        match (std::mem::replace(&mut self.gone, gone), gone) {
            (_, true) => Whole::Gone,
            (true, false) => Whole::Back,
            (false, false) => Whole::There,
        }
    }

    /// Whether another node of the zone may be tainted now; if so, counts it as tainted.
    pub(super) fn take(&mut self, zone: &str, now: SimTime) -> bool {
        let Some(zone) = self.zones.get_mut(zone) else { return false };
        let Some(pace) = zone.pace.filter(|_| !self.gone) else { return false };
        let may = zone.last.is_none_or(|last| now >= last + pace);
        if may {
            zone.last = Some(now);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zones(counts: &[(&str, usize, usize)]) -> BTreeMap<String, (usize, usize)> {
        counts.iter().map(|&(name, ready, lost)| (name.to_owned(), (ready, lost))).collect()
    }

    /// The number of nodes of zone `a` that are tainted in 1 000 s.
    fn through(counts: &[(&str, usize, usize)]) -> usize {
        let mut all = Zones::default();
        all.count(zones(counts));
        (0..1_000).filter(|&second| all.take("a", SimTime::from_secs(second))).count()
    }

    #[test]
    fn nodes_are_tainted_slower_the_more_of_their_zone_is_gone() {
        assert_eq!(through(&[("a", 9, 1)]), 100, "one each 10 s");
        assert_eq!(through(&[("a", 1, 2)]), 100, "two are not many");
        assert_eq!(through(&[("a", 40, 60)]), 10, "a large zone");
        assert_eq!(through(&[("a", 4, 6)]), 0, "a small one");
        assert_eq!(through(&[("a", 0, 6), ("b", 1, 0)]), 100, "a whole zone is believed to be gone");
        assert_eq!(through(&[("a", 0, 6), ("b", 0, 3)]), 0, "all zones are not");
    }

    #[test]
    fn a_cluster_that_comes_back_is_told_once() {
        let mut all = Zones::default();
        assert_eq!(all.count(zones(&[("a", 0, 1)])), Whole::Gone);
        assert_eq!(all.count(zones(&[("a", 0, 1)])), Whole::Gone);
        assert_eq!(all.count(zones(&[("a", 1, 0)])), Whole::Back);
        assert_eq!(all.count(zones(&[("a", 1, 0)])), Whole::There);
        assert_eq!(all.count(BTreeMap::new()), Whole::There, "without nodes nothing is gone");
    }
}
