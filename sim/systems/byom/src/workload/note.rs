//! The notes of the adaptors, kubelets and VMs of a BYOM pool, from which claims and metrics are made.
//!
//! ```text
//!  one sandbox:  Asked ─► Allocated ─► Told ─► Running ─► Ended ─► ReleaseBegun ─► ReleaseEnded
//!                  └────► Refused        └──────────────────┘ the sandbox holds the address, for the ledger (B §7.1)
//! ```

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ipam_byom::{Address, Effort, PoolConfig, Recovered, Releaser};
use ipam_reports::{Seconds, human};
use kube_machinery::lease_lock::LockRequests;
use kube_machinery::word_hash;
use kube_sim::trace::entity::{About, Entity};
use kube_sim::trace::{Note, Step, Unhashed};

/// An event around a pool. `id` is the allocation ID of a sandbox: it is unique in a run. The process of the event made the note: an
/// adaptor, the PeerPod controller, a kubelet, or the keeper of the VMs.
#[derive(Clone, Debug, Hash)]
pub enum PoolNote {
    /// A process started with this configuration. It is valid until the process crashes or is stopped.
    Configured {
        /// The value of `VM_POOL_IPS`.
        setting: Arc<str>,
        /// The configuration that the process derives from it.
        config: Unhashed<PoolConfig>,
    },
    /// A process of another pool than the one that claims judge has started. Claims ignore its notes.
    OfOtherPool {
        /// The value of `VM_POOL_IPS`.
        setting: Arc<str>,
    },
    /// A pod is desired: it should have a running sandbox from now on, until [`PoolNote::Unwanted`].
    Wanted {
        /// The pod as `NAMESPACE/NAME`, which a later pod may share.
        pod: Arc<str>,
        /// The UID assigned by the API server.
        uid: Arc<str>,
    },
    /// A pod is no longer desired.
    Unwanted {
        /// The pod as `NAMESPACE/NAME`, as in [`PoolNote::Wanted`].
        pod: Arc<str>,
    },
    /// An adaptor is about to request an address from the pool. May be repeated for the same ID: the answer must be the same.
    Asked {
        /// The allocation ID of the sandbox that needs the address (B A1).
        id: Arc<str>,
    },
    /// In a burst with a lock: the call has requested the pool's lock, and has it or gives up.
    Locked {
        /// The allocation ID, as in [`PoolNote::Asked`].
        id: Arc<str>,
        /// Its requests to the API server for the lock. The effort in the answer does not include them.
        requests: Unhashed<LockRequests>,
    },
    /// The pool answered with an address, after its record was committed.
    Allocated {
        /// The allocation ID, as in [`PoolNote::Asked`].
        id: Arc<str>,
        /// The address whose record is committed. Its VM may not have any user data yet.
        address: Address,
        /// The requests, conflicts, probes and waits of the call at its pool.
        effort: Effort,
        /// The duration, by the clock of the process.
        took: Duration,
    },
    /// The pool gave no address.
    Refused {
        /// The allocation ID, as in [`PoolNote::Asked`].
        id: Arc<str>,
        /// The kind of the error; in a burst also [`Failure::Exhausted`] if the pool's lock was unavailable.
        why: Failure,
        /// The requests, conflicts, probes and waits of the call at its pool.
        effort: Effort,
        /// The duration, by the clock of the process.
        took: Duration,
    },
    /// A sandbox was told its address, and holds it from now on.
    Told {
        /// The allocation ID of the sandbox that holds the address from now on.
        id: Arc<str>,
        /// The address of the VM, which has the sandbox's user data by now, except in a burst.
        address: Address,
    },
    /// The agent in the VM answers: the pod runs.
    Running {
        /// The ID of its allocation.
        id: Arc<str>,
        /// The pod as `NAMESPACE/NAME`, as in [`PoolNote::Wanted`].
        pod: Arc<str>,
        /// The UID of the sandbox's pod.
        uid: Arc<str>,
    },
    /// A sandbox is over, for whatever reason: it holds nothing any more.
    Ended {
        /// The allocation ID of the sandbox that is over.
        id: Arc<str>,
        /// The pod as `NAMESPACE/NAME`, which may still be desired: then another sandbox follows.
        pod: Arc<str>,
    },
    /// A release begins on behalf of a sandbox. With upstream's releases by address, the ID is that of this sandbox, not of the current
    /// holder of the address.
    ReleaseBegun {
        /// The allocation ID of that sandbox, which may no longer be recorded.
        id: Arc<str>,
        /// The kind of release.
        by: Releaser,
    },
    /// A release ended. After a success the record is gone and does not come back.
    ReleaseEnded {
        /// The allocation ID, as in [`PoolNote::ReleaseBegun`].
        id: Arc<str>,
        /// The kind of release, as in [`PoolNote::ReleaseBegun`].
        by: Releaser,
        /// The reason for a failure, if it failed.
        failure: Option<Failure>,
        /// The requests, conflicts, probes and waits of the release.
        effort: Effort,
        /// The duration, by the clock of the process.
        took: Duration,
    },
    /// A process begins to make the list match its configuration.
    RecoverBegun,
    /// A process ends its recovery.
    RecoverEnded {
        /// The resulting counts, or the reason for the failure.
        result: Result<Recovered, Failure>,
        /// The requests, conflicts and waits of the recovery.
        effort: Effort,
        /// Whether they are part of the effort of an allocation or a release, which waited for it.
        of_call: bool,
    },
    /// The state of a VM changed.
    Vm {
        /// The address of the VM; its key identifies the VM.
        address: Address,
        /// The change, as noted by the VM rather than by the process that requested it.
        change: VmChange,
    },
}

