//! G §8: who leads begins at once, and who leads no more stops.

use std::sync::Arc;
use std::time::Duration;

use ipam_spiderpool::reclaim::Releaser;
use kube_machinery::FxHashMap;
use kube_sim::rt::ProcessId;
use kube_sim::trace::ProcessChange;
use sim_config::time::SimTime;

use super::super::view::{EventMask, Seen, View};
use super::super::{Findings, IpamClaim};
use super::due::Due;
use super::leak::hinders;
use crate::workload::ReclaimNote;

/// Within which time a replica acts on a lease that it has taken: an answer that is late, and caches that have just begun to fill.
const SOON: Duration = Duration::from_secs(10);

/// A replica whose write makes it the holder of the lease says within 10 s that it leads: it traces from then on, and scans for what the
/// one before missed. Without faults that can hinder it.
///
/// Broken by `leader-flag-polled`, as far as the setting lets it look seldom. It does not see a replica that never notices a loss.
#[derive(Default)]
pub(crate) struct LeadersBeginAtOnce {
    /// Who holds the lease and has not begun, and since when.
    waits: FxHashMap<Arc<str>, (ProcessId, SimTime)>,
    due: Due,
}

impl IpamClaim for LeadersBeginAtOnce {
    fn event_mask(&self) -> EventMask {
        EventMask::RECLAIM.and(EventMask::LEASE).and(EventMask::PROCESS)
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        match *seen {
            Seen::Lease(by) => {
                // Whoever had it before has lost it.
                self.waits.clear();
                // A controller that does not reclaim takes the lease for other work.
                if !view.terms.replicas.is_empty() && !view.replicas.leads(by) {
                    let name = view.name(by);
                    self.due.expect(&name, view.at + SOON, findings);
                    self.waits.insert(name, (by, view.at));
                }
            }
            Seen::Reclaim(by, ReclaimNote::Leads(true)) => self.waits.retain(|_, (waits, _)| *waits != by),
            Seen::Process(by, change) if !matches!(change, ProcessChange::Started | ProcessChange::Resumed) => {
                self.waits.retain(|_, (waits, _)| *waits != by);
            }
            _ => {}
        }
    }

    fn overdue(&mut self, at: SimTime, view: &View, findings: &mut Findings) {
        for name in self.due.take(at) {
            findings.exercised();
            let Some((_, since)) = self.waits.get(&name).copied() else { continue };
            if since + SOON > at {
                self.due.expect(&name, since + SOON, findings);
                continue;
            }
            self.waits.remove(&name);
            if view.health.is_calm_since(since, hinders) {
                findings.violated(|| vec![format!("{name} has held the lease since {since}, and does not lead reclaim")]);
            }
        }
    }
}

/// A replica that knows that it leads no more does nothing on account of a pod that it traced (D §1.3.6): of a release that it begins it
/// marks no endpoint and removes no record. What it had begun before may end.
///
/// Broken by `ex-leader-goes-on`.
#[derive(Default)]
pub(crate) struct ExLeadersStop {
    /// By replica and name, the UIDs of the releases that one began who does not lead.
    begun: FxHashMap<(ProcessId, Arc<str>), Vec<Arc<str>>>,
}

impl IpamClaim for ExLeadersStop {
    fn event_mask(&self) -> EventMask {
        EventMask::RECLAIM.and(EventMask::PROCESS)
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let done = match *seen {
            Seen::Reclaim(by, ReclaimNote::ReleaseBegun { by: Releaser::Trace, key, what, .. }) => {
                findings.exercised();
                if !view.replicas.leads(by) {
                    self.begun.insert((by, key.clone()), what.iter().map(|target| target.uid.clone()).collect());
                }
                return;
            }
            Seen::Reclaim(by, ReclaimNote::ReleaseEnded { by: Releaser::Trace, key, .. }) => {
                self.begun.remove(&(by, key.clone()));
                return;
            }
            Seen::Reclaim(by, ReclaimNote::Leads(true)) | Seen::Process(by, ProcessChange::Crashed | ProcessChange::Panicked) => {
                self.begun.retain(|(begun, _), _| *begun != by);
                return;
            }
            Seen::Reclaim(by, ReclaimNote::Marked { key }) if self.begun.contains_key(&(by, key.clone())) => {
                (by, format!("marks the endpoint {key}"))
            }
            Seen::Reclaim(by, ReclaimNote::Removed { uid, removed: 1.., .. })
                if self.begun.iter().any(|((begun, _), uids)| *begun == by && uids.contains(uid)) =>
            {
                (by, format!("removes what is recorded for {}", view.pod_of(uid)))
            }
            _ => return,
        };
        let (by, what) = done;
        findings.violated(|| vec![format!("{} leads no more, and {what}, which it had traced", view.name(by))]);
    }
}

