//! What the adaptors, kubelets and VMs of a BYOM pool say they did. Claims and figures are made of it.
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

/// What happened around a pool. `id` is the allocation ID of a sandbox: it is unique in a run. The process that says it is that of the
/// event: an adaptor, the PeerPod controller, a kubelet, or whoever keeps the VMs.
#[derive(Clone, Debug, Hash)]
pub enum PoolNote {
    /// A process started with this configuration. It counts until the process crashes or is stopped.
    Configured {
        /// `VM_POOL_IPS` as it is set.
        setting: Arc<str>,
        /// What the process makes of it.
        config: Unhashed<PoolConfig>,
    },
    /// A process started that has another pool than the one that claims judge. What it says is none of theirs.
    OfOtherPool {
        /// `VM_POOL_IPS` as it is set.
        setting: Arc<str>,
    },
    /// A pod is wanted: it should have a running sandbox from here on, until [`PoolNote::Unwanted`].
    Wanted {
        /// The pod as `NAMESPACE/NAME`, which one that comes after it may share.
        pod: Arc<str>,
        /// The UID that the API server gave it.
        uid: Arc<str>,
    },
    /// A pod is not wanted any more.
    Unwanted {
        /// The pod as `NAMESPACE/NAME`, as it was wanted.
        pod: Arc<str>,
    },
    /// An adaptor is about to ask the pool for an address. May be said again for the same ID: the answer must be the same.
    Asked {
        /// The allocation ID of the sandbox that needs the address (B A1).
        id: Arc<str>,
    },
    /// In a burst whose adaptors take turns: the call has asked for the pool's lock, and has it or gives up.
    Locked {
        /// The allocation ID, as in [`PoolNote::Asked`].
        id: Arc<str>,
        /// What it asked of the API server for that. The effort that the answer tells is without it.
        requests: Unhashed<LockRequests>,
    },
    /// The pool answered with an address, after its record was committed.
    Allocated {
        /// The allocation ID, as in [`PoolNote::Asked`].
        id: Arc<str>,
        /// The address whose record is committed. Its VM need not have any user data yet.
        address: Address,
        /// Requests, conflicts, probes and waits of the call at its pool.
        effort: Effort,
        /// How long it took, by the clock of the process.
        took: Duration,
    },
    /// The pool gave no address.
    Refused {
        /// The allocation ID, as in [`PoolNote::Asked`].
        id: Arc<str>,
        /// The kind of the error; in a burst also [`Failure::Exhausted`] where the pool's lock was not to be had.
        why: Failure,
        /// Requests, conflicts, probes and waits of the call at its pool.
        effort: Effort,
        /// How long it took, by the clock of the process.
        took: Duration,
    },
    /// A sandbox was told its address: from here on it holds it.
    Told {
        /// The allocation ID of the sandbox that holds the address from here on.
        id: Arc<str>,
        /// The address of the VM, which has the sandbox's user data by now unless it is one of a burst.
        address: Address,
    },
    /// The agent in the VM answers: the pod runs.
    Running {
        /// The ID of its allocation.
        id: Arc<str>,
        /// The pod as `NAMESPACE/NAME`, as it was wanted.
        pod: Arc<str>,
        /// The UID of the pod whose sandbox it is.
        uid: Arc<str>,
    },
    /// A sandbox is over, for whatever reason: it holds nothing any more.
    Ended {
        /// The allocation ID of the sandbox that is over.
        id: Arc<str>,
        /// The pod as `NAMESPACE/NAME`, which may still be wanted: then another sandbox follows.
        pod: Arc<str>,
    },
    /// A release begins on behalf of a sandbox. With upstream's releases by address the ID is that of the sandbox on whose behalf it is,
    /// not that of whoever holds the address by now.
    ReleaseBegun {
        /// The allocation ID on whose behalf it is, which need not be recorded any more.
        id: Arc<str>,
        /// Which of the ways to a release it is.
        by: Releaser,
    },
    /// A release ended. With success the record is gone for good.
    ReleaseEnded {
        /// The allocation ID, as when it began.
        id: Arc<str>,
        /// Who released it, as when it began.
        by: Releaser,
        /// Nothing, or why it failed.
        failure: Option<Failure>,
        /// Requests, conflicts, probes and waits of the release.
        effort: Effort,
        /// How long it took, by the clock of the process.
        took: Duration,
    },
    /// A process begins to bring the list in line with its configuration.
    RecoverBegun,
    /// It is done with that.
    RecoverEnded {
        /// What it left, or why it failed.
        result: Result<Recovered, Failure>,
        /// The requests, conflicts and waits that it took.
        effort: Effort,
        /// Whether they are part of what an allocation or a release took, which waited for it.
        of_call: bool,
    },
    /// Something happened to a VM.
    Vm {
        /// The address at which the VM is reached; its key tells VMs apart.
        address: Address,
        /// What happened to it, by its own account rather than that of whoever asked it.
        change: VmChange,
    },
}

