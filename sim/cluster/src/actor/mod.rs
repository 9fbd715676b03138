//! The parts of a cluster that are neither API servers nor clients under test: controllers that workloads need around them.
//!
//! Each is a process that is installed when the world is built, and that recovers from its crashes without help.

pub mod controller_manager;
pub mod garbage_collector;
mod informers;
pub mod kubelet;
mod object_tasks;
pub mod scheduler;

use kube_machinery::transparent::Transparent;

use crate::cluster::SimClient;
use crate::env::SimEnv;

/// The client of these processes: it resends as client-go does.
type ApiClient = Transparent<SimClient, SimEnv>;
