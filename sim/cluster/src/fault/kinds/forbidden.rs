//! Requests without permission.

use std::sync::Arc;

use crate::cluster::Cluster;
use crate::cluster::admission::Forbidden as Rule;
use crate::fault::blocks::resource_kind;
use crate::fault::effect::{ActiveEffect, Effect, Inject, Injection, Overlap};
use crate::fault::parameters::{every_resource, parameters, served, target};
use crate::fault::{Aim, Blocks, Drawn, Lasts, Subject, Target, Trigger, Wait};

parameters! {
    /// Requests are refused with 403.
    pub struct Forbidden / ForbiddenDraft {
        /// Processes whose requests for `resource`, watches included, are refused while the fault lasts.
        client: Target = target("one:*"),
        /// The plural of the type, or `*`.
        resource: String = every_resource() => served,
    }
}

impl Inject for Forbidden {
    const EVENT: &'static str = "a broken role binding or a rotated token (K §9.2 A11)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<ForbiddenDraft>> =
        Drawn::ByDefault(|targeting| Some(ForbiddenDraft { client: targeting.process()?, resource: targeting.resource() }));

    fn subject(&self) -> Subject {
        Subject::of(&[&self.client])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Requests { clients: self.client.clone(), resource: self.resource.clone(), all: true }
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        let cluster = injection.cluster;
        let Some(kind) = resource_kind(cluster, &self.resource) else { return Vec::new() };
        let clients = self.client.side(&cluster.rt);
        let rule = Rule { fault: Some(injection.index), clients, verbs: Vec::new(), kinds: kind.into_iter().collect() };
        vec![Refusal(rule).into()]
    }
}

/// Requests that are refused.
#[derive(Debug)]
struct Refusal(Rule);

impl Effect for Refusal {
    fn apply(&self, cluster: &Arc<Cluster>) {
        cluster.forbid(self.0.clone());
    }

    fn revert(&self, cluster: &Arc<Cluster>) {
        cluster.permit(self.0.fault);
    }

    fn excludes(&self, _: &Self) -> Overlap {
        Overlap::Separate
    }

    fn has_observable_effect(&self, _: &Cluster) -> bool {
        false
    }
}
