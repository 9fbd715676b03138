//! SpiderSubnets and the pools that are cut from them for applications (A §8).
//!
//! ```text
//!   workload ──► Demand ─┐
//!   subnet, pool ────────┴─► plan ──► writes in order: subnet's status and pool, or the other way round
//!   subnet, its pools ─────► upkeep ──► label, adopt, status, take down
//!   auto pool, workload ───► reclaim ──► delete
//! ```
//! Pure functions decide what to write next; [`SubnetController`] reads, writes and retries, for the built-in kinds of workloads. Agents
//! reconcile the pools of third-party kinds with [`AutoPools`], concurrently. Only resourceVersions keep writers apart, so each write
//! carries that of the copy it was decided on.
//!
//! The hardened form keeps one rule at every write: a pool has no address that is not pre-allocated for it. So a subnet is written before a
//! pool that grows, and after a pool that shrinks, and a crash in between leaves nothing that another pool could take. Addresses are
//! intervals throughout; the cost of a subnet depends on the number of its pre-allocations, not on their sizes.

mod application;
mod controller;
mod demand;
mod driver;
mod kinds;
mod observer;
mod pick;
mod plan;
mod plan_upstream;
mod pool;
mod reclaim;
mod shares;
#[cfg(test)]
mod tests;
mod third_party;
mod upkeep;
mod want;

pub use application::{Application, ApplicationName};
pub use controller::SubnetController;
pub use demand::{Demand, demands};
pub use driver::{AutoPools, ReconcileError, Reconciled};
pub use kinds::{AppKind, ThirdParty, Watching};
pub use observer::{Observer, Step};
pub use plan::plan;
pub(super) use pool::owner;
pub use reclaim::{Fate, reclaim};
pub use third_party::Live;
pub use upkeep::{Census, Upkeep, upkeep};
pub use want::{Known, Plan, Refusal, Want, Write};
