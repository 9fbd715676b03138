//! A S3: what is answered is recorded.

use super::view::{Seen, View};
use super::{Answered, Findings, IpamClaim, violated};

/// Each address of an answer is recorded in the pool that the answer names, under the name of the pod (or of its VM) and the UID of
/// the request, unless it is being taken back at the same time.
///
/// Broken by `reown-missing-record`, `failure-cache-unchecked`, `reown-foreign-endpoint` and `unrecorded-answer`. It does not see
/// what becomes of the record later: that is the business of `records-leave-only-for-their-own-uid`.
pub(in super::super) struct AnswersAreRecorded;

impl IpamClaim for AnswersAreRecorded {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Some(answer) = Answered::of(seen) else { return };
        for given in answer.given {
            findings.judged();
            let holder = view.pools.holder(&given.pool, given.address);
            let fits = holder.is_some_and(|holder| {
                let same_uid = answer.uid.is_empty() || *holder.record.pod_uid == **answer.uid;
                same_uid && answer.is_name(view, &holder.record.pod)
            });
            if !fits && !answer.is_taken_back(view, &given.pool, given.address) {
                violated(findings, view.changes.touched(given.address), || {
                    vec![
                        format!(
                            "{} answers {} of {} with {} of pool {}, which is not recorded for it",
                            view.name(answer.by),
                            given.nic,
                            view.pod_of(answer.uid),
                            given.address,
                            given.pool
                        ),
                        view.story_of(&given.pool, given.address),
                    ]
                });
            }
        }
    }
}
