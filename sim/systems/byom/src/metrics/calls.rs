//! What is known of each call for an address, and of who holds which.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ipam_byom::{Address, AddressKey, Effort};
use kube_machinery::FxHashMap;
use kube_machinery::lease_lock::LockRequests;
use kube_sim::rt::ProcessId;
use sim_config::time::SimTime;

use crate::workload::Failure;

/// How a call ended.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) result: Result<Address, Failure>,
    pub(super) effort: Effort,
    pub(super) took: Duration,
}

/// The last call under one allocation ID, and what became of its sandbox and its record.
pub(super) struct Call {
    pub(super) process: ProcessId,
    pub(super) asked: SimTime,
    /// What it has asked for the lock of the pool.
    at_lock: LockRequests,
    pub(super) ended: Option<Ended>,
    /// Its sandbox holds this address.
    pub(super) holds: Option<Address>,
    /// Somebody has begun to release it.
    pub(super) released: bool,
    /// Its sandbox has ended.
    pub(super) over: bool,
    /// Its record was lost after the call was told an address.
    pub(super) lost: bool,
    /// Its address had a second holder.
    pub(super) shared: bool,
    /// It was not the first under its ID.
    pub(super) repeated: bool,
}

impl Call {
    /// It has asked this for the lock of the pool.
    pub(super) fn locks(&mut self, requests: LockRequests) {
        self.at_lock = requests;
    }

    /// What it took at its pool, and what at the lock of the pool.
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

    /// Whether it was told an address that nobody has asked back.
    pub(super) fn counts_on_its_record(&self) -> bool {
        !self.released && self.ended.as_ref().is_some_and(|ended| ended.result.is_ok())
    }
}

/// The calls of a run and the holders of addresses.
#[derive(Default)]
pub(super) struct Calls {
    by_id: FxHashMap<Arc<str>, Call>,
    holders: FxHashMap<AddressKey, Vec<Arc<str>>>,
    /// How many addresses have had two holders at a time.
    pub(super) shared_addresses: u64,
}

impl Calls {
    /// Somebody asks under this ID; gives whether somebody has done so before.
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

    /// Every call, in no order that may be seen.
    pub(super) fn unordered(&self) -> impl Iterator<Item = (&Arc<str>, &Call)> {
        self.by_id.iter()
    }

    /// The sandbox `id` holds `address` from now on.
    pub(super) fn hold(&mut self, id: &Arc<str>, address: &Address) {
        match self.by_id.get_mut(id) {
            // One that was over before it was told never uses it.
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

    /// The release of `id` begins: it holds nothing any more.
    pub(super) fn release(&mut self, id: &Arc<str>) {
        if let Some(call) = self.by_id.get_mut(id) {
            call.released = true;
            self.let_go(id);
        }
    }

    /// The sandbox `id` is over: it holds nothing any more.
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