impl PoolNote {
    /// Whether an operation of the pool begins or ends with this note: an allocation, a release or a recovery.
    pub(crate) fn is_of_operation(&self) -> bool {
        let of_call = matches!(self, Self::Asked { .. } | Self::Allocated { .. } | Self::Refused { .. });
        let of_release = matches!(self, Self::ReleaseBegun { .. } | Self::ReleaseEnded { .. });
        of_call || of_release || matches!(self, Self::RecoverBegun | Self::RecoverEnded { .. })
    }
}

/// A change of a VM.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum VmChange {
    /// The VM took the user data of an allocation. `tenant`: the allocation whose data it already had since its last boot. `going_down`: it
    /// will lose the data, because it is about to boot.
    Given {
        /// The allocation ID that came with the user data; it is the VM's tenant from now on.
        id: Arc<str>,
        /// The allocation whose data it already had.
        tenant: Option<Arc<str>>,
        /// Whether it is about to boot.
        going_down: bool,
    },
    /// The VM was asked to boot and does. `tenant`: the allocation whose data it has. `fence`: the allocation on whose behalf; unset = not
    /// given.
    Rebooting {
        /// The allocation whose data it has.
        tenant: Option<Arc<str>>,
        /// The allocation on whose behalf it boots.
        fence: Option<Arc<str>>,
    },
    /// The VM has booted and is clean.
    Booted,
    /// The VM does not answer from now on.
    Broken,
    /// The fault is over: the VM answers again, unless it is down because it boots.
    Mended,
}

/// The reason why an operation on the pool failed: the kinds of [`ipam_byom::PoolError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The state of the pool is unknown.
    Reading,
    /// No address is left.
    NoAvailable,
    /// The VM does not answer.
    NotReady,
    /// The recorded text is not an address.
    InvalidAddress,
    /// The name of the node is unknown.
    NoNodeName,
    /// A write failed after all attempts.
    Exhausted,
    /// Another process created the ConfigMap first.
    CreateRace,
    /// A write failed, or its outcome is unknown.
    Writing,
    /// The document is lost, and the owners are unknown.
    Owners,
    /// The VM serves another allocation.
    HeldByAnother,
    /// The VM did not take the user data.
    UserData,
    /// The PeerPod could not be written.
    NotOwned,
    /// The record was gone again before the VM was used.
    RecordLost,
    /// The time was up.
    OutOfTime,
    /// Upstream's process panics as it stores into a map of records that is `null` (B W18).
    Panic,
}

impl Failure {
    /// Whether certainly nothing was written, and nothing will be.
    fn is_certain(self) -> bool {
        use Failure::{CreateRace, Exhausted, InvalidAddress, NoAvailable, NoNodeName, Reading};
        // Some of the other errors come after a write, which is rolled back if possible.
        matches!(self, Reading | NoAvailable | InvalidAddress | NoNodeName | Exhausted | CreateRace)
    }
}

