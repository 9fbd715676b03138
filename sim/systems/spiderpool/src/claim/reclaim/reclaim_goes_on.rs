//! G GL10: reclaim makes progress.

use std::sync::Arc;
use std::time::Duration;

use kube_machinery::FxHashMap;
use kube_sim::rt::ProcessId;
use kube_sim::trace::ProcessChange;
use sim_config::time::SimTime;

use super::super::view::{EventMask, Seen, View};
use super::super::{Findings, IpamClaim};
use super::due::Due;
use super::leak::{hinders, is_reclaimed};
use crate::workload::ReclaimNote;

/// The maximum duration of a step: scans and releases take a fraction of a second each, and each request 5 s.
const LONG: Duration = Duration::from_secs(120);

/// An activity that a replica has begun.
#[derive(Clone, Copy, Debug)]
struct Open {
    by: ProcessId,
    since: SimTime,
    within: Duration,
    /// Whether the progress of other activities is a reason to wait.
    in_line: bool,
    what: &'static str,
}

/// The times since which further activities with the same name have been in progress: upstream's executors release concurrently for one
/// pod. Which of them ends is not reported, so the one that began first counts as over.
type Later = FxHashMap<Arc<str>, Vec<SimTime>>;

/// A replica ends what it begins: a scan and a release within 2 minutes. A pod whose deadline has passed is taken up by an executor within
/// 2 minutes as well, unless others are ahead of it. A leader begins a scan when the interval after the last one is over. This holds
/// without faults that can hinder it; after them the bounds begin anew.
///
/// Broken by `ticket-released-ungranted`. It does not detect what a replica does not report.
#[derive(Default)]
pub(crate) struct ReclaimGoesOn {
    open: FxHashMap<Arc<str>, Open>,
    later: Later,
    due: Due,
    progress: SimTime,
}

fn name(what: &str, by: ProcessId, of: &str) -> Arc<str> {
    format!("{what} {} {of}", by.0).into()
}

impl ReclaimGoesOn {
    fn begin(&mut self, name: Arc<str>, open: Open, findings: &mut Findings) {
        self.due.expect(&name, open.since + open.within, findings);
        self.open.insert(name, open);
    }

    /// Begins an activity that may already be in progress under that name.
    fn begin_another(&mut self, name: Arc<str>, open: Open, findings: &mut Findings) {
        if self.open.contains_key(&name) {
            self.later.entry(name).or_default().push(open.since);
        } else {
            self.begin(name, open, findings);
        }
    }

    fn ends(&mut self, name: &str, view: &View, findings: &mut Findings) {
        self.progress = view.at;
        let Some((name, open)) = self.open.remove_entry(name) else { return };
        let Some(later) = self.later.get_mut(&name) else { return };
        let since = later.remove(0);
        if later.is_empty() {
            self.later.remove(&name);
        }
        self.begin(name, Open { since, ..open }, findings);
    }

    /// The time by which it has to be over.
    fn deadline(&self, open: &Open, view: &View) -> SimTime {
        let begun = if view.health.is_calm_since(open.since, hinders) {
            open.since
        } else {
            open.since.max(view.health.heal_at).max(view.health.troubled_until(hinders).unwrap_or_default())
        };
        let begun = if open.in_line { begun.max(self.progress) } else { begun };
        begun + open.within
    }

    fn hear(&mut self, by: ProcessId, note: &ReclaimNote, view: &View, findings: &mut Findings) {
        let since = view.at;
        let open = |what, within, in_line| Open { by, since, within, in_line, what };
        let next_scan = view.terms.settings.interval + LONG;
        match note {
            ReclaimNote::ScanBegun { .. } => {
                self.ends(&name("next scan", by, ""), view, findings);
                self.begin(name("scan", by, ""), open("ends its scan", LONG, false), findings);
            }
            ReclaimNote::ScanEnded { .. } => {
                self.ends(&name("scan", by, ""), view, findings);
                if view.replicas.leads(by) {
                    self.begin(name("next scan", by, ""), open("scans again", next_scan, false), findings);
                }
            }
            ReclaimNote::Leads(true) => self.begin(name("next scan", by, ""), open("scans again", next_scan, false), findings),
            ReclaimNote::Leads(false) => self.ends(&name("next scan", by, ""), view, findings),
            ReclaimNote::ReleaseBegun { key, by: releaser, .. } => {
                self.begin_another(name(&format!("{releaser:?}"), by, key), open("ends a release", LONG, false), findings);
            }
            ReclaimNote::ReleaseEnded { key, by: releaser, .. } => {
                self.ends(&name(&format!("{releaser:?}"), by, key), view, findings);
            }
            ReclaimNote::Fired { uid, .. } if view.terms.settings.workers > 0 => {
                let name = name("fired", by, uid);
                if !self.open.contains_key(&name) {
                    self.begin(name, open("sees to a pod whose deadline has passed", LONG, true), findings);
                }
            }
            ReclaimNote::Held { uid, .. } | ReclaimNote::Dropped { uid, .. } | ReclaimNote::Full { uid, .. } => {
                self.ends(&name("fired", by, uid), view, findings);
            }
            _ => {}
        }
    }
}

