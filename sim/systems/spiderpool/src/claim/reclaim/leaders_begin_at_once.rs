//! G §8: leaders begin at once.

use std::sync::Arc;
use std::time::Duration;

use kube_machinery::FxHashMap;
use kube_sim::rt::ProcessId;
use kube_sim::trace::ProcessChange;
use sim_config::time::SimTime;

use super::super::view::{EventMask, Seen, View};
use super::super::{Findings, IpamClaim};
use super::due::Due;
use super::leak::hinders;
use crate::workload::ReclaimNote;

/// The time within which a replica acts on a lease that it has taken: a late response, and caches that have just begun to fill.
const SOON: Duration = Duration::from_secs(10);

/// A replica whose write makes it the holder of the lease reports within 10 s that it leads: from then on it traces, and scans for what its
/// predecessor missed. This holds without faults that can hinder it.
///
/// Broken by `leader-flag-polled`, if the setting makes its polls infrequent. It does not detect a replica that never notices a loss.
#[derive(Default)]
pub(crate) struct LeadersBeginAtOnce {
    /// The holder of the lease that has not begun yet, and the time since which it holds it.
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
                // The previous holder has lost the lease.
                self.waits.clear();
                // A controller that does not reclaim uses the lease for other work.
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

#[cfg(test)]
pub(super) mod tests {
    use k8s_openapi::api::coordination::v1::Lease;
    use kube_machinery::ObjectKey;

    use super::super::super::testing::{Stage, on_stage};
    use super::*;
    use kube_sim::trace::FaultChange;

    /// Makes a replica take or renew the lease.
    fn holds(stage: &mut Stage, number: usize) {
        let mut lease = Lease::default();
        lease.spec.get_or_insert_default().holder_identity = Some(format!("spiderpool-controller-{number}"));
        let key = ObjectKey::namespaced("kube-system", "spiderpool-controller-leader");
        stage.put(stage.replicas[number], &key, Some(lease));
    }

    pub(in super::super) fn leads(stage: &mut Stage, number: usize, leads: bool) {
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
}
