//! Types that processes cannot discover.

use std::sync::Arc;

use crate::cluster::Cluster;
use crate::cluster::discovery::DiscoveryFault;
use crate::fault::blocks::resource_kind;
use crate::fault::effect::{ActiveEffect, Effect, Inject, Injection, Overlap};
use crate::fault::parameters::{every_resource, parameters, served, target};
use crate::fault::{Aim, Blocks, Drawn, Lasts, Subject, Target, Trigger, Wait};

parameters! {
    /// A process that starts during the fault cannot discover API types, and the first reads of its caches fail.
    pub struct DiscoveryFails / DiscoveryFailsDraft {
        /// Processes whose caches of `resource` cannot start while the fault lasts; caches that have started keep working.
        process: Target = target("one:*"),
        /// The plural of the type, or `*`.
        resource: String = every_resource() => served,
    }
}

impl Inject for DiscoveryFails {
    const EVENT: &'static str = "a 503 where a cache starts with a type at its first use, and has to discover it (K §9.2 A1, G §1.5, G §7)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<DiscoveryFailsDraft>> =
        Drawn::IfTuned("only a process that starts while it lasts meets it: it would do nothing in most of a hundred plans");

    fn subject(&self) -> Subject {
        Subject::of(&[&self.process])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Discovery { resource: self.resource.clone() }
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        let cluster = injection.cluster;
        let Some(kind) = resource_kind(cluster, &self.resource) else { return Vec::new() };
        vec![Undiscovered(DiscoveryFault { fault: injection.index, clients: self.process.side(&cluster.rt), kind }).into()]
    }
}

/// A type that some processes cannot discover.
#[derive(Debug)]
struct Undiscovered(DiscoveryFault);

impl Effect for Undiscovered {
    fn apply(&self, cluster: &Arc<Cluster>) {
        cluster.add_discovery_fault(self.0.clone());
    }

    fn revert(&self, cluster: &Arc<Cluster>) {
        cluster.remove_discovery_faults(self.0.fault);
    }

    fn excludes(&self, _: &Self) -> Overlap {
        Overlap::Separate
    }

    fn has_observable_effect(&self, _: &Cluster) -> bool {
        false
    }
}
