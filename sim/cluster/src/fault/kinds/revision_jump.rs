//! Revisions that belong to no object of the model.

use sim_config::Choice;

use crate::fault::effect::{ActiveEffect, Inject, Injection};
use crate::fault::parameters::parameters;
use crate::fault::{Aim, Blocks, Drawn, Lasts, Subject, Trigger, Wait};

parameters! {
    /// Objects outside the model take revisions.
    pub struct RevisionJump / RevisionJumpDraft {
        /// Number of revisions that are taken at once; no object of the model changes.
        by: u32 = Choice::Between(1, 100_000),
    }
}

impl Inject for RevisionJump {
    const EVENT: &'static str = "leases, events and other clusters' tenants (K §9.2 B19)";
    const LASTS: Lasts<Self> = Lasts::Instant;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<RevisionJumpDraft>> = Drawn::ByDefault(|_| Some(RevisionJumpDraft::default()));

    fn subject(&self) -> Subject {
        Subject::NOTHING
    }

    fn blocks(&self) -> Blocks {
        Blocks::History
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        injection.cluster.burn_revisions(u64::from(self.by));
        Vec::new()
    }
}
