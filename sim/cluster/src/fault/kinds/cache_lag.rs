//! Changes that reach the caches of a process late.

use std::sync::Arc;
use std::time::Duration;

use sim_config::time::Span;

use crate::cluster::Cluster;
use crate::fault::blocks::resource_kind;
use crate::fault::effect::{ActiveEffect, Effect, Inject, Injection, Overlap};
use crate::fault::parameters::{between, every_resource, parameters, served, target};
use crate::fault::{Aim, Blocks, Drawn, Lasts, Subject, Target, Trigger, Wait};
use crate::kinds::KindId;
use crate::rt::ProcessId;

parameters! {
    /// Changes reach the caches of one process late.
    pub struct CacheLag / CacheLagDraft {
        /// Processes whose watches of `resource` deliver changes late; their lists are not late.
        process: Target = target("one:*"),
        /// The plural of the type, or `*`.
        resource: String = every_resource() => served,
        /// The additional time that a change takes over a watch; with 0 nothing is late.
        by: Span = between(Span::millis(1), Span::secs(30)),
    }
}

impl Inject for CacheLag {
    const EVENT: &'static str = "an informer that falls behind: a busy process, a slow connection (K §4.2, A §11.4)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<CacheLagDraft>> = Drawn::ByDefault(|targeting| {
        Some(CacheLagDraft { process: targeting.process()?, resource: targeting.resource(), ..CacheLagDraft::default() })
    });

    fn subject(&self) -> Subject {
        Subject::of(&[&self.process])
    }

    fn blocks(&self) -> Blocks {
        if self.by.0.is_zero() {
            return Blocks::Nothing;
        }
        Blocks::ClientCaches { clients: self.process.clone(), resource: self.resource.clone() }
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        let cluster = injection.cluster;
        let Some(kind) = resource_kind(cluster, &self.resource) else { return Vec::new() };
        self.process.processes(&cluster.rt).into_iter().map(|process| Lag { process, kind, by: self.by.0 }.into()).collect()
    }
}

/// The watches of a process on one type, or on all, with the additional lag.
#[derive(Debug)]
struct Lag {
    process: ProcessId,
    kind: Option<KindId>,
    by: Duration,
}

impl Effect for Lag {
    fn apply(&self, cluster: &Arc<Cluster>) {
        cluster.set_cache_lag(self.process, self.kind, self.by);
    }

    fn revert(&self, cluster: &Arc<Cluster>) {
        cluster.set_cache_lag(self.process, self.kind, Duration::ZERO);
    }

    fn excludes(&self, other: &Self) -> Overlap {
        if (self.process, self.kind) == (other.process, other.kind) { Overlap::LastWins } else { Overlap::Separate }
    }

    fn has_observable_effect(&self, _: &Cluster) -> bool {
        true
    }
}
