//! What processes say in the trace.

use std::fmt;

use sim_harness::prelude::*;

use crate::objects::address;

/// What a process says it did.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// A pod asks for an address.
    Asks { pod: String },
    /// A pod was given the address at this offset.
    Given { pod: String, offset: u32 },
    /// A pod is not wanted any more.
    Ends { pod: String },
    /// The address of a pod that is gone was freed.
    Reconciled { pod: String },
}

impl Note for Said {
    fn about(&self) -> About {
        let pod_of = |pod: &String| Entity::Pod(pod.as_str().into());
        match self {
            Said::Asks { pod } => About::beginning([pod_of(pod)]),
            Said::Given { pod, offset } => About::ending([pod_of(pod), Entity::ip(address(*offset))]),
            Said::Ends { pod } | Said::Reconciled { pod } => About::passing([pod_of(pod)]),
        }
    }

    fn counts_as(&self) -> Option<Counted> {
        matches!(self, Said::Given { .. }).then_some(Counted::Succeeded)
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Said::Asks { pod } => write!(f, "ADD of {pod} begins"),
            Said::Given { pod, offset } => write!(f, "gives {} to {pod}", address(*offset)),
            Said::Ends { pod } => write!(f, "{pod} ends"),
            Said::Reconciled { pod } => write!(f, "frees the address of {pod}, which is gone"),
        }
    }
}
