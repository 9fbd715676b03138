//! Whose an endpoint is that has the name of a pod: a decision on its state alone (A §5.3, §6.2).

use super::endpoints::{goes_with_pod, has_finalizer, is_terminating, uid_of};
use crate::select::TopController;
use crate::validity::Keeper;
use crate::{Policy, SpiderEndpoint};

/// Whose an endpoint is, seen from a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// This very pod's.
    Own,
    /// That of the pod's predecessor, whose addresses it inherits.
    Inherited,
    /// Somebody else's who had the name.
    Foreign,
}

/// Whose an endpoint is.
pub(super) fn standing(endpoint: &SpiderEndpoint, uid: &str, keeper: Keeper, controller: &TopController, policy: &Policy) -> Standing {
    if uid_of(endpoint) == uid {
        return Standing::Own;
    }
    if keeper == Keeper::Nobody {
        return if policy.adopt_stale_endpoint { Standing::Inherited } else { Standing::Foreign };
    }
    let ends = is_terminating(endpoint) && !(policy.terminating_endpoint_reused || policy.adopt_stale_endpoint);
    let owner = endpoint.status.as_ref().map(|status| (status.owner_controller_type.as_str(), status.owner_controller_name.as_str()));
    let of_another =
        owner != Some((controller.kind.as_str(), controller.name.as_str())) || goes_with_pod(endpoint) || !has_finalizer(endpoint);
    if ends || (of_another && !policy.reown_foreign_endpoint) { Standing::Foreign } else { Standing::Inherited }
}
