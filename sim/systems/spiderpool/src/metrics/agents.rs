//! The effects that agents with shared pools have on each other: calls, conflicts, and lost records.

use std::net::IpAddr;
use std::sync::Arc;

use ipam_reports::Seconds;
use ipam_reports::pool::{PoolCounts, PoolRun};
use ipam_spiderpool::{PoolIPAllocations, SpiderIPPool};
use kube_machinery::FxHashMap;
use kube_sim::kinds::{KindId, Registry};
use kube_sim::object::{Obj, typed_ref};
use kube_sim::trace::{Event, EventKind, Interest};
use sim_config::time::{SimTime, micros};
use sim_harness::system::{Figures, Metric, RunEnd};

use crate::workload::{IpamNote, ReclaimNote, Refusal};

/// A pod that was told an address and relies on its record.
struct Told {
    uid: Arc<str>,
    lost: bool,
    shared: bool,
}

/// Counts the operations of Spiderpool's agents on their pools, as `sim_byom::metrics::PoolMetrics` does for adaptors. A call is an ADD
/// that an agent accepts, an attempt is one at a pool. A kubelet asks again until its pod is served, so there may be more calls than pods.
pub struct AgentMetrics {
    pools: KindId,
    counts: PoolCounts,
    took: Vec<Seconds>,
    began: Option<SimTime>,
    ended: SimTime,
    /// By pool and address, the pods that were told the address and have not begun to give it back.
    told: FxHashMap<(Arc<str>, IpAddr), Vec<Told>>,
    shared_addresses: u64,
    /// By pod, whether it has been asked for more than once.
    asked: FxHashMap<Arc<str>, bool>,
    /// The pools as they were last committed, by name.
    last: FxHashMap<Arc<str>, Obj>,
}

/// The records of a pool, if it has any that can be read.
pub(super) fn records(pool: &Obj) -> Option<&PoolIPAllocations> {
    typed_ref::<SpiderIPPool>(&**pool).status.as_ref()?.allocated_ips.parse().ok()
}

impl AgentMetrics {
    /// The events that this metric observes.
    pub const INTEREST: Interest = Interest::NOTE.and(Interest::COMMIT);

    /// The metrics of the pools in `registry`.
    pub fn new(registry: &Registry) -> Self {
        Self {
            pools: registry.id::<SpiderIPPool>(),
            counts: PoolCounts::default(),
            took: Vec::new(),
            began: None,
            ended: SimTime::ZERO,
            told: FxHashMap::default(),
            shared_addresses: 0,
            asked: FxHashMap::default(),
            last: FxHashMap::default(),
        }
    }

    /// Processes an event: notes of agents, releases that replicas announce, and commits of pools. Others change nothing.
    pub fn observe(&mut self, event: &Event<'_>) {
        match event.kind {
            EventKind::Note { note, .. } => {
                if let Some(note) = note.downcast_ref() {
                    self.note(event.at, note);
                } else if let Some(ReclaimNote::ReleaseBegun { what, .. }) = note.downcast_ref() {
                    what.iter().for_each(|target| self.given_back(&target.pool, target.ip, &target.uid));
                }
            }
            EventKind::Commit { kind, key, before, after, .. } if kind == self.pools => self.commit(key.name(), before, after),
            _ => {}
        }
    }

    fn note(&mut self, at: SimTime, note: &IpamNote) {
        match note {
            IpamNote::AddBegun { uid, .. } => {
                self.counts.calls += 1;
                match self.asked.get_mut(uid) {
                    Some(again) => {
                        *again = true;
                        self.counts.repeated += 1;
                    }
                    None => drop(self.asked.insert(uid.clone(), false)),
                }
                self.began.get_or_insert(at);
            }
            IpamNote::AddEnded { uid, result, conflicts, attempts, took, .. } => {
                self.counts.attempts += u64::from(*attempts);
                self.counts.conflicts += u64::from(*conflicts);
                let repeated = self.asked.get(uid) == Some(&true);
                self.counts.repeated_conflicts += if repeated { u64::from(*conflicts) } else { 0 };
                self.ended = at;
                match result {
                    Ok(given) => {
                        self.counts.allocated += 1;
                        self.took.push(Seconds::from_micros(micros(*took)));
                        given.iter().for_each(|given| self.tell(&given.pool, given.address, uid));
                    }
                    Err(refusal) => {
                        self.counts.refused += 1;
                        let exhausted = *refusal == Refusal::RetriesExhausted;
                        self.counts.exhausted += u64::from(exhausted);
                        self.counts.repeated_exhausted += u64::from(exhausted && repeated);
                    }
                }
            }
            IpamNote::ReleaseBegun { uid, what, .. } => what.iter().for_each(|(pool, address)| self.given_back(pool, *address, uid)),
            IpamNote::DelEnded { conflicts, exhausted, .. } => {
                self.counts.releases += 1;
                self.counts.other_conflicts += u64::from(*conflicts);
                self.counts.other_exhausted += u64::from(*exhausted);
            }
            _ => {}
        }
    }

