//! A S17: a DEL releases only the addresses of its own pod.

use std::net::IpAddr;
use std::sync::Arc;

use kube_machinery::FxHashMap;
use kube_sim::rt::ProcessId;

use super::view::{EventMask, Seen, View};
use super::{Findings, IpamClaim, WITHOUT_UID, violated};
use crate::workload::{Cause, IpamNote};

/// The agent, the sandbox and the NIC of a DEL.
type Attachment = (ProcessId, Arc<str>, Arc<str>);

/// A DEL that names a UID releases addresses of that UID only, and no write of an agent removes the record of a UID while the agent has
/// announced only the release of another UID for that address.
///
/// Where the container runtime passes no UID, the UID of the sandbox's pod applies; if that pod was gone when the sandbox was answered with
/// the addresses of the next pod of the name, the DEL releases these as well (`runtime-without-uid`). Broken by `del-adopts-current-uid`
/// and `del-without-uid-adopts-pod`.
#[derive(Default)]
pub(crate) struct DeletesTouchNobodyElse {
    /// The DELs in progress, with the named UID and the number of DELs: a repeated or late DEL may overlap another.
    open: FxHashMap<Attachment, (Arc<str>, u32)>,
}

impl IpamClaim for DeletesTouchNobodyElse {
    fn event_mask(&self) -> EventMask {
        EventMask::RELEASE.and(EventMask::POOL)
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        match *seen {
            Seen::Ipam(process, IpamNote::DelBegun { uid, container, nic, .. }) => {
                self.open.entry((process, container.clone(), nic.clone())).or_insert_with(|| (uid.clone(), 0)).1 += 1;
            }
            Seen::Ipam(process, IpamNote::DelEnded { container, nic, .. }) => {
                let key = (process, container.clone(), nic.clone());
                if let Some((_, count)) = self.open.get_mut(&key) {
                    *count -= 1;
                    if *count == 0 {
                        self.open.remove(&key);
                    }
                }
            }
            Seen::Ipam(process, IpamNote::ReleaseBegun { uid, cause: Cause::Del, what, .. }) => {
                findings.exercised();
                let of_process = self.open.iter().filter(|((by, ..), _)| *by == process);
                if !of_process.clone().any(|(_, (asked, _))| asked.is_empty() || asked == uid) {
                    // The sandbox of a gone pod answers on addresses that were recorded for the next pod of the name.
                    let passes = |asked: &str| {
                        let is_taken_for_it = view.taken_for(asked).any(|other| other == uid);
                        is_taken_for_it && view.may_outlive(asked) && was_answered_when_gone(view, asked, what)
                    };
                    let excuse = of_process.clone().any(|(_, (asked, _))| passes(asked)).then_some(WITHOUT_UID);
                    let detail = || {
                        let by = view.name(process);
                        let mut asked: Vec<String> = of_process.map(|(_, (asked, _))| view.pod_of(asked)).collect();
                        asked.sort_unstable();
                        let mut lines =
                            vec![format!("{by} is to release what {} has, and releases what {} has", asked.join(" or "), view.pod_of(uid))];
                        lines.extend(what.iter().map(|(pool, address)| view.story_of(pool, *address)));
                        lines
                    };
                    match excuse {
                        Some(excuse) => findings.violated_with(excuse, detail),
                        None => findings.violated(detail),
                    }
                }
            }
            Seen::Pool(ref change) if change.by_agent => {
                for edit in change.edits.iter().filter(|edit| edit.after.is_none()) {
                    let Some((address, before)) = edit.taken() else { continue };
                    findings.exercised();
                    let own = |uid: &str| {
                        let mut releases = view.ledger.releases(uid).iter();
                        releases.any(|release| release.said.by == change.said.by && release.covers(&change.pool, address))
                    };
                    if own(&before.pod_uid) {
                        continue;
                    }
                    let mut others = view.ledger.releases_of(&change.pool, address);
                    if let Some((uid, _)) = others.find(|(_, release)| release.said.by == change.said.by && release.ended.is_none()) {
                        violated(findings, view.changes.touched(address), || {
                            let line =
                                format!("the release for {} removes {address} of {}", view.pod_of(uid), view.pod_of(&before.pod_uid));
                            vec![line, view.story_of_write(change), view.story_of(&change.pool, address)]
                        });
                    }
                }
            }
            _ => {}
        }
    }
}

