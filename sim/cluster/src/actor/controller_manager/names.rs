//! Labels, annotations and finalizers that the controllers read and write, by their names in Kubernetes and KubeVirt.

/// The label with the name of a pod.
pub const POD_NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
/// The label with the ordinal of a pod.
pub const POD_INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";
/// The label with the revision of its owner that a pod was made from.
pub const REVISION_LABEL: &str = "controller-revision-hash";
/// The annotation with the deletion cost of a pod: those with the lowest cost are deleted first. Kubernetes reads it from pods.
pub const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// The label of a set and its pods with the hash of the set's template.
pub const TEMPLATE_HASH_LABEL: &str = "pod-template-hash";
/// The annotation with the roll-out that a set belongs to.
pub const ROLL_OUT: &str = "deployment.kubernetes.io/revision";
/// The finalizer that keeps a pod until it is counted.
pub const JOB_FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// The label of a pod with the UID of its Job.
pub const JOB_UID_LABEL: &str = "batch.kubernetes.io/controller-uid";
/// The label of a pod with the name of its Job.
pub const JOB_NAME_LABEL: &str = "batch.kubernetes.io/job-name";
/// The annotation and label with the index of a pod of an Indexed Job.
pub const JOB_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The finalizer that keeps a VM until its instance is gone.
pub const MACHINE_FINALIZER: &str = "kubevirt.io/virtualMachineControllerFinalize";
