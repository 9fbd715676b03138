//! G GS8: reclaim removes what it announced, and nothing else.

use super::super::view::{EventMask, Seen, View};
use super::super::{Findings, IpamClaim, violated};

/// A replica of the controller removes a record only after it has announced a release of that address of that pool for the UID in the
/// record, and it never makes or changes a record.
///
/// Broken by whatever removes by address alone, or writes back what it read. It does not question the announcement: whether a release is
/// right is the business of `live-pods-are-not-reclaimed` and `places-keep-their-records`.
pub(crate) struct ReclaimRemovesWhatItAnnounced;

impl IpamClaim for ReclaimRemovesWhatItAnnounced {
    fn event_mask(&self) -> EventMask {
        EventMask::POOL
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Pool(change) = seen else { return };
        if !change.by_replica || change.before.is_none() || change.after.is_none() {
            return;
        }
        for edit in &change.edits {
            findings.exercised();
            let address = edit.key.address();
            let wrong = match (&edit.before, &edit.after, address) {
                (Some(before), None, Some(address)) => {
                    let announced = view.replicas.announced(change.said.by, &change.pool, address, &before.pod_uid);
                    announced.is_none().then(|| format!("removes the record of {} without a word", view.pod_of(&before.pod_uid)))
                }
                // A record whose key is not an address cannot be named in an announcement.
                (Some(_), None, None) => None,
                (_, Some(after), _) => Some(format!("writes a record for {}", view.pod_of(&after.pod_uid))),
                (None, None, _) => None,
            };
            let Some(wrong) = wrong else { continue };
            violated(findings, address.is_some_and(|address| view.changes.touched(address)), || {
                let whose = address.map_or_else(|| change.pool.to_string(), |address| format!("{address} of {}", change.pool));
                let mut lines = vec![format!("{whose}: {} {wrong}", view.name(change.said.by)), view.story_of_write(change)];
                lines.extend(address.map(|address| view.story_of(&change.pool, address)));
                lines
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::BY_HAND;
    use super::super::super::testing::{Stage, on_stage};

    const CLAIM: &str = "reclaim-removes-what-it-announced";

    fn set_up(stage: &mut Stage) {
        stage.pool("p", &["10.0.0.1-10.0.0.9"]);
        stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "a");
        stage.record(stage.agent, "p", "10.0.0.2", "ns/b", "b");
    }

    #[test]
    fn a_record_goes_after_whoever_removes_it_has_said_so_of_its_uid() {
        on_stage(CLAIM, |stage| {
            set_up(stage);
            stage.announce(stage.replicas[0], "ns/a", "a", &[("p", "10.0.0.1")]);
            stage.unrecord(stage.replicas[0], "p", "10.0.0.1");
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "a2");
            stage.unrecord(stage.replicas[0], "p", "10.0.0.1");
            assert_eq!(stage.excuses(), [None], "that was another UID");
            stage.announce(stage.replicas[1], "ns/b", "b", &[("p", "10.0.0.2")]);
            stage.unrecord(stage.replicas[0], "p", "10.0.0.2");
            assert_eq!(stage.excuses(), [None, None], "somebody else said so");
            assert!(stage.detail()[0].contains("removes the record of a pod that was never seen"), "{:?}", stage.detail());
        });
    }

    #[test]
    fn a_replica_makes_no_record_and_a_person_may() {
        on_stage(CLAIM, |stage| {
            set_up(stage);
            stage.record(stage.person, "p", "10.0.0.3", "ns/c", "c");
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], false));
            stage.record(stage.replicas[0], "p", "10.0.0.4", "ns/c", "c");
            assert_eq!(stage.excuses(), [None]);
            stage.unrecord(stage.replicas[0], "p", "10.0.0.3");
            assert_eq!(stage.excuses(), [None, Some(BY_HAND)]);
        });
    }
}
