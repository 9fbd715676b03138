//! Observer callbacks for each step of an operation.

use std::sync::Arc;
use std::time::Duration;

use super::address::Address;
use super::decide::{PodName, Recovered};
use super::error::PoolError;
use super::outcome::{Effort, Released};
use super::start_error::StartError;
use kube_machinery::api::{ApiError, ObjectKey};

/// A passive observer. Called between two steps of an operation: it must neither wait nor call back.
pub trait Observer: Clone + Send + Sync + 'static {
    /// A step was just done, or is about to be.
    fn observe(&self, step: Step<'_>);
}

/// An observer that ignores everything.
impl Observer for () {
    fn observe(&self, _: Step<'_>) {}
}

/// The caller on whose behalf an address is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Releaser {
    /// StopVM, for a sandbox that this process knows (B X3).
    Stop,
    /// The clean-up of a start that failed after the VM was given to the pod (B S5).
    CleanUp,
    /// A start that failed before the VM was given to the pod (B C1, C2).
    RollBack,
    /// The PeerPod controller (B P2).
    Controller,
    /// The comparison of records with live owners.
    Reclaim,
    /// A start that found the pool full and its own pod's predecessors in it (B W14).
    Successor,
}

impl Releaser {
    /// A description of the releaser, as half a sentence.
    pub fn sentence(self) -> &'static str {
        match self {
            Releaser::Stop => "StopVM",
            Releaser::CleanUp => "clean-up of a failed start",
            Releaser::RollBack => "roll-back of a failed start",
            Releaser::Controller => "PeerPod controller",
            Releaser::Reclaim => "no live owner",
            Releaser::Successor => "next sandbox of the pod",
        }
    }
}

/// The step at which the start of a VM failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StartStep {
    /// No instance (B A1 to C3, and the PeerPod unless it is written late).
    Instance,
    /// The tunnel or the proxy (B S3).
    SetUp,
    /// The agent was not ready in time (B S4).
    Agent,
    /// A StopVM overtook it.
    Stopped,
}

/// One step of an operation and its subject. Durations are by the monotonic clock of the process.
///
/// An operation that is dropped, with its process or at its deadline, has a step that begins it and none that ends it.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// The pool is about to receive a request for an address.
    Asked {
        /// The allocation ID of the sandbox (B A1), under which the address is to be recorded.
        id: &'a Arc<str>,
        /// The pod that the address is for.
        pod: &'a PodName,
    },
    /// The pool returned an address. In the hardened form it may yet be withdrawn before it is used.
    Told {
        /// The allocation ID, as in [`Step::Asked`].
        id: &'a Arc<str>,
        /// The VM that is recorded under `id`.
        address: &'a Address,
        /// The requests, conflicts and waits of the allocation.
        effort: &'a Effort,
        /// The duration of the allocation.
        took: Duration,
    },
    /// The pool returned no address.
    NotAllocated {
        /// The allocation ID, as in [`Step::Asked`].
        id: &'a Arc<str>,
        /// The reason. Writes that were sent may still take effect.
        error: &'a PoolError,
        /// The requests, conflicts and waits of the allocation.
        effort: &'a Effort,
        /// The duration of the allocation.
        took: Duration,
    },
    /// The VM has its user data: from here on the sandbox uses the address.
    Ready {
        /// The allocation ID, as in [`Step::Told`].
        id: &'a Arc<str>,
        /// The VM, as in [`Step::Told`].
        address: &'a Address,
    },
    /// The start failed. Its clean-up, if there is anything to clean up, follows; a roll-back came before.
    StartFailed {
        /// The allocation ID of the sandbox, whether or not anything was recorded under it.
        id: &'a Arc<str>,
        /// The step that failed.
        step: StartStep,
        /// The error that StartVM returns to its caller.
        error: &'a StartError,
    },
    /// The agent in the VM is ready: StartVM succeeds.
    Running {
        /// The allocation ID, as in [`Step::Ready`].
        id: &'a Arc<str>,
        /// The VM that runs the sandbox.
        address: &'a Address,
    },
    /// A release is about to begin.
    ReleaseBegun {
        /// The allocation to release; `None` = the PeerPod names none. Upstream releases whatever holds the address.
        id: Option<&'a Arc<str>>,
        /// The VM, if it is known at this point.
        address: Option<&'a Address>,
        /// The releaser, the same in [`Step::ReleaseEnded`].
        by: Releaser,
    },
    /// The release ended, successfully or not.
    ReleaseEnded {
        /// The allocation, as in [`Step::ReleaseBegun`].
        id: Option<&'a Arc<str>>,
        /// The releaser, as in [`Step::ReleaseBegun`].
        by: Releaser,
        /// The result, or the reason why it is unknown.
        result: Result<&'a Released, &'a PoolError>,
        /// The requests and waits since the release began; those of the surrounding operation before that do not count.
        effort: &'a Effort,
        /// The duration of the release.
        took: Duration,
    },
    /// A recovery, or the rebuilding of a lost document, is about to begin.
    RecoverBegun,
    /// The recovery or the rebuilding ended, successfully or not.
    RecoverEnded {
        /// The counts of the resulting document, or the reason why it was not brought in line.
        result: Result<&'a Recovered, &'a PoolError>,
        /// The requests, conflicts and waits of the recovery.
        effort: &'a Effort,
        /// Whether the effort is part of that of an allocation or a release, which waited for the recovery.
        of_call: bool,
        /// The duration of the recovery.
        took: Duration,
    },
    /// A PeerPod was written, or the request failed: then it may still be written later.
    PeerPodWritten {
        /// The allocation ID of the record that the PeerPod is to own.
        id: &'a str,
        /// Namespace and name; the name has a random end.
        peer_pod: &'a ObjectKey,
        /// The error, if the request failed.
        error: Option<&'a ApiError>,
    },
    /// The finalizer of a PeerPod was removed, so that nothing is left to release.
    PeerPodReleased {
        /// The allocation ID; `None` = the PeerPod names none.
        id: Option<&'a str>,
        /// Namespace and name of the PeerPod, which is gone or about to go.
        peer_pod: &'a ObjectKey,
    },
    /// A PeerPod was marked for deletion and left to the controller.
    PeerPodMarked {
        /// The allocation ID; `None` = the PeerPod names none.
        id: Option<&'a str>,
        /// Namespace and name of the PeerPod, which stays until the controller removes the finalizer.
        peer_pod: &'a ObjectKey,
    },
}