#[cfg(test)]
mod tests {
    use ipam_spiderpool::reclaim::Row;
    use k8s_openapi::api::coordination::v1::Lease;
    use kube_machinery::ObjectKey;

    use super::super::super::testing::{Stage, on_stage};
    use super::*;
    use kube_sim::trace::FaultChange;

    /// A replica takes the lease, or renews it.
    fn holds(stage: &mut Stage, number: usize) {
        let mut lease = Lease::default();
        lease.spec.get_or_insert_default().holder_identity = Some(format!("spiderpool-controller-{number}"));
        let key = ObjectKey::namespaced("kube-system", "spiderpool-controller-leader");
        stage.put(stage.replicas[number], &key, Some(lease));
    }

    fn leads(stage: &mut Stage, number: usize, leads: bool) {
        stage.reclaims(stage.replicas[number], ReclaimNote::Leads(leads));
    }

    fn after(seconds: u64, test: impl FnOnce(&mut Stage)) -> Vec<Option<&'static str>> {
        let mut excuses = Vec::new();
        on_stage("leaders-begin-at-once", |stage| {
            test(stage);
            stage.pass(Duration::from_secs(seconds));
            excuses = stage.excuses();
            assert!(stage.exercised() || seconds < 10);
        });
        excuses
    }

    #[test]
    fn who_takes_the_lease_has_ten_seconds() {
        assert_eq!(after(9, |stage| holds(stage, 0)), []);
        assert_eq!(after(11, |stage| holds(stage, 0)), [None]);
        let began = |stage: &mut Stage| {
            holds(stage, 0);
            leads(stage, 0, true);
            holds(stage, 0);
        };
        assert_eq!(after(100, began), []);
    }

    #[test]
    fn who_lost_it_crashed_or_met_a_fault_has_a_reason() {
        let lost = |stage: &mut Stage| {
            holds(stage, 0);
            holds(stage, 1);
            leads(stage, 1, true);
        };
        assert_eq!(after(11, lost), []);
        let crashed = |stage: &mut Stage| {
            holds(stage, 0);
            stage.process_changes(stage.replicas[0], ProcessChange::Crashed);
        };
        assert_eq!(after(11, crashed), []);
        let hindered = |stage: &mut Stage| {
            holds(stage, 0);
            stage.fault(FaultChange::Began);
        };
        assert_eq!(after(11, hindered), []);
    }

    #[test]
    fn a_release_of_one_who_leads_no_more_changes_nothing() {
        let begins = |stage: &mut Stage, by: Releaser| {
            let (key, row): (Arc<str>, _) = ("ns/a".into(), Row::NoPod);
            stage.reclaims(stage.replicas[0], ReclaimNote::ReleaseBegun { by, key, what: [].into(), endpoint: true, row });
        };
        let marks = |stage: &mut Stage| stage.reclaims(stage.replicas[0], ReclaimNote::Marked { key: "ns/a".into() });
        for (leading, by, violated) in [(false, Releaser::Trace, true), (true, Releaser::Trace, false), (false, Releaser::Scan, false)] {
            on_stage("ex-leaders-stop", |stage| {
                leads(stage, 0, leading);
                begins(stage, by);
                leads(stage, 0, leading);
                marks(stage);
                assert_eq!((stage.excuses().is_empty(), stage.exercised()), (!violated, by == Releaser::Trace), "{by:?}");
            });
        }
        on_stage("ex-leaders-stop", |stage| {
            leads(stage, 0, true);
            begins(stage, Releaser::Trace);
            leads(stage, 0, false);
            marks(stage);
            assert_eq!(stage.excuses(), [], "it led when it began");
        });
    }
}
