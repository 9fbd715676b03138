//! Notes of the Spiderpool agents about what they did. Claims and figures are based on them.
//!
//! ```text
//!  one ADD:  AddBegun ─► Compared ─► Selected ─► Tried (each pool) ─► AddEnded
//!  one DEL:  DelBegun ─► ReleaseBegun ─► ReleaseEnded ─► DelEnded        an ADD releases, too: a changed pool, a roll-back
//! ```
//! Kubelets have notes of their own about what sandboxes do with addresses.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ipam_reports::{Seconds, human};
use ipam_spiderpool::ipam::{Cause, DelOutcome, How, NicRoute};
use ipam_spiderpool::ranges::IpVersion;
use ipam_spiderpool::select::{FamilySelection, NicSelection, Reason, Selection};
use ipam_spiderpool::{IPAllocationDetail, SpiderIPPool};
use kube_machinery::word_hash;
use kube_sim::trace::Counted;
use kube_sim::trace::entity::{About, Entity};
use kube_sim::trace::{Note, Step, Unhashed};

use super::question::Question;

/// A note of an agent. The process that wrote it is that of the event. `pod` is `NAMESPACE/NAME`, `uid` that of the pod in the request,
/// `container` the ID of the sandbox. If the request has no UID, because the container runtime passes none, `uid` is that of the pod that
/// owns the sandbox: the agent is judged by it, although it does not know it.
#[derive(Clone, Debug, Hash)]
pub enum IpamNote {
    /// A request for the addresses of a NIC is accepted (A §5.2).
    AddBegun {
        /// The pod that the request names, even if it belongs to a VM.
        pod: Arc<str>,
        /// The UID in the request; the pod that has the name now may have another one.
        uid: Arc<str>,
        /// The ID of the sandbox, which together with the NIC matches an answer with its request.
        container: Arc<str>,
        /// The NIC of the call; the answer may have the addresses of others, too (A §2.4).
        nic: Arc<str>,
    },
    /// The pools were chosen (A §2 to §4).
    Selected {
        /// The UID in the request, as in [`IpamNote::AddBegun`].
        uid: Arc<str>,
        /// The NIC of the call; `order` may include others, too.
        nic: Arc<str>,
        /// The request, and the agent's knowledge.
        question: Unhashed<Question>,
        /// The result of selection, or the reason why nothing was selected.
        selection: Unhashed<Arc<Selection>>,
        /// The pools that can serve each NIC and family, in the order in which they are to be tried; empty if nothing was selected.
        order: Unhashed<Arc<[InOrder]>>,
    },
    /// The addresses of a predecessor were compared with the rules (A §6.3).
    Compared {
        /// The UID in the request, not that of the pod that has the compared addresses so far.
        uid: Arc<str>,
        /// The NIC of the call; addresses of others may be compared, too.
        nic: Arc<str>,
        /// The request, and the agent's knowledge.
        question: Unhashed<Question>,
        /// The entries of the predecessor's endpoint.
        entries: Unhashed<Arc<[IPAllocationDetail]>>,
        /// The indexes of the entries that the agent gives up, at least in part.
        given_up: Arc<[usize]>,
    },
    /// A pool was asked for an address (A §5.4).
    Tried {
        /// The UID under which the address is to be recorded; upstream's may be older than that in the request (A W6).
        uid: Arc<str>,
        /// The NIC as selection names it: in nameless mode its index (A §2.4).
        nic: Arc<str>,
        /// The name of the pool, whether it exists or not.
        pool: Arc<str>,
        /// The address, or the reason why there is none.
        outcome: Result<IpAddr, Refusal>,
    },
    /// The request is answered.
    AddEnded {
        /// The pod, as in [`IpamNote::AddBegun`].
        pod: Arc<str>,
        /// The UID in the request, as in [`IpamNote::AddBegun`].
        uid: Arc<str>,
        /// The ID of the sandbox, as in [`IpamNote::AddBegun`].
        container: Arc<str>,
        /// The NIC of the call, as in [`IpamNote::AddBegun`].
        nic: Arc<str>,
        /// The addresses of all NICs in the answer, or the reason why there are none.
        result: Result<Arc<[Given]>, Refusal>,
        /// The routes in the answer, default routes included; none without an answer.
        routes: Arc<[NicRoute]>,
        /// The origin of the addresses.
        how: How,
        /// The number of writes of pools that met a conflict.
        conflicts: u32,
        /// The number of attempts at pools: each a read, a decision and at most one write.
        attempts: u32,
        /// The duration of the request, by the clock of the process.
        took: Duration,
    },
    /// A request to release a sandbox's addresses is accepted (A §7.1).
    DelBegun {
        /// The pod that the request names, even if it belongs to a VM.
        pod: Arc<str>,
        /// The UID in the request; may be empty.
        uid: Arc<str>,
        /// The ID of the sandbox that goes, which together with the NIC matches an answer with its request.
        container: Arc<str>,
        /// The NIC of the call; the first call releases the addresses of all NICs (A §7.1).
        nic: Arc<str>,
    },
    /// A request to release addresses is answered.
    DelEnded {
        /// The pod, as in [`IpamNote::DelBegun`].
        pod: Arc<str>,
        /// The UID in the request; may be empty.
        uid: Arc<str>,
        /// The ID of the sandbox, as in [`IpamNote::DelBegun`].
        container: Arc<str>,
        /// The NIC of the call, as in [`IpamNote::DelBegun`].
        nic: Arc<str>,
        /// The result, also if there was nothing to do; unset = it failed.
        outcome: Option<DelOutcome>,
        /// The number of writes that met a conflict.
        conflicts: u32,
        /// Whether the agent gave up on a pool after all attempts.
        exhausted: bool,
    },
    /// Records are about to be removed. Noted before the first write.
    ReleaseBegun {
        /// The name under which the records are: that of the pod, or of its VMI.
        pod: Arc<str>,
        /// The UID whose records are removed.
        uid: Arc<str>,
        /// The UID in the request that caused the removal; empty = none was given.
        asked: Arc<str>,
        /// The cause of the removal.
        cause: Cause,
        /// The addresses, each with its pool.
        what: Arc<[(Arc<str>, IpAddr)]>,
    },
    /// The removal is over.
    ReleaseEnded {
        /// The name under which the records are, as in [`IpamNote::ReleaseBegun`].
        pod: Arc<str>,
        /// The UID whose records were removed.
        uid: Arc<str>,
        /// The cause of the removal, as in [`IpamNote::ReleaseBegun`].
        cause: Cause,
        /// Whether it succeeded; if not, some of the records may be gone nevertheless.
        ok: bool,
    },
    /// A request waits for its turn at its pools (A §5.6). `ticket` is unique in the life of a process.
    Queued {
        /// The ticket of this wait, different from all others of the process.
        ticket: u64,
    },
    /// The wait of a request ended: it has its turn, or was refused.
    Unqueued {
        /// The ticket of the wait, as in [`IpamNote::Queued`].
        ticket: u64,
    },
}

