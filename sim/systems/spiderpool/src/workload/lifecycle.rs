//! Nodes that can be lost: what it takes for silent nodes to be noticed and for their pods to leave them (K §6).

use std::sync::Arc;

use kube_sim::actor::controller_manager::{Controller, Set};
use kube_sim::cluster::Cluster;
use kube_sim::node::heartbeat::LEASES;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::time::Span;
use sim_harness::workload::preload_namespace;

/// How long nodes and their pods are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeLifecycle {
    /// How long a node may be silent before its condition Ready becomes Unknown.
    pub monitor_grace: Span,
    /// How long pods bear a lost node, in whole seconds, if they do not say it themselves.
    pub toleration: Span,
}

impl NodeLifecycle {
    /// The namespace of the leases, and what admission adds to new pods.
    pub(super) fn preload(self, cluster: &Arc<Cluster>) {
        preload_namespace(cluster, LEASES);
        cluster.tolerate_by_default(self.toleration.0);
    }

    /// The same controllers and those of nodes.
    pub(super) fn look_after(self, mut set: Set) -> Set {
        set.controllers.extend([Controller::NodeLifecycle, Controller::PodGc]);
        set.monitor_grace = self.monitor_grace.0;
        set
    }
}
