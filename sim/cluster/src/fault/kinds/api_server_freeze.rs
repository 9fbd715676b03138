//! Watch caches of an API server that stop advancing.

use std::sync::Arc;

use crate::cluster::Cluster;
use crate::fault::blocks::server_caches;
use crate::fault::effect::{ActiveEffect, Effect, Inject, Injection, Overlap};
use crate::fault::parameters::{every_resource, parameters, served, target};
use crate::fault::{Aim, Blocks, Drawn, Lasts, Subject, Target, Trigger, Wait};
use crate::kinds::KindId;

parameters! {
    /// The watch caches of an API server stop advancing: cached reads are stale and watches silent; nothing is lost.
    pub struct ApiServerFreeze / ApiServerFreezeDraft {
        /// API servers whose watch caches of `resource` stop advancing while the fault lasts, named by themselves or by their hosts.
        server: Target = target("one:apiserver-*"),
        /// The plural of the type, or `*`.
        resource: String = every_resource() => served,
    }
}

impl Inject for ApiServerFreeze {
    const EVENT: &'static str = "a stale watch cache: clients of one API server see the past without any error (K §9.2 B1)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<ApiServerFreezeDraft>> =
        Drawn::ByDefault(|targeting| Some(ApiServerFreezeDraft { resource: targeting.resource(), ..ApiServerFreezeDraft::default() }));

    fn subject(&self) -> Subject {
        Subject::of(&[&self.server])
    }

    fn blocks(&self) -> Blocks {
        Blocks::ServerCaches { servers: self.server.clone(), resource: self.resource.clone() }
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        let caches = server_caches(injection.cluster, &self.server, &self.resource);
        caches.into_iter().map(|(server, kind)| Frozen { server, kind }.into()).collect()
    }
}

/// A watch cache that does not advance.
#[derive(Debug)]
struct Frozen {
    server: usize,
    kind: KindId,
}

impl Effect for Frozen {
    fn apply(&self, cluster: &Arc<Cluster>) {
        cluster.set_frozen(self.server, Some(self.kind), true);
    }

    fn revert(&self, cluster: &Arc<Cluster>) {
        cluster.set_frozen(self.server, Some(self.kind), false);
    }

    fn excludes(&self, other: &Self) -> Overlap {
        if (self.server, self.kind) == (other.server, other.kind) { Overlap::SameState } else { Overlap::Separate }
    }

    fn has_observable_effect(&self, _: &Cluster) -> bool {
        true
    }
}
