//! A change that never reaches one watch cache.

use std::sync::Arc;

use crate::cluster::Cluster;
use crate::fault::blocks::server_caches;
use crate::fault::effect::{ActiveEffect, Effect, Inject, Injection, Overlap};
use crate::fault::parameters::{every_resource, parameters, served, target};
use crate::fault::{Aim, Blocks, Drawn, Lasts, Subject, Target, Trigger, Wait};
use crate::kinds::KindId;

parameters! {
    /// The next change of a type never reaches the watch cache of an API server, nor its watches; in the end all caches start again.
    pub struct EventLost / EventLostDraft {
        /// The API servers whose caches lose it.
        server: Target = target("one:apiserver-*"),
        /// The plural of the type, or `*`: one change of each type.
        resource: String = every_resource() => served,
    }
}

impl Inject for EventLost {
    const EVENT: &'static str = "a bug of a watch cache: clients of one API server see an object that is gone, miss a new one, or see an \
                                 old state, until the API servers are upgraded (K §9.2 B15)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<EventLostDraft>> =
        Drawn::ByDefault(|targeting| Some(EventLostDraft { resource: targeting.resource(), ..EventLostDraft::default() }));

    fn subject(&self) -> Subject {
        Subject::of(&[&self.server])
    }

    fn blocks(&self) -> Blocks {
        Blocks::ServerCaches { servers: self.server.clone(), resource: self.resource.clone() }
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        let caches = server_caches(injection.cluster, &self.server, &self.resource);
        caches.into_iter().map(|(server, kind)| Loses { server, kind }.into()).collect()
    }
}

/// A watch cache that loses a change.
#[derive(Debug)]
struct Loses {
    server: usize,
    kind: KindId,
}

impl Effect for Loses {
    fn apply(&self, cluster: &Arc<Cluster>) {
        cluster.lose_event(self.server, self.kind);
    }

    fn revert(&self, cluster: &Arc<Cluster>) {
        cluster.repair_cache(self.server, self.kind);
    }

    fn excludes(&self, other: &Self) -> Overlap {
        if (self.server, self.kind) == (other.server, other.kind) { Overlap::SameState } else { Overlap::Separate }
    }

    fn has_observable_effect(&self, _: &Cluster) -> bool {
        true
    }
}
