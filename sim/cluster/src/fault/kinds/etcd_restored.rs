//! etcd restored from a backup.

use std::sync::Arc;
use std::time::Duration;

use sim_config::Choice;
use sim_config::time::Span;

use crate::cluster::Cluster;
use crate::fault::effect::{ActiveEffect, Effect, Inject, Injection, Overlap};
use crate::fault::operator::add_process;
use crate::fault::parameters::{between, parameters};
use crate::fault::process_down::{INITIALIZING, take_down};
use crate::fault::{Aim, Blocks, Drawn, Lasts, Subject, Target, Trigger, Wait};
use crate::rt::ProcessId;

parameters! {
    /// All API servers stop and etcd is restored from a backup: later commits are undone, but programs still know them.
    pub struct EtcdRestored / EtcdRestoredDraft {
        /// The age of the backup.
        age: Span = between(Span::secs(1), Span::secs(60)),
        /// The number of revisions by which the restored etcd is ahead of the backup, which are compacted (`--bump-revision
        /// --mark-compacted`): with enough of them clients list again. With 0 they wait in silence until etcd reaches the revision that
        /// they know.
        bump: u32 = Choice::Is(0),
    }
}

impl Inject for EtcdRestored {
    const EVENT: &'static str = "a disaster, or an operator who rolls an upgrade back (K §9.2 B14)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;

    const DRAWN: Drawn<Aim<EtcdRestoredDraft>> = Drawn::IfTuned("hardly any guarantee holds once acknowledged writes are lost");

    fn subject(&self) -> Subject {
        Subject::NOTHING
    }

    fn blocks(&self) -> Blocks {
        Blocks::Processes(Target::from_text("apiserver-*"))
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        let cluster = injection.cluster;
        let processes =
            Target::from_text("apiserver-*").servers(cluster).into_iter().map(|server| cluster.server_process(server)).collect();
        let by = add_process(cluster, &format!("etcd-restored-{}", injection.index), |_, _| async {});
        let mut effects = take_down(injection, processes, INITIALIZING);
        effects.push(Restored { by, age: self.age.0, bump: u64::from(self.bump) }.into());
        effects
    }
}

/// The backup that has replaced the state of etcd.
#[derive(Debug)]
struct Restored {
    by: ProcessId,
    age: Duration,
    bump: u64,
}

impl Effect for Restored {
    fn apply(&self, cluster: &Arc<Cluster>) {
        cluster.restore_backup(self.by, self.age, self.bump);
    }

    /// Does nothing: the lost states stay lost.
    fn revert(&self, _: &Arc<Cluster>) {}

    fn excludes(&self, _: &Self) -> Overlap {
        Overlap::Separate
    }

    fn has_observable_effect(&self, _: &Cluster) -> bool {
        true
    }
}
