//! What a plan says that claims about reclaim have to know.

use ipam_core::spiderpool::Policy;
use ipam_core::spiderpool::reclaim::ReclaimSettings;

use crate::plan::{Plan, WorkloadPlan};
use crate::time::SimTime;

/// The terms under which reclaim is judged.
#[derive(Clone, Debug)]
pub(in crate::claim) struct Terms {
    /// The settings of the replicas.
    pub(in super::super) settings: ReclaimSettings,
    /// The replicas that reclaim, by name; none if nothing is reclaimed.
    pub(in super::super) replicas: Vec<String>,
    /// When all faults are over but those for good.
    pub(in super::super) heal_at: SimTime,
}

impl Terms {
    /// Those of a plan.
    pub(in crate::claim) fn of(plan: &Plan) -> Self {
        let mut terms = Self { heal_at: plan.heal_at, ..Self::default() };
        if let WorkloadPlan::Spiderpool(spiderpool) = &plan.workload {
            // A plan with settings that cannot be read is refused before.
            terms.settings = spiderpool.reclaim_settings(&Policy::hardened()).unwrap_or(terms.settings);
            if spiderpool.reclaim && terms.settings.enabled {
                terms.replicas = spiderpool.controller_names().collect();
            }
        }
        terms
    }
}

impl Default for Terms {
    fn default() -> Self {
        Self { settings: ReclaimSettings::new(&Policy::hardened()), replicas: Vec::new(), heal_at: SimTime::ZERO }
    }
}
