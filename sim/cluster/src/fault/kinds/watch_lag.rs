//! Changes that reach the watch caches of an API server late.

use std::sync::Arc;
use std::time::Duration;

use sim_config::time::Span;

use crate::cluster::Cluster;
use crate::fault::blocks::server_caches;
use crate::fault::effect::{ActiveEffect, Effect, Inject, Injection, Overlap};
use crate::fault::parameters::{between, every_resource, parameters, served, target};
use crate::fault::{Aim, Blocks, Drawn, Lasts, Subject, Target, Trigger, Wait};
use crate::kinds::KindId;

parameters! {
    /// Changes reach a server's watch caches late.
    pub struct WatchLag / WatchLagDraft {
        /// API servers whose watch caches of `resource` see changes late, named by themselves or by their hosts.
        server: Target = target("one:apiserver-*"),
        /// The plural of the type, or `*`.
        resource: String = every_resource() => served,
        /// The additional time after which a watch cache sees a change; with 0 nothing is late.
        by: Span = between(Span::millis(1), Span::secs(30)),
    }
}

impl Inject for WatchLag {
    const EVENT: &'static str = "overload or a slow consumer (K §9.2 B2)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<WatchLagDraft>> =
        Drawn::ByDefault(|targeting| Some(WatchLagDraft { resource: targeting.resource(), ..WatchLagDraft::default() }));

    fn subject(&self) -> Subject {
        Subject::of(&[&self.server])
    }

    fn blocks(&self) -> Blocks {
        if self.by.0.is_zero() {
            return Blocks::Nothing;
        }
        Blocks::ServerCaches { servers: self.server.clone(), resource: self.resource.clone() }
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        let caches = server_caches(injection.cluster, &self.server, &self.resource);
        caches.into_iter().map(|(server, kind)| Lag { server, kind, by: self.by.0 }.into()).collect()
    }
}

/// A watch cache with an additional lag.
#[derive(Debug)]
struct Lag {
    server: usize,
    kind: KindId,
    by: Duration,
}

impl Effect for Lag {
    fn apply(&self, cluster: &Arc<Cluster>) {
        cluster.set_extra_lag(self.server, Some(self.kind), self.by);
    }

    fn revert(&self, cluster: &Arc<Cluster>) {
        cluster.set_extra_lag(self.server, Some(self.kind), Duration::ZERO);
    }

    fn excludes(&self, other: &Self) -> Overlap {
        if (self.server, self.kind) == (other.server, other.kind) { Overlap::LastWins } else { Overlap::Separate }
    }

    fn has_observable_effect(&self, _: &Cluster) -> bool {
        true
    }
}
