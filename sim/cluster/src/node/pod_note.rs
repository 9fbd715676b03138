//! Notes of the cluster's container runtimes and kubelets: the facts about sandboxes and their addresses (K §5).
//!
//! ```text
//!  one sandbox:  SandboxStarted ─► AddAsked ─► Attached ─► DelAsked ─► DelDone ─► SandboxGone
//!                      per interface └─► AddFailed ┘ answers on its addresses until DelAsked, InterfaceDown or SandboxGone
//! ```

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use kube_machinery::address::AddressKey;
use kube_machinery::{ObjectKey, word_hash};

use crate::trace::Note;
use crate::trace::entity::{About, Entity};

/// An event around a pod on its node. `sandbox` is a container ID, unique in a run. The note comes from the node's kubelet, even for events
/// while it is down.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PodNote {
    /// The runtime has made a sandbox; it has no network yet.
    SandboxStarted {
        /// The container ID of the sandbox.
        sandbox: Arc<str>,
        /// Namespace and name of the pod that it is made for.
        pod: ObjectKey,
        /// The UID of that pod; a pod can have several sandboxes, one after the other.
        uid: Arc<str>,
    },
    /// The plugin is called with ADD; at most once for each interface of a sandbox (K132).
    AddAsked {
        /// The container ID of the sandbox.
        sandbox: Arc<str>,
        /// The name of the interface that is to be set up.
        nic: Arc<str>,
    },
    /// ADD was answered in time and the interface is configured: from here on the sandbox answers on these addresses.
    Attached {
        /// The container ID of the sandbox.
        sandbox: Arc<str>,
        /// The name of the interface that is configured.
        nic: Arc<str>,
        /// The addresses that the plugin answered with, for this interface alone.
        addresses: Arc<[IpAddr]>,
    },
    /// ADD failed, or was answered too late to count.
    AddFailed {
        /// The container ID of the sandbox.
        sandbox: Arc<str>,
        /// The name of the interface that has no address.
        nic: Arc<str>,
        /// The reason why the interface was not set up.
        why: AddFailure,
    },
    /// The plugin is called with DEL: it has taken the interface down, and releases its addresses. From here on the sandbox does not answer
    /// on them any more.
    DelAsked {
        /// The container ID of the sandbox, which the runtime may have forgotten.
        sandbox: Arc<str>,
        /// The name of the interface that is given up.
        nic: Arc<str>,
        /// Whether there is still a network namespace.
        netns: bool,
    },
    /// The plugin has answered a DEL, with success or an error.
    DelDone {
        /// The container ID of the sandbox.
        sandbox: Arc<str>,
        /// The name of the interface that is given up.
        nic: Arc<str>,
        /// Whether the plugin failed, so that it is called again.
        failed: bool,
    },
    /// The network namespace of a sandbox is gone, with its interfaces: it does not answer any more. Also noted when its host goes down.
    SandboxGone {
        /// The container ID of the sandbox.
        sandbox: Arc<str>,
    },
    /// The containers of a pod run.
    PodRunning {
        /// Namespace and name of the pod.
        pod: ObjectKey,
        /// The UID of the pod; by then another one can have its name.
        uid: Arc<str>,
        /// The container ID of the sandbox that they run in.
        sandbox: Arc<str>,
    },
    /// The containers of a pod have stopped.
    PodStopped {
        /// Namespace and name of the pod.
        pod: ObjectKey,
        /// The UID of the pod; by then another one can have its name.
        uid: Arc<str>,
        /// The container ID of the sandbox that they ran in.
        sandbox: Arc<str>,
    },
    /// An interface was taken down, and its DEL is lost, or takes place later. From here on the sandbox does not answer on its addresses,
    /// although it may still exist because of another interface.
    InterfaceDown {
        /// The container ID of the sandbox.
        sandbox: Arc<str>,
        /// The name of the interface that is down.
        nic: Arc<str>,
    },
}

/// The reason why an ADD failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AddFailure {
    /// The plugin refused the call.
    Refused,
    /// The plugin's process was killed; its daemon may still carry out the call.
    Killed,
    /// The answer came after the kubelet had given the sandbox up.
    TooLate,
}

impl Note for PodNote {
    /// The sandbox counts as the allocation.
    fn about(&self) -> About {
        let pod = |pod: &ObjectKey| Entity::Pod(pod.as_str().into());
        match self {
            PodNote::SandboxStarted { sandbox, pod: key, .. }
            | PodNote::PodRunning { sandbox, pod: key, .. }
            | PodNote::PodStopped { sandbox, pod: key, .. } => About::passing([Entity::allocation(sandbox), pod(key)]),
            PodNote::AddAsked { sandbox, .. }
            | PodNote::AddFailed { sandbox, .. }
            | PodNote::DelAsked { sandbox, .. }
            | PodNote::DelDone { sandbox, .. }
            | PodNote::InterfaceDown { sandbox, .. }
            | PodNote::SandboxGone { sandbox } => About::passing([Entity::allocation(sandbox)]),
            PodNote::Attached { sandbox, addresses, .. } => {
                let addresses = addresses.iter().map(|&address| Entity::Address(AddressKey::Ip(address)));
                About::passing([Entity::allocation(sandbox)].into_iter().chain(addresses).collect::<Vec<_>>())
            }
        }
    }

