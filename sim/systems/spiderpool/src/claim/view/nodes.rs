//! The readiness of nodes over time.

use std::sync::Arc;

use ipam_spiderpool::reclaim::NodeState;
use k8s_openapi::api::core::v1::Node;
use kube_machinery::FxHashMap;
use sim_config::time::SimTime;

/// A state that began with a revision.
#[derive(Clone, Copy, Debug)]
struct Era {
    revision: u64,
    at: SimTime,
    state: NodeState,
}

/// All nodes that ever existed.
#[derive(Debug, Default)]
pub(in super::super) struct Nodes(FxHashMap<Arc<str>, Vec<Era>>);

impl Nodes {
    /// The present state of a node; a node that was never seen is gone.
    pub(in super::super) fn now(&self, name: &str) -> NodeState {
        self.0.get(name).and_then(|eras| eras.last()).map_or(NodeState::Gone, |era| era.state)
    }

    /// The revision with which the present state of a node began; 0 if it was never seen.
    pub(in super::super) fn revision(&self, name: &str) -> u64 {
        self.0.get(name).and_then(|eras| eras.last()).map_or(0, |era| era.revision)
    }

    /// The states of a node from then until now that a process which had been shown everything up to revision `shown` can have seen.
    pub(in super::super) fn states_since(&self, name: &str, shown: u64) -> impl Iterator<Item = NodeState> {
        let eras = self.0.get(name).map_or(&[][..], Vec::as_slice);
        let first = eras.iter().rposition(|era| era.revision <= shown);
        let before = first.is_none().then_some(NodeState::Gone);
        before.into_iter().chain(eras[first.unwrap_or(0)..].iter().map(|era| era.state))
    }

    /// The time since which a node has continuously been in states for which `holds` is true; `None` = it is not in such a state now.
    pub(in super::super) fn since(&self, name: &str, holds: impl Fn(NodeState) -> bool) -> Option<SimTime> {
        let eras = self.0.get(name)?;
        eras.iter().rev().take_while(|era| holds(era.state)).last().map(|era| era.at)
    }

    /// The last continuous time in which a node was ready: its beginning, and its end if the node is not ready now.
    pub(in super::super) fn last_ready(&self, name: &str) -> Option<(SimTime, Option<SimTime>)> {
        let eras = self.0.get(name)?;
        let ready = |era: &&Era| era.state.is_ready();
        let lost = eras.iter().rev().take_while(|era| !ready(era)).last().map(|era| era.at);
        let begun = eras.iter().rev().skip_while(|era| !ready(era)).take_while(ready).last()?.at;
        Some((begun, lost))
    }

    /// Takes in a version of a node, `None` if it is gone. Returns whether its state changed.
    pub(super) fn see(&mut self, name: &str, revision: u64, at: SimTime, after: Option<&Node>) -> bool {
        let state = after.map_or(NodeState::Gone, NodeState::of);
        let eras = match self.0.get_mut(name) {
            Some(eras) => eras,
            None => self.0.entry(name.into()).or_default(),
        };
        let changes = eras.last().is_none_or(|era| era.state != state);
        if changes {
            eras.push(Era { revision, at, state });
        }
        changes
    }
}
