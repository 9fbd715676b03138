//! Metrics of the interference between the instances of a BYOM pool.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ipam_byom::{Effort, PoolConfigMap, PoolDocument, RecordChange};
use ipam_reports::Seconds;
use ipam_reports::pool::{PoolCall, PoolCounts, PoolRun};
use kube_machinery::ObjectKey;
use kube_sim::kinds::KindId;
use kube_sim::object::{Obj, typed_ref};
use kube_sim::rt::{ProcessId, Rt};
use kube_sim::trace::{Event, EventKind, Interest};
use sim_config::time::SimTime;
use sim_harness::system::{Figures, Metric, RunEnd};

use super::calls::{Calls, Ended};
use crate::workload::{PoolNote, VmChange};

/// Counts events of pools. The cost is that of the changes, whatever the size of the pools.
pub struct PoolMetrics {
    pools: Vec<Pool>,
    kind: KindId,
    counts: PoolCounts,
    calls: Calls,
    took: Vec<Seconds>,
    mutex_wait: Duration,
    /// The start of the first call for an address; `None` = there was none.
    began: Option<SimTime>,
    /// The time at which the last call for an address was answered; [`SimTime::ZERO`] = none was.
    ended: SimTime,
    /// The processes of the pools; losses caused by other writers are not counted.
    writers: BTreeSet<ProcessId>,
}

/// One pool.
struct Pool {
    key: ObjectKey,
    /// The object as last committed; unset = not committed yet, or deleted.
    last: Option<Obj>,
    /// Whether there was a commit, so that `last` is the stored object.
    committed: bool,
    last_version: Option<i64>,
}

impl Pool {
    fn records(&self, id: &str) -> bool {
        document(self.last.as_ref()).is_some_and(|now| now.allocated.get(id).is_some())
    }
}

/// The document of an object, if it has a readable one.
fn document(object: Option<&Obj>) -> Option<&PoolDocument> {
    typed_ref::<PoolConfigMap>(&**object?).document()?.parse().ok()
}

impl PoolMetrics {
    /// The events that the metrics need.
    pub const INTEREST: Interest = Interest::NOTE.and(Interest::COMMIT);

    /// The metrics of the pools with documents under `keys`; `kind` is that of ConfigMaps.
    pub fn new(keys: Vec<ObjectKey>, kind: KindId) -> Self {
        let pool = |key| Pool { key, last: None, committed: false, last_version: None };
        Self {
            pools: keys.into_iter().map(pool).collect(),
            kind,
            counts: PoolCounts::default(),
            calls: Calls::default(),
            took: Vec::new(),
            mutex_wait: Duration::ZERO,
            began: None,
            ended: SimTime::ZERO,
            writers: BTreeSet::new(),
        }
    }

    /// Whether there was a commit, so that the stored state is known.
    fn is_known(&self) -> bool {
        self.pools.iter().any(|pool| pool.committed)
    }

    fn is_recorded(&self, id: &str) -> bool {
        self.pools.iter().any(|pool| pool.records(id))
    }

    /// Processes an event: notes of all pools, and commits of their ConfigMaps. Others change nothing.
    pub fn observe(&mut self, event: &Event<'_>) {
        match event.kind {
            EventKind::Note { process, note } => {
                if let Some(note) = note.downcast_ref() {
                    self.note(event.at, process, note);
                }
            }
            EventKind::Commit { client, kind, key, before, after, .. } if kind == self.kind => {
                if let Some(number) = self.pools.iter().position(|pool| pool.key == *key) {
                    self.commit(number, self.writers.contains(&client), before, after);
                }
            }
            _ => {}
        }
    }

    fn note(&mut self, at: SimTime, process: ProcessId, note: &PoolNote) {
        match note {
            PoolNote::Configured { .. } | PoolNote::OfOtherPool { .. } => drop(self.writers.insert(process)),
            PoolNote::Asked { id } => {
                self.counts.calls += 1;
                self.began.get_or_insert(at);
                self.counts.repeated += u64::from(self.calls.begin(id, process, at));
            }
            PoolNote::Locked { id, requests } => {
                if let Some(call) = self.calls.get_mut(id) {
                    call.locks(**requests);
                }
            }
            PoolNote::Allocated { id, address, effort, took } => {
                self.counts.allocated += 1;
                self.took.push(Seconds::from_micros(sim_config::time::micros(*took)));
                self.answered(at, id, Ended { result: Ok(address.clone()), effort: *effort, took: *took });
                if self.is_known() && !self.is_recorded(id) {
                    self.lose(id);
                }
            }
            PoolNote::Refused { id, why, effort, took } => {
                self.counts.refused += 1;
                self.answered(at, id, Ended { result: Err(*why), effort: *effort, took: *took });
            }
            PoolNote::Told { id, address } => self.calls.hold(id, address),
            PoolNote::Ended { id, .. } => self.calls.end(id),
            PoolNote::ReleaseBegun { id, .. } => {
                self.calls.release(id);
            }
            PoolNote::ReleaseEnded { effort, .. } => {
                self.counts.releases += 1;
                self.counts.other_conflicts += u64::from(effort.conflicts);
                self.counts.other_exhausted += u64::from(effort.exhausted);
                self.mutex_wait += effort.mutex_wait;
            }
            PoolNote::RecoverEnded { effort, of_call: false, .. } => {
                self.counts.recoveries += 1;
                self.counts.recovery_conflicts += u64::from(effort.conflicts);
                self.counts.recovery_exhausted += u64::from(effort.exhausted);
                self.mutex_wait += effort.mutex_wait;
            }
            PoolNote::Vm { change: VmChange::Rebooting { tenant: Some(tenant), fence }, .. } => {
                let serves = self.calls.get(tenant).is_some_and(|call| call.holds.is_some() && !call.released);
                self.counts.foreign_reboots += u64::from(serves && fence.as_ref() != Some(tenant));
            }
            _ => {}
        }
    }

