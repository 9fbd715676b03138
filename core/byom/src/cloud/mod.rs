//! The processes around the pool: the adaptor, which gives VMs to pods and takes them back, and the PeerPod controller.
//!
//! ```text
//!   shim ── StartVM, StopVM ──► Adaptor ──► VmPool ──► ConfigMap, VMs
//!                                  │ writes, releases
//!                                  ▼
//!                               PeerPod ◄── watches, releases ── PeerPodController ──► VmPool
//! ```
//!
//! A PeerPod says that a VM may be in use under an allocation. In the hardened form it is written before the VM learns of the pod. So once
//! the time limit of a start is over, a record without a PeerPod is not in use, and a lost document can be rebuilt from the PeerPods:
//!
//! ```text
//!   start:    record committed ──── PeerPod written ──── record seen again ──── user data
//!   rebuild:             finds no document ──── lists PeerPods ──── writes the document where it found none
//! ```
//!
//! If the PeerPod is written before the list, the new document has it. Otherwise the record is looked up after the document was found
//! missing, is not found, and the start gives up. The new document replaces the very ConfigMap that was found without a document (if there
//! is none, one is created first), so it is not written if another process rebuilt the document in between, even if that document was used
//! and lost again.

mod adaptor;
mod controller;
mod owners;
mod peer_pod;
mod peer_pods;
mod proxy;
mod reconcile;
mod sandbox;
mod sandboxes;
mod start;
mod stop;

pub use adaptor::{Adaptor, AdaptorSettings, Started};
pub use controller::{ControllerSettings, PeerPodController, SettingsSource};
pub use owners::PeerPodOwners;
pub use peer_pod::{FINALIZER, PeerPod, PeerPodSpec, PeerPodStatus};
pub use proxy::AgentProxy;
pub use sandbox::{Sandbox, UnknownSandbox};
