//! A W22: late requests get nothing.

use std::time::Duration;

use ipam_spiderpool::ipam::PATIENCE;

use super::view::{EventMask, Seen, View};
use super::{Findings, IpamClaim};
use crate::workload::{How, IpamNote};

/// The delay after which data that was read in time may still be written: the maximum duration of a request to the API server (K §2.13).
const LAST_WRITES: Duration = Duration::from_secs(40);

/// No request is answered with addresses from the pools that long after its caller gave up, by the clock of the agent.
///
/// Broken by `limiter-ignores-deadline`. It does not detect records for a request that fails. The clock of a paused process goes on.
pub(crate) struct LateRequestsGetNothing;

impl IpamClaim for LateRequestsGetNothing {
    fn event_mask(&self) -> EventMask {
        EventMask::ANSWER
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Ipam(process, IpamNote::AddEnded { uid, nic, result: Ok(_), how: How::Fresh, took, .. }) = *seen else { return };
        findings.exercised();
        if *took > PATIENCE + LAST_WRITES {
            findings.violated(|| {
                vec![format!(
                    "{} answers {nic} of {} after {took:?}; its caller waits for {PATIENCE:?}",
                    view.name(process),
                    view.pod_of(uid)
                )]
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::on_stage;
    use super::*;

    #[test]
    fn only_an_answer_long_after_its_time_is_too_late() {
        on_stage("late-requests-get-nothing", |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.answer_after(PATIENCE + LAST_WRITES, "ns/a", "a");
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            stage.answer_after(PATIENCE + LAST_WRITES + Duration::from_millis(1), "ns/a", "a");
            assert_eq!(stage.excuses(), [None]);
        });
    }
}
