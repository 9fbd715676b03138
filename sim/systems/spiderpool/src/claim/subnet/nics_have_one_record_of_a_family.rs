//! A X1: a NIC has one record for each family.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use kube_machinery::FxHashMap;

use super::super::view::{EventMask, Said, Seen, View};
use super::super::{Findings, IpamClaim, violated};

/// No agent records an address for a NIC of a pod that already has one of the same family, in whichever pool.
///
/// Broken by `lost-reply-takes-next-pool` and `partial-failure-keeps-records`. Records that do not name their NIC count as one NIC. A
/// record in a pool that is being deleted does not count: no agent may answer with it (A §3), and what an earlier life of the agent left
/// there is taken back once the pod has its answer (A W1); that nothing is left is the business of `records-equal-endpoints`. The same goes
/// for a write that an earlier life sent and the API server carried out after the present life had allocated an address, or had sent the
/// write for it (K §2.13): no read can tell that it will come. A record in a pool that was made unreadable by hand since is excused as
/// `edited-by-hand`, until an ADD that looked in the meantime has ended: an agent that has restarted cannot know of it.
#[derive(Default)]
pub(crate) struct NicsHaveOneRecordOfAFamily {
    /// The moments at which writes of an earlier life were carried out, by the pool and address that they recorded.
    left_behind: FxHashMap<(Arc<str>, IpAddr), u64>,
}

/// The maximum duration of an ADD: the runtime gives up the sandbox by then (K §5.2).
const ADD_MAX: Duration = Duration::from_secs(240);