impl PoolNote {
    /// Whether an operation of the pool begins or ends with it: an allocation, a release or a recovery.
    pub(crate) fn is_of_operation(&self) -> bool {
        let of_call = matches!(self, Self::Asked { .. } | Self::Allocated { .. } | Self::Refused { .. });
        let of_release = matches!(self, Self::ReleaseBegun { .. } | Self::ReleaseEnded { .. });
        of_call || of_release || matches!(self, Self::RecoverBegun | Self::RecoverEnded { .. })
    }
}

/// What happens to a VM.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum VmChange {
    /// It took the user data of an allocation. `tenant`: whose data it already had since its last boot. `going_down`: it will lose them,
    /// because it is about to boot.
    Given {
        /// The allocation ID that came with the user data; it is the VM's tenant from here on.
        id: Arc<str>,
        /// Whose data it already had.
        tenant: Option<Arc<str>>,
        /// Whether it is about to boot.
        going_down: bool,
    },
    /// It was asked to boot and does. `tenant`: whose data it has. `fence`: on behalf of which allocation; unset = nobody said.
    Rebooting {
        /// Whose data it has.
        tenant: Option<Arc<str>>,
        /// On behalf of which allocation.
        fence: Option<Arc<str>>,
    },
    /// It has booted and is clean.
    Booted,
    /// It does not answer from here on.
    Broken,
    /// Nothing breaks it any more: it answers again, unless it is down on its way to boot.
    Mended,
}

/// Why an operation on the pool failed: the kinds of [`ipam_byom::PoolError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The state of the pool is unknown.
    Reading,
    /// No address is left.
    NoAvailable,
    /// The VM does not answer.
    NotReady,
    /// What is recorded is no address.
    InvalidAddress,
    /// The name of the node is unknown.
    NoNodeName,
    /// A write failed after all attempts.
    Exhausted,
    /// Another process created the ConfigMap first.
    CreateRace,
    /// A write failed, or it is not known whether it did.
    Writing,
    /// The document is lost, and the owners are not known.
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
    /// Whether nothing was written, and nothing will be.
    fn is_certain(self) -> bool {
        use Failure::{CreateRace, Exhausted, InvalidAddress, NoAvailable, NoNodeName, Reading};
        // Of the others some come after a write, which is taken back if that can be done.
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

/// An allocation ID as a person can read it: of a long sandbox ID the first eight digits.
pub(crate) fn short(id: &str) -> Cow<'_, str> {
    /// More digits say nothing to a person.
    const DIGITS: usize = 8;
    match id.rsplit_once('-') {
        Some((pod, sandbox)) if sandbox.len() > 2 * DIGITS && sandbox.is_ascii() => format!("{pod}-{}…", &sandbox[..DIGITS]).into(),
        _ => id.into(),
    }
}

fn time(took: Duration) -> String {
    human::duration(Seconds::from(took))
}

/// What a call asked of the API server.
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

    /// The kind of `error`; `effort` tells whether its retries were used up.
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
