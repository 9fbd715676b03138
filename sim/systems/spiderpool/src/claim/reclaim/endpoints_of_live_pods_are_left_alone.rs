//! G GS6: reclaim ends no endpoint of a live pod.

use super::super::view::{EventMask, Seen, View, uid_of};
use super::super::{Findings, IpamClaim};
use super::{ends, violated, without_ips};

/// A replica of the controller neither deletes nor marks an endpoint, nor removes its finalizer, if its UID is that of a pod which is
/// entitled to its addresses by the rules of `live-pods-are-not-reclaimed`.
///
/// Excused as `empty-pod-ips-release`, where the setting is on. Broken by `finalizer-patch-by-name`, `endpoint-uid-precondition-only`,
/// `scan-trusts-cached-endpoint` and `database-keyed-by-name`. It does not judge endpoints that the garbage collector of Kubernetes
/// deletes.
pub(crate) struct EndpointsOfLivePodsAreLeftAlone;

impl IpamClaim for EndpointsOfLivePodsAreLeftAlone {
    fn event_mask(&self) -> EventMask {
        EventMask::ENDPOINT
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Endpoint(change) = seen else { return };
        let (Some(before), Some(what)) = (&change.before, ends(change).filter(|_| change.by_replica)) else { return };
        findings.exercised();
        let uid = uid_of(before);
        let announced = view.replicas.announced_endpoint(change.said.by, &change.key).map(|announced| &**announced);
        if !view.has_right(uid, change.said.by, announced) {
            return;
        }
        violated(findings, without_ips(view, uid, announced), view.changes.touched_endpoint(&change.key), || {
            let mut lines = vec![format!("endpoint {} of {} {what} {}", change.key, view.pod_of(uid), view.by(change.said))];
            let announced = view.replicas.for_key(&change.key).iter().map(|announced| {
                let uids: Vec<String> =
                    announced.what.iter().map(|target| format!("{} of {}", target.ip, view.pod_of(&target.uid))).collect();
                format!("release announced {} ({}): {}", view.by(announced.said), announced.row.code(), uids.join(", "))
            });
            lines.extend(announced);
            lines
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::BY_HAND;
    use super::super::super::testing::{Stage, on_stage, on_stage_with};
    use super::super::super::view::EMPTY_POD_IPS;

    const CLAIM: &str = "endpoints-of-live-pods-are-left-alone";
    const FIRST: &[(&str, &str, &str)] = &[("eth0", "p", "10.0.0.1")];

    fn set_up(stage: &mut Stage) {
        stage.pool("p", &["10.0.0.1-10.0.0.9"]);
        stage.pod("ns/a", "a");
        stage.add("ns/a", "a", FIRST);
    }

    #[test]
    fn marking_deleting_and_letting_go_are_violations_while_the_pod_lives() {
        let ways: [fn(&mut Stage); 3] = [
            |stage| stage.mark(stage.replicas[0], "ns/a"),
            |stage| stage.let_go(stage.replicas[0], "ns/a"),
            |stage| stage.endpoint_gone(stage.replicas[0], "ns/a"),
        ];
        for way in ways {
            on_stage(CLAIM, |stage| {
                set_up(stage);
                way(stage);
                assert_eq!((stage.excuses(), stage.exercised()), (vec![None], true));
            });
            on_stage(CLAIM, |stage| {
                set_up(stage);
                stage.pod_gone("ns/a");
                way(stage);
                assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            });
        }
    }

    #[test]
    fn a_release_of_a_predecessor_that_hits_its_successor_is_told() {
        on_stage(CLAIM, |stage| {
            set_up(stage);
            stage.pod_gone("ns/a");
            stage.announce(stage.replicas[0], "ns/a", "a", &[("p", "10.0.0.1")]);
            stage.pod("ns/a", "b");
            stage.endpoint(stage.agent, "ns/a", "b", FIRST);
            stage.let_go(stage.replicas[0], "ns/a");
            assert_eq!(stage.excuses(), [None]);
            assert!(stage.detail()[1].starts_with("release announced by spiderpool-controller-0"), "{:?}", stage.detail());
        });
    }

    #[test]
    fn a_setting_and_a_hand_excuse() {
        on_stage_with(
            CLAIM,
            |settings| settings.running_without_ips = true,
            |stage| {
                set_up(stage);
                stage.pod_is("ns/a", "Running", None);
                stage.mark(stage.replicas[0], "ns/a");
                assert_eq!(stage.excuses(), [Some(EMPTY_POD_IPS)]);
            },
        );
        on_stage(CLAIM, |stage| {
            set_up(stage);
            stage.endpoint(stage.person, "ns/a", "a", &[]);
            stage.mark(stage.replicas[0], "ns/a");
            assert_eq!(stage.excuses(), [Some(BY_HAND)]);
        });
    }
}
