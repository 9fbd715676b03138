//! What agents and the controller did to each other, which addresses were held, and what was reclaimed.

mod addresses;
mod agents;
mod entitlement;
mod reclaim;
mod silence;

pub use addresses::AddressMetrics;
pub use agents::AgentMetrics;
pub use reclaim::ReclaimMetrics;
