//! The number of recorded addresses by the state of their pods: alive, ending, or gone.

use std::sync::Arc;

use ipam_reports::Seconds;
use ipam_reports::addresses::{AddressRun, Held, Sample};
use ipam_spiderpool::{PoolIPAllocations, SpiderIPPool};
use k8s_openapi::api::core::v1::Pod;
use kube_machinery::FxHashMap;
use kube_sim::kinds::{KindId, Registry};
use kube_sim::object::{Obj, typed_ref};
use kube_sim::trace::{Event, EventKind, Interest};
use sim_config::time::SimTime;
use sim_harness::system::{Figures, Metric, RunEnd};

use super::agents::records;
use crate::workload::{IpamNote, Refusal};

/// The number of samples that are kept of a run.
const SAMPLES: u64 = 300;

/// The state of a pod, and its requests and records.
#[derive(Clone, Copy, Default)]
struct Holder {
    records: u64,
    life: Life,
    /// The time of the first request for an address on the pod's behalf.
    asked: Option<SimTime>,
    served: bool,
    refused: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Life {
    #[default]
    Lives,
    /// The pod is terminating, or has ended.
    Ends,
    Gone,
}

/// Counts records by the state of their pods. The cost is proportional to the changes, whatever the size of pools.
pub struct AddressMetrics {
    pods: KindId,
    pools: KindId,
    /// The pods by the UID in their objects, in requests and in records.
    holders: FxHashMap<Arc<str>, Holder>,
    held: Held,
    run: AddressRun,
    /// The duration of a sample, in microseconds.
    width: u64,
}

impl AddressMetrics {
    /// The events that this metric observes.
    pub const INTEREST: Interest = Interest::NOTE.and(Interest::COMMIT);

    /// The metrics of a run that ends at `end`, whose pools have `capacity` addresses.
    pub fn new(registry: &Registry, capacity: u64, end: SimTime) -> Self {
        let run = AddressRun { capacity, ..AddressRun::default() };
        let width = (end.as_micros() / SAMPLES).max(1);
        let (pods, pools) = (registry.id::<Pod>(), registry.id::<SpiderIPPool>());
        Self { pods, pools, holders: FxHashMap::default(), held: Held::default(), run, width }
    }

    /// Processes an event: notes of agents, and commits of pods and pools. Others change nothing.
    pub fn observe(&mut self, event: &Event<'_>) {
        match event.kind {
            EventKind::Note { note, .. } => {
                if let Some(note) = note.downcast_ref() {
                    self.note(event.at, note);
                }
            }
            EventKind::Commit { kind, before, after, .. } if kind == self.pods => self.pod(event.at, before, after),
            EventKind::Commit { kind, before, after, .. } if kind == self.pools => self.pool(event.at, before, after),
            _ => {}
        }
    }

    fn holder(&mut self, uid: &str) -> &mut Holder {
        if !self.holders.contains_key(uid) {
            self.holders.insert(uid.into(), Holder::default());
        }
        self.holders.get_mut(uid).unwrap_or_else(|| unreachable!("it was just put there"))
    }

    fn note(&mut self, at: SimTime, note: &IpamNote) {
        match note {
            IpamNote::AddBegun { uid, .. } => {
                let holder = self.holder(uid);
                if holder.asked.is_none() {
                    holder.asked = Some(at);
                    self.run.asked += 1;
                }
            }
            IpamNote::AddEnded { uid, result: Ok(_), .. } => {
                let holder = self.holder(uid);
                if let Some(asked) = holder.asked.filter(|_| !holder.served) {
                    holder.served = true;
                    self.run.waited.push(at.since(asked).into());
                }
            }
            // A full pool is usually noticed before any pool is tried; then there is none to choose.
            IpamNote::AddEnded { uid, result: Err(Refusal::UsedOut | Refusal::NoPool), .. } => {
                let holder = self.holder(uid);
                if !std::mem::replace(&mut holder.refused, true) {
                    self.run.refused += 1;
                }
            }
            _ => {}
        }
    }

    fn pod(&mut self, at: SimTime, before: Option<&Obj>, after: Option<&Obj>) {
        let Some(pod) = after.or(before).map(|object| typed_ref::<Pod>(&**object)) else { return };
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let life = match after {
            None => Life::Gone,
            Some(_) if pod.metadata.deletion_timestamp.is_some() || matches!(phase, Some("Succeeded" | "Failed")) => Life::Ends,
            Some(_) => Life::Lives,
        };
        let Some(uid) = pod.metadata.uid.as_deref() else { return };
        let holder = self.holder(uid);
        let (records, was) = (holder.records, std::mem::replace(&mut holder.life, life));
        if was != life && records > 0 {
            let before = self.held;
            *self.count(was) -= records;
            *self.count(life) += records;
            self.sample(at, before);
        }
        if life == Life::Gone && records == 0 {
            self.forget(uid);
        }
    }

