//! What agents and the controller did to each other, which addresses were held, and what was reclaimed.

mod addresses;
mod agents;
mod reclaim;
mod right;
mod silence;

pub use addresses::AddressMeter;
pub use agents::AgentsMeter;
pub use reclaim::ReclaimMeter;