impl IpamClaim for NicsHaveOneRecordOfAFamily {
    fn event_mask(&self) -> EventMask {
        EventMask::POOL
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Pool(change) = seen else { return };
        if !change.by_agent {
            return;
        }
        for (address, record) in change.edits.iter().filter_map(|edit| edit.given()) {
            findings.exercised();
            // The restarted agent allocates an address, and then a write of its earlier life is carried out.
            let is_newer = |since: Option<Said>| change.left_behind.is_some_and(|lost| since.is_some_and(|since| since.moment > lost));
            // Or it has sent the write for its address, and then the earlier one is carried out first.
            let came_meanwhile = |at: &(Arc<str>, IpAddr), since: Option<Said>| {
                let carried_out = self.left_behind.get(at).filter(|moment| since.is_some_and(|since| since.moment == **moment));
                carried_out.zip(change.sent).is_some_and(|(carried_out, sent)| *carried_out > sent)
            };
            let same = |at: &&(Arc<str>, IpAddr)| {
                let (pool, other) = at;
                *other != address
                    && other.is_ipv4() == address.is_ipv4()
                    && view.pools.get(pool).is_none_or(|pool| !pool.is_terminating())
                    && view.pools.holder(pool, *other).is_some_and(|holder| {
                        let is_same = holder.record.pod_uid == record.pod_uid && holder.record.interface == record.interface;
                        is_same && !is_newer(holder.since) && !came_meanwhile(at, holder.since)
                    })
            };
            if let Some((pool, other)) = view.pools.of_uid(&record.pod_uid).iter().find(same) {
                let hidden = view.pools.holder(pool, *other).is_some_and(|holder| {
                    let garbled = view.pools.get(pool).and_then(|pool| pool.garbled_until(view.at));
                    garbled.is_some_and(|until| view.at < until + ADD_MAX && holder.since.is_none_or(|since| since.at < until))
                });
                violated(findings, change.by_hand || hidden || view.changes.touched(*other), || {
                    let nic = record.interface.as_deref().unwrap_or("a NIC without a name");
                    let whose = view.pod_of(&record.pod_uid);
                    let line = format!("{nic} of {whose} is given {address} of {}, and has {other} of {pool}", change.pool);
                    vec![line, view.story_of_write(change), view.story_of(pool, *other)]
                });
            }
            if change.left_behind.is_some() {
                self.left_behind.insert((change.pool.clone(), address), change.said.moment);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kube_machinery::json_text::JsonText;
    use kube_sim::trace::ProcessChange;

    use super::super::super::BY_HAND;
    use super::super::super::testing::{Stage, on_stage};
    use super::*;

    #[test]
    fn a_second_record_of_a_family_is_a_violation_unless_it_is_for_another_nic() {
        on_stage("nics-have-one-record-of-a-family", |stage| {
            let by = stage.agent;
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.pool("six", &["fd00::1-fd00::9"]);
            stage.record_for(by, "p", "10.0.0.1", "a", "eth0");
            stage.record_for(by, "six", "fd00::1", "a", "eth0");
            stage.record_for(by, "p", "10.0.0.2", "a", "net1");
            stage.record_for(by, "p", "10.0.0.3", "b", "eth0");
            stage.unrecord(by, "p", "10.0.0.1");
            stage.record_for(by, "p", "10.0.0.4", "a", "eth0");
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            stage.record_for(by, "p", "10.0.0.1", "a", "eth0");
            assert_eq!(stage.excuses(), [None]);
            assert!(stage.detail()[0].ends_with("is given 10.0.0.1 of p, and has 10.0.0.4 of p"));
            stage.record_for(by, "p", "10.0.0.5", "c", "eth0");
            stage.terminate_pool(stage.person, "p");
            stage.pool("q", &["10.0.1.1-10.0.1.9"]);
            stage.record_for(by, "q", "10.0.1.1", "c", "eth0");
            assert_eq!(stage.excuses(), [None]);
        });
    }

    #[test]
    fn what_an_earlier_life_sent_may_come_after_this_one_has_drawn() {
        // Whether a write was sent before the crash, whether the present life has written the pool as well, and whether the earlier life
        // had already allocated an address.
        for (sent, again, before, excuses) in [
            (true, false, false, vec![]),
            (false, false, false, vec![None]),
            (true, true, false, vec![None]),
            (true, false, true, vec![None]),
        ] {
            on_stage("nics-have-one-record-of-a-family", |stage| {
                let by = stage.agent;
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.pool("q", &["10.0.1.1-10.0.1.9"]);
                stage.ask("ns/a", "a", "eth0");
                if before {
                    stage.record_for(by, "q", "10.0.1.1", "a", "eth0");
                }
                if sent {
                    stage.sends_write(by, "p");
                }
                stage.process_changes(by, ProcessChange::Crashed);
                stage.process_changes(by, ProcessChange::Started);
                if !before {
                    stage.record_for(by, "q", "10.0.1.1", "a", "eth0");
                }
                if again {
                    stage.sends_write(by, "p");
                }
                stage.record_for(by, "p", "10.0.0.1", "a", "eth0");
                assert_eq!(stage.excuses(), excuses, "sent: {sent}, sent again: {again}, drawn before: {before}");
                stage.record_for(by, "p", "10.0.0.2", "a", "eth0");
                assert_eq!(stage.excuses().len(), excuses.len() + 1, "that is one of this life");
            });
        }
    }

    #[test]
    fn what_an_earlier_life_sent_may_come_before_what_this_one_has_sent_already() {
        for (sent_before, excuses) in [(true, vec![]), (false, vec![None])] {
            on_stage("nics-have-one-record-of-a-family", |stage| {
                let by = stage.agent;
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.pool("q", &["10.0.1.1-10.0.1.9"]);
                stage.ask("ns/a", "a", "eth0");
                stage.sends_write(by, "p");
                stage.process_changes(by, ProcessChange::Crashed);
                stage.process_changes(by, ProcessChange::Started);
                if sent_before {
                    stage.sends_write(by, "q");
                }
                stage.record_for(by, "p", "10.0.0.1", "a", "eth0");
                if !sent_before {
                    stage.sends_write(by, "q");
                }
                stage.record_for(by, "q", "10.0.1.1", "a", "eth0");
                assert_eq!(stage.excuses(), excuses, "sent before: {sent_before}");
            });
        }
    }

    #[test]
    fn a_record_that_hands_have_hidden_excuses_until_everybody_can_have_seen_it_again() {
        for (since_mended, excuse) in [(None, Some(BY_HAND)), (Some(ADD_MAX / 2), Some(BY_HAND)), (Some(ADD_MAX), None)] {
            on_stage("nics-have-one-record-of-a-family", |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.pool("q", &["10.0.1.1-10.0.1.9"]);
                stage.record_for(stage.agent, "p", "10.0.0.1", "a", "eth0");
                stage.pass(Duration::from_secs(1));
                let text = |stage: &mut Stage, change: fn(&str) -> String| {
                    stage.change_pool(stage.person, "p", |pool| {
                        let status = pool.status.as_mut().unwrap();
                        status.allocated_ips = JsonText::verbatim(change(status.allocated_ips.text()));
                    });
                };
                text(stage, |records| format!("~{records}"));
                if let Some(ago) = since_mended {
                    text(stage, |records| records.trim_start_matches('~').to_owned());
                    stage.pass(ago);
                }
                stage.record_for(stage.agent, "q", "10.0.1.1", "a", "eth0");
                assert_eq!(stage.excuses(), [excuse], "{since_mended:?}");
            });
        }
    }
}
