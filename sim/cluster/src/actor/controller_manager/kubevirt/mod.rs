//! KubeVirt, as far as it affects the networks of pods: a running VM has an instance of its name, and an instance has a pod (A §6).
//!
//! ```text
//!   VM ─ run strategy ─► instance ─► pod virt-launcher-NAME-xxxxx ─ ends or goes ─► instance Succeeded or Failed ─► next instance
//!                           └─ migration ─► second pod ─ ready, and then some ─► source deleted │ fails ─► target deleted
//! ```
//! An instance has one pod all its life, and a second one during a migration: when its pod ends, or is gone, the instance ends. What
//! virt-handler reports on a real node is derived here from the phase and the readiness of the pods.
//!
//! The target of a migration is kept off the node of the source by an anti-affinity between pods, as in KubeVirt, and, for schedulers that
//! know only nodes, by a node affinity as well.

mod instance;
mod machine;
mod migration;

pub(super) use instance::Instances;
pub(super) use machine::Machines;

/// The name of the index of migrations by `namespace/instance`.
pub(super) const BY_INSTANCE: &str = "instance";
