//! G GS10: a release that is repeated, or carried out by two replicas, takes effect once.

use super::super::view::{EndpointChange, EventMask, PoolChange, Seen, View, uid_of};
use super::super::{Findings, IpamClaim, violated};
use super::ends;

/// No replica of the controller ends an endpoint because of a release that it announced before the endpoint became that of its present pod,
/// unless that pod is the one of the release; nor an endpoint for which it announced nothing. And no replica writes a pool or an endpoint
/// without changing anything in it.
///
/// That no record of a later UID is removed is the business of `reclaim-removes-what-it-announced`. Broken by `finalizer-patch-by-name`,
/// `endpoint-uid-precondition-only` and `database-keyed-by-name`. It does not detect requests that the API server refuses or that commit
/// nothing.
pub(crate) struct RepeatedReclaimChangesNothing;

impl IpamClaim for RepeatedReclaimChangesNothing {
    fn event_mask(&self) -> EventMask {
        EventMask::POOL.and(EventMask::ENDPOINT)
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        match seen {
            Seen::Endpoint(change) if change.by_replica => {
                findings.exercised();
                let wrong = wrong_endpoint(change, view);
                if let Some(wrong) = wrong {
                    violated(findings, view.changes.touched_endpoint(&change.key), || {
                        let whose = change.before.as_ref().map_or_else(String::new, |before| view.pod_of(uid_of(before)));
                        vec![format!("{} writes endpoint {} of {whose}: {wrong}", view.by(change.said), change.key)]
                    });
                }
            }
            Seen::Pool(change) if change.by_replica => {
                findings.exercised();
                if changes_nothing(change) {
                    findings.violated(|| vec![view.story_of_write(change), "nothing in it is another than before".to_owned()]);
                }
            }
            _ => {}
        }
    }
}

/// The error in the write of an endpoint by a replica, if there is one.
fn wrong_endpoint(change: &EndpointChange, view: &View) -> Option<String> {
    let before = change.before.as_ref()?;
    if let Some(after) = &change.after {
        let [old, new] = [before, after].map(|object| (&object.status, &object.metadata.finalizers, &object.metadata.deletion_timestamp));
        if old == new {
            return Some("nothing in it is another than before".to_owned());
        }
    }
    let what = ends(change)?;
    let Some(announced) = view.replicas.announced_endpoint(change.said.by, &change.key) else {
        return Some(format!("it {what}, and no release of it was announced"));
    };
    let is_meant = announced.what.iter().any(|target| *target.uid == *uid_of(before));
    let is_later = change.of_pod_since > announced.said.moment;
    (is_later && !is_meant)
        .then(|| format!("it {what} for a release that was announced {}, when it was another pod's", view.by(announced.said)))
}

fn changes_nothing(change: &PoolChange) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return false };
    let [old, new] = [before, after].map(|object| {
        let metadata = &object.metadata;
        (&metadata.finalizers, &metadata.deletion_timestamp, &metadata.labels, &metadata.annotations, &metadata.owner_references)
    });
    change.edits.is_empty() && before.spec == after.spec && before.status == after.status && old == new
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

    use super::super::super::testing::{Stage, on_stage};

    const CLAIM: &str = "repeated-reclaim-changes-nothing";
    const FIRST: &[(&str, &str, &str)] = &[("eth0", "p", "10.0.0.1")];
    const WHAT: &[(&str, &str)] = &[("p", "10.0.0.1")];

    fn set_up(stage: &mut Stage) {
        stage.pool("p", &["10.0.0.1-10.0.0.9"]);
        stage.pod("ns/a", "a");
        stage.add("ns/a", "a", FIRST);
        stage.pod_gone("ns/a");
    }

    #[test]
    fn two_replicas_may_do_one_release() {
        on_stage(CLAIM, |stage| {
            set_up(stage);
            for replica in stage.replicas {
                stage.announce(replica, "ns/a", "a", WHAT);
            }
            stage.mark(stage.replicas[0], "ns/a");
            stage.unrecord(stage.replicas[1], "p", "10.0.0.1");
            stage.let_go(stage.replicas[1], "ns/a");
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
        });
    }

    #[test]
    fn a_release_of_an_earlier_pod_must_not_end_the_endpoint_of_a_later_one() {
        on_stage(CLAIM, |stage| {
            set_up(stage);
            stage.announce(stage.replicas[0], "ns/a", "a", WHAT);
            stage.endpoint(stage.agent, "ns/a", "b", FIRST);
            stage.mark(stage.replicas[0], "ns/a");
            assert_eq!(stage.excuses(), [None]);
            assert!(stage.detail()[0].ends_with("when it was another pod's"), "{:?}", stage.detail());
            stage.announce(stage.replicas[0], "ns/a", "b", WHAT);
            stage.let_go(stage.replicas[0], "ns/a");
            assert_eq!(stage.excuses(), [None]);
        });
    }

    #[test]
    fn what_nobody_announced_is_a_violation() {
        on_stage(CLAIM, |stage| {
            set_up(stage);
            stage.announce(stage.replicas[1], "ns/a", "a", WHAT);
            stage.mark(stage.replicas[0], "ns/a");
            assert_eq!(stage.excuses(), [None]);
            assert!(stage.detail()[0].ends_with("no release of it was announced"), "{:?}", stage.detail());
        });
    }

    #[test]
    fn a_write_that_changes_nothing_is_one_too_many() {
        on_stage(CLAIM, |stage| {
            set_up(stage);
            stage.reclaim(stage.replicas[0], "ns/a", "a", "p", "10.0.0.1");
            assert_eq!(stage.excuses(), []);
            stage.change_pool(stage.replicas[0], "p", |pool| pool.metadata.owner_references = Some(vec![OwnerReference::default()]));
            assert_eq!(stage.excuses(), [], "another owner is a change");
            stage.change_pool(stage.replicas[0], "p", |_| {});
            assert_eq!(stage.excuses(), [None]);
            stage.mark(stage.replicas[0], "ns/a");
            assert_eq!(stage.excuses(), [None, None]);
            stage.change_pool(stage.agent, "p", |_| {});
            assert_eq!(stage.excuses(), [None, None]);
        });
    }
}