/// An address that was given.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Given {
    /// The NIC, with its name in the answer.
    pub nic: Arc<str>,
    /// The name of the pool of the address, as in the answer.
    pub pool: Arc<str>,
    /// The address, without its prefix length.
    pub address: IpAddr,
    /// The gateway that comes with it.
    pub gateway: Option<Arc<str>>,
}

/// The pools that can serve one NIC and family.
#[derive(Clone, Debug)]
pub struct InOrder {
    /// The NIC, with its name in selection.
    pub nic: Arc<str>,
    /// The family; a NIC with both has an entry for each.
    pub family: IpVersion,
    /// The pools, the first to be tried in front (A §4; equal ones as the user lists them).
    pub pools: Vec<Arc<SpiderIPPool>>,
    /// The number of other named pools that have no free address.
    pub full: usize,
}

impl InOrder {
    /// The pools of a selection in the order in which they are to be tried.
    pub fn of(selection: &Selection) -> Arc<[Self]> {
        if selection.error.is_some() {
            return Arc::new([]);
        }
        let full = |reason: Reason| matches!(reason, Reason::Excluded | Reason::Reserved | Reason::Exhausted);
        let of_nic = |nic: &NicSelection| {
            let name: Arc<str> = nic.nic.as_str().into();
            let of = move |family: &FamilySelection| Self {
                nic: name.clone(),
                family: family.family,
                pools: family.order.iter().flatten().cloned().collect(),
                full: family.rejected().filter(|(_, reason)| full(*reason)).count(),
            };
            nic.families.iter().map(of).collect::<Vec<_>>()
        };
        selection.nics.iter().flat_map(of_nic).collect()
    }
}

