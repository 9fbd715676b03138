//! B I5: the version counts writes.

use super::view::{Seen, View};
use super::{Findings, PoolClaim};

/// Each commit by a process of the pool over a readable document raises its version by one.
///
/// Broken by `byom-decide-once`, `byom-recover-decide-once` and `byom-reset-after-read-error`. Not covered: a stale document whose version
/// fits by chance, which takes two lost writes and a repeated one.
pub(crate) struct PoolVersionCountsWrites;

impl PoolClaim for PoolVersionCountsWrites {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Commit(change) = seen else { return };
        let (Some(before), Some(after)) = (change.before.version(), change.written()) else { return };
        findings.exercised();
        if after.version != before.wrapping_add(1) {
            findings.violated(|| vec![format!("version {before} is followed by version {}", after.version), view.story_of_write(change)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::on_stage;

    #[test]
    fn a_version_that_repeats_is_a_violation_unless_somebody_outside_set_it() {
        on_stage("pool-version-counts-writes", |stage| {
            let (adaptor, person) = (stage.adaptor("adaptor-0", "10.0.0.1"), stage.process("kubectl"));
            stage.edit(adaptor, |_| {});
            stage.edit(person, |document| document.version = 70);
            stage.edit(adaptor, |_| {});
            assert_eq!(stage.excuses(), []);
            stage.read(adaptor);
            stage.edit(adaptor, |_| {});
            stage.edit(adaptor, |document| document.version -= 1);
            assert_eq!(stage.excuses(), [None]);
            let detail = stage.detail();
            assert_eq!(detail[0], "version 72 is followed by version 72");
            assert!(detail[1].starts_with("adaptor-0 had read version 71 at revision 4 (0.00"), "{}", detail[1]);
            assert!(detail[1].contains(", and wrote version 72 over version 72 at revision 5, as revision 6"), "{}", detail[1]);
        });
    }
}
