//! B I8: a release affects no other sandbox.

use super::view::{Seen, View};
use super::{Findings, PoolClaim, violated};
use crate::workload::{PoolNote, VmChange, short};

/// A process of the pool removes only records whose release has begun or whose sandbox is over, and no VM boots while it has the user data
/// of a live sandbox whose release has not begun. A sandbox that runs a desired pod is never released: a kubelet that stops it first notes
/// that it is over.
///
/// Broken by `byom-release-by-address` and `byom-decide-once`. Not covered: a reboot of a VM whose tenant is already being released.
pub(crate) struct ReleasesTouchNobodyElse;

impl PoolClaim for ReleasesTouchNobodyElse {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let ledger = &view.ledger;
        match seen {
            Seen::Commit(change) if change.by_pool => {
                for edit in change.records.iter().filter(|edit| edit.removed().is_some()) {
                    let id = &edit.id;
                    findings.exercised();
                    // The sandbox of a record from before the run is unknown: its release has to begin, too.
                    if ledger.get(id).is_none_or(|sandbox| sandbox.is_live()) {
                        violated(findings, ledger.excuse_of([id]), || {
                            vec![
                                format!("the record of {id} is removed, although its release has not begun", id = short(id)),
                                view.story_of_write(change),
                                view.story_of(id),
                            ]
                        });
                    }
                }
            }
            Seen::Note(process, PoolNote::ReleaseBegun { id, .. }) => {
                if let Some(pod) = wanted_by(id, view) {
                    violated(findings, ledger.excuse_of([id]), || {
                        let name = view.name(*process);
                        vec![format!("{name} releases {id}, which runs pod {pod}", id = short(id)), view.story_of(id)]
                    });
                }
            }
            Seen::Note(_, PoolNote::Vm { address, change: VmChange::Rebooting { tenant: Some(tenant), fence } })
                if ledger.is_live(tenant) =>
            {
                violated(findings, ledger.excuse_of([tenant].into_iter().chain(fence)), || {
                    let whom = fence.as_deref().unwrap_or("an unnamed allocation");
                    let mut lines = vec![
                        format!("VM {address} serves {tenant} and boots on behalf of {whom}", tenant = short(tenant), whom = short(whom)),
                        view.story_of(tenant),
                    ];
                    lines.extend(fence.as_ref().filter(|fence| *fence != tenant).map(|fence| view.story_of(fence)));
                    lines
                });
            }
            _ => {}
        }
    }
}

/// The pod that a sandbox runs, if it is desired. A deletion of a pod is noted before it happens. A kubelet that is partitioned may still
/// run the pod after that, beside another pod of the same name, which has another UID.
fn wanted_by<'a>(id: &str, view: &'a View) -> Option<&'a str> {
    let sandbox = view.ledger.get(id)?;
    let pod = sandbox.pod.as_deref()?;
    (view.wanted.get(pod)? == sandbox.runs.as_ref()?).then_some(pod)
}

#[cfg(test)]
mod tests {
    use super::super::BY_HAND;

    use super::super::testing::{Stage, give_back, on_stage};
    use crate::workload::{PoolNote, Releaser, VmChange};

    const CLAIM: &str = "releases-touch-nobody-else";

    #[test]
    fn a_record_is_removed_after_its_release_began_or_its_sandbox_is_over() {
        on_stage(CLAIM, |stage| {
            let adaptor = stage.adaptor("adaptor-0", "10.0.0.1,10.0.0.2,10.0.0.3");
            for (id, address) in [("a", "10.0.0.1"), ("b", "10.0.0.2"), ("c", "10.0.0.3")] {
                stage.allocate(adaptor, id, address);
            }
            stage.release(adaptor, "a");
            stage.edit(adaptor, |document| give_back(document, "a"));
            stage.ended("b");
            stage.edit(adaptor, |document| give_back(document, "b"));
            assert_eq!(stage.excuses(), []);
            stage.edit(adaptor, |document| give_back(document, "c"));
            assert_eq!(stage.excuses(), [None]);
        });
    }

    #[test]
    fn the_vm_of_a_live_sandbox_does_not_boot() {
        on_stage(CLAIM, |stage| {
            let adaptor = stage.adaptor("adaptor-0", "10.0.0.1");
            stage.allocate(adaptor, "b", "10.0.0.1");
            let reboot = |tenant: Option<&str>| VmChange::Rebooting { tenant: tenant.map(Into::into), fence: Some("a".into()) };
            stage.vm("10.0.0.1", reboot(None));
            stage.vm("10.0.0.1", reboot(Some("a")));
            assert_eq!(stage.excuses(), []);
            stage.vm("10.0.0.1", reboot(Some("b")));
            assert_eq!(stage.excuses(), [None]);
            assert_eq!(stage.detail()[0], "VM 10.0.0.1 serves b and boots on behalf of a");
            stage.release(adaptor, "b");
            stage.vm("10.0.0.1", reboot(Some("b")));
            assert_eq!(stage.excuses(), [None]);
        });
    }

    #[test]
    fn nobody_releases_a_sandbox_that_runs_a_wanted_pod() {
        for by in [Releaser::Stop, Releaser::CleanUp, Releaser::Successor, Releaser::Controller, Releaser::Reclaim] {
            on_stage(CLAIM, |stage| {
                let adaptor = stage.adaptor("adaptor-0", "10.0.0.1");
                let pod = || "ns/pod".into();
                let wanted = |uid: &str| PoolNote::Wanted { pod: pod(), uid: uid.into() };
                let begin = |stage: &mut Stage| stage.note(adaptor, PoolNote::ReleaseBegun { id: "a".into(), by });
                stage.allocate(adaptor, "a", "10.0.0.1");
                stage.note(adaptor, wanted("u1"));
                begin(stage);
                assert_eq!(stage.excuses(), [], "it does not run yet");
                stage.note(adaptor, PoolNote::Running { id: "a".into(), pod: pod(), uid: "u1".into() });
                begin(stage);
                assert_eq!(stage.excuses(), [None]);
                stage.note(adaptor, PoolNote::Unwanted { pod: pod() });
                begin(stage);
                // A kubelet that is partitioned runs it beside another pod of the same name.
                stage.note(adaptor, wanted("u2"));
                stage.note(adaptor, PoolNote::Running { id: "a".into(), pod: pod(), uid: "u1".into() });
                begin(stage);
                stage.ended("a");
                begin(stage);
                assert_eq!(stage.excuses(), [None]);
            });
        }
    }

    #[test]
    fn a_record_that_somebody_outside_changed_excuses() {
        on_stage(CLAIM, |stage| {
            let (adaptor, person) = (stage.adaptor("adaptor-0", "10.0.0.1"), stage.process("kubectl"));
            stage.allocate(adaptor, "a", "10.0.0.1");
            stage.edit(person, |document| drop(document.allocated.insert("a".into(), super::super::testing::record("a", "10.0.0.9"))));
            stage.edit(adaptor, |document| drop(document.allocated.remove("a")));
            assert_eq!(stage.excuses(), [Some(BY_HAND)]);
        });
    }
}
