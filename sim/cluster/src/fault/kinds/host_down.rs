//! A host without power.

use std::sync::Arc;

use crate::cluster::Cluster;
use crate::fault::effect::{ActiveEffect, Effect, Inject, Injection, Overlap};
use crate::fault::parameters::{parameters, target};
use crate::fault::process_down::{INITIALIZING, take_down};
use crate::fault::{Aim, Blocks, Drawn, Lasts, Subject, Target, Trigger, Wait};
use crate::rt::HostId;

parameters! {
    /// A host with all its processes goes down and comes back.
    pub struct HostDown / HostDownDraft {
        /// Hosts that are without power while the fault lasts, named by themselves or by a process on them.
        host: Target = target("one:*"),
    }
}

impl Inject for HostDown {
    const EVENT: &'static str = "a power loss or a reboot (K §9.2 D1)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<HostDownDraft>> = Drawn::ByDefault(|targeting| Some(HostDownDraft { host: targeting.host()? }));

    fn subject(&self) -> Subject {
        Subject::of(&[&self.host])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Processes(self.host.clone())
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        power_off(injection, &self.host)
    }
}

/// Takes the power from the hosts: the data on their disks remains, and their processes are down.
pub(super) fn power_off(injection: &Injection<'_>, hosts: &Target) -> Vec<ActiveEffect> {
    let cluster = injection.cluster;
    let hosts = hosts.hosts(&cluster.rt);
    hosts.iter().for_each(|&host| cluster.nodes.host_lost(cluster, host));
    // First the host falls silent, so that none of its connections is closed.
    let mut effects: Vec<ActiveEffect> = hosts.iter().map(|&host| HostDark(host).into()).collect();
    effects.extend(take_down(injection, hosts.into_iter().flat_map(|host| cluster.rt.processes_of(host)).collect(), INITIALIZING));
    effects
}

/// A host that sends nothing, not even a refusal of connections. API servers notice when they call webhooks.
#[derive(Debug)]
struct HostDark(HostId);

impl Effect for HostDark {
    fn apply(&self, cluster: &Arc<Cluster>) {
        cluster.darken(self.0);
    }

    fn revert(&self, cluster: &Arc<Cluster>) {
        cluster.lighten(self.0);
    }

    fn excludes(&self, other: &Self) -> Overlap {
        if self.0 == other.0 { Overlap::SameState } else { Overlap::Separate }
    }

    fn has_observable_effect(&self, _: &Cluster) -> bool {
        false
    }
}
