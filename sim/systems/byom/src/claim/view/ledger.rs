//! The ledger of each sandbox: its calls, its address and its release (B §7.1).

use std::sync::Arc;

use ipam_byom::{Address, AddressKey, IpAllocation, PoolDocument};
use kube_machinery::{FxHashMap, FxHashSet};
use kube_sim::rt::ProcessId;
use sim_config::time::SimTime;

use crate::workload::Releaser;

/// The process and the time of a note or a commit.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Said {
    /// The process that noted or wrote it.
    pub(in super::super) by: ProcessId,
    /// The time of its note or its commit.
    pub(in super::super) at: SimTime,
}

/// An address that a sandbox was given or told.
#[derive(Clone, Debug)]
pub(in super::super) struct Grant {
    /// The address as the note spells it; comparisons use keys.
    pub(in super::super) address: Address,
    /// The granting process, and the time.
    pub(in super::super) said: Said,
}

/// A commit that made or removed a record.
#[derive(Clone, Debug)]
pub(in super::super) struct Recorded {
    /// The address of the record.
    pub(in super::super) address: Address,
    /// The record as written by the pool.
    pub(super) record: Arc<IpAllocation>,
    /// The writer and the time of the commit.
    pub(in super::super) said: Said,
    /// The revision of the commit.
    pub(in super::super) revision: u64,
    /// The document's version after the commit.
    pub(in super::super) version: Option<i64>,
}

impl Recorded {
    /// Whether another record of the allocation has the same contents, in any spelling. An older version writes no namespace.
    pub(super) fn says_the_same_as(&self, other: &IpAllocation) -> bool {
        let IpAllocation { allocation_id, ip, node_name, pod_name, pod_namespace, allocated_at } = &*self.record;
        *allocation_id == other.allocation_id
            && ip.key() == other.ip.key()
            && *node_name == other.node_name
            && *pod_name == other.pod_name
            && (pod_namespace.is_none() || *pod_namespace == other.pod_namespace)
            && *allocated_at == other.allocated_at
    }
}

/// A release that began.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Release {
    /// The kind of release, as noted at its beginning.
    pub(in super::super) way: Releaser,
    /// The process that began it, and the time.
    pub(in super::super) said: Said,
}

/// One sandbox, in its latest life: an ID that is requested again after its release starts over.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Sandbox {
    /// `NAMESPACE/NAME`, once it runs or ends.
    pub(in super::super) pod: Option<Arc<str>>,
    /// The last call for an address.
    pub(in super::super) asked: Option<Said>,
    /// Whether the last call is still without an answer.
    pub(in super::super) open: bool,
    /// The number of outside writes to the document when the last call began.
    pub(in super::super) meddled_at_ask: u64,
    /// The address returned by the last call.
    pub(in super::super) allocated: Option<Grant>,
    /// The address that the sandbox was told.
    pub(in super::super) told: Option<Grant>,
    /// Whether the last call was refused.
    pub(in super::super) refused: bool,
    /// Whether its record was missing in a rebuilt document before the sandbox was told its address. That is allowed: the loss must be
    /// noticed before a sandbox is told.
    pub(in super::super) lost_on_the_way: bool,
    /// The UID of the pod that it runs, until it is over.
    pub(in super::super) runs: Option<Arc<str>>,
    /// The time at which it was over.
    pub(in super::super) ended: Option<SimTime>,
    /// The first release that began.
    pub(in super::super) release: Option<Release>,
    /// The time at which a release ended successfully.
    pub(in super::super) released: Option<SimTime>,
    /// The last commit that made its record.
    pub(in super::super) recorded: Option<Recorded>,
    /// The number of times its record was made in the current or last document.
    pub(in super::super) times_recorded: u32,
    /// The last commit that removed its record, if it came after the record was made.
    pub(in super::super) removed: Option<Recorded>,
}

impl Sandbox {
    /// Whether it is neither over nor being released.
    pub(in super::super) fn is_live(&self) -> bool {
        self.ended.is_none() && self.release.is_none()
    }