    /// Drops a pod that is gone and holds nothing: it does not appear again, unless it was asked for in vain.
    fn forget(&mut self, uid: &str) {
        if self.holders.get(uid).is_some_and(|holder| holder.served || holder.asked.is_none()) {
            self.holders.remove(uid);
        }
    }

    fn pool(&mut self, at: SimTime, before: Option<&Obj>, after: Option<&Obj>) {
        let nothing = PoolIPAllocations::default();
        let [old, new] = [before, after].map(|object| object.and_then(records).unwrap_or(&nothing));
        let before = self.held;
        for edit in old.diff(new) {
            let [old, new] = [edit.before, edit.after].map(|record| record.map(|record| record.pod_uid.as_str()));
            if old == new {
                continue;
            }
            if let Some(uid) = old {
                let holder = self.holder(uid);
                holder.records = holder.records.saturating_sub(1);
                let (life, records) = (holder.life, holder.records);
                let count = self.count(life);
                *count = count.saturating_sub(1);
                if life == Life::Gone && records == 0 {
                    self.forget(uid);
                }
            }
            if let Some(uid) = new {
                let holder = self.holder(uid);
                holder.records += 1;
                let life = holder.life;
                *self.count(life) += 1;
            }
        }
        // Sampled once per write, because an address that a write moves is never held twice.
        if self.held != before {
            self.sample(at, before);
        }
    }

    fn count(&mut self, life: Life) -> &mut u64 {
        match life {
            Life::Lives => &mut self.held.living,
            Life::Ends => &mut self.held.ending,
            Life::Gone => &mut self.held.leaked,
        }
    }

    /// Updates the peaks and the sample of this time with the addresses that are held now, after `before`.
    fn sample(&mut self, at: SimTime, before: Held) {
        let number = at.as_micros() / self.width;
        let (now, run) = (self.held, &mut self.run);
        run.peak = run.peak.max(now.total());
        run.peak_living = run.peak_living.max(now.living);
        run.peak_ending = run.peak_ending.max(now.ending);
        run.peak_leaked = run.peak_leaked.max(now.leaked);
        // Each sample keeps the maximum that was recorded at one time within it.
        let last = run.samples.last().map(|sample| sample.at.as_micros() / self.width);
        if last != Some(number) {
            let from = last.map_or(0, |last| last + 1);
            for empty in from..number {
                run.samples.push(Sample { at: Seconds::from_micros(empty * self.width), held: before });
            }
            run.samples.push(Sample { at: Seconds::from_micros(number * self.width), held: before });
        }
        if let Some(sample) = run.samples.last_mut().filter(|sample| now.total() >= sample.held.total()) {
            sample.held = now;
        }
    }

    /// The result at the end of the run.
    pub fn finish(&mut self, end: SimTime) -> AddressRun {
        let mut run = std::mem::take(&mut self.run);
        let next = run.samples.last().map_or(0, |sample| sample.at.as_micros() / self.width + 1);
        for number in next..end.as_micros().div_ceil(self.width) {
            run.samples.push(Sample { at: Seconds::from_micros(number * self.width), held: self.held });
        }
        run
    }
}

impl Metric for AddressMetrics {
    fn interest(&self) -> Interest {
        Self::INTEREST
    }

    fn observe(&mut self, event: &Event<'_>) {
        self.observe(event);
    }