impl IpamClaim for ReclaimGoesOn {
    fn event_mask(&self) -> EventMask {
        EventMask::RECLAIM.and(EventMask::PROCESS)
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        match seen {
            Seen::Reclaim(by, note) if is_reclaimed(view) => self.hear(*by, note, view, findings),
            // The activities of the process are forgotten, or paused with it.
            Seen::Process(process, ProcessChange::Crashed | ProcessChange::Panicked) => {
                self.open.retain(|_, open| open.by != *process);
                self.later.retain(|name, _| self.open.contains_key(name));
            }
            Seen::Process(process, ProcessChange::Paused | ProcessChange::Resumed) => {
                for (name, open) in self.open.iter_mut().filter(|(_, open)| open.by == *process) {
                    open.since = view.at;
                    self.later.get_mut(name).into_iter().flatten().for_each(|since| *since = view.at);
                }
            }
            _ => {}
        }
    }

    fn overdue(&mut self, at: SimTime, view: &View, findings: &mut Findings) {
        for what in self.due.take(at) {
            findings.exercised();
            let Some(open) = self.open.get(&what).copied() else { continue };
            let by = self.deadline(&open, view);
            if view.replicas.is_standing(open.by) || view.out_of_reach.names.contains(&*view.name(open.by)) {
                continue;
            }
            if by > at {
                self.due.expect(&what, by, findings);
                continue;
            }
            self.open.remove(&what);
            self.later.remove(&what);
            findings.violated(|| {
                let of = what.rsplit(' ').next().unwrap_or_default();
                let of = if of.is_empty() { String::new() } else { format!(" ({of})") };
                vec![format!("{} never {}{of}: it has waited since {}", view.name(open.by), open.what, open.since)]
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use ipam_spiderpool::reclaim::{Dropped, Releaser, ScanCause, ScanCounts};

    use super::super::super::testing::{Stage, on_stage, on_stage_with};
    use super::*;
    use kube_sim::trace::FaultChange;

    const CLAIM: &str = "reclaim-goes-on";

    fn scan_begins(stage: &mut Stage) {
        stage.reclaims(stage.replicas[0], ReclaimNote::ScanBegun { cause: ScanCause::Asked, leading: true });
    }

    fn scan_ends(stage: &mut Stage) {
        stage.reclaims(stage.replicas[0], ReclaimNote::ScanEnded { counts: ScanCounts::default(), took: Duration::from_secs(1) });
    }

    fn long(stage: &mut Stage) {
        stage.pass(LONG + Duration::from_secs(1));
    }

    #[test]
    fn a_scan_ends_and_the_leader_begins_another() {
        on_stage_with(
            CLAIM,
            |settings| settings.interval = Duration::from_secs(30),
            |stage| {
                scan_begins(stage);
                scan_ends(stage);
                stage.pass(Duration::from_secs(10_000));
                assert_eq!((stage.excuses(), stage.exercised()), (vec![], true), "nobody leads");
                stage.reclaims(stage.replicas[0], ReclaimNote::Leads(true));
                scan_begins(stage);
                long(stage);
                assert_eq!(stage.excuses(), [None]);
                assert!(stage.detail()[0].starts_with("spiderpool-controller-0 never ends its scan"), "{:?}", stage.detail());
                scan_ends(stage);
                long(stage);
                assert_eq!(stage.excuses(), [None]);
                stage.pass(Duration::from_secs(30));
                assert_eq!(stage.excuses(), [None, None]);
                assert!(stage.detail()[0].starts_with("spiderpool-controller-0 never scans again"), "{:?}", stage.detail());
            },
        );
    }

    #[test]
    fn a_release_ends() {
        let (by, key): (_, Arc<str>) = (Releaser::Trace, "ns/a".into());
        on_stage(CLAIM, |stage| {
            let row = ipam_spiderpool::reclaim::Row::NoPod;
            stage.reclaims(stage.replicas[0], ReclaimNote::ReleaseBegun { by, key: key.clone(), what: [].into(), endpoint: true, row });
            stage.reclaims(stage.replicas[0], ReclaimNote::ReleaseEnded { by, key: key.clone(), ok: false });
            long(stage);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            stage.reclaims(stage.replicas[0], ReclaimNote::ReleaseBegun { by, key, what: [].into(), endpoint: true, row });
            long(stage);
            assert_eq!(stage.excuses(), [None]);
        });
    }

    #[test]
    fn of_two_releases_under_one_name_each_ends() {
        let (by, key): (_, Arc<str>) = (Releaser::Trace, "ns/a".into());
        let begins = |stage: &mut Stage| {
            let row = ipam_spiderpool::reclaim::Row::NoPod;
            stage.reclaims(stage.replicas[0], ReclaimNote::ReleaseBegun { by, key: key.clone(), what: [].into(), endpoint: true, row });
        };
        let ends = |stage: &mut Stage| stage.reclaims(stage.replicas[0], ReclaimNote::ReleaseEnded { by, key: key.clone(), ok: true });
        on_stage(CLAIM, |stage| {
            begins(stage);
            stage.pass(Duration::from_secs(60));
            begins(stage);
            ends(stage);
            stage.pass(LONG - Duration::from_secs(1));
            assert_eq!(stage.excuses(), [], "the second has had less than its time");
            stage.pass(Duration::from_secs(2));
            assert_eq!(stage.excuses(), [None]);
        });
        on_stage(CLAIM, |stage| {
            begins(stage);
            begins(stage);
            ends(stage);
            ends(stage);
            long(stage);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
        });
    }

    #[test]
    fn a_pod_whose_deadline_has_passed_gets_its_turn_once_the_others_had_theirs() {
        let fired = |stage: &mut Stage, uid: &str| {
            stage.reclaims(stage.replicas[0], ReclaimNote::Fired { pod: "ns/a".into(), uid: uid.into() });
        };
        let dropped = |stage: &mut Stage, uid: &str| {
            let why = Dropped::Done;
            stage.reclaims(stage.replicas[0], ReclaimNote::Dropped { pod: "ns/a".into(), uid: uid.into(), why });
        };
        on_stage(CLAIM, |stage| {
            fired(stage, "a");
            fired(stage, "b");
            stage.pass(Duration::from_secs(100));
            dropped(stage, "b");
            stage.pass(Duration::from_secs(100));
            assert_eq!(stage.excuses(), [], "somebody was ahead of it");
            long(stage);
            assert_eq!(stage.excuses(), [None]);
        });
        on_stage(CLAIM, |stage| {
            fired(stage, "a");
            dropped(stage, "a");
            long(stage);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
        });
    }

    #[test]
    fn who_crashes_stands_still_or_meets_a_fault_has_a_reason() {
        on_stage(CLAIM, |stage| {
            scan_begins(stage);
            stage.process_changes(stage.replicas[0], ProcessChange::Crashed);
            long(stage);
            assert_eq!(stage.excuses(), []);
        });
        on_stage(CLAIM, |stage| {
            scan_begins(stage);
            stage.process_changes(stage.replicas[0], ProcessChange::Paused);
            long(stage);
            assert_eq!(stage.excuses(), []);
        });
        on_stage(CLAIM, |stage| {
            scan_begins(stage);
            stage.pass(Duration::from_secs(100));
            stage.fault(FaultChange::Began);
            stage.fault(FaultChange::Ended);
            stage.pass(LONG - Duration::from_secs(1));
            assert_eq!(stage.excuses(), []);
            long(stage);
            assert_eq!(stage.excuses(), [None]);
        });
    }
}