    fn answered(&mut self, at: SimTime, id: &Arc<str>, mut ended: Ended) {
        if let Some(call) = self.calls.get_mut(id) {
            ended.effort = call.with_lock(ended.effort);
        }
        let Effort { reads, writes, conflicts, create_races, exhausted, probes, mutex_wait } = ended.effort;
        self.counts.reads += u64::from(reads);
        self.counts.attempts += u64::from(writes);
        self.counts.conflicts += u64::from(conflicts);
        self.counts.create_races += u64::from(create_races);
        self.counts.probes += u64::from(probes);
        self.counts.exhausted += u64::from(exhausted);
        self.mutex_wait += mutex_wait;
        self.ended = at;
        if let Some(call) = self.calls.get_mut(id) {
            if call.repeated {
                self.counts.repeated_conflicts += u64::from(conflicts);
                self.counts.repeated_exhausted += u64::from(exhausted);
            }
            call.ended = Some(ended);
        }
    }

    /// Handles the loss of the record of `id`.
    fn lose(&mut self, id: &str) {
        if let Some(call) = self.calls.get_mut(id)
            && call.counts_on_its_record()
            && !call.lost
        {
            call.lost = true;
            self.counts.lost += 1;
        }
    }

    fn commit(&mut self, number: usize, by_pool: bool, before: Option<&Obj>, after: Option<&Obj>) {
        self.pools[number].last = after.cloned();
        let (old, new) = (document(before), document(after));
        match (old, new) {
            (Some(old), Some(new)) if by_pool => {
                for change in old.allocated.diff(&new.allocated) {
                    if let RecordChange::Removed(id, _) = change {
                        self.lose(id);
                    }
                }
            }
            (None, Some(new)) if by_pool => {
                let missing =
                    self.calls.unordered().map(|(id, _)| id).filter(|id| new.allocated.get(id).is_none() && !self.is_recorded(id));
                let missing: Vec<Arc<str>> = missing.cloned().collect();
                missing.iter().for_each(|id| self.lose(id));
            }
            _ => {}
        }
        if new.is_none() {
            // The version of a lost document starts over.
            self.pools[number].last_version = None;
        }
        if let Some(new) = new {
            let last = self.pools[number].last_version.or(old.map(|old| old.version));
            // A write that only touches labels writes no version.
            let same = old.is_some_and(|old| old == new);
            self.counts.stuck_versions += u64::from(by_pool && !same && last.is_some_and(|last| new.version <= last));
            self.pools[number].last_version = Some(new.version);
        }
        self.pools[number].committed = true;
    }

    /// The figures at the end of the run. With `calls`, each call separately: `rt` names their processes.
    pub fn finish(&mut self, calls: Option<&Rt>) -> PoolRun {
        let recorded = |id: &str| self.is_recorded(id);
        let mut counts = self.counts;
        counts.shared_addresses = self.calls.shared_addresses;
        for (id, call) in self.calls.unordered() {
            counts.sharing += u64::from(call.shared);
            if self.is_known() {
                counts.lost_at_end += u64::from(call.counts_on_its_record() && !recorded(id));
                counts.leaked += u64::from(call.holds.is_none() && recorded(id));
            }
        }
        PoolRun {
            counts,
            took: std::mem::take(&mut self.took),
            mutex_wait: self.mutex_wait.into(),
            began: Seconds::from_micros(self.began.unwrap_or_default().as_micros()),
            makespan: self.began.map_or(Seconds::ZERO, |began| self.ended.since(began).into()),
            calls: calls.map(|rt| self.told(rt)).unwrap_or_default(),
            queue: None,
            met_fault: false,
        }
    }

    /// The single calls, by time and ID.
    fn told(&self, rt: &Rt) -> Vec<PoolCall> {
        let mut calls: Vec<PoolCall> = Vec::new();
        for (id, call) in self.calls.sorted() {
            let effort = call.ended.as_ref().map(|ended| ended.effort).unwrap_or_default();
            calls.push(PoolCall {
                process: rt.process_name(call.process).to_string(),
                id: id.to_string(),
                started: Seconds::from_micros(call.asked.as_micros()),
                took: call.ended.as_ref().map(|ended| ended.took.into()),
                outcome: match call.ended.as_ref().map(|ended| &ended.result) {
                    None => "unanswered".to_owned(),
                    Some(Ok(_)) => "allocated".to_owned(),
                    Some(Err(why)) => why.name().to_owned(),
                },
                address: call.ended.as_ref().and_then(|ended| ended.result.as_ref().ok()).map(ToString::to_string),
                reads: effort.reads,
                attempts: effort.writes,
                conflicts: effort.conflicts,
                create_races: effort.create_races,
                probes: effort.probes,
                exhausted: effort.exhausted,
                mutex_wait: effort.mutex_wait.into(),
                lost: call.lost,
                shared: call.shared,
            });
        }
        calls.sort_by_key(|call| call.started);
        calls
    }
}

impl Metric for PoolMetrics {
    fn interest(&self) -> Interest {
        Self::INTEREST
    }

    fn observe(&mut self, event: &Event<'_>) {
        self.observe(event);
    }

    fn finish(&mut self, end: &RunEnd<'_>, figures: &mut Figures) {
        figures.pool = Some(self.finish(end.options.calls.then_some(end.rt)));
    }
}
