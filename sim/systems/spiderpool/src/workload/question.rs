//! What an agent decides on, for whoever reads the rules for himself.

use std::sync::{Arc, Weak};

use ipam_spiderpool::Policy;
use ipam_spiderpool::ipam::AddRequest;
use ipam_spiderpool::select::{Cluster, Request, Settings, TopController};
use k8s_openapi::api::core::v1::Pod;

/// The caches of an agent.
pub(crate) type Known = dyn Cluster + Send + Sync;

/// A request for addresses, and what the agent knows that decides on it.
///
/// The caches are the agent's own, as it has read them. They show what it knew for as long as the note is told, and later states after
/// that: who keeps a note does not keep them.
#[derive(Clone, Debug)]
pub struct Question {
    pub(crate) request: AddRequest,
    pub(crate) pod: Arc<Pod>,
    pub(crate) node: Arc<str>,
    /// Whether the agent has just made the pools of a third-party workload what they are to be, as in [`Request::made`].
    pub(crate) made: bool,
    pub(crate) controller: TopController,
    pub(crate) settings: Arc<Settings>,
    pub(crate) caches: Weak<Known>,
}

impl Question {
    /// Asks the hardened rules, whatever the deviations of the run.
    ///
    /// # Panics
    /// The life of the agent that told of it is over.
    pub(crate) fn ask<T>(&self, ask: impl FnOnce(&dyn Cluster, &Request<'_>, &TopController) -> T) -> T {
        let caches = self.caches.upgrade().expect("the agent that tells has its caches");
        let AddRequest { nic, cni, master, .. } = &self.request;
        let (pod, node, settings, policy) = (&self.pod, &self.node, &self.settings, &Policy::hardened());
        ask(&*caches, &Request { pod, node, nic, cni, master, settings, policy, made: self.made }, &self.controller)
    }
}