    fn finish(&mut self, end: &RunEnd<'_>, figures: &mut Figures) {
        figures.addresses = Some(self.finish(end.at));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ipam_spiderpool::PoolIPAllocation;
    use kube_machinery::api::Verb;
    use kube_machinery::{Object, ObjectKey};
    use serde_json::json;

    use super::*;
    use crate::workload::How;
    use kube_sim::rt::ProcessId;

    /// A run of 300 s, so that a sample lasts one second.
    struct Stage {
        registry: Registry,
        metrics: AddressMetrics,
        pool: Obj,
    }

    fn pool(uids: &[&str]) -> Obj {
        let mut pool: SpiderIPPool = serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {"subnet": "10.0.0.0/24"}})).unwrap();
        let records = pool.status.get_or_insert_default().allocated_ips.make_mut().unwrap();
        for (number, uid) in (1..).zip(uids) {
            let ip = std::net::IpAddr::from([10, 0, 0, number]);
            records.insert(ip, PoolIPAllocation { interface: None, pod: "ns/a".to_owned(), pod_uid: (*uid).to_owned() });
        }
        Arc::new(pool)
    }

    impl Stage {
        fn new() -> Self {
            let registry = sim_harness::served::registry();
            let metrics = AddressMetrics::new(&registry, 10, SimTime::from_secs(300));
            Self { registry, metrics, pool: pool(&[]) }
        }

        fn commit<T: Object>(&mut self, seconds: u64, before: Option<&Obj>, after: Option<&Obj>) {
            let (kind, key) = (self.registry.id::<T>(), ObjectKey::cluster("p"));
            let kind = EventKind::Commit {
                client: ProcessId(0),
                server: ProcessId(0),
                verb: Verb::Update,
                kind,
                key: &key,
                revision: 1,
                before,
                after,
                content: 0,
            };
            self.metrics.observe(&Event { at: SimTime::from_secs(seconds), kind });
        }

        fn records(&mut self, seconds: u64, uids: &[&str]) {
            let after = pool(uids);
            let before = std::mem::replace(&mut self.pool, after.clone());
            self.commit::<SpiderIPPool>(seconds, Some(&before), Some(&after));
        }

        fn pod(&mut self, seconds: u64, uid: &str, terminating: bool, gone: bool) {
            let asked = terminating.then_some("2026-01-01T00:00:00Z");
            let pod: Pod = serde_json::from_value(json!({"metadata": {"name": uid, "uid": uid, "deletionTimestamp": asked}})).unwrap();
            let pod: Obj = Arc::new(pod);
            self.commit::<Pod>(seconds, Some(&pod), (!gone).then_some(&pod));
        }

        fn note(&mut self, seconds: u64, note: IpamNote) {
            let kind = EventKind::Note { process: ProcessId(1), note: &note };
            self.metrics.observe(&Event { at: SimTime::from_secs(seconds), kind });
        }

        fn asks(&mut self, seconds: u64, uid: &str) {
            self.note(seconds, IpamNote::AddBegun { pod: "ns/a".into(), uid: uid.into(), container: "c".into(), nic: "eth0".into() });
        }

        fn answer(&mut self, seconds: u64, uid: &str, refusal: Option<Refusal>) {
            let result = refusal.map_or_else(|| Ok(Arc::from([])), Err);
            let (pod, container, nic, took) = ("ns/a".into(), "c".into(), "eth0".into(), Duration::ZERO);
            let how = How::Fresh;
            self.note(
                seconds,
                IpamNote::AddEnded {
                    pod,
                    uid: uid.into(),
                    container,
                    nic,
                    result,
                    routes: [].into(),
                    how,
                    conflicts: 0,
                    attempts: 1,
                    took,
                },
            );
        }
    }

    #[test]
    fn a_record_is_counted_by_what_becomes_of_its_pod() {
        let mut stage = Stage::new();
        stage.records(10, &["a"]);
        stage.records(10, &["a", "b"]);
        stage.pod(20, "a", true, false);
        stage.pod(30, "a", true, true);
        stage.records(40, &["b", "b"]);
        let run = stage.metrics.finish(SimTime::from_secs(300));
        assert_eq!((run.peak, run.peak_living, run.peak_ending, run.peak_leaked, run.capacity), (2, 2, 1, 1, 10));
        let at = |seconds: usize| (run.samples[seconds].held.living, run.samples[seconds].held.ending, run.samples[seconds].held.leaked);
        assert_eq!(run.samples.len(), 300);
        assert_eq!([at(9), at(10), at(15), at(25), at(35), at(299)], [(0, 0, 0), (2, 0, 0), (2, 0, 0), (1, 1, 0), (1, 0, 1), (2, 0, 0)]);
    }

    #[test]
    fn pods_wait_from_their_first_request_and_are_refused_once() {
        let mut stage = Stage::new();
        stage.asks(1, "a");
        stage.answer(2, "a", Some(Refusal::UsedOut));
        stage.asks(3, "a");
        stage.answer(4, "a", Some(Refusal::NoPool));
        stage.asks(5, "a");
        stage.answer(6, "a", None);
        stage.asks(7, "a");
        stage.answer(8, "a", None);
        let run = stage.metrics.finish(SimTime::from_secs(300));
        assert_eq!((run.asked, run.refused, run.waited), (1, 1, vec![Seconds::from_micros(5_000_000)]));
    }
}
