//! Failures of API discovery. A cache that is created at the first use of a type asks discovery for its resource, and fails without an
//! answer (G §1.5, §7); a cache that exists does not ask again.

use super::Cluster;
use crate::kinds::KindId;
use crate::net::Side;
use crate::rt::ProcessId;
use crate::trace::{EventKind, FaultChange};

/// A failure of discovery for some processes and types.
#[derive(Clone, Debug)]
pub struct DiscoveryFault {
    /// The number of the fault that causes it.
    pub fault: u32,
    /// The clients whose questions are not answered.
    pub clients: Side,
    /// The type affected; `None` = any.
    pub kind: Option<KindId>,
}

impl Cluster {
    /// Makes discovery of a type fail for some processes from now on.
    pub fn add_discovery_fault(&self, fault: DiscoveryFault) {
        self.lock().discovery_faults.push(fault);
    }

    /// Ends the discovery failures of this fault.
    pub fn remove_discovery_faults(&self, fault: u32) {
        self.lock().discovery_faults.retain(|known| known.fault != fault);
    }

    /// Whether discovery of a type succeeds for `client` now.
    pub fn discovers(&self, client: ProcessId, kind: KindId) -> bool {
        let mut state = self.lock();
        let about = |fault: &&DiscoveryFault| fault.clients.contains(client) && fault.kind.is_none_or(|other| other == kind);
        let Some(fault) = state.discovery_faults.iter().find(about).map(|fault| fault.fault) else { return true };
        state.recorder.observe(self.rt.now(), EventKind::Fault { index: fault, change: FaultChange::Fired });
        false
    }
}