/// Whether the sandbox of a pod was answered with all these addresses after the pod's object was gone.
fn was_answered_when_gone(view: &View, uid: &str, what: &[(Arc<str>, IpAddr)]) -> bool {
    let answers = view.ledger.answers(uid);
    let given = |(pool, address): &(Arc<str>, IpAddr)| {
        answers.iter().any(|answer| answer.given.pool == *pool && answer.given.address == *address && view.is_gone_by(uid, answer.said.at))
    };
    what.iter().all(given)
}

#[cfg(test)]
mod tests {
    use super::super::WITHOUT_UID;
    use super::super::testing::{on_stage, on_stage_under};
    use super::super::view::Terms;
    use crate::workload::{Cause, IpamNote};
    use ipam_spiderpool::ipam::DelOutcome;

    const CLAIM: &str = "deletes-touch-nobody-else";
    const WHAT: &[(&str, &str)] = &[("p", "10.0.0.1")];

    #[test]
    fn without_a_uid_a_sandbox_gives_back_what_it_was_given_for_the_next_pod_of_the_name_and_nothing_else() {
        for (told, gone_before, given, excuse) in [
            (false, true, "10.0.0.1", Some(WITHOUT_UID)),
            (true, true, "10.0.0.1", None),
            (false, false, "10.0.0.1", None),
            (false, true, "10.0.0.2", None),
        ] {
            let without_uid = |terms: &mut Terms| terms.without_uid.extend((!told).then(|| "node-0".to_owned()));
            on_stage_under(CLAIM, without_uid, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.pod("ns/a", "old");
                stage.sandbox("old", "ns/a", "old");
                if gone_before {
                    stage.pod_gone("ns/a");
                }
                stage.ask("ns/a", "old", "eth0");
                stage.answer("ns/a", "old", "eth0", &[("eth0", "p", given)]);
                if !gone_before {
                    stage.pod_gone("ns/a");
                }
                stage.pod("ns/a", "new");
                stage.del_asked("ns/a", "old");
                stage.release("ns/a", "new", Cause::Del, WHAT);
                assert_eq!(stage.excuses(), [excuse], "told: {told}, gone before: {gone_before}, {given}");
            });
        }
    }

    #[test]
    fn a_delete_that_adopts_another_uid_is_a_violation() {
        on_stage(CLAIM, |stage| {
            stage.del_asked("ns/a", "a");
            stage.release("ns/a", "a", Cause::Del, WHAT);
            stage.release("ns/a", "b", Cause::Marked, WHAT);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            stage.release("ns/a", "b", Cause::Del, WHAT);
            assert_eq!(stage.excuses(), [None]);
            stage.del_asked("ns/c", "");
            stage.release("ns/c", "c", Cause::Del, WHAT);
            assert_eq!(stage.excuses(), [None], "without a UID it is that of the name");
            let (pod, container, nic) = ("ns/c".into(), "".into(), "eth0".into());
            stage.say(
                stage.agent,
                IpamNote::DelEnded {
                    pod,
                    uid: "".into(),
                    container,
                    nic,
                    outcome: Some(DelOutcome::Released),
                    conflicts: 0,
                    exhausted: false,
                },
            );
            stage.release("ns/c", "c", Cause::Del, WHAT);
            assert_eq!(stage.excuses(), [None, None]);
        });
    }

    #[test]
    fn a_delete_that_overlaps_another_of_its_sandbox_is_still_under_way_when_that_ends() {
        on_stage(CLAIM, |stage| {
            stage.del_asked("ns/a", "a");
            stage.del("ns/a", "a", true);
            stage.release("ns/a", "a", Cause::Del, WHAT);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            stage.release("ns/b", "b", Cause::Del, WHAT);
            assert_eq!(stage.excuses(), [None]);
        });
    }

    #[test]
    fn the_release_for_one_uid_removes_no_record_of_another() {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.record(stage.agent, "p", "10.0.0.1", "ns/a", "a");
            stage.del_asked("ns/a", "a");
            stage.release("ns/a", "a", Cause::Del, WHAT);
            stage.unrecord(stage.agent, "p", "10.0.0.1");
            stage.record(stage.agent, "p", "10.0.0.1", "ns/b", "b");
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], true));
            stage.unrecord(stage.agent, "p", "10.0.0.1");
            assert_eq!(stage.excuses(), [None]);
            assert!(stage.detail()[0].starts_with("the release for a pod that was never seen (uid a)"), "{:?}", stage.detail());
        });
    }
}