    fn tell(&mut self, pool: &Arc<str>, address: IpAddr, uid: &Arc<str>) {
        let all = self.told.entry((pool.clone(), address)).or_default();
        // A repeated request gets the same answer.
        if all.iter().any(|told| told.uid == *uid) {
            return;
        }
        all.push(Told { uid: uid.clone(), lost: false, shared: false });
        if all.len() > 1 {
            self.shared_addresses += u64::from(all.len() == 2);
            for told in all {
                self.counts.sharing += u64::from(!std::mem::replace(&mut told.shared, true));
            }
        }
    }

    fn given_back(&mut self, pool: &Arc<str>, address: IpAddr, uid: &Arc<str>) {
        if let Some(all) = self.told.get_mut(&(pool.clone(), address)) {
            all.retain(|told| told.uid != *uid);
        }
    }

    fn commit(&mut self, name: &str, before: Option<&Obj>, after: Option<&Obj>) {
        if let Some((before, after)) = before.and_then(records).zip(after.and_then(records)) {
            for edit in before.diff(after) {
                let (Some(address), Some(record)) = (edit.key.address(), edit.before) else { continue };
                let uid = &record.pod_uid;
                if edit.after.is_some_and(|later| later.pod_uid == *uid) {
                    continue;
                }
                let told = self.told.get_mut(&(Arc::from(name), address)).and_then(|all| all.iter_mut().find(|told| *told.uid == **uid));
                if let Some(told) = told {
                    self.counts.lost += u64::from(!std::mem::replace(&mut told.lost, true));
                }
            }
        }
        match (after, self.last.get_mut(name)) {
            (Some(after), Some(last)) => last.clone_from(after),
            (Some(after), None) => drop(self.last.insert(name.into(), after.clone())),
            (None, _) => drop(self.last.remove(name)),
        }
    }

    /// The result at the end of the run.
    pub fn finish(&mut self) -> PoolRun {
        let mut counts = self.counts;
        counts.shared_addresses = self.shared_addresses;
        for ((pool, address), all) in &self.told {
            let records = self.last.get(pool).and_then(records);
            let holder = records.and_then(|records| records.get(*address)).map(|record| &*record.pod_uid);
            counts.lost_at_end += all.iter().filter(|told| holder != Some(&*told.uid)).count() as u64;
        }
        PoolRun {
            counts,
            took: std::mem::take(&mut self.took),
            mutex_wait: Seconds::ZERO,
            began: Seconds::from_micros(self.began.unwrap_or_default().as_micros()),
            makespan: self.began.map_or(Seconds::ZERO, |began| self.ended.since(began).into()),
            calls: Vec::new(),
            queue: None,
            met_fault: false,
        }
    }
}

impl Metric for AgentMetrics {
    fn interest(&self) -> Interest {
        Self::INTEREST
    }

    fn observe(&mut self, event: &Event<'_>) {
        self.observe(event);
    }

