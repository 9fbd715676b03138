//! Events that happen in some runs, so that scenarios test what they are meant to test.

use std::net::IpAddr;
use std::sync::Arc;

use ipam_spiderpool::PoolIPAllocation;
use ipam_spiderpool::ipam::DelOutcome;
use ipam_spiderpool::ranges::IpVersion;
use kube_machinery::FxHashMap;
use kube_machinery::api::Reason;
use kube_sim::trace::Outcome;

use super::view::{EventMask, Seen, View};
use super::{Answered, Findings, IpamClaim};
use crate::workload::{Cause, How, InOrder, IpamNote, Refusal};

/// Coverage by a single event.
#[derive(Clone, Copy)]
pub(crate) enum Coverage {
    /// An agent writes a pool and meets a conflict.
    AgentsConflict,
    /// A static pod gets the address of its predecessor.
    AStaticAddressIsKept,
    /// A pool has no address left, and another one serves.
    ALaterPoolServes,
    /// A DEL for a UID comes after the ADD of its successor was answered.
    ADeleteComesLate,
    /// A DEL names no UID, and its pod is unknown.
    ADeleteIsLeftToReclaim,
    /// A request that fails takes back its records.
    AnAddIsRolledBack,
    /// A request is answered with the addresses that the pod already has.
    AnEndpointAnswers,
    /// An answer has addresses of both families for one NIC.
    AnAnswerHasBothFamilies,
    /// An answer has addresses for several NICs.
    AnAnswerHasSeveralNics,
    /// An address is given up because a host outside the cluster uses it.
    AnOutsideConflictIsFound,
    /// A static pod that was evicted is succeeded by a pod with its address on another node.
    AnEvictedPodKeepsItsAddress,
}

impl IpamClaim for Coverage {
    fn event_mask(&self) -> EventMask {
        match self {
            Coverage::AgentsConflict => EventMask::WROTE,
            Coverage::AnAddIsRolledBack
            | Coverage::AnOutsideConflictIsFound
            | Coverage::ADeleteComesLate
            | Coverage::ADeleteIsLeftToReclaim => EventMask::RELEASE,
            Coverage::ALaterPoolServes => EventMask::CHOICE,
            Coverage::AStaticAddressIsKept
            | Coverage::AnEvictedPodKeepsItsAddress
            | Coverage::AnEndpointAnswers
            | Coverage::AnAnswerHasBothFamilies
            | Coverage::AnAnswerHasSeveralNics => EventMask::ANSWER,
        }
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        if self.is_in(seen, view) {
            findings.held();
        }
    }
}

impl Coverage {
    fn is_in(self, seen: &Seen<'_>, view: &View) -> bool {
        match self {
            Coverage::AgentsConflict => matches!(seen, Seen::Wrote(Outcome::Http(_, Reason::Conflict))),
            Coverage::AnAddIsRolledBack => matches!(seen, Seen::Ipam(_, IpamNote::ReleaseEnded { cause: Cause::RollBack, ok: true, .. })),
            Coverage::AnOutsideConflictIsFound => matches!(seen, Seen::Ipam(_, IpamNote::ReleaseBegun { cause: Cause::Conflict, .. })),
            Coverage::ADeleteComesLate => match seen {
                Seen::Ipam(_, IpamNote::DelBegun { pod, uid, .. }) if !uid.is_empty() => {
                    view.pods.named(pod).is_some_and(|(successor, _)| successor != uid && !view.ledger.answers(successor).is_empty())
                }
                _ => false,
            },
            Coverage::ADeleteIsLeftToReclaim => {
                matches!(seen, Seen::Ipam(_, IpamNote::DelEnded { outcome: Some(DelOutcome::NoUid), .. }))
            }
            Coverage::ALaterPoolServes => match seen {
                Seen::Ipam(process, IpamNote::Tried { uid, nic, outcome: Ok(address), .. }) => {
                    view.agents.asked(*process, uid).any(|asked| {
                        let full = |order: &InOrder| order.nic == *nic && order.family == IpVersion::of(*address) && order.full > 0;
                        let used_out = asked.tried.iter().any(|tried| tried.nic == *nic && tried.outcome == Err(Refusal::UsedOut));
                        used_out || asked.order().iter().any(full)
                    })
                }
                _ => false,
            },
            Coverage::AStaticAddressIsKept
            | Coverage::AnEvictedPodKeepsItsAddress
            | Coverage::AnEndpointAnswers
            | Coverage::AnAnswerHasBothFamilies
            | Coverage::AnAnswerHasSeveralNics => Answered::of(seen).is_some_and(|answer| self.is_in_answer(&answer, view)),
        }
    }

