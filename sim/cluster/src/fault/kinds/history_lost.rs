//! A watch cache that starts again.

use crate::fault::blocks::resource_kind;
use crate::fault::effect::{ActiveEffect, Inject, Injection};
use crate::fault::parameters::{every_resource, parameters, served, target};
use crate::fault::{Aim, Blocks, Drawn, Lasts, Subject, Target, Trigger, Wait};

parameters! {
    /// A server forgets its history: watches end, older versions get 410.
    pub struct HistoryLost / HistoryLostDraft {
        /// API servers whose watch caches of `resource` start again from a list; one that is down is left alone.
        server: Target = target("one:apiserver-*"),
        /// The plural of the type, or `*`.
        resource: String = every_resource() => served,
    }
}

impl Inject for HistoryLost {
    const EVENT: &'static str = "a watch cache that starts again, which forces clients to list (K §9.2 B4)";
    const LASTS: Lasts<Self> = Lasts::Instant;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<HistoryLostDraft>> =
        Drawn::ByDefault(|targeting| Some(HistoryLostDraft { resource: targeting.resource(), ..HistoryLostDraft::default() }));

    fn subject(&self) -> Subject {
        Subject::of(&[&self.server])
    }

    fn blocks(&self) -> Blocks {
        Blocks::History
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        let cluster = injection.cluster;
        if let Some(kind) = resource_kind(cluster, &self.resource) {
            self.server.servers(cluster).into_iter().for_each(|server| cluster.forget_history(server, kind));
        }
        Vec::new()
    }
}
