//! The sandbox of a pod dies.

use sim_config::Choice;

use crate::fault::effect::{ActiveEffect, Inject, Injection};
use crate::fault::parameters::{counted_from_1, parameters, target};
use crate::fault::{Aim, Blocks, Drawn, Lasts, Subject, Target, Trigger, Wait};

parameters! {
    /// The sandbox of a running pod dies; the pod gets another one.
    pub struct SandboxLost / SandboxLostDraft {
        /// The kubelet on whose node this happens.
        process: Target = target("one:kubelet-*"),
        /// The number of the sandbox, counted from 1 in the order of their age, and after the last from the first again.
        nth: u32 = Choice::Between(1, 100) => counted_from_1("sandboxes"),
    }
}

impl Inject for SandboxLost {
    const EVENT: &'static str = "an OOM kill or a crash of the sandbox's container (K §5.4, K §9.2 D13)";
    const LASTS: Lasts<Self> = Lasts::Instant;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<SandboxLostDraft>> =
        Drawn::ByDefault(|targeting| Some(SandboxLostDraft { process: targeting.kubelet()?, ..SandboxLostDraft::default() }));

    fn subject(&self) -> Subject {
        Subject::of(&[&self.process])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Nothing
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        let cluster = injection.cluster;
        for kubelet in self.process.processes(&cluster.rt) {
            if let Some(runtime) = cluster.nodes.runtime_of(kubelet) {
                runtime.lose_sandbox(cluster, self.nth.saturating_sub(1));
            }
        }
        Vec::new()
    }
}
