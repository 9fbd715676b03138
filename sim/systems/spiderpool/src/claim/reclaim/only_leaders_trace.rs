//! G §1.6: only leaders trace.

use std::sync::Arc;

use kube_sim::rt::ProcessId;
use sim_config::time::SimTime;

use super::super::view::{EventMask, Seen, View};
use super::super::{Findings, IpamClaim};
use crate::workload::ReclaimNote;

/// A replica that does not lead takes no pod into its database, neither at an event nor in a scan: its informer serves the leader alone. A
/// replica that takes the lease may notice that in different parts of its code within the same moment.
///
/// It does not detect an informer of a replica that does not lead as long as it has no effect.
#[derive(Default)]
pub(crate) struct OnlyLeadersTrace {
    /// The replicas that have taken in a pod in the present moment without having reported that they lead, with the pods.
    doubts: Vec<(ProcessId, Arc<str>)>,
}

impl IpamClaim for OnlyLeadersTrace {
    fn event_mask(&self) -> EventMask {
        EventMask::RECLAIM
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        match *seen {
            Seen::Reclaim(by, ReclaimNote::Entered { pod, .. }) => {
                findings.exercised();
                if !view.replicas.leads(by) {
                    self.doubts.push((by, pod.clone()));
                    findings.expect_by(view.at);
                }
            }
            Seen::Reclaim(by, ReclaimNote::Leads(true)) => self.doubts.retain(|(other, _)| *other != by),
            _ => {}
        }
    }

    fn overdue(&mut self, _: SimTime, view: &View, findings: &mut Findings) {
        for (by, pod) in self.doubts.drain(..) {
            findings.violated(|| vec![format!("{} does not lead, and traces {pod} from now on", view.name(by))]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ipam_spiderpool::reclaim::Tracing;
    use jiff::Timestamp;

    use super::super::super::testing::{Stage, on_stage};
    use super::super::leaders_begin_at_once::tests::leads;
    use super::*;

    fn enters(stage: &mut Stage) {
        let (pod, uid): (Arc<str>, Arc<str>) = ("ns/a".into(), "a".into());
        stage.reclaims(stage.replicas[0], ReclaimNote::Entered { pod, uid, tracing: Tracing::Deleted, stop: Timestamp::UNIX_EPOCH });
    }

    #[test]
    fn who_does_not_lead_or_leads_no_more_traces_nothing() {
        for before in [&[][..], &[true], &[true, false]] {
            on_stage("only-leaders-trace", |stage| {
                before.iter().for_each(|on| leads(stage, 0, *on));
                enters(stage);
                stage.pass(Duration::from_secs(1));
                leads(stage, 1, true);
                assert_eq!((stage.excuses().is_empty(), stage.exercised()), (before == [true], true), "{before:?}");
            });
        }
    }
}
