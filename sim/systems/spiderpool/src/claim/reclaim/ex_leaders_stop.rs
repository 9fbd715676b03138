//! G §8: former leaders stop.

use std::sync::Arc;

use ipam_spiderpool::reclaim::Releaser;
use kube_machinery::FxHashMap;
use kube_sim::rt::ProcessId;
use kube_sim::trace::ProcessChange;

use super::super::view::{EventMask, Seen, View};
use super::super::{Findings, IpamClaim};
use crate::workload::ReclaimNote;

/// A replica that knows that it no longer leads does nothing for a pod that it traced (D §1.3.6): in a release that it begins, it marks no
/// endpoint and removes no record. Releases that it had begun before may end.
///
/// Broken by `ex-leader-goes-on`.
#[derive(Default)]
pub(crate) struct ExLeadersStop {
    /// The UIDs of the releases that a replica began without leading, by replica and name.
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

    use super::super::super::testing::{Stage, on_stage};
    use super::super::leaders_begin_at_once::tests::leads;
    use super::*;

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