    fn is_in_answer(self, answer: &Answered<'_>, view: &View) -> bool {
        let first = answer.given.first();
        let differs = |other: fn(&super::Given, &super::Given) -> bool| {
            first.is_some_and(|first| answer.given.iter().any(|given| other(first, given)))
        };
        match self {
            Coverage::AnEndpointAnswers => answer.how == How::Existing && first.is_some(),
            Coverage::AnAnswerHasBothFamilies => {
                differs(|one, other| one.nic == other.nic && one.address.is_ipv4() != other.address.is_ipv4())
            }
            Coverage::AnAnswerHasSeveralNics => differs(|one, other| one.nic != other.nic),
            Coverage::AStaticAddressIsKept => kept_from(answer, view).next().is_some(),
            Coverage::AnEvictedPodKeepsItsAddress => {
                let node = view.pods.get(answer.uid).and_then(|pod| pod.node());
                kept_from(answer, view).filter_map(|uid| view.pods.get(uid)).any(|before| before.is_evicted() && before.node() != node)
            }
            _ => false,
        }
    }
}

/// The predecessors in the same place whose addresses an answer contains.
fn kept_from<'a>(answer: &'a Answered<'_>, view: &'a View) -> impl Iterator<Item = &'a Arc<str>> {
    let name = view.pods.get(answer.uid).and_then(|pod| pod.static_name());
    let kept = name.map_or(&[][..], |name| view.ledger.kept(name));
    kept.iter().filter(|before| before.uid != *answer.uid && answer.given.contains(&before.given)).map(|before| &before.uid)
}

/// An address passes from one pod to a pod of another name.
#[derive(Default)]
pub(crate) struct AnAddressChangesHands {
    last: FxHashMap<IpAddr, Arc<PoolIPAllocation>>,
}

impl IpamClaim for AnAddressChangesHands {
    fn event_mask(&self) -> EventMask {
        EventMask::POOL
    }

