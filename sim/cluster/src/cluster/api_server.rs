//! One API server: its caches, and what is wrong with it.

use sim_config::time::SimTime;

use super::load::Load;
use super::watch_cache::Cache;
use crate::rt::ProcessId;

/// One API server: whether it is up, what faults make of it, and its caches.
pub(crate) struct ApiServer {
    pub(crate) process: ProcessId,
    /// Whether it accepts connections.
    pub up: bool,
    /// Since when it is down or cut off from everybody.
    pub(super) silent_since: Option<SimTime>,
    /// Whether it is stopped in its tracks.
    pub paused: bool,
    /// When its caches have their initial list; before, they answer 429.
    pub ready_at: SimTime,
    /// When it was started for the last time.
    pub started_at: SimTime,
    /// Whether it is cut off from etcd (K §9.2 B10).
    pub etcd_cut: bool,
    /// Whether its steps take as long as those of an overloaded server.
    pub degraded: bool,
    pub(crate) caches: Vec<Cache>,
    /// The next pod that it deletes without grace is left between the two phases: the server crashes there (K102).
    pub crash_in_delete: bool,
    /// What it has to do, if it has a capacity.
    pub(crate) load: Load,
}