impl Note for PoolNote {
    fn about(&self) -> About {
        match self {
            PoolNote::Configured { .. } | PoolNote::OfOtherPool { .. } => About::passing([]),
            PoolNote::RecoverBegun => About::beginning([]),
            PoolNote::RecoverEnded { .. } => About::ending([]),
            PoolNote::Wanted { pod, .. } | PoolNote::Unwanted { pod } => About::passing([Entity::pod(pod)]),
            PoolNote::Running { id, pod, .. } | PoolNote::Ended { id, pod } => About::passing([Entity::allocation(id), Entity::pod(pod)]),
            PoolNote::Locked { id, .. } => About::passing([Entity::allocation(id)]),
            PoolNote::Asked { id } | PoolNote::ReleaseBegun { id, .. } => About::beginning([Entity::allocation(id)]),
            PoolNote::Refused { id, .. } | PoolNote::ReleaseEnded { id, .. } => About::ending([Entity::allocation(id)]),
            PoolNote::Allocated { id, address, .. } => About::ending([Entity::allocation(id), Entity::Address(address.key().clone())]),
            PoolNote::Told { id, address } => About::passing([Entity::allocation(id), Entity::Address(address.key().clone())]),
            PoolNote::Vm { address, change } => {
                let (first, second) = match change {
                    VmChange::Given { id, tenant, .. } => (Some(id), tenant.as_ref()),
                    VmChange::Rebooting { tenant, fence } => (tenant.as_ref(), fence.as_ref()),
                    VmChange::Booted | VmChange::Broken | VmChange::Mended => (None, None),
                };
                let ids = first.into_iter().chain(second).map(Entity::allocation);
                About::passing([Entity::Address(address.key().clone())].into_iter().chain(ids).collect::<Vec<_>>())
            }
        }
    }

    fn word(&self) -> u64 {
        word_hash::of("pool", self)
    }

    fn step(&self) -> Option<Step> {
        match self {
            PoolNote::Asked { id } => Some(Step::invoke("allocate", &**id, &**id)),
            PoolNote::Allocated { id, address, .. } => Some(Step::ok("allocate", &**id, address.text())),
            PoolNote::Refused { id, why, .. } => Some(Step::failed("allocate", &**id, why.is_certain(), why.to_string())),
            PoolNote::ReleaseBegun { id, .. } => Some(Step::invoke("release", &**id, &**id)),
            PoolNote::ReleaseEnded { id, failure: None, .. } => Some(Step::ok("release", &**id, ())),
            PoolNote::ReleaseEnded { id, failure: Some(why), .. } => {
                Some(Step::failed("release", &**id, why.is_certain(), why.to_string()))
            }
            PoolNote::RecoverBegun => Some(Step::invoke("recover", "", ())),
            PoolNote::RecoverEnded { result: Ok(_), .. } => Some(Step::ok("recover", "", ())),
            PoolNote::RecoverEnded { result: Err(why), .. } => Some(Step::failed("recover", "", why.is_certain(), why.to_string())),
            _ => None,
        }
    }
}

/// An allocation ID in readable form: a long sandbox ID is cut to its first eight digits.
pub(crate) fn short(id: &str) -> Cow<'_, str> {
    /// More digits do not help a reader.
    const DIGITS: usize = 8;
    match id.rsplit_once('-') {
        Some((pod, sandbox)) if sandbox.len() > 2 * DIGITS && sandbox.is_ascii() => format!("{pod}-{}…", &sandbox[..DIGITS]).into(),
        _ => id.into(),
    }
}

fn time(took: Duration) -> String {
    human::duration(Seconds::from(took))
}

/// A description of a call's requests to the API server.
fn requests(effort: &Effort) -> String {
    counts(effort.reads, effort.writes, effort.conflicts)
}

fn counts(reads: u32, writes: u32, conflicts: u32) -> String {
    let [reads, writes, conflicts] = [(reads, "read", "reads"), (writes, "write", "writes"), (conflicts, "conflict", "conflicts")]
        .map(|(count, one, many)| human::plural(count.into(), one, many));
    format!("{reads}, {writes}, {conflicts}")
}

