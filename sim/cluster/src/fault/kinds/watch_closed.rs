//! Watches that end cleanly.

use crate::fault::blocks::resource_kind;
use crate::fault::effect::{ActiveEffect, Inject, Injection};
use crate::fault::parameters::{every_resource, parameters, served, target};
use crate::fault::{Aim, Blocks, Drawn, Lasts, Subject, Target, Trigger, Wait};

parameters! {
    /// Watches end cleanly and can be resumed.
    pub struct WatchClosed / WatchClosedDraft {
        /// API servers at which every watch of `resource` ends, whichever client opened it.
        server: Target = target("apiserver-*"),
        /// The plural of the type, or `*`.
        resource: String = every_resource() => served,
    }
}

impl Inject for WatchClosed {
    const EVENT: &'static str = "a time-out of the server or a load balancer (K §9.2 B3)";
    const LASTS: Lasts<Self> = Lasts::Instant;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<WatchClosedDraft>> =
        Drawn::ByDefault(|targeting| Some(WatchClosedDraft { resource: targeting.resource(), ..WatchClosedDraft::default() }));

    fn subject(&self) -> Subject {
        Subject::of(&[&self.server])
    }

    fn blocks(&self) -> Blocks {
        Blocks::History
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        let cluster = injection.cluster;
        if let Some(kind) = resource_kind(cluster, &self.resource) {
            self.server.servers(cluster).into_iter().for_each(|server| cluster.close_watches(server, kind, None));
        }
        Vec::new()
    }
}
