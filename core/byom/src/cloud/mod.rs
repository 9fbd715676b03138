//! What goes on around the pool: the adaptor that makes VMs pods' and takes them back, and the PeerPod controller.
//!
//! ```text
//!   shim ── StartVM, StopVM ──► Adaptor ──► VmPool ──► ConfigMap, VMs
//!                                  │ writes, releases
//!                                  ▼
//!                               PeerPod ◄── watches, releases ── PeerPodController ──► VmPool
//! ```
//!
//! A PeerPod says that a VM may be in use under an allocation. In the hardened form it is written before the VM learns
//! of the pod, so a record without a PeerPod is in use by nobody once a start has had its time, and a document that is
//! lost can be made anew from the PeerPods:
//!
//! ```text
//!   start:    record committed ──── PeerPod written ──── record seen again ──── user data
//!   rebuild:             finds no document ──── lists PeerPods ──── writes the document where it found none
//! ```
//!
//! Either the PeerPod is written before the list, and then it is in the new document; or the record is looked for
//! after the document was found missing, and then it is not found and the start gives up. The new document replaces the
//! very ConfigMap without a document that was found (if there is none, one is made first), so it is not written when somebody
//! else made the document meanwhile, not even if that was used and lost again.

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