    /// The address that the pool acknowledged and that must stay recorded.
    pub(in super::super) fn acknowledged(&self) -> Option<&Grant> {
        self.allocated.as_ref().filter(|_| self.is_live() && !self.lost_on_the_way)
    }
}

/// An event that removed a record from the pool's responsibility.
#[derive(Clone, Debug)]
pub(in super::super) struct Hand {
    /// The excuse for its consequences.
    pub(in super::super) excuse: &'static str,
    /// The writer and the time.
    pub(in super::super) said: Said,
    /// The revision of the commit.
    pub(in super::super) revision: u64,
}

/// All sandboxes that appear in notes, by allocation ID, and the holders of addresses: the ground truth of the claims (B §7.1).
#[derive(Debug, Default)]
pub(in super::super) struct Ledger {
    pub(super) sandboxes: FxHashMap<Arc<str>, Sandbox>,
    /// The live sandboxes that were told an address, by address.
    holders: FxHashMap<AddressKey, Vec<Arc<str>>>,
    /// The IDs with an open call for an address, by calling process.
    pub(super) open: FxHashMap<ProcessId, FxHashSet<Arc<str>>>,
    /// The IDs whose records an outside writer made, changed or removed, or that no list of owners showed.
    pub(super) hands: FxHashMap<Arc<str>, Hand>,
}

impl Ledger {
    /// The sandbox of an allocation.
    pub(in super::super) fn get(&self, id: &str) -> Option<&Sandbox> {
        self.sandboxes.get(id)
    }

    /// Whether an allocation belongs to a sandbox that is neither over nor being released.
    pub(in super::super) fn is_live(&self, id: &str) -> bool {
        self.get(id).is_some_and(Sandbox::is_live)
    }

    /// Whether a call for an address is open at a process.
    pub(in super::super) fn is_asked(&self, process: ProcessId) -> bool {
        self.calls(process) > 0
    }

    /// The number of open calls for an address at a process.
    pub(in super::super) fn calls(&self, process: ProcessId) -> usize {
        self.open.get(&process).map_or(0, FxHashSet::len)
    }

    /// The start of the oldest open call for an address at a process.
    pub(in super::super) fn asked_since(&self, process: ProcessId) -> Option<SimTime> {
        self.open.get(&process)?.iter().filter_map(|id| Some(self.get(id)?.asked?.at)).min()
    }

    /// All sandboxes, in arbitrary order.
    pub(in super::super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Sandbox)> {
        self.sandboxes.iter()
    }

    /// The live sandboxes that were told this address.
    pub(in super::super) fn holders(&self, address: &AddressKey) -> &[Arc<str>] {
        self.holders.get(address).map_or(&[], Vec::as_slice)
    }

    /// The event that removed the record of an ID from the pool's responsibility.
    pub(in super::super) fn hand(&self, id: &str) -> Option<&Hand> {
        self.hands.get(id)
    }

