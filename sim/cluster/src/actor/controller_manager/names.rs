//! Labels, annotations and finalizers that the controllers read and write, as Kubernetes and KubeVirt call them.

/// The name of a pod, as a label.
pub const POD_NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
/// The ordinal of a pod, as a label.
pub const POD_INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";
/// The revision of its owner that a pod was made from, as a label.
pub const REVISION_LABEL: &str = "controller-revision-hash";
/// How dear a pod is: those with the lowest cost are deleted first. Kubernetes reads it from pods.
pub const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// The hash of the template of a set, as a label of the set and its pods.
pub const TEMPLATE_HASH_LABEL: &str = "pod-template-hash";
/// Which roll-out a set belongs to.
pub const ROLL_OUT: &str = "deployment.kubernetes.io/revision";
/// Keeps a pod until it was counted.
pub const JOB_FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// The UID of the Job of a pod, as a label.
pub const JOB_UID_LABEL: &str = "batch.kubernetes.io/controller-uid";
/// The name of the Job of a pod, as a label.
pub const JOB_NAME_LABEL: &str = "batch.kubernetes.io/job-name";
/// The index of a pod of an Indexed Job, as an annotation and as a label.
pub const JOB_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Keeps a VM until its instance is gone.
pub const MACHINE_FINALIZER: &str = "kubevirt.io/virtualMachineControllerFinalize";