    fn word(&self) -> u64 {
        word_hash::of("pod", self)
    }
}

impl fmt::Display for PodNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PodNote::SandboxStarted { sandbox, pod, uid } => write!(f, "makes sandbox {sandbox} for pod {pod} ({uid})"),
            PodNote::AddAsked { sandbox, nic } => write!(f, "calls ADD for {nic} of {sandbox}"),
            PodNote::Attached { sandbox, nic, addresses } => {
                write!(f, "{nic} of {sandbox} answers on")?;
                for (position, address) in addresses.iter().enumerate() {
                    write!(f, "{} {address}", if position == 0 { "" } else { "," })?;
                }
                Ok(())
            }
            PodNote::AddFailed { sandbox, nic, why } => {
                let why = match why {
                    AddFailure::Refused => "fails",
                    AddFailure::Killed => "is killed",
                    AddFailure::TooLate => "ends too late",
                };
                write!(f, "ADD for {nic} of {sandbox} {why}")
            }
            PodNote::DelAsked { sandbox, nic, netns } => {
                write!(f, "calls DEL for {nic} of {sandbox}{}", if *netns { "" } else { ", which has no network namespace" })
            }
            PodNote::DelDone { sandbox, nic, failed } => {
                write!(f, "DEL for {nic} of {sandbox} {}", if *failed { "fails" } else { "is done" })
            }
            PodNote::SandboxGone { sandbox } => write!(f, "sandbox {sandbox} is gone"),
            PodNote::PodRunning { pod, sandbox, .. } => write!(f, "runs pod {pod} in {sandbox}"),
            PodNote::PodStopped { pod, sandbox, .. } => write!(f, "has stopped pod {pod} in {sandbox}"),
            PodNote::InterfaceDown { sandbox, nic } => write!(f, "takes {nic} of {sandbox} down, and calls no DEL"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::trace::Note;

    fn all() -> Vec<PodNote> {
        let (sandbox, nic, uid): (Arc<str>, Arc<str>, Arc<str>) = ("0123456789abcdef".into(), "eth0".into(), "uid".into());
        let pod = ObjectKey::namespaced("default", "web");
        let mut notes = vec![
            PodNote::SandboxStarted { sandbox: sandbox.clone(), pod: pod.clone(), uid: uid.clone() },
            PodNote::SandboxGone { sandbox: sandbox.clone() },
            PodNote::PodRunning { pod: pod.clone(), uid: uid.clone(), sandbox: sandbox.clone() },
            PodNote::PodStopped { pod, uid, sandbox: sandbox.clone() },
        ];
        notes.push(PodNote::AddAsked { sandbox: sandbox.clone(), nic: nic.clone() });
        for text in ["10.0.0.1", "10.0.0.2", "fd00::1"] {
            notes.push(PodNote::Attached { sandbox: sandbox.clone(), nic: nic.clone(), addresses: [text.parse().unwrap()].into() });
        }
        for why in [AddFailure::Refused, AddFailure::Killed, AddFailure::TooLate] {
            notes.push(PodNote::AddFailed { sandbox: sandbox.clone(), nic: nic.clone(), why });
        }
        notes.push(PodNote::InterfaceDown { sandbox: sandbox.clone(), nic: nic.clone() });
        for flag in [false, true] {
            notes.push(PodNote::DelAsked { sandbox: sandbox.clone(), nic: nic.clone(), netns: flag });
            notes.push(PodNote::DelDone { sandbox: sandbox.clone(), nic: nic.clone(), failed: flag });
        }
        notes
    }

    #[test]
    fn every_note_has_a_word_and_a_text_of_its_own() {
        let words: BTreeSet<u64> = all().into_iter().map(|note| note.word()).collect();
        assert_eq!(words.len(), all().len());
        let texts: BTreeSet<String> = all().iter().map(PodNote::to_string).collect();
        assert_eq!(texts.len(), all().len());
    }

    #[test]
    fn every_note_is_about_its_sandbox_and_some_about_a_pod_and_addresses() {
        let sandbox: Arc<str> = "0123456789abcdef".into();
        for note in all() {
            let entities = note.about().entities;
            assert_eq!(entities[0], Entity::allocation(&sandbox), "{note}");
            match note {
                PodNote::SandboxStarted { .. } | PodNote::PodRunning { .. } | PodNote::PodStopped { .. } => {
                    assert_eq!(entities[1..], [Entity::pod_of("default", "web")]);
                }
                PodNote::Attached { addresses, .. } => assert_eq!(entities[1..], [Entity::Address(AddressKey::Ip(addresses[0]))]),
                _ => assert_eq!(entities.len(), 1, "{note}"),
            }
        }
    }
}
