//! Metrics of the conflicts between agents and the controller, of the addresses held, and of reclaim.

mod addresses;
mod agents;
mod entitlement;
mod reclaim;
mod silence;

pub use addresses::AddressMetrics;
pub use agents::AgentMetrics;
pub use reclaim::ReclaimMetrics;
