//! The BYOM pool at work: adaptors share one ConfigMap, and hand its VMs to pods.

pub mod burst;
mod note;
pub mod pods;

use ipam_byom::{DEFAULT_CONFIG_MAP, DEFAULT_NAMESPACE, Policy};
use kube_machinery::ObjectKey;
use sim_harness::deviation::DeviationName;

pub use ipam_byom::Releaser;
pub(crate) use note::short;
pub use note::{Failure, PoolNote, VmChange};

/// Where the document of a pool is kept.
pub fn pool_key() -> ObjectKey {
    ObjectKey::namespaced(DEFAULT_NAMESPACE, DEFAULT_CONFIG_MAP)
}

/// The policy that the deviations of a plan make of the hardened one. Deviations of other systems are none of its business.
pub fn policy_of(deviations: &[DeviationName]) -> Policy {
    let mut policy = Policy::hardened();
    for deviation in deviations {
        if let Some(switch) = policy.switch(deviation.as_str()) {
            *switch = true;
        }
    }
    policy
}
