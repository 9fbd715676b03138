//! Nodes that can be lost: the setup with which silent nodes are detected and their pods evicted (K §6).

use std::sync::Arc;

use kube_sim::actor::controller_manager::{Controller, Set};
use kube_sim::cluster::Cluster;
use kube_sim::node::heartbeat::LEASES;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::time::Span;
use sim_harness::workload::preload_namespace;

/// The times after which silent nodes and their pods are given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeLifecycle {
    /// The time that a node may be silent before its condition Ready becomes Unknown.
    pub monitor_grace: Span,
    /// The time that pods tolerate a lost node, in whole seconds, unless they set their own.
    pub toleration: Span,
}

impl NodeLifecycle {
    /// Creates the namespace of the leases, and sets the toleration that admission adds to new pods.
    pub(super) fn preload(self, cluster: &Arc<Cluster>) {
        preload_namespace(cluster, LEASES);
        cluster.tolerate_by_default(self.toleration.0);
    }

    /// Adds the controllers of nodes to a set of controllers.
    pub(super) fn look_after(self, mut set: Set) -> Set {
        set.controllers.extend([Controller::NodeLifecycle, Controller::PodGc]);
        set.monitor_grace = self.monitor_grace.0;
        set
    }
}
