//! Faults between the container runtimes of nodes and their CNI plugins.

use std::sync::Arc;

use sim_config::time::Span;
use sim_config::{Choice, Probability};

use crate::cluster::Cluster;
use crate::fault::effect::{ActiveEffect, Effect, Inject, Injection, Overlap};
use crate::fault::parameters::{between, chance, parameters, target};
use crate::fault::{Aim, Blocks, Drawn, Lasts, Subject, Target, Trigger, Wait};
use crate::node::CniFault;
use crate::rt::ProcessId;

/// A fault of some calls of the plugins of one node.
#[derive(Debug)]
struct CniEffect {
    kubelet: ProcessId,
    fault: u32,
    chance: Probability,
    kind: CniFault,
}

impl Effect for CniEffect {
    fn apply(&self, cluster: &Arc<Cluster>) {
        if let Some(runtime) = cluster.nodes.runtime_of(self.kubelet) {
            runtime.add_cni_fault(cluster, self.fault, self.chance.get(), self.kind);
        }
    }

    fn revert(&self, cluster: &Arc<Cluster>) {
        if let Some(runtime) = cluster.nodes.runtime_of(self.kubelet) {
            runtime.clear_cni_fault(self.fault);
        }
    }

    fn excludes(&self, _: &Self) -> Overlap {
        Overlap::Separate
    }

    fn has_observable_effect(&self, _: &Cluster) -> bool {
        false
    }
}

fn effects(injection: &Injection<'_>, kubelets: &Target, chance: Probability, kind: CniFault) -> Vec<ActiveEffect> {
    let cluster = injection.cluster;
    let kubelets = kubelets.processes(&cluster.rt).into_iter().filter(|&kubelet| cluster.nodes.runtime_of(kubelet).is_some());
    kubelets.map(|kubelet| CniEffect { kubelet, fault: injection.index, chance, kind }.into()).collect()
}

parameters! {
    /// Some CNI DELs never happen, although the runtime believes that they did.
    pub struct CniDelLost / CniDelLostDraft {
        /// The kubelet on whose node this happens.
        process: Target = target("one:kubelet-*"),
        /// The probability per call.
        chance: Probability = chance(0.1, 1.0),
    }
}

impl Inject for CniDelLost {
    const EVENT: &'static str = "a runtime that lost its state or forgets a failed clean-up (K §5.2, K §9.2 D14)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<CniDelLostDraft>> =
        Drawn::ByDefault(|targeting| Some(CniDelLostDraft { process: targeting.kubelet()?, ..CniDelLostDraft::default() }));

    fn subject(&self) -> Subject {
        Subject::of(&[&self.process])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Nothing
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        effects(injection, &self.process, self.chance, CniFault::DelLost)
    }
}

parameters! {
    /// Some CNI DELs happen later; the runtime continues as if they were done.
    pub struct CniDelLate / CniDelLateDraft {
        /// The kubelet on whose node this happens.
        process: Target = target("one:kubelet-*"),
        /// The probability per call.
        chance: Probability = chance(0.1, 1.0),
        /// Time from the call that the runtime considers done until the plugin is called.
        by: Span = between(Span::secs(1), Span::secs(120)),
    }
}

impl Inject for CniDelLate {
    const EVENT: &'static str = "a DEL that was queued or retried and arrives after the ADD of a successor (K §5.3, K §9.2 D11)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<CniDelLateDraft>> =
        Drawn::ByDefault(|targeting| Some(CniDelLateDraft { process: targeting.kubelet()?, ..CniDelLateDraft::default() }));

    fn subject(&self) -> Subject {
        Subject::of(&[&self.process])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Nothing
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        effects(injection, &self.process, self.chance, CniFault::DelLate(self.by.0))
    }
}

parameters! {
    /// Some CNI DELs are repeated after they succeeded.
    pub struct CniDelRepeated / CniDelRepeatedDraft {
        /// The kubelet on whose node this happens.
        process: Target = target("one:kubelet-*"),
        /// The probability per call.
        chance: Probability = chance(0.1, 1.0),
        /// The number of additional calls of the plugin after a DEL that succeeded.
        times: u32 = Choice::Between(1, 3),
        /// Time from a DEL that succeeded until it is repeated.
        every: Span = between(Span::secs(1), Span::secs(60)),
    }
}

impl Inject for CniDelRepeated {
    const EVENT: &'static str = "the garbage collection of sandboxes, which stops stopped sandboxes again (K §5.4, K §9.2 D10)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<CniDelRepeatedDraft>> =
        Drawn::ByDefault(|targeting| Some(CniDelRepeatedDraft { process: targeting.kubelet()?, ..CniDelRepeatedDraft::default() }));

    fn subject(&self) -> Subject {
        Subject::of(&[&self.process])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Nothing
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        effects(injection, &self.process, self.chance, CniFault::DelRepeated(self.times, self.every.0))
    }
}

parameters! {
    /// The answers to some CNI ADDs reach the runtime late.
    pub struct CniAddSlow / CniAddSlowDraft {
        /// The kubelet on whose node this happens.
        process: Target = target("one:kubelet-*"),
        /// The probability per call.
        chance: Probability = chance(0.1, 1.0),
        /// Time from when the plugin is done, successfully or not, until the runtime has its answer.
        by: Span = between(Span::secs(1), Span::secs(300)),
    }
}

impl Inject for CniAddSlow {
    const EVENT: &'static str = "a slow plugin, up to and over the limit of the kubelet (K §5.1, K §9.2 D8, D9)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<CniAddSlowDraft>> =
        Drawn::ByDefault(|targeting| Some(CniAddSlowDraft { process: targeting.kubelet()?, ..CniAddSlowDraft::default() }));

    fn subject(&self) -> Subject {
        Subject::of(&[&self.process])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Nothing
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        effects(injection, &self.process, self.chance, CniFault::AddSlow(self.by.0))
    }
}

parameters! {
    /// Some CNI plugins are killed in the middle of an ADD; their daemon continues with it.
    pub struct CniPluginKilled / CniPluginKilledDraft {
        /// The kubelet on whose node this happens.
        process: Target = target("one:kubelet-*"),
        /// The probability per call.
        chance: Probability = chance(0.1, 1.0),
        /// Time from the call of the plugin until it is killed.
        after: Span = between(Span::millis(1), Span::secs(1)),
    }
}

impl Inject for CniPluginKilled {
    const EVENT: &'static str = "a plugin that dies after the address was allocated and before the result is printed (K §5.3, K §9.2 D8)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<CniPluginKilledDraft>> =
        Drawn::ByDefault(|targeting| Some(CniPluginKilledDraft { process: targeting.kubelet()?, ..CniPluginKilledDraft::default() }));

    fn subject(&self) -> Subject {
        Subject::of(&[&self.process])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Nothing
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        effects(injection, &self.process, self.chance, CniFault::PluginKilled(self.after.0))
    }
}