impl fmt::Display for PoolNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PoolNote::Configured { setting, config } => write!(f, "is configured with {setting} ({} addresses)", config.pool().len()),
            PoolNote::OfOtherPool { setting } => write!(f, "has another pool, {setting}"),
            PoolNote::Wanted { pod, .. } => write!(f, "wants pod {pod}"),
            PoolNote::Unwanted { pod } => write!(f, "does not want pod {pod} any more"),
            PoolNote::Asked { id } => write!(f, "asks for an address for {}", short(id)),
            PoolNote::Locked { id, requests } => {
                let LockRequests { reads, writes, conflicts, .. } = **requests;
                write!(f, "has asked for the lock of the pool for {} ({})", short(id), counts(reads, writes, conflicts))
            }
            PoolNote::Allocated { id, address, effort, took } => {
                write!(f, "is given {address} for {} in {} ({})", short(id), time(*took), requests(effort))
            }
            PoolNote::Refused { id, why, effort, took } => {
                write!(f, "is given nothing for {}: {why} after {} ({})", short(id), time(*took), requests(effort))
            }
            PoolNote::Told { id, address } => write!(f, "tells {} its address {address}", short(id)),
            PoolNote::Running { id, pod, .. } => write!(f, "runs pod {pod} as {}", short(id)),
            PoolNote::Ended { id, pod } => write!(f, "ends {} of pod {pod}", short(id)),
            PoolNote::ReleaseBegun { id, by } => write!(f, "releases {} ({})", short(id), by.sentence()),
            PoolNote::ReleaseEnded { id, failure: None, took, .. } => write!(f, "has released {} in {}", short(id), time(*took)),
            PoolNote::ReleaseEnded { id, failure: Some(failure), took, .. } => {
                write!(f, "cannot release {}: {failure} after {}", short(id), time(*took))
            }
            PoolNote::RecoverBegun => f.write_str("reconciles the pool with its configuration"),
            PoolNote::RecoverEnded { result: Ok(recovered), .. } => {
                write!(f, "has reconciled the pool: {} in use, {} available", recovered.in_use, recovered.available)
            }
            PoolNote::RecoverEnded { result: Err(failure), .. } => write!(f, "cannot reconcile the pool: {failure}"),
            PoolNote::Vm { address, change } => match change {
                VmChange::Given { id, tenant: None, going_down: false } => write!(f, "VM {address} takes the user data of {}", short(id)),
                VmChange::Given { id, tenant, going_down } => {
                    write!(f, "VM {address} takes the user data of {}", short(id))?;
                    if let Some(tenant) = tenant {
                        write!(f, ", although it serves {}", short(tenant))?;
                    }
                    if *going_down { f.write_str(", although it is about to boot") } else { Ok(()) }
                }
                VmChange::Rebooting { tenant, fence } => write!(
                    f,
                    "VM {address}, which serves {}, boots on behalf of {}",
                    tenant.as_deref().map_or("no allocation".into(), short),
                    fence.as_deref().map_or("an unnamed allocation".into(), short)
                ),
                VmChange::Booted => write!(f, "VM {address} has booted"),
                VmChange::Broken => write!(f, "VM {address} does not answer any more"),
                VmChange::Mended => write!(f, "VM {address} answers again"),
            },
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Failure::Reading => "the pool cannot be read",
            Failure::NoAvailable => "no address is available",
            Failure::NotReady => "the VM does not answer",
            Failure::InvalidAddress => "the recorded text is no address",
            Failure::NoNodeName => "the name of the node is unknown",
            Failure::Exhausted => "all attempts to write met a conflict",
            Failure::CreateRace => "another process created the ConfigMap first",
            Failure::Writing => "the write failed or its outcome is unknown",
            Failure::Owners => "the live owners are unknown",
            Failure::HeldByAnother => "the VM serves another allocation",
            Failure::UserData => "the VM did not take the user data",
            Failure::NotOwned => "the PeerPod could not be written",
            Failure::RecordLost => "the record was gone again before the VM was used",
            Failure::OutOfTime => "the time was up",
            Failure::Panic => "the process panics",
        })
    }
}

impl Failure {
    /// A name for tables, in kebab-case.
    pub fn name(self) -> &'static str {
        match self {
            Failure::Reading => "reading",
            Failure::NoAvailable => "no-available",
            Failure::NotReady => "not-ready",
            Failure::InvalidAddress => "invalid-address",
            Failure::NoNodeName => "no-node-name",
            Failure::Exhausted => "exhausted",
            Failure::CreateRace => "create-race",
            Failure::Writing => "writing",
            Failure::Owners => "owners",
            Failure::HeldByAnother => "held-by-another",
            Failure::UserData => "user-data",
            Failure::NotOwned => "not-owned",
            Failure::RecordLost => "record-lost",
            Failure::OutOfTime => "out-of-time",
            Failure::Panic => "panic",
        }
    }

    /// The kind of `error`; `effort` says whether its retries were used up.
    pub fn of(error: &ipam_byom::PoolError, effort: &Effort) -> Self {
        use ipam_byom::PoolError;
        match error {
            _ if effort.exhausted => Failure::Exhausted,
            PoolError::Reading(_) => Failure::Reading,
            PoolError::NoAvailable => Failure::NoAvailable,
            PoolError::NotReady { .. } => Failure::NotReady,
            PoolError::InvalidAddress(_) => Failure::InvalidAddress,
            PoolError::NoNodeName => Failure::NoNodeName,
            PoolError::Allocating(error) | PoolError::Updating(error) if error.is_already_exists() => Failure::CreateRace,
            PoolError::Allocating(_) | PoolError::Updating(_) => Failure::Writing,
            PoolError::Owners(_) => Failure::Owners,
            PoolError::HeldByAnother { .. } => Failure::HeldByAnother,
            PoolError::UserData(_) => Failure::UserData,
            PoolError::NotOwned(_) => Failure::NotOwned,
            PoolError::RecordLost => Failure::RecordLost,
            PoolError::OutOfTime => Failure::OutOfTime,
            PoolError::Panic => Failure::Panic,
        }
    }
}
