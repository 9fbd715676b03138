//! Types that a process cannot find out about. A cache that begins with a type at its first use asks which resource that is, and fails if
//! nobody says it (G §1.5, §7); what has begun does not ask again.

use super::Cluster;
use crate::kinds::KindId;
use crate::net::Side;
use crate::rt::ProcessId;
use crate::trace::{EventKind, FaultChange};

/// Some processes cannot find out about a type.
#[derive(Clone, Debug)]
pub struct DiscoveryFault {
    /// The number of the fault that asks for it.
    pub fault: u32,
    /// Whose questions are not answered.
    pub clients: Side,
    /// About which type; `None` = about any.
    pub kind: Option<KindId>,
}

impl Cluster {
    /// From now on some processes cannot find out about a type.
    pub fn add_discovery_fault(&self, fault: DiscoveryFault) {
        self.lock().discovery_faults.push(fault);
    }

    /// They can again, as far as this fault goes.
    pub fn remove_discovery_faults(&self, fault: u32) {
        self.lock().discovery_faults.retain(|known| known.fault != fault);
    }

    /// Whether `client` finds out about a type when it asks now.
    pub fn discovers(&self, client: ProcessId, kind: KindId) -> bool {
        let mut state = self.lock();
        let about = |fault: &&DiscoveryFault| fault.clients.contains(client) && fault.kind.is_none_or(|other| other == kind);
        let Some(fault) = state.discovery_faults.iter().find(about).map(|fault| fault.fault) else { return true };
        state.recorder.observe(self.rt.now(), EventKind::Fault { index: fault, change: FaultChange::Fired });
        false
    }
}
