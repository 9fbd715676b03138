//! Revisions that belong to no object of the model.

use sim_config::Choice;

use crate::fault::effect::{ActiveEffect, Inject, Injection};
use crate::fault::parameters::parameters;
use crate::fault::{Blocks, Targeting};

parameters! {
    /// Objects outside the model take revisions.
    pub struct RevisionJump / RevisionJumpDraft {
        /// Number of revisions that are taken at once; no object of the model changes.
        by: u32 = Choice::Between(1, 100_000),
    }
}

impl Inject for RevisionJump {
    const EVENT: &'static str = "leases, events and other clusters' tenants (K §9.2 B19)";
    const INSTANT: bool = true;

    fn targeting(_: &Targeting<'_>) -> Option<RevisionJumpDraft> {
        Some(RevisionJumpDraft::default())
    }

    fn blocks(&self) -> Blocks {
        Blocks::History
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        injection.cluster.burn_revisions(u64::from(self.by));
        Vec::new()
    }
}
