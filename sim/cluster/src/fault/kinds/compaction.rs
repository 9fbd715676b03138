//! Etcd's compaction.

use crate::fault::effect::{ActiveEffect, Inject, Injection};
use crate::fault::parameters::parameters;
use crate::fault::{Aim, Blocks, Drawn, Lasts, Subject, Trigger, Wait};

parameters! {
    /// Revisions that could be read exactly until now can no longer be read.
    pub struct Compaction / CompactionDraft {}
}

impl Inject for Compaction {
    const EVENT: &'static str = "etcd's compaction, every 5 minutes (K §9.2 B12)";
    const LASTS: Lasts<Self> = Lasts::Instant;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<CompactionDraft>> = Drawn::ByDefault(|_| Some(CompactionDraft::default()));

    fn subject(&self) -> Subject {
        Subject::NOTHING
    }

    fn blocks(&self) -> Blocks {
        Blocks::History
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        let cluster = injection.cluster;
        cluster.compact(cluster.store(|store| store.revision()));
        Vec::new()
    }
}
