//! State for a decision that only the API server has, and the owners of pods.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;

use crate::validity::{Kept, is_wanted, may_run, parent_and_ordinal, vm_keeps};
use crate::{Keeper, Policy};
use kube_machinery::api::ObjectKey;
use kube_machinery::controller_of;
use kube_machinery::kubevirt::{PodsOf, VirtualMachine, VirtualMachineInstance};

/// A read that a decision depends on: whether the addresses under a name are kept for the next pod of it (G §5).
///
/// Decisions are functions of the answers so far: the caller asks the question, adds the answer and decides again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The kind of object to be read: a StatefulSet or a VM.
    pub keeper: Keeper,
    /// The name of the pod, or of the VM.
    pub key: ObjectKey,
    /// The UID of a pod of the VM that is known to exist: its own state shows whether it may still answer. Without one the VM instance
    /// decides for its pods, as long as it exists; then they decide for themselves.
    pub pod: Option<String>,
}

/// The owners of pods, from another source than the API server.
pub trait Owners {
    /// The StatefulSet of this name; `None` = there is none.
    fn stateful_set(&self, key: &ObjectKey) -> Option<Arc<StatefulSet>>;
    /// The VM instance of this name; `None` = there is none.
    fn instance(&self, key: &ObjectKey) -> Option<Arc<VirtualMachineInstance>>;
    /// The pods of a VM.
    fn pods(&self, pods: PodsOf<'_>) -> Vec<Arc<Pod>>;
    /// The VM of this name, which is that of its instance; `None` = there is none.
    fn machine(&self, key: &ObjectKey) -> Option<Arc<VirtualMachine>>;
}

impl Question {
    /// The answer that the API server would give if it held these owners (G §5).
    pub fn answered_by(&self, owners: &impl Owners, policy: &Policy) -> Answer {
        let kept = match self.keeper {
            Keeper::Nobody => false,
            Keeper::StatefulSet => parent_and_ordinal(self.key.name()).is_some_and(|(parent, ordinal)| {
                let set = owners.stateful_set(&ObjectKey::namespaced(self.key.namespace().unwrap_or_default(), parent));
                set.is_some_and(|set| is_wanted(&set, ordinal, policy))
            }),
            Keeper::Vm => {
                let instance = owners.instance(&self.key);
                let runs = || owners.pods(PodsOf::new(&self.key, instance.as_deref())).iter().any(|pod| self.is_used_by(pod));
                self.may_be_in_use(instance.as_deref(), policy)
                    || vm_keeps(instance.as_deref())
                        .unwrap_or_else(|| owners.machine(&self.key).is_some_and(|vm| vm.metadata.deletion_timestamp.is_none()))
                    || (!policy.reclaim.ending_vm_frees && runs())
            }
        };
        if kept { Answer::Valid } else { Answer::Invalid }
    }

    /// Whether a pod of a VM instance may answer on its addresses, whether or not the VM wants to keep them.
    pub(super) fn may_be_in_use(&self, instance: Option<&VirtualMachineInstance>, policy: &Policy) -> bool {
        let Some(instance) = instance.filter(|_| !policy.reclaim.ending_vm_frees) else { return false };
        let Some(pod) = &self.pod else {
            // The finalizer holds an instance until its pods are gone.
            return true;
        };
        let active = instance.status.as_ref().map(|status| &status.active_pods);
        active.is_some_and(|active| active.keys().any(|other| other != pod))
    }

    /// Whether this pod of the VM may answer on the addresses and is not the pod in question.
    ///
    /// The pods themselves are read, too: an instance lists a pod as active only once its controller writes that, and the pod may be
    /// answered long before.
    pub(super) fn is_used_by(&self, pod: &Pod) -> bool {
        pod.metadata.uid != self.pod && may_run(pod)
    }
}

/// The answer to a [`Question`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The addresses are kept.
    Valid,
    /// The addresses are not kept: no owner of the name wants them.
    Invalid,
    /// The owner could not be read.
    Failed,
}

/// The answers that a decision has, in the order in which it asks.
#[derive(Debug)]
pub(super) struct Answers<'a> {
    given: std::slice::Iter<'a, Answer>,
}

impl<'a> Answers<'a> {
    pub(super) fn new(given: &'a [Answer]) -> Self {
        Self { given: given.iter() }
    }

    /// The next answer.
    ///
    /// # Errors
    /// There is none yet: this question has to be asked. A question that needs no read is answered at once.
    pub(super) fn ask(&mut self, keeper: Keeper, key: &ObjectKey, pod: Option<&str>) -> Result<Answer, Question> {
        match keeper {
            Keeper::Nobody => return Ok(Answer::Invalid),
            Keeper::StatefulSet if parent_and_ordinal(key.name()).is_none_or(|(parent, _)| parent.is_empty()) => {
                return Ok(Answer::Invalid);
            }
            // An owner of pods always has a namespace and a name.
            _ if key.namespace().is_none_or(str::is_empty) || key.name().is_empty() => return Ok(Answer::Invalid),
            Keeper::StatefulSet | Keeper::Vm => {}
        }
        self.given.next().copied().ok_or_else(|| Question {
            keeper,
            key: key.clone(),
            pod: pod.filter(|_| keeper == Keeper::Vm).map(str::to_owned),
        })
    }
}

/// The keeper of a pod's addresses, by its controller (`static`, G §3).
pub(super) fn keeper_of(pod: &Pod, kept: Kept) -> Keeper {
    controller_of(&pod.metadata).map_or(Keeper::Nobody, |owner| Keeper::of_kind(&owner.api_version, &owner.kind, kept))
}

/// The name of the endpoint and the records of a pod: the pod's own, or that of its VM.
pub(super) fn key_of(pod: &Pod, keeper: Keeper) -> ObjectKey {
    match (keeper, controller_of(&pod.metadata)) {
        (Keeper::Vm, Some(owner)) => ObjectKey::namespaced(pod.metadata.namespace.as_deref().unwrap_or_default(), &owner.name),
        _ => ObjectKey::of(pod),
    }
}
