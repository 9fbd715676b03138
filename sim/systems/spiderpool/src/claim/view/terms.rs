//! What a plan says that claims about reclaim have to know.

use std::time::Duration;

use ipam_spiderpool::Policy;
use ipam_spiderpool::reclaim::ReclaimSettings;
use ipam_spiderpool::select::Settings;
use kube_sim::fault::{Blocks, FaultKind, is_for_good};
use sim_config::time::SimTime;
use sim_harness::plan::Plan;

use super::health::AFTERMATH;
use crate::Plans;

/// Whom a fault can hinder to reclaim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Reach {
    /// Nobody: it is about nodes, their kubelets and sandboxes, or about agents.
    Nodes,
    /// These replicas, which are down or stand still.
    Replicas(Vec<String>),
    /// Whoever sends a request that it hits.
    Requests,
    /// Whoever would read an endpoint in his cache: the API server still tells.
    EndpointCaches,
    /// Everybody: it hits what all of them need, or any of them.
    All,
}

impl Reach {
    fn of(kind: &FaultKind, names: &[String], replicas: &[String]) -> Self {
        match kind.blocks() {
            Blocks::Nothing => Self::Nodes,
            Blocks::Processes(processes) => {
                let mut victims: Vec<String> = names.iter().filter(|name| processes.matches(name)).cloned().collect();
                if victims.iter().any(|name| is_server(name)) {
                    return Self::All;
                }
                victims.retain(|name| replicas.contains(name));
                if victims.is_empty() { Self::Nodes } else { Self::Replicas(victims) }
            }
            // What is cut are the links of one side to the other.
            Blocks::Links { from, both_ways: true, .. } => {
                let is_vital = |name: &String| is_server(name) || replicas.contains(name);
                if names.iter().any(|name| is_vital(name) && from.matches(name)) { Self::All } else { Self::Nodes }
            }
            Blocks::Requests { all: false, .. } => Self::Requests,
            Blocks::Discovery { resource } if resource == "spiderendpoints" => Self::EndpointCaches,
            Blocks::Links { .. }
            | Blocks::Leader
            | Blocks::Requests { .. }
            | Blocks::LateWrites { .. }
            | Blocks::LateRequests { .. }
            | Blocks::ServerCaches { .. }
            | Blocks::ClientCaches { .. }
            | Blocks::Servers(_)
            | Blocks::Etcd
            | Blocks::Discovery { .. }
            | Blocks::History
            | Blocks::Admission
            | Blocks::Clocks
            | Blocks::Object => Self::All,
        }
    }

    /// Whether it can hinder a replica.
    pub(in super::super) fn hinders(&self, replica: &str) -> bool {
        match self {
            Self::Nodes => false,
            Self::Replicas(names) => names.iter().any(|name| name == replica),
            Self::Requests | Self::EndpointCaches | Self::All => true,
        }
    }
}

/// What the plan says of a fault.
#[derive(Clone, Debug)]
pub(in super::super) struct PlannedFault {
    /// Whom it can hinder.
    pub(in super::super) reach: Reach,
    /// How long it lasts once it has begun.
    pub(in super::super) lasts: Lasts,
    /// How long what it left behind may take.
    pub(in super::super) aftermath: Duration,
}

/// How long what a fault left behind may take: a lease runs out, watches begin anew after a pause, nodes are heard of again. Where a server
/// lost its history, a reflector pauses twice: before it watches again, and, as what it asks for is gone, before it lists (K §4.1).
fn aftermath(kind: &FaultKind, names: &[String]) -> Duration {
    let loses_history = match kind.blocks() {
        Blocks::History => true,
        Blocks::Processes(processes) => names.iter().any(|name| is_server(name) && processes.matches(name)),
        _ => false,
    };
    if loses_history { 2 * AFTERMATH } else { AFTERMATH }
}

fn is_server(name: &str) -> bool {
    name.starts_with("apiserver-") || name.starts_with("control-plane-")
}

/// When a fault ends that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Lasts {
    /// It is over as soon as it began.
    AnInstant,
    /// Until it ends, at the heal at the latest.
    AWhile,
    /// To the end of the run.
    ForGood,
}

/// The terms under which reclaim is judged.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    /// The settings of the replicas.
    pub(in super::super) settings: ReclaimSettings,
    /// The settings by which agents select pools as the run begins.
    pub(in super::super) select: Settings,
    /// Whether every pool serves some nodes only (`match_master_subnet`).
    pub(in super::super) match_master_subnet: bool,
    /// Whether the webhooks of the controller are registered.
    pub(in super::super) has_webhooks: bool,
    /// Whether admission lets nobody delete a pool in use (`enableValidatingResourcesDeletedWebhook`).
    pub(in super::super) guards_deletion: bool,
    /// The replicas that reclaim, by name; none if nothing is reclaimed.
    pub(in super::super) replicas: Vec<String>,
    /// When all faults are over but those for good.
    pub(in super::super) heal_at: SimTime,
    /// The faults of the plan.
    pub(in super::super) faults: Vec<PlannedFault>,
}

impl Terms {
    /// Those of a plan.
    pub(crate) fn of(plan: &Plan) -> Self {
        let mut terms = Self { heal_at: plan.heal_at, ..Self::default() };
        if let Some(spiderpool) = plan.workload.get().map(Plans::cluster) {
            // A plan with settings that cannot be read is refused before.
            terms.settings = spiderpool.reclaim_settings(&Policy::hardened()).unwrap_or(terms.settings);
            terms.select = spiderpool.agent_settings(&Policy::hardened()).map_or(terms.select, |settings| settings.select);
            terms.match_master_subnet = !spiderpool.masters.is_empty();
            terms.has_webhooks = spiderpool.has_webhooks();
            terms.guards_deletion = spiderpool.guards_deletion();
            if spiderpool.reclaim && terms.settings.enabled {
                terms.replicas = spiderpool.controller_names().collect();
            }
        }
        let names = plan.names();
        terms.faults = plan
            .fault
            .iter()
            .map(|fault| {
                let reach = Reach::of(&fault.kind, &names, &terms.replicas);
                let lasts = match fault.kind.is_instant() && fault.kind.recovers_after().is_none() {
                    true => Lasts::AnInstant,
                    false if is_for_good(fault) => Lasts::ForGood,
                    false => Lasts::AWhile,
                };
                PlannedFault { reach, lasts, aftermath: aftermath(&fault.kind, &names) }
            })
            .collect();
        terms
    }
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            settings: ReclaimSettings::new(&Policy::hardened()),
            select: Settings::default(),
            match_master_subnet: false,
            has_webhooks: false,
            guards_deletion: false,
            replicas: Vec::new(),
            heal_at: SimTime::ZERO,
            faults: Vec::new(),
        }
    }
}
