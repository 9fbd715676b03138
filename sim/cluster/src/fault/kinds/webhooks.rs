//! Calls of admission webhooks that are slow, denied by mistake, not answered, or repeated.

use std::sync::Arc;

use sim_config::Probability;
use sim_config::time::Span;

use crate::cluster::Cluster;
use crate::cluster::admission::{HookFault, WebhookFailure};
use crate::fault::effect::{ActiveEffect, Effect, Inject, Injection, Overlap};
use crate::fault::parameters::{between, chance, parameters, target};
use crate::fault::{Aim, Blocks, Drawn, Lasts, Subject, Target, Trigger, Wait};

/// A fault of some calls.
#[derive(Debug)]
pub(super) struct Hit(pub(super) HookFault);

impl Effect for Hit {
    fn apply(&self, cluster: &Arc<Cluster>) {
        cluster.add_hook_fault(self.0.clone());
    }

    fn revert(&self, cluster: &Arc<Cluster>) {
        cluster.remove_hook_faults(self.0.fault);
    }

    fn excludes(&self, _: &Self) -> Overlap {
        Overlap::Separate
    }

    fn has_observable_effect(&self, _: &Cluster) -> bool {
        false
    }
}

fn hit(injection: &Injection<'_>, servers: &Target, chance: Probability, failure: WebhookFailure) -> Vec<ActiveEffect> {
    let servers = servers.side(&injection.cluster.rt);
    vec![Hit(HookFault { fault: injection.index, servers, chance: chance.get(), failure }).into()]
}

parameters! {
    /// Some calls to webhooks take longer, up to and over their time-out.
    pub struct WebhookSlow / WebhookSlowDraft {
        /// Processes whose webhooks are affected, named by themselves or by their hosts; `*` is all that serve webhooks.
        process: Target = target("*"),
        /// The probability per call.
        chance: Probability = chance(0.1, 1.0),
        /// The additional time of an affected call; beyond the `timeoutSeconds` of its webhook it counts as failed.
        by: Span = between(Span::millis(100), Span::secs(15)),
    }
}

impl Inject for WebhookSlow {
    const EVENT: &'static str = "a webhook server that is throttled or waits for a slow API server (K §8.3, K125)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<WebhookSlowDraft>> =
        Drawn::ByDefault(|targeting| Some(WebhookSlowDraft { process: targeting.webhook()?, ..WebhookSlowDraft::default() }));

    fn subject(&self) -> Subject {
        Subject::of(&[&self.process])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Admission
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        hit(injection, &self.process, self.chance, WebhookFailure::Slow(self.by.0))
    }
}

parameters! {
    /// Some calls to webhooks are wrongly answered with a denial.
    pub struct WebhookDenies / WebhookDeniesDraft {
        /// Processes whose webhooks are affected, named by themselves or by their hosts; `*` is all that serve webhooks.
        process: Target = target("*"),
        /// The probability per call.
        chance: Probability = chance(0.1, 1.0),
    }
}

impl Inject for WebhookDenies {
    const EVENT: &'static str = "a policy that has expired, or a replica with an old configuration (K §8.3, K122)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<WebhookDeniesDraft>> =
        Drawn::ByDefault(|targeting| Some(WebhookDeniesDraft { process: targeting.webhook()?, ..WebhookDeniesDraft::default() }));

    fn subject(&self) -> Subject {
        Subject::of(&[&self.process])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Admission
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        hit(injection, &self.process, self.chance, WebhookFailure::Denies)
    }
}

parameters! {
    /// The webhook servers of processes do not answer, although the processes are alive.
    pub struct WebhookDown / WebhookDownDraft {
        /// Processes whose webhooks are affected, named by themselves or by their hosts; `*` is all that serve webhooks.
        process: Target = target("*"),
    }
}

impl Inject for WebhookDown {
    const EVENT: &'static str = "a deadlocked server whose readiness probe uses another port (K §8.3, K121)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<WebhookDownDraft>> = Drawn::ByDefault(|targeting| Some(WebhookDownDraft { process: targeting.webhook()? }));

    fn subject(&self) -> Subject {
        Subject::of(&[&self.process])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Admission
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        hit(injection, &self.process, Probability::ALWAYS, WebhookFailure::Silent)
    }
}

parameters! {
    /// Some webhooks are called again for the same request, with the result of the first call.
    pub struct WebhookTwice / WebhookTwiceDraft {
        /// Processes whose webhooks are affected, named by themselves or by their hosts; `*` is all that serve webhooks.
        process: Target = target("*"),
        /// The probability per call.
        chance: Probability = chance(0.1, 1.0),
    }
}

impl Inject for WebhookTwice {
    const EVENT: &'static str = "a reinvocation or a repeated HTTP request; webhooks have to be idempotent (K §8.3, K120)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<WebhookTwiceDraft>> =
        Drawn::ByDefault(|targeting| Some(WebhookTwiceDraft { process: targeting.webhook()?, ..WebhookTwiceDraft::default() }));

    fn subject(&self) -> Subject {
        Subject::of(&[&self.process])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Admission
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        hit(injection, &self.process, self.chance, WebhookFailure::Twice)
    }
}
