//! Observer callbacks for each step of an operation.

use std::sync::Arc;
use std::time::Duration;

use super::address::Address;
use super::decide::{PodName, Recovered};
use super::error::PoolError;
use super::outcome::{Effort, Released};
use super::start_error::StartError;
use kube_machinery::api::{ApiError, ObjectKey};

/// Looks on and changes nothing. Called between two steps of an operation: it must neither wait nor call back.
pub trait Observer: Clone + Send + Sync + 'static {
    /// A step was just done, or is about to be.
    fn observe(&self, step: Step<'_>);
}

/// Nobody looks on.
impl Observer for () {
    fn observe(&self, _: Step<'_>) {}
}

/// On whose account an address is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Releaser {
    /// StopVM, for a sandbox that this process knows (B X3).
    Stop,
    /// The clean-up of a start that failed after the VM was the pod's (B S5).
    CleanUp,
    /// A start that failed before the VM was the pod's (B C1, C2).
    RollBack,
    /// The PeerPod controller (B P2).
    Controller,
    /// The comparison of records with live owners.
    Reclaim,
    /// A start that found the pool full of its own pod's predecessors (B W14).
    Successor,
}

impl Releaser {
    /// Who releases, in half a sentence.
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

/// How far a start of a VM came that failed.
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

/// One step, and what it is about. Durations are by the monotonic clock of the process.
///
/// An operation that is dropped, with its process or on its deadline, has a step that begins it and none that ends it.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// The pool is about to be asked for an address.
    Asked {
        /// The allocation ID of the sandbox (B A1), under which the address is to be recorded.
        id: &'a Arc<str>,
        /// Who it is for.
        pod: &'a PodName,
    },
    /// The pool told an address. In the hardened form it may yet be withdrawn before anybody uses it.
    Told {
        /// The allocation ID, as in [`Step::Asked`].
        id: &'a Arc<str>,
        /// The VM that is recorded under `id`.
        address: &'a Address,
        /// What the allocation took.
        effort: &'a Effort,
        /// How long it took.
        took: Duration,
    },
    /// The pool told no address.
    NotAllocated {
        /// The allocation ID, as in [`Step::Asked`].
        id: &'a Arc<str>,
        /// Why there is none. What had been written may still take effect.
        error: &'a PoolError,
        /// What the allocation took.
        effort: &'a Effort,
        /// How long it took.
        took: Duration,
    },
    /// The VM has its user data: from here on the sandbox uses the address.
    Ready {
        /// The allocation ID, as in [`Step::Told`].
        id: &'a Arc<str>,
        /// The VM, as in [`Step::Told`].
        address: &'a Address,
    },
    /// The start failed. Its clean-up, if there is anything to clean up, follows; a roll-back went before.
    StartFailed {
        /// The allocation ID of the sandbox, whether or not anything was recorded under it.
        id: &'a Arc<str>,
        /// How far it came.
        step: StartStep,
        /// Why it failed: what StartVM returns to its caller.
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
        /// On behalf of which allocation; `None` = the PeerPod names none. Upstream releases whatever holds the address.
        id: Option<&'a Arc<str>>,
        /// The VM, if it is known at this point.
        address: Option<&'a Address>,
        /// On whose account; it stays the same to the end.
        by: Releaser,
    },
    /// The release ended, well or not.
    ReleaseEnded {
        /// As at its begin.
        id: Option<&'a Arc<str>>,
        /// As at its begin.
        by: Releaser,
        /// What was found and done, or why nothing is known to be.
        result: Result<&'a Released, &'a PoolError>,
        /// The requests and waits since its begin; what an operation around it took before is not counted.
        effort: &'a Effort,
        /// How long it took.
        took: Duration,
    },
    /// A recovery, or the rebuilding of a lost document, is about to begin.
    RecoverBegun,
    /// The recovery or the rebuilding ended, well or not.
    RecoverEnded {
        /// The counts of the document that is left, or why it was not brought in line.
        result: Result<&'a Recovered, &'a PoolError>,
        /// The requests, conflicts and waits that it took.
        effort: &'a Effort,
        /// Whether that is part of what an allocation or a release took, which waited for it.
        of_call: bool,
        /// How long it took.
        took: Duration,
    },
    /// A PeerPod was written, or not: then it is not known whether it will be.
    PeerPodWritten {
        /// The allocation ID of the record that the PeerPod is to own.
        id: &'a str,
        /// Namespace and name, which are random at the end.
        peer_pod: &'a ObjectKey,
        /// Why it was not.
        error: Option<&'a ApiError>,
    },
    /// The finalizer of a PeerPod was removed, so that nothing of it is left to release.
    PeerPodReleased {
        /// The allocation ID; `None` = it names none.
        id: Option<&'a str>,
        /// Namespace and name, under which it is gone or about to go.
        peer_pod: &'a ObjectKey,
    },
    /// A PeerPod was marked for deletion and left to the controller.
    PeerPodMarked {
        /// The allocation ID; `None` = it names none.
        id: Option<&'a str>,
        /// Namespace and name; it stays until the controller removes the finalizer.
        peer_pod: &'a ObjectKey,
    },
}
