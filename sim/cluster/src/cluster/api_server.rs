//! One API server: its caches and its faults.

use sim_config::time::SimTime;

use super::load::Load;
use super::watch_cache::Cache;
use crate::rt::ProcessId;

/// One API server: whether it is up, its faults, and its caches.
pub(crate) struct ApiServer {
    pub(crate) process: ProcessId,
    /// Whether it accepts connections.
    pub up: bool,
    /// The time since which it has been down or cut off from everything.
    pub(super) silent_since: Option<SimTime>,
    /// Whether it is paused.
    pub paused: bool,
    /// The time at which its caches have their initial list; before, they answer 429.
    pub ready_at: SimTime,
    /// The time of its last start.
    pub started_at: SimTime,
    /// Whether it is cut off from etcd (K §9.2 B10).
    pub etcd_cut: bool,
    /// Whether its steps take as long as those of an overloaded server.
    pub degraded: bool,
    pub(crate) caches: Vec<Cache>,
    /// Whether the next pod that it deletes without grace is left between the two phases: the server crashes there (K102).
    pub crash_in_delete: bool,
    /// Its pending work, if it has a capacity.
    pub(crate) load: Load,
}