    /// The excuse for changes to the records of `ids`, if the pool is not responsible for all of them.
    pub(in super::super) fn excuse_of<'a>(&self, ids: impl IntoIterator<Item = &'a Arc<str>>) -> Option<&'static str> {
        ids.into_iter().find_map(|id| Some(self.hand(id)?.excuse))
    }

    /// Whether the pool is still responsible for the record of an ID.
    pub(in super::super) fn is_ours(&self, id: &str) -> bool {
        !self.hands.contains_key(id)
    }

    /// The IDs whose acknowledged address differs from their record in `document`, by ID. Linear.
    pub(in super::super) fn missing_from(&self, document: &PoolDocument) -> Vec<Arc<str>> {
        let recorded = |id: &str, address: &AddressKey| document.allocated.get(id).is_some_and(|record| record.ip.key() == address);
        let acknowledged = self.sandboxes.iter().filter_map(|(id, sandbox)| Some((id, sandbox.acknowledged()?)));
        let missing = acknowledged.filter(|(id, grant)| self.is_ours(id) && !recorded(id, grant.address.key()));
        let mut missing: Vec<_> = missing.map(|(id, _)| id.clone()).collect();
        missing.sort_unstable();
        missing
    }

    /// The IDs whose records were not removed by the pool and that `document` lacks at their address, including those being released. In
    /// arbitrary order. Linear.
    pub(super) fn not_in(&self, document: &PoolDocument) -> Vec<Arc<str>> {
        let recorded = |id: &str, address: &AddressKey| document.allocated.get(id).is_some_and(|record| record.ip.key() == address);
        let known = self.sandboxes.iter().filter(|(_, sandbox)| sandbox.removed.is_none());
        let known = known.filter_map(|(id, sandbox)| Some((id, &sandbox.recorded.as_ref()?.address)));
        known.filter(|(id, address)| !recorded(id, address.key())).map(|(id, _)| id.clone()).collect()
    }

    pub(super) fn of(&mut self, id: &Arc<str>) -> &mut Sandbox {
        self.sandboxes.entry(id.clone()).or_default()
    }

    /// Handles a document that was rebuilt.
    pub(super) fn made_anew(&mut self, document: &PoolDocument) {
        let on_the_way = |sandbox: &Sandbox| sandbox.told.is_none() && (sandbox.allocated.is_some() || sandbox.open);
        for (id, sandbox) in &mut self.sandboxes {
            let is_lost = document.allocated.get(id).is_none();
            if on_the_way(sandbox) {
                sandbox.lost_on_the_way = is_lost;
            }
            if is_lost {
                sandbox.times_recorded = 0;
            }
        }
    }

    pub(super) fn asked(&mut self, id: &Arc<str>, said: Said, meddled: u64) {
        self.open.entry(said.by).or_default().insert(id.clone());
        let sandbox = self.of(id);
        if !sandbox.is_live() {
            *sandbox = Sandbox::default();
        }
        sandbox.asked = Some(said);
        sandbox.open = true;
        sandbox.refused = false;
        sandbox.meddled_at_ask = meddled;
    }

    /// Handles the end of a call for an address.
    pub(super) fn answered(&mut self, id: &Arc<str>, by: ProcessId, grant: Option<Grant>) {
        if let Some(open) = self.open.get_mut(&by) {
            open.remove(id);
        }
        let sandbox = self.of(id);
        sandbox.open = false;
        match grant {
            Some(grant) => sandbox.allocated = Some(grant),
            None => sandbox.refused = true,
        }
    }

    pub(super) fn told(&mut self, id: &Arc<str>, grant: Grant) {
        let key = grant.address.key().clone();
        let sandbox = self.of(id);
        let was = sandbox.told.replace(grant).map(|was| was.address);
        if was.as_ref().map(Address::key) == Some(&key) || !sandbox.is_live() {
            return;
        }
        if let Some(was) = was {
            self.forget(id, was.key());
        }
        self.holders.entry(key).or_default().push(id.clone());
    }

    fn forget(&mut self, id: &str, address: &AddressKey) {
        if let Some(holders) = self.holders.get_mut(address) {
            holders.retain(|holder| **holder != *id);
        }
    }

    fn over(&mut self, id: &Arc<str>) {
        if let Some(told) = self.of(id).told.clone() {
            self.forget(id, told.address.key());
        }
    }

    pub(super) fn ended(&mut self, id: &Arc<str>, pod: &Arc<str>, at: SimTime) {
        let sandbox = self.of(id);
        sandbox.pod = Some(pod.clone());
        sandbox.runs = None;
        sandbox.ended = sandbox.ended.or(Some(at));
        self.over(id);
    }

    pub(super) fn release_begun(&mut self, id: &Arc<str>, release: Release) {
        let sandbox = self.of(id);
        sandbox.release = sandbox.release.or(Some(release));
        self.over(id);
    }

    /// Handles a process that lost its memory: its calls will not be answered.
    pub(super) fn lost(&mut self, process: ProcessId) {
        for id in self.open.remove(&process).into_iter().flatten() {
            self.of(&id).open = false;
        }
    }
}