/// The reason why there is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Selection finds no pool that serves, although the pod's request can be read.
    NoPool,
    /// All addresses are taken.
    UsedOut,
    /// All attempts to write met a conflict.
    RetriesExhausted,
    /// The pod's request cannot be read.
    WrongInput,
    /// The pod is gone, replaced or not alive.
    DeadPod,
    /// The time ran out.
    OutOfTime,
    /// An object is broken or in the way.
    Blocked,
    /// A request to the API server failed.
    Api,
    /// The predecessor's endpoint is being deleted while addresses are recorded for it.
    Predecessor,
}

impl Note for IpamNote {
    fn about(&self) -> About {
        match self {
            IpamNote::AddBegun { pod, container, .. } | IpamNote::DelBegun { pod, container, .. } => {
                About::beginning([Entity::pod(pod), Entity::allocation(container)])
            }
            IpamNote::AddEnded { pod, container, result, .. } => {
                let entities = [Entity::pod(pod), Entity::allocation(container)];
                let given = result.iter().flat_map(|given| given.iter()).map(|given| Entity::ip(given.address));
                About::ending(entities.into_iter().chain(given).collect::<Vec<_>>())
            }
            IpamNote::DelEnded { pod, container, .. } => About::ending([Entity::pod(pod), Entity::allocation(container)]),
            IpamNote::Tried { outcome, .. } => About::passing(outcome.iter().map(|&ip| Entity::ip(ip)).collect::<Vec<_>>()),
            IpamNote::ReleaseBegun { pod, what, .. } => {
                About::passing([Entity::pod(pod)].into_iter().chain(what.iter().map(|(_, ip)| Entity::ip(*ip))).collect::<Vec<_>>())
            }
            IpamNote::ReleaseEnded { pod, .. } => About::passing([Entity::pod(pod)]),
            IpamNote::Selected { .. } | IpamNote::Compared { .. } | IpamNote::Queued { .. } | IpamNote::Unqueued { .. } => {
                About::passing([])
            }
        }
    }

    fn word(&self) -> u64 {
        word_hash::of("ipam", self)
    }

    fn counts_as(&self) -> Option<Counted> {
        match self {
            IpamNote::Tried { outcome: Err(Refusal::RetriesExhausted), .. } => Some(Counted::RetriesExhausted),
            IpamNote::AddEnded { result: Ok(_), .. } => Some(Counted::Succeeded),
            IpamNote::AddEnded { result: Err(_), .. } => Some(Counted::Failed),
            _ => None,
        }
    }

    fn step(&self) -> Option<Step> {
        let key = |container: &str, nic: &str| format!("{container} {nic}");
        match self {
            IpamNote::AddBegun { pod, container, nic, .. } => {
                Some(Step::invoke("allocate", key(container, nic), vec![pod.to_string(), nic.to_string(), container.to_string()]))
            }
            IpamNote::AddEnded { container, nic, result: Ok(given), .. } => {
                let given: Vec<Vec<String>> = given.iter().map(|given| vec![given.nic.to_string(), given.address.to_string()]).collect();
                Some(Step::ok("allocate", key(container, nic), given))
            }
            // Records made before the failure are rolled back, if the API server can be reached.
            IpamNote::AddEnded { container, nic, result: Err(why), .. } => {
                let certain = matches!(why, Refusal::NoPool | Refusal::WrongInput);
                Some(Step::failed("allocate", key(container, nic), certain, why.to_string()))
            }
            IpamNote::DelBegun { pod, container, nic, .. } => {
                Some(Step::invoke("release", key(container, nic), vec![pod.to_string(), nic.to_string(), container.to_string()]))
            }
            IpamNote::DelEnded { container, nic, outcome: Some(_), .. } => Some(Step::ok("release", key(container, nic), ())),
            IpamNote::DelEnded { container, nic, outcome: None, .. } => {
                Some(Step::failed("release", key(container, nic), false, "the agent could not release them"))
            }
            _ => None,
        }
    }
}

