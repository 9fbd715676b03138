//! An API server under overload.

use std::sync::Arc;

use crate::cluster::Cluster;
use crate::fault::effect::{ActiveEffect, Effect, Inject, Injection, Overlap};
use crate::fault::parameters::{parameters, target};
use crate::fault::{Aim, Blocks, Drawn, Lasts, Subject, Target, Trigger, Wait};

parameters! {
    /// Every step of an API server takes as long as under overload.
    pub struct ApiServerSlow / ApiServerSlowDraft {
        /// API servers whose steps take as long as those of an overloaded one while the fault lasts, named by themselves or by their hosts.
        server: Target = target("one:apiserver-*"),
    }
}

impl Inject for ApiServerSlow {
    const EVENT: &'static str = "an overloaded API server (K §9.2 A5, B16)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<ApiServerSlowDraft>> = Drawn::ByDefault(|_| Some(ApiServerSlowDraft::default()));

    fn subject(&self) -> Subject {
        Subject::of(&[&self.server])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Servers(self.server.clone())
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        self.server.servers(injection.cluster).into_iter().map(|server| Slow(server).into()).collect()
    }
}

/// An API server under overload.
#[derive(Debug)]
struct Slow(usize);

impl Effect for Slow {
    fn apply(&self, cluster: &Arc<Cluster>) {
        cluster.set_server_degraded(self.0, true);
    }

    fn revert(&self, cluster: &Arc<Cluster>) {
        cluster.set_server_degraded(self.0, false);
    }

    fn excludes(&self, other: &Self) -> Overlap {
        if self.0 == other.0 { Overlap::SameState } else { Overlap::Separate }
    }

    fn has_observable_effect(&self, _: &Cluster) -> bool {
        true
    }
}
