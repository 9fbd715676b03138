//! Decisions on the pool: a pure function from the state that was read to an answer and the state to write (B §2 to §4).
//!
//! The drivers call it once for each read, so that a write always carries a decision on the state that it replaces. Only the mutations
//! `byom-decide-once` and `byom-recover-decide-once` break this.

use std::collections::BTreeSet;
use std::sync::Arc;

use thiserror::Error;

use super::address::{Address, AddressKey};
use super::allocation::IpAllocation;
use super::allocations::Allocations;
use super::available::Available;
use super::config::PoolConfig;
use super::document::PoolDocument;
use super::policy::Policy;
use super::seconds::Seconds;
use super::select::select_index;
use kube_machinery::json_text::InvalidText;

/// The result of reading the pool (B §1.4). API errors are not part of it: no decision is made on them.
#[derive(Clone, Debug)]
pub enum Found<'a> {
    /// There is no ConfigMap, or it lacks the entry: never made, or deleted.
    Missing,
    /// The entry is not a valid document.
    Unreadable(InvalidText),
    /// The entry was read. Its map of records may still be null.
    Document(&'a PoolDocument),
}

/// The pod that needs an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodName {
    /// The name of the pod, as in `metadata.name`.
    pub name: Arc<str>,
    /// The namespace of the pod, as in `metadata.namespace`.
    pub namespace: Arc<str>,
}

/// An operation on the pool.
#[derive(Clone, Copy, Debug)]
pub enum Command<'a> {
    /// Requests an address under an allocation ID; the same one until the ID is released.
    Allocate {
        /// The allocation ID of the sandbox that asks (B A1).
        id: &'a Arc<str>,
        /// The pod that the address is for.
        pod: &'a PodName,
        /// A VM that was found ready; it is taken if it is still available.
        ready: Option<&'a Address>,
        /// VMs that were found not ready; they are not taken.
        skip: &'a BTreeSet<AddressKey>,
    },
    /// Returns an address. In the hardened form given only after the VM has booted (D §1.1).
    Release {
        /// The allocation ID of the address.
        id: &'a str,
    },
    /// Makes the list of available addresses match the configuration.
    Recover {
        /// The live owners, if they were requested: the source of the records if those are lost.
        owners: Option<&'a [IpAllocation]>,
    },
}

/// The answer to the caller, valid once the write, if there is one, is done.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The address, in canonical spelling.
    Allocated(Address),
    /// The record is gone.
    Released(Address),
    /// There is no record under the ID: nothing to release.
    NotHeld,
    /// The list of available addresses matches the configuration.
    Recovered(Recovered),
}

/// The state of the pool after a recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Recovered {
    /// The number of records of this node. They are kept, like all others.
    pub own: usize,
    /// The number of records of all nodes, including this one.
    pub in_use: usize,
    /// The number of available addresses.
    pub available: usize,
}

/// The reason why a command is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The stored text is not a valid document. It is not overwritten.
    #[error("the stored pool state cannot be read: {0}")]
    Unreadable(InvalidText),
    /// The document is gone, and the owners are unknown. It is not taken for an empty pool.
    #[error("there is no stored pool state, and it cannot be told from a lost one")]
    Missing,
    /// The document has no map of records, and the owners are unknown.
    #[error("the stored pool state has no allocatedIPs, and they cannot be told from lost ones")]
    NullMap,
    /// Upstream's process panics here: it stores into a nil map (B W18).
    #[error("assignment to entry in nil map")]
    Panic,
    /// `ErrNoAvailableIPs`: no address of the list may be taken (B A5).
    #[error("no address is available")]
    NoAvailable {
        /// The allocation of an earlier sandbox of the same pod on this node, to be released first.
        predecessor: Option<Arc<str>>,
    },
    /// `ErrInvalidAllocatedIP`: the recorded text, old or new, is not an address.
    #[error("`{0}` is no address")]
    InvalidAddress(Arc<str>),
    /// `ErrNodeNameDetection`: allocation and recovery need the name of the node (B §4.1).
    #[error("the name of the node is unknown")]
    NoNodeName,
}

/// The result of a decision on one read.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The answer to the caller. It can be an error although there is a document to write (B A11).
    pub answer: Result<Answer, Refusal>,
    /// The document to write; `None` = nothing.
    pub write: Option<PoolDocument>,
}

impl From<Refusal> for Decision {
    fn from(refusal: Refusal) -> Self {
        Self { answer: Err(refusal), write: None }
    }
}

impl From<Answer> for Decision {
    fn from(answer: Answer) -> Self {
        Self { answer: Ok(answer), write: None }
    }
}

/// The process's inputs to a decision.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    /// The configured VMs: recovery offers them, and released addresses are compared with them.
    pub config: &'a PoolConfig,
    /// The mutations that are on.
    pub policy: &'a Policy,
    /// The current time of this process.
    pub now: Seconds,
    /// The node of this process; `None` = unknown.
    pub node: Option<&'a Arc<str>>,
}