impl fmt::Display for IpamNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IpamNote::AddBegun { pod, nic, container, .. } => write!(f, "CNI ADD {nic} of {pod} (sandbox {container})"),
            IpamNote::Selected { nic, .. } => write!(f, "chooses pools for {nic}"),
            IpamNote::Compared { nic, entries, given_up, .. } => {
                write!(f, "compares its predecessor's addresses for {nic} with the rules")?;
                let mut before = ", and gives up some of ";
                for entry in given_up.iter().filter_map(|place| entries.get(*place)) {
                    for address in entry.ipv4.iter().chain(&entry.ipv6) {
                        write!(f, "{before}{address}")?;
                        before = ", ";
                    }
                }
                Ok(())
            }
            IpamNote::Tried { pool, outcome: Ok(ip), nic, .. } => write!(f, "takes {ip} from pool {pool} for {nic}"),
            IpamNote::Tried { pool, outcome: Err(refusal), nic, .. } => write!(f, "gets nothing from pool {pool} for {nic}: {refusal}"),
            IpamNote::AddEnded { pod, nic, result: Ok(given), how, conflicts, took, .. } => {
                write!(f, "gives {pod}")?;
                for given in given.iter() {
                    write!(f, " {} ({}) for {},", given.address, given.pool, given.nic)?;
                }
                if given.is_empty() {
                    write!(f, " nothing for {nic},")?;
                }
                write!(f, " {} in {} ({})", how.sentence(), time(*took), plural(*conflicts))
            }
            IpamNote::AddEnded { pod, nic, result: Err(refusal), took, conflicts, .. } => {
                write!(f, "gives {pod} nothing for {nic}: {refusal} after {} ({})", time(*took), plural(*conflicts))
            }
            IpamNote::DelBegun { pod, nic, container, .. } => write!(f, "CNI DEL {nic} of {pod} (sandbox {container})"),
            IpamNote::DelEnded { pod, nic, outcome: Some(_), .. } => write!(f, "CNI DEL done: {nic} of {pod}"),
            IpamNote::DelEnded { pod, nic, outcome: None, .. } => write!(f, "cannot release {nic} of {pod}"),
            IpamNote::ReleaseBegun { pod, what, cause, .. } => {
                f.write_str("releases")?;
                let mut before = " ";
                for (pool, ip) in what.iter() {
                    write!(f, "{before}{ip} ({pool})")?;
                    before = ", ";
                }
                write!(f, " of {pod}: {}", cause.sentence())
            }
            IpamNote::ReleaseEnded { pod, cause, ok: true, .. } => write!(f, "has released the addresses of {pod} ({})", cause.sentence()),
            IpamNote::ReleaseEnded { pod, cause, ok: false, .. } => {
                write!(f, "cannot release the addresses of {pod} ({})", cause.sentence())
            }
            IpamNote::Queued { ticket } => write!(f, "request {ticket} waits for its pools"),
            IpamNote::Unqueued { ticket } => write!(f, "request {ticket} has its pools"),
        }
    }
}

fn time(took: Duration) -> String {
    human::duration(Seconds::from(took))
}

fn plural(conflicts: u32) -> String {
    human::plural(conflicts.into(), "conflict", "conflicts")
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::NoPool => "no pool serves",
            Refusal::UsedOut => "all addresses are taken",
            Refusal::RetriesExhausted => "all attempts to write met a conflict",
            Refusal::WrongInput => "what the pod asks for cannot be read",
            Refusal::DeadPod => "the pod is gone, replaced or not alive",
            Refusal::OutOfTime => "the time was up",
            Refusal::Blocked => "an object is broken or in the way",
            Refusal::Api => "a request to the API server failed",
            Refusal::Predecessor => "what its predecessor has is not released",
        })
    }
}
