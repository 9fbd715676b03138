//! The node states in which reclaim may act on a pod (G §3).

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;

use super::settings::ReclaimSettings;

/// The known state of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// Its condition `Ready` is `True`.
    Ready {
        /// The time of the last transition (`lastTransitionTime`), if stated.
        since: Option<Timestamp>,
    },
    /// The condition is something else, or absent.
    NotReady,
    /// There is no such node, or the pod has none.
    Gone,
    /// It could not be read.
    Unreadable,
}

impl NodeState {
    /// The state that a node shows.
    pub fn of(node: &Node) -> Self {
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
        let ready = conditions.into_iter().flatten().find(|condition| condition.type_ == "Ready" && condition.status == "True");
        ready.map_or(Self::NotReady, |ready| Self::Ready { since: ready.last_transition_time.as_ref().map(|time| time.0) })
    }

    /// Whether it is ready.
    pub fn is_ready(self) -> bool {
        matches!(self, Self::Ready { .. })
    }

    /// Whether ending pods of the node give up their addresses (`nodeOK`); `None` = unknown.
    pub fn permits(self, settings: &ReclaimSettings) -> Option<bool> {
        match self {
            Self::Ready { .. } => Some(settings.terminating && settings.on_ready_node),
            Self::NotReady => Some(settings.terminating && settings.on_not_ready_node),
            Self::Gone | Self::Unreadable => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Policy;

    fn node(conditions: serde_json::Value) -> NodeState {
        NodeState::of(&serde_json::from_value(json!({"metadata": {"name": "n"}, "status": {"conditions": conditions}})).unwrap())
    }

    #[test]
    fn only_true_is_ready() {
        assert_eq!(
            node(json!([{"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": "True"}])),
            NodeState::Ready { since: None }
        );
        for status in ["False", "Unknown", ""] {
            assert_eq!(node(json!([{"type": "Ready", "status": status}])), NodeState::NotReady, "{status}");
        }
        assert_eq!(node(json!([])), NodeState::NotReady);
        assert_eq!(NodeState::of(&Node::default()), NodeState::NotReady);
    }

    #[test]
    fn each_state_has_its_switch_and_the_old_one_is_master() {
        let mut settings = ReclaimSettings::new(&Policy::hardened());
        settings.on_ready_node = false;
        let permits = |settings: &ReclaimSettings| {
            [NodeState::Ready { since: None }, NodeState::NotReady, NodeState::Gone, NodeState::Unreadable]
                .map(|state| state.permits(settings))
        };
        assert_eq!(permits(&settings), [Some(false), Some(true), None, None]);
        settings.terminating = false;
        assert_eq!(permits(&settings), [Some(false), Some(false), None, None]);
    }
}
