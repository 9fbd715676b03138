//! One change on its way to a process, singled out by its number.

use std::sync::Arc;

use sim_config::Choice;
use sim_config::time::Span;

use crate::cluster::{ChangeHold, Cluster};
use crate::fault::blocks::resource_kind;
use crate::fault::effect::{ActiveEffect, Inject, Injection};
use crate::fault::parameters::{between, counted_from_1, every_resource, parameters, served, target};
use crate::fault::{Aim, Blocks, Drawn, Lasts, Subject, Target, Trigger, Wait};

parameters! {
    /// One change, and everything behind it on its watch, reaches a process late.
    pub struct ChangeLate / ChangeLateDraft {
        /// Processes to whose watches changes are counted, for each process separately.
        process: Target = target("one:*"),
        /// The plural of the type whose changes are counted, or `*`.
        resource: String = every_resource() => served,
        /// The number of the change among those sent to its watches, counting from 1 over the whole run. The initial state of a watch does
        /// not count.
        nth: u32 = Choice::Between(1, 40) => counted_from_1("changes"),
        /// The time by which it is late.
        by: Span = between(Span::millis(1), Span::secs(30)),
        /// The number of writes of the process after which the change arrives at the latest; 0 = its writes do not count.
        writes: u32 = Choice::Between(0, 2),
    }
}

impl Inject for ChangeLate {
    const EVENT: &'static str = "an informer that acts before it has been told (K §4.2, A §11.4)";
    const LASTS: Lasts<Self> = Lasts::Instant;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Request(Wait { nth: |fault| fault.nth, arm: Self::arm });

    const DRAWN: Drawn<Aim<ChangeLateDraft>> =
        Drawn::IfTuned("which change is late is for an exhaustive run to say, and `cache-lag` is the same for a while, by time");

    fn subject(&self) -> Subject {
        Subject::of(&[&self.process])
    }

    fn blocks(&self) -> Blocks {
        Blocks::ClientCaches { clients: self.process.clone(), resource: self.resource.clone() }
    }

    /// Starts nothing: the fault happens where the change is.
    fn inject(&self, _: &Injection<'_>) -> Vec<ActiveEffect> {
        Vec::new()
    }
}

impl ChangeLate {
    fn arm(&self, index: u32, cluster: &Arc<Cluster>) {
        if let Some(kind) = resource_kind(cluster, &self.resource) {
            for client in self.process.processes(&cluster.rt) {
                let (nth, at_most, writes) = (self.nth, self.by.0, self.writes);
                cluster.add_change_hold(ChangeHold { fault: index, client, kind, nth, at_most, writes });
            }
        }
    }
}