    fn finish(&mut self, _: &RunEnd<'_>, figures: &mut Figures) {
        figures.pool = Some(self.finish());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ipam_spiderpool::PoolIPAllocation;
    use ipam_spiderpool::ipam::DelOutcome;
    use kube_machinery::ObjectKey;
    use kube_machinery::api::Verb;
    use serde_json::json;

    use super::*;
    use crate::workload::{Cause, Given, How};
    use kube_sim::rt::ProcessId;

    struct Stage {
        registry: Registry,
        metrics: AgentMetrics,
    }

    fn ip() -> IpAddr {
        "10.0.0.1".parse().unwrap()
    }

    fn pool(uid: Option<&str>) -> Obj {
        let mut pool: SpiderIPPool = serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {"subnet": "10.0.0.0/24"}})).unwrap();
        let records = pool.status.get_or_insert_default().allocated_ips.make_mut().unwrap();
        if let Some(uid) = uid {
            records.insert(ip(), PoolIPAllocation { interface: None, pod: "ns/a".to_owned(), pod_uid: uid.to_owned() });
        }
        Arc::new(pool)
    }

    impl Stage {
        fn new() -> Self {
            let registry = sim_harness::served::registry();
            let metrics = AgentMetrics::new(&registry);
            Self { registry, metrics }
        }

        fn note(&mut self, seconds: u64, note: IpamNote) {
            let kind = EventKind::Note { process: ProcessId(1), note: &note };
            self.metrics.observe(&Event { at: SimTime::from_secs(seconds), kind });
        }

        fn asks(&mut self, uid: &str) {
            self.note(1, IpamNote::AddBegun { pod: "ns/a".into(), uid: uid.into(), container: uid.into(), nic: "eth0".into() });
        }

        fn answers(&mut self, uid: &str, result: Result<(), Refusal>) {
            let given = || Arc::from([Given { nic: "eth0".into(), pool: "p".into(), address: ip(), gateway: None }]);
            let (pod, container, nic, took) = ("ns/a".into(), uid.into(), "eth0".into(), Duration::from_millis(20));
            let result = result.map(|()| given());
            let how = How::Fresh;
            self.note(
                3,
                IpamNote::AddEnded {
                    pod,
                    uid: uid.into(),
                    container,
                    nic,
                    result,
                    routes: [].into(),
                    how,
                    conflicts: 2,
                    attempts: 3,
                    took,
                },
            );
        }

        fn stores(&mut self, before: Option<&str>, after: Option<&str>) {
            let key = ObjectKey::cluster("p");
            let kind = EventKind::Commit {
                client: ProcessId(1),
                server: ProcessId(0),
                verb: Verb::Update,
                kind: self.registry.id::<SpiderIPPool>(),
                key: &key,
                revision: 1,
                before: Some(&pool(before)),
                after: Some(&pool(after)),
                content: 0,
            };
            self.metrics.observe(&Event { at: SimTime::from_secs(2), kind });
        }
    }

    #[test]
    fn calls_conflicts_and_those_that_give_up_are_counted() {
        let mut stage = Stage::new();
        stage.asks("a");
        stage.stores(None, Some("a"));
        stage.answers("a", Ok(()));
        stage.asks("b");
        stage.answers("b", Err(Refusal::RetriesExhausted));
        // Its kubelet asks again.
        stage.asks("b");
        stage.answers("b", Err(Refusal::RetriesExhausted));
        let run = stage.metrics.finish();
        let counts = run.counts;
        assert_eq!((counts.calls, counts.allocated, counts.refused, counts.exhausted), (3, 1, 2, 2));
        assert_eq!((counts.repeated, counts.repeated_conflicts, counts.repeated_exhausted), (1, 2, 1));
        assert_eq!((counts.attempts, counts.conflicts, counts.lost_at_end), (9, 6, 0));
        assert_eq!((run.took, run.makespan), (vec![Seconds::from_micros(20_000)], Seconds::from_micros(2_000_000)));
    }

    #[test]
    fn a_record_that_goes_without_its_release_is_lost_and_one_address_for_two_is_shared() {
        let mut stage = Stage::new();
        stage.stores(None, Some("a"));
        stage.answers("a", Ok(()));
        stage.stores(Some("a"), Some("b"));
        stage.answers("b", Ok(()));
        let counts = stage.metrics.finish().counts;
        assert_eq!((counts.lost, counts.lost_at_end, counts.sharing, counts.shared_addresses), (1, 1, 2, 1));
    }

    #[test]
    fn what_releases_meet_is_counted_apart_from_calls() {
        let mut stage = Stage::new();
        for (conflicts, exhausted) in [(0, false), (2, false), (5, true)] {
            let (pod, nic) = ("ns/a".into(), "eth0".into());
            stage.note(
                4,
                IpamNote::DelEnded {
                    pod,
                    uid: "a".into(),
                    container: "a".into(),
                    nic,
                    outcome: (!exhausted).then_some(DelOutcome::Released),
                    conflicts,
                    exhausted,
                },
            );
        }
        let counts = stage.metrics.finish().counts;
        assert_eq!((counts.releases, counts.other_conflicts, counts.other_exhausted), (3, 7, 1));
        assert_eq!((counts.calls, counts.conflicts, counts.exhausted), (0, 0, 0));
    }

    #[test]
    fn what_is_given_back_is_not_lost() {
        let mut stage = Stage::new();
        stage.stores(None, Some("a"));
        stage.answers("a", Ok(()));
        let what = Arc::from([("p".into(), ip())]);
        stage.note(4, IpamNote::ReleaseBegun { pod: "ns/a".into(), uid: "a".into(), asked: "a".into(), cause: Cause::Del, what });
        stage.stores(Some("a"), None);
        let counts = stage.metrics.finish().counts;
        assert_eq!((counts.lost, counts.lost_at_end), (0, 0));
    }
}
