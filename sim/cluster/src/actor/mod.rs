//! Parts of a cluster that are no API server and no client under test: controllers that workloads need around them.
//!
//! Each is a process that whoever builds the world installs; it lives through its crashes by itself.

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
