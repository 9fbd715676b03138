//! The workloads of the BYOM pool: adaptors share one ConfigMap, and hand its VMs to pods.

pub mod burst;
mod note;
pub mod pods;

use ipam_byom::{DEFAULT_CONFIG_MAP, DEFAULT_NAMESPACE, Policy};
use kube_machinery::ObjectKey;
use sim_harness::deviation::DeviationName;

pub use ipam_byom::Releaser;
pub(crate) use note::short;
pub use note::{Failure, PoolNote, VmChange};

/// The place of a pool's document.
pub fn pool_key() -> ObjectKey {
    ObjectKey::namespaced(DEFAULT_NAMESPACE, DEFAULT_CONFIG_MAP)
}

/// The hardened policy with the mutations of a plan. Mutations of other systems are ignored.
pub fn policy_of(deviations: &[DeviationName]) -> Policy {
    let mut policy = Policy::hardened();
    for deviation in deviations {
        if let Some(switch) = policy.switch(deviation.as_str()) {
            *switch = true;
        }
    }
    policy
}
