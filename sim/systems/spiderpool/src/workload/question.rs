//! The basis of an agent's decision, for claims that evaluate the rules themselves.

use std::sync::{Arc, Weak};

use ipam_spiderpool::Policy;
use ipam_spiderpool::ipam::AddRequest;
use ipam_spiderpool::select::{Cluster, Request, Settings, TopController};
use k8s_openapi::api::core::v1::Pod;

/// The caches of an agent.
pub(crate) type Known = dyn Cluster + Send + Sync;

/// A request for addresses, with the agent's knowledge at that time.
///
/// The caches are the agent's own. They show the agent's knowledge only while the note is being delivered, and later states after that:
/// keeping a note does not preserve them.
#[derive(Clone, Debug)]
pub struct Question {
    pub(crate) request: AddRequest,
    pub(crate) pod: Arc<Pod>,
    pub(crate) node: Arc<str>,
    /// Whether the agent has just created or updated the pools of a third-party workload, as in [`Request::made`].
    pub(crate) made: bool,
    pub(crate) controller: TopController,
    pub(crate) settings: Arc<Settings>,
    pub(crate) caches: Weak<Known>,
}

impl Question {
    /// Evaluates the hardened rules, whatever the mutations of the run.
    ///
    /// # Panics
    /// If the life of the agent that wrote the note is over.
    pub(crate) fn ask<T>(&self, ask: impl FnOnce(&dyn Cluster, &Request<'_>, &TopController) -> T) -> T {
        let caches = self.caches.upgrade().expect("the agent that tells has its caches");
        let AddRequest { nic, cni, master, .. } = &self.request;
        let (pod, node, settings, policy) = (&self.pod, &self.node, &self.settings, &Policy::hardened());
        ask(&*caches, &Request { pod, node, nic, cni, master, settings, policy, made: self.made }, &self.controller)
    }
}