/// Decides the answer to `command` and the document to write, given what was `found`.
pub fn decide(found: Found<'_>, command: Command<'_>, setting: Setting<'_>) -> Decision {
    match command {
        Command::Allocate { id, pod, ready, skip } => setting.allocate(found, id, pod, ready, skip),
        Command::Release { id } => setting.release(found, id),
        Command::Recover { owners } => setting.recover(found, owners),
    }
}

impl Setting<'_> {
    /// The document of a pool without allocations that has not been written yet (B §1.4).
    pub fn fresh(self) -> PoolDocument {
        PoolDocument { allocated: Allocations::default(), available: self.config.pool().clone(), last_updated: self.now, version: 1 }
    }

    /// The document that the command changes.
    fn document(self, found: Found<'_>) -> Result<PoolDocument, Refusal> {
        match found {
            Found::Missing if self.policy.missing_map_is_empty_pool => Ok(self.fresh()),
            Found::Missing => Err(Refusal::Missing),
            Found::Unreadable(error) => Err(Refusal::Unreadable(error)),
            Found::Document(document) if document.allocated.is_null() && !self.policy.null_map => Err(Refusal::NullMap),
            Found::Document(document) => Ok(document.clone()),
        }
    }

    /// The changed `document` as it is to be written.
    fn written(self, mut document: PoolDocument) -> Option<PoolDocument> {
        document.last_updated = self.now;
        document.version = document.version.wrapping_add(1);
        if self.policy.namespace_not_written {
            document.allocated = document.allocated.without_namespaces();
        }
        Some(document)
    }

    /// The address in the form given to the caller.
    fn parsed(self, address: &Address) -> Result<Address, Refusal> {
        let parsed = if self.policy.textual_addresses { address.canonical_in_go() } else { address.canonical() };
        parsed.ok_or_else(|| Refusal::InvalidAddress(address.text().into()))
    }

    fn allocate(self, found: Found<'_>, id: &Arc<str>, pod: &PodName, ready: Option<&Address>, skip: &BTreeSet<AddressKey>) -> Decision {
        let mut document = match self.document(found) {
            Ok(document) => document,
            Err(refusal) => return refusal.into(),
        };
        if let Some(record) = document.allocated.get(id) {
            return Decision { answer: self.parsed(&record.ip).map(Answer::Allocated), write: None };
        }
        let Some(index) = self.choose(&document, id, ready, skip) else {
            return Refusal::NoAvailable { predecessor: self.predecessor(&document, pod, skip) }.into();
        };
        let Some(node) = self.node else { return Refusal::NoNodeName.into() };
        if document.allocated.is_null() {
            return Refusal::Panic.into();
        }
        let (ip, parsed) = self.take(&mut document.available, index);
        let record = IpAllocation {
            allocation_id: id.clone(),
            ip,
            node_name: node.clone(),
            pod_name: pod.name.clone(),
            pod_namespace: Some(pod.namespace.clone()),
            allocated_at: self.now,
        };
        document.allocated.insert(id.clone(), record);
        Decision { answer: parsed.map(Answer::Allocated), write: self.written(document) }
    }

    /// Takes an address from the list. Returns it as it is to be recorded and as the caller gets it.
    fn take(self, list: &mut Available, index: usize) -> (Address, Result<Address, Refusal>) {
        let taken = list.remove(index);
        let parsed = self.parsed(&taken);
        if self.policy.textual_addresses {
            return (taken, parsed);
        }
        // A damaged list may contain it more than once.
        remove_all(list, taken.key(), |_| true);
        let ip = parsed.as_ref().map_or(taken, Address::clone);
        (ip, parsed)
    }

    /// The index of the address to take: that of the hash, or the next one that can be taken.
    fn choose(self, document: &PoolDocument, id: &str, ready: Option<&Address>, skip: &BTreeSet<AddressKey>) -> Option<usize> {
        let list = &document.available;
        let len = list.len();
        let is_recorded = |address: &Address| !address.key().is_address() || document.allocated.holds(address, false);
        let is_free = |address: &Address| self.policy.textual_addresses || !is_recorded(address);
        let can_be_taken = |address: &Address| is_free(address) && self.may_offer(address) && !skip.contains(address.key());
        if let Some(ready) = ready.filter(|ready| can_be_taken(ready))
            && let Some(index) = list.positions(ready.key()).next()
        {
            return Some(index);
        }
        let start = if self.policy.select_first { 0 } else { select_index(len, id) };
        (start..len).chain(0..start).find(|index| list.get(*index).is_some_and(can_be_taken))
    }

    /// The oldest allocation of the same pod on the same node whose VM is not in `skip`. A record without a namespace may belong to another
    /// pod.
    fn predecessor(self, document: &PoolDocument, pod: &PodName, skip: &BTreeSet<AddressKey>) -> Option<Arc<str>> {
        if self.policy.full_pool_restart {
            return None;
        }
        let mine = document.allocated.iter().filter(|(_, record)| self.is_of_pod(record, pod) && !skip.contains(record.ip.key()));
        mine.min_by_key(|(_, record)| record.allocated_at).map(|(id, _)| id.clone())
    }

    /// Whether the record is an allocation of the pod on this node.
    fn is_of_pod(self, of: &IpAllocation, pod: &PodName) -> bool {
        let here = self.node.is_some_and(|node| of.node_name == *node);
        here && of.pod_name == pod.name && of.pod_namespace.as_ref() == Some(&pod.namespace)
    }

    /// Whether `owned` is an allocation of the pod on this node whose record is lost, while its VM is recorded for another allocation,
    /// which the VM refuses as long as it serves this one.
    pub(super) fn is_lost_predecessor(self, document: &PoolDocument, owned: &IpAllocation, pod: &PodName) -> bool {
        let lost = document.allocated.get(&owned.allocation_id).is_none() && document.allocated.holds(&owned.ip, false);
        lost && self.is_of_pod(owned, pod)
    }

    /// The allocations of pods of this name on this node whose records lack a namespace, the oldest first: they belong to the pod or to a
    /// namesake.
    pub(super) fn nameless_predecessors(self, document: &PoolDocument, pod: &PodName) -> Vec<Arc<IpAllocation>> {
        // A process that writes no namespaces cannot tell whose a record is.
        let cannot_tell = self.policy.full_pool_restart || self.policy.namespace_not_written;
        let Some(node) = self.node.filter(|_| !cannot_tell) else { return Vec::new() };
        let of_pod = |record: &IpAllocation| record.pod_name == pod.name && record.pod_namespace.is_none() && record.node_name == *node;
        let mut mine: Vec<_> = document.allocated.iter().map(|(_, record)| record).filter(|record| of_pod(record)).cloned().collect();
        mine.sort_by_key(|record| record.allocated_at);
        mine
    }

    fn release(self, found: Found<'_>, id: &str) -> Decision {
        let mut document = match self.document(found) {
            Ok(document) => document,
            Err(refusal) => return refusal.into(),
        };
        let Some(record) = document.allocated.remove(id) else { return Answer::NotHeld.into() };
        if let Some(address) = self.offered(&document, &record.ip) {
            document.available.push(address);
        }
        Decision { answer: Ok(Answer::Released(record.ip.clone())), write: self.written(document) }
    }

    /// The spelling in which a released address becomes available again; `None` = it does not.
    fn offered(self, document: &PoolDocument, released: &Address) -> Option<Address> {
        if self.policy.textual_addresses {
            return self.offered_as_text(released);
        }
        if document.allocated.holds(released, false) || document.available.contains(released.key()) {
            return None;
        }
        self.config.get(released.key()).cloned().or_else(|| self.offered_unconfigured(released))
    }

    fn recover(self, found: Found<'_>, owners: Option<&[IpAllocation]>) -> Decision {
        let Some(node) = self.node else { return Refusal::NoNodeName.into() };
        let unreadable = matches!(found, Found::Unreadable(_));
        let from_owners = |owners: &[IpAllocation]| owners.iter().map(|owner| (owner.allocation_id.clone(), owner.clone())).collect();
        let before = match (&found, owners) {
            (Found::Document(document), _) => Some(*document),
            _ => None,
        };
        let mut document = match (self.document(found), owners) {
            (Ok(document), _) => document,
            (Err(_), _) if unreadable && self.policy.reset_after_read_error => {
                let fresh = self.fresh();
                return Decision { answer: Ok(recovered(&fresh, node)), write: Some(fresh) };
            }
            (Err(Refusal::Missing), Some(owners)) => PoolDocument { allocated: from_owners(owners), ..self.fresh() },
            (Err(Refusal::NullMap), Some(owners)) => {
                let damaged = before.cloned().unwrap_or_default();
                PoolDocument { allocated: from_owners(owners), ..damaged }
            }
            (Err(refusal), _) => return refusal.into(),
        };
        document.available = self.unrecorded(&document.allocated);
        // An unchanged document is not worth the risk of a conflict.
        let unchanged = before.is_some_and(|before| before.available == document.available && before.allocated == document.allocated);
        let answer = Ok(recovered(&document, node));
        let write = if unchanged && !self.policy.recover_decide_once { None } else { self.written(document) };
        Decision { answer, write }
    }

    /// The configured addresses that have no record, in configured order.
    fn unrecorded(self, records: &Allocations) -> Available {
        let mut list = self.config.pool().clone();
        for (_, record) in records.iter() {
            let same_text = |entry: &Address| entry.text() == record.ip.text();
            remove_all(&mut list, record.ip.key(), |entry| !self.policy.textual_addresses || same_text(entry));
        }
        list
    }
}

fn recovered(document: &PoolDocument, node: &Arc<str>) -> Answer {
    let own = document.allocated.iter().filter(|(_, record)| record.node_name == *node).count();
    Answer::Recovered(Recovered { own, in_use: document.allocated.len(), available: document.available.len() })
}

/// Removes all entries with this key that `which` selects.
fn remove_all(list: &mut Available, key: &AddressKey, which: impl Fn(&Address) -> bool) {
    let positions: Vec<usize> = list.positions(key).filter(|index| list.get(*index).is_some_and(&which)).collect();
    for index in positions.into_iter().rev() {
        list.remove(index);
    }
}
