//! What agents and the controller did to each other, which addresses were held, and what was reclaimed.

mod addresses;
mod agents;
mod entitlement;
mod reclaim;
mod silence;

pub use addresses::AddressMeter;
pub use agents::AgentsMeter;
pub use reclaim::ReclaimMeter;
