//! The calls for addresses, and the holders of addresses.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ipam_byom::{Address, AddressKey, Effort};
use kube_machinery::FxHashMap;
use kube_machinery::lease_lock::LockRequests;
use kube_sim::rt::ProcessId;
use sim_config::time::SimTime;

use crate::workload::Failure;

/// The end of a call.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) result: Result<Address, Failure>,
    pub(super) effort: Effort,
    pub(super) took: Duration,
}

/// The last call under one allocation ID, with the state of its sandbox and its record.
pub(super) struct Call {
    pub(super) process: ProcessId,
    pub(super) asked: SimTime,
    /// Its requests for the lock of the pool.
    at_lock: LockRequests,
    pub(super) ended: Option<Ended>,
    /// The address that its sandbox holds.
    pub(super) holds: Option<Address>,
    /// Whether its release has begun.
    pub(super) released: bool,
    /// Whether its sandbox has ended.
    pub(super) over: bool,
    /// Whether its record was lost after the call was told an address.
    pub(super) lost: bool,
    /// Whether its address had a second holder.
    pub(super) shared: bool,
    /// Whether it was not the first under its ID.
    pub(super) repeated: bool,
}

impl Call {
    /// Sets its requests for the lock of the pool.
    pub(super) fn locks(&mut self, requests: LockRequests) {
        self.at_lock = requests;
    }

    /// Its requests to the pool and for the lock of the pool, added up.
    pub(super) fn with_lock(&mut self, effort: Effort) -> Effort {
        let LockRequests { reads, writes, conflicts, create_races } = std::mem::take(&mut self.at_lock);
        Effort {
            reads: effort.reads + reads,
            writes: effort.writes + writes,
            conflicts: effort.conflicts + conflicts,
            create_races: effort.create_races + create_races,
            ..effort
        }
    }

    /// Whether it was told an address whose release has not begun.
    pub(super) fn counts_on_its_record(&self) -> bool {
        !self.released && self.ended.as_ref().is_some_and(|ended| ended.result.is_ok())
    }
}

/// The calls of a run and the holders of addresses.
#[derive(Default)]
pub(super) struct Calls {
    by_id: FxHashMap<Arc<str>, Call>,
    holders: FxHashMap<AddressKey, Vec<Arc<str>>>,
    /// The number of addresses that have had two holders at a time.
    pub(super) shared_addresses: u64,
}

impl Calls {
    /// Begins a call under this ID; returns whether there was an earlier one.
    pub(super) fn begin(&mut self, id: &Arc<str>, process: ProcessId, asked: SimTime) -> bool {
        let new = Call {
            process,
            asked,
            at_lock: LockRequests::default(),
            ended: None,
            holds: None,
            over: false,
            released: false,
            lost: false,
            shared: false,
            repeated: false,
        };
        let known = self.by_id.entry(id.clone()).and_modify(|call| {
            call.process = process;
            call.ended = None;
            call.repeated = true;
        });
        known.or_insert(new).repeated
    }

    pub(super) fn get(&self, id: &str) -> Option<&Call> {
        self.by_id.get(id)
    }

    pub(super) fn get_mut(&mut self, id: &str) -> Option<&mut Call> {
        self.by_id.get_mut(id)
    }

    /// Every call with its ID, in the order of IDs.
    pub(super) fn sorted(&self) -> BTreeMap<&Arc<str>, &Call> {
        self.by_id.iter().collect()
    }

    /// Every call, in an order that must not affect results.
    pub(super) fn unordered(&self) -> impl Iterator<Item = (&Arc<str>, &Call)> {
        self.by_id.iter()
    }

    /// Makes the sandbox `id` the holder of `address`.
    pub(super) fn hold(&mut self, id: &Arc<str>, address: &Address) {
        match self.by_id.get_mut(id) {
            // A sandbox that was over before it was told never uses its address.
            Some(call) if call.holds.is_none() && !call.over && !call.released => call.holds = Some(address.clone()),
            _ => return,
        }
        let holders = self.holders.entry(address.key().clone()).or_default();
        holders.push(id.clone());
        if holders.len() > 1 {
            self.shared_addresses += u64::from(holders.len() == 2);
            for holder in holders {
                if let Some(call) = self.by_id.get_mut(holder) {
                    call.shared = true;
                }
            }
        }
    }

    /// Begins the release of `id`: it holds nothing any more.
    pub(super) fn release(&mut self, id: &Arc<str>) {
        if let Some(call) = self.by_id.get_mut(id) {
            call.released = true;
            self.let_go(id);
        }
    }

    /// Ends the sandbox `id`: it holds nothing any more.
    pub(super) fn end(&mut self, id: &Arc<str>) {
        if let Some(call) = self.by_id.get_mut(id) {
            call.over = true;
            self.let_go(id);
        }
    }

    fn let_go(&mut self, id: &Arc<str>) {
        let Some(address) = self.by_id.get_mut(id).and_then(|call| call.holds.take()) else { return };
        if let Some(holders) = self.holders.get_mut(address.key()) {
            holders.retain(|holder| holder != id);
        }
    }
}
