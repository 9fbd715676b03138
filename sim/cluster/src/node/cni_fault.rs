//! Faults between the container runtime and the plugin.

use std::time::Duration;

use sim_config::draw::{Concern, Draw};

use crate::rt::ProcessId;

/// The fault of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CniFault {
    /// The runtime believes that DEL succeeded, but it never took place (K §5.2: lost state).
    DelLost,
    /// The runtime goes on as if DEL had succeeded; it takes place this much later, without a network namespace.
    DelLate(Duration),
    /// A DEL that succeeded is repeated this many times, each this much after the one before (K131).
    DelRepeated(u32, Duration),
    /// The answer to an ADD reaches the runtime this much later.
    AddSlow(Duration),
    /// The plugin of an ADD is killed this much after it was called; its daemon goes on (K §5.3).
    PluginKilled(Duration),
}

impl CniFault {
    pub(super) fn is_of_add(self) -> bool {
        matches!(self, CniFault::AddSlow(_) | CniFault::PluginKilled(_))
    }
}

/// A fault of some calls of one runtime while the fault is active. It has a separate stream of draws.
#[derive(Debug)]
pub(super) struct InjectedCniFault {
    /// The fault of the plan.
    pub fault: u32,
    pub kind: CniFault,
    chance: f64,
    draw: Draw,
}

impl InjectedCniFault {
    pub(super) fn new(seed: u64, fault: u32, kubelet: ProcessId, chance: f64, kind: CniFault) -> Self {
        let index = 1 << 63 | u64::from(fault) << 32 | u64::from(kubelet.0);
        Self { fault, kind, chance, draw: Draw::new(seed, Concern::World, index) }
    }

    /// Whether the fault hits the next call.
    pub(super) fn hits(&mut self) -> bool {
        self.draw.chance(self.chance)
    }
}