    fn observe(&mut self, seen: &Seen<'_>, _: &View, findings: &mut Findings) {
        let Seen::Pool(change) = seen else { return };
        for (address, record) in change.edits.iter().filter_map(|edit| edit.given()) {
            if self.last.insert(address, record.clone()).is_some_and(|before| before.pod != record.pod) {
                findings.held();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Pod, PodCondition};
    use kube_machinery::ObjectKey;
    use kube_sim::cluster::{DISRUPTION_TARGET, EVICTED_BY_API};

    use super::super::testing::{Stage, on_stage};
    use super::*;
    use crate::oracle::Opinion;

    const FIRST: &[(&str, &str, &str)] = &[("eth0", "p", "10.0.0.1")];
    const WHAT: &[(&str, &str)] = &[("p", "10.0.0.1")];

    /// `claim` holds after `then` and not after `first`.
    fn holds(claim: &'static str, first: impl FnOnce(&mut Stage), then: impl FnOnce(&mut Stage)) {
        on_stage(claim, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            first(stage);
            assert!(!stage.held(), "{claim}");
            then(stage);
            assert!(stage.held(), "{claim}");
        });
    }

    #[test]
    fn each_sight_is_seen_and_nothing_else() {
        holds(
            "an-address-changes-hands",
            |stage| {
                stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "a");
                stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "a2");
                stage.unrecord(stage.agent, "p", "10.0.0.1");
            },
            |stage| stage.record(stage.agent, "p", "10.0.0.1", "ns/b", "b"),
        );
        holds(
            "agents-conflict",
            |stage| {
                stage.refused_write(stage.person, Reason::Conflict);
                stage.refused_write(stage.agent, Reason::InternalError);
            },
            |stage| stage.refused_write(stage.agent, Reason::Conflict),
        );
        holds(
            "an-add-is-rolled-back",
            |stage| {
                stage.released("ns/a", "a", Cause::RollBack, false);
                stage.released("ns/a", "a", Cause::Del, true);
            },
            |stage| stage.released("ns/a", "a", Cause::RollBack, true),
        );
        holds(
            "an-outside-conflict-is-found",
            |stage| stage.release("ns/a", "a", Cause::Del, WHAT),
            |stage| stage.release("ns/a", "a", Cause::Conflict, WHAT),
        );
        holds(
            "an-endpoint-answers",
            |stage| stage.answer("ns/a", "a", "eth0", FIRST),
            |stage| stage.answer_existing("ns/a", "a", "eth0", FIRST),
        );
    }

    #[test]
    fn answers_are_told_apart() {
        let both = [FIRST[0], ("eth0", "q", "fd00::1")];
        let nics = [FIRST[0], ("net1", "p", "10.0.0.2")];
        holds(
            "an-answer-has-both-families",
            |stage| {
                stage.answer("ns/a", "a", "eth0", FIRST);
                stage.answer("ns/a", "a", "eth0", &nics);
            },
            |stage| stage.answer("ns/a", "a", "eth0", &both),
        );
        holds(
            "an-answer-has-several-nics",
            |stage| stage.answer("ns/a", "a", "eth0", &both),
            |stage| stage.answer("ns/a", "a", "eth0", &nics),
        );
    }

    #[test]
    fn a_static_address_is_kept_by_a_successor_only() {
        holds(
            "a-static-address-is-kept",
            |stage| {
                stage.stateful_set("ns/web", 1);
                stage.static_pod("ns/web-0", "old");
                stage.answer("ns/web-0", "old", "eth0", FIRST);
                stage.answer("ns/web-0", "old", "eth0", FIRST);
                stage.pod_gone("ns/web-0");
                stage.static_pod("ns/web-0", "new");
            },
            |stage| stage.answer("ns/web-0", "new", "eth0", FIRST),
        );
    }

    #[test]
    fn an_evicted_pod_keeps_its_address_on_another_node_only() {
        let moved = |evicted: bool, node: &'static str| {
            let (mut held, web) = (false, ObjectKey::namespaced("ns", "web-0"));
            on_stage("an-evicted-pod-keeps-its-address", |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.stateful_set("ns/web", 1);
                stage.static_pod("ns/web-0", "old");
                stage.change::<Pod>(stage.kubelet, &web, |pod| pod.spec.get_or_insert_default().node_name = Some("node-0".to_owned()));
                stage.answer("ns/web-0", "old", "eth0", FIRST);
                if evicted {
                    let condition = PodCondition {
                        type_: DISRUPTION_TARGET.to_owned(),
                        reason: Some(EVICTED_BY_API.to_owned()),
                        ..PodCondition::default()
                    };
                    let mark = |pod: &mut Pod| pod.status.get_or_insert_default().conditions = Some(vec![condition]);
                    stage.change::<Pod>(stage.person, &web, mark);
                }
                stage.pod_gone("ns/web-0");
                stage.static_pod("ns/web-0", "new");
                stage.change::<Pod>(stage.kubelet, &web, |pod| pod.spec.get_or_insert_default().node_name = Some(node.to_owned()));
                stage.answer("ns/web-0", "new", "eth0", FIRST);
                held = stage.held();
            });
            held
        };
        assert!(moved(true, "node-1"));
        assert!(!moved(true, "node-0") && !moved(false, "node-1"));
    }

    #[test]
    fn a_later_pool_serves_when_another_has_nothing() {
        holds(
            "a-later-pool-serves",
            |stage| {
                stage.ask("ns/a", "a", "eth0");
                stage.select("a", Opinion::Agrees, &["p"], 0);
                stage.try_pool("a", "p", Ok("10.0.0.1"));
            },
            |stage| {
                stage.select("a", Opinion::Agrees, &["p"], 1);
                stage.try_pool("a", "p", Ok("10.0.0.1"));
            },
        );
        holds(
            "a-later-pool-serves",
            |stage| {
                stage.ask("ns/a", "a", "eth0");
                stage.try_pool("a", "q", Err(Refusal::UsedOut));
            },
            |stage| stage.try_pool("a", "p", Ok("10.0.0.1")),
        );
    }

    #[test]
    fn a_delete_is_left_to_reclaim_that_is_about_nobody_who_is_known() {
        let ended = |stage: &mut Stage, outcome| {
            let (pod, uid, container, nic) = ("ns/a".into(), "a".into(), "c".into(), "eth0".into());
            let outcome = Some(outcome);
            stage.say(stage.agent, IpamNote::DelEnded { pod, uid, container, nic, outcome, conflicts: 0, exhausted: false });
        };
        holds("a-delete-is-left-to-reclaim", |stage| ended(stage, DelOutcome::Released), |stage| ended(stage, DelOutcome::NoUid));
    }

    #[test]
    fn a_delete_is_late_once_its_successor_has_an_address() {
        let del = |stage: &mut Stage, uid: &str| {
            let (pod, uid, container, nic) = ("ns/a".into(), uid.into(), uid.into(), "eth0".into());
            stage.say(stage.agent, IpamNote::DelBegun { pod, uid, container, nic });
        };
        holds(
            "a-delete-comes-late",
            |stage| {
                stage.pod("ns/a", "old");
                stage.pod_gone("ns/a");
                stage.pod("ns/a", "new");
                del(stage, "old");
                stage.answer("ns/a", "new", "eth0", FIRST);
                del(stage, "new");
            },
            |stage| del(stage, "old"),
        );
    }
}
