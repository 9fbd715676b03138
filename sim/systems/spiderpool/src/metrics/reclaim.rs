//! Times between reclaim's removals of records and the ends of sandboxes and of pods' entitlements (G §10).
//!
//! ```text
//!  kubelets' notes ──► silence: who answers on what, and until when ─┐
//!  commits of pods ──► entitlements: how long a pod had one ─────────┼─► a removal: margin, delay
//!  replicas' notes ──► announced: which record, on which way, why ───┘
//!  commits of pools, by who announced ──► the removal itself
//! ```

use std::net::IpAddr;
use std::sync::Arc;

use ipam_reports::Seconds;
use ipam_reports::reclaim::{Effort, ReclaimPath, ReclaimRun, Reclaimed};
use ipam_reports::spread::Margin;
use ipam_spiderpool::reclaim::{ReclaimSettings, Releaser, Row};
use ipam_spiderpool::{PoolIPAllocations, SpiderIPPool};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube_machinery::api::Verb;
use kube_machinery::kubevirt::{VirtualMachine, VirtualMachineInstance};
use kube_machinery::{FxHashMap, FxHashSet};
use kube_sim::kinds::{KindId, Registry};
use kube_sim::object::{Obj, typed_ref};
use kube_sim::rt::ProcessId;
use kube_sim::trace::{Event, EventKind, Interest};
use sim_config::time::SimTime;
use sim_harness::system::{Figures, Metric, RunEnd};

use super::agents::records;
use super::entitlement::Entitlement;
use super::silence::{Silence, Sound};
use crate::workload::ReclaimNote;

/// A record whose removal a replica has announced.
struct Announced {
    address: IpAddr,
    uid: Arc<str>,
    path: ReclaimPath,
    key: Arc<str>,
    row: Row,
}

/// A removal. Its margin may not be known before the end of the run.
struct Removal {
    at: SimTime,
    uid: Arc<str>,
    /// The pod's activity on the address at the removal.
    sound: Option<Sound>,
    reclaimed: Reclaimed,
}

/// Measures what the replicas of Spiderpool's controller reclaim. The cost is proportional to the ends of pods, sandboxes and releases;
/// other writes of pools are skipped.
///
/// A sandbox belongs to a record by the UID of its pod. A sandbox that begins to answer only after the removal does not affect the margin.
pub struct ReclaimMetrics {
    pods: KindId,
    pools: KindId,
    settings: ReclaimSettings,
    silence: Silence,
    /// The entitlements of pods that are ending, by UID.
    entitlements: FxHashMap<Arc<str>, Entitlement>,
    /// By replica and pool, the announced removals that have not happened yet.
    announced: FxHashMap<ProcessId, FxHashMap<Arc<str>, Vec<Announced>>>,
    removals: Vec<Removal>,
    /// The types whose objects keep addresses.
    owners: [KindId; 3],
    /// The replicas of the controller, which scan.
    replicas: FxHashSet<ProcessId>,
    effort: Effort,
}

impl ReclaimMetrics {
    /// The events that this metric observes.
    pub const INTEREST: Interest = Interest::NOTE.and(Interest::COMMIT).and(Interest::REQUEST);

    /// The metrics of replicas with these settings.
    pub fn new(settings: ReclaimSettings, registry: &Registry) -> Self {
        Self {
            pods: registry.id::<Pod>(),
            pools: registry.id::<SpiderIPPool>(),
            settings,
            silence: Silence::default(),
            entitlements: FxHashMap::default(),
            announced: FxHashMap::default(),
            removals: Vec::new(),
            owners: [registry.id::<StatefulSet>(), registry.id::<VirtualMachine>(), registry.id::<VirtualMachineInstance>()],
            replicas: FxHashSet::default(),
            effort: Effort::default(),
        }
    }

    /// Processes an event: notes of kubelets and replicas, reads of owners, and commits of pods and pools. Others change nothing.
    pub fn observe(&mut self, event: &Event<'_>) {
        match event.kind {
            EventKind::Note { process, note } => {
                if let Some(note) = note.downcast_ref() {
                    self.silence.note(note, event.at);
                } else if let Some(note) = note.downcast_ref() {
                    self.note(process, note);
                }
            }
            EventKind::Request { client, verb: Verb::Get, kind, .. } if self.owners.contains(&kind) => {
                self.effort.owner_reads += u64::from(self.replicas.contains(&client));
            }
            EventKind::Commit { kind, before, after, .. } if kind == self.pods => self.pod(event.at, before, after),
            EventKind::Commit { client, kind, key, before, after, .. } if kind == self.pools => {
                self.pool(event.at, client, key.name(), before, after);
            }
            _ => {}
        }
    }

    fn note(&mut self, process: ProcessId, note: &ReclaimNote) {
        match note {
            ReclaimNote::ReleaseBegun { by, key, what, row, .. } => {
                let pools = self.announced.entry(process).or_default();
                for target in what.iter() {
                    let path = match by {
                        Releaser::Scan => ReclaimPath::Scan,
                        Releaser::Trace => ReclaimPath::Trace,
                        Releaser::Sweep => ReclaimPath::Sweep,
                    };
                    let announced = pools.entry(target.pool.clone()).or_default();
                    announced.retain(|old| old.address != target.ip || old.uid != target.uid);
                    announced.push(Announced { address: target.ip, uid: target.uid.clone(), path, key: key.clone(), row: *row });
                }
            }
            ReclaimNote::ScanBegun { leading, .. } => {
                self.replicas.insert(process);
                self.effort.scans += 1;
                self.effort.standby_scans += u64::from(!leading);
            }
            // Writes of a release that failed may still take effect later.
            ReclaimNote::ReleaseEnded { key, ok: true, .. } => {
                let Some(pools) = self.announced.get_mut(&process) else { return };
                pools.retain(|_, announced| {
                    announced.retain(|announced| announced.key != *key);
                    !announced.is_empty()
                });
            }
            _ => {}
        }
    }

    fn pod(&mut self, at: SimTime, before: Option<&Obj>, after: Option<&Obj>) {
        let Some(pod) = after.or(before).map(|object| typed_ref::<Pod>(&**object)) else { return };
        let gone = after.is_none();
        if !Entitlement::is_touched(pod, gone) {
            return;
        }
        let Some(uid) = pod.metadata.uid.as_deref() else { return };
        let entitlement = match self.entitlements.get_mut(uid) {
            Some(entitlement) => entitlement,
            None => self.entitlements.entry(uid.into()).or_default(),
        };
        entitlement.learn(pod, gone, at, self.settings.grace_delay);
    }

    fn pool(&mut self, at: SimTime, client: ProcessId, name: &str, before: Option<&Obj>, after: Option<&Obj>) {
        let Some(announced) = self.announced.get_mut(&client).and_then(|pools| pools.get_mut(name)) else { return };
        // Deleting a pool is no reclaim.
        let (Some(before), Some(after)) = (before, after) else { return };
        let [before, after] = [before, after].map(|object| records(object));
        let holds = |records: Option<&PoolIPAllocations>, announced: &Announced| {
            records.and_then(|records| records.get(announced.address)).is_some_and(|record| *record.pod_uid == *announced.uid)
        };
        let gone = |announced: &mut Announced| holds(before, announced) && !holds(after, announced);
        for Announced { address, uid, path, key, row } in announced.extract_if(.., gone) {
            let entitlement = self.entitlements.get(&uid).and_then(|entitlement| entitlement.end(self.settings.grace_delay));
            let sound = self.silence.of(&uid, address);
            let reclaimed = Reclaimed {
                at: Seconds::from_micros(at.as_micros()),
                path,
                row: row.code().into(),
                pool: name.into(),
                address,
                pod: key,
                margin: None,
                answered: matches!(sound, Some(Sound::Answers(_))),
                delay: entitlement.map(|entitlement| between(entitlement.at, at)),
                end: entitlement.map(|entitlement| entitlement.by),
                bound: entitlement
                    .map(|entitlement| Seconds::from_micros(entitlement.bound(path, &self.settings).as_micros().max(0) as u64)),
            };
            self.removals.push(Removal { at, uid, sound, reclaimed });
        }
    }

    /// The result at the end of the run.
    pub fn finish(&mut self, end: SimTime) -> ReclaimRun {
        let mut records = Vec::with_capacity(self.removals.len());
        for Removal { at, uid, sound, mut reclaimed } in std::mem::take(&mut self.removals) {
            let silent = sound.map(|sound| match sound {
                Sound::Silent(since) => since,
                Sound::Answers(before) => self.silence.after(&uid, reclaimed.address, before).unwrap_or(end),
            });
            reclaimed.margin = silent.map(|silent| between(silent, at));
            records.push(reclaimed);
        }
        ReclaimRun { records, effort: self.effort }
    }
}

fn between(earlier: SimTime, later: SimTime) -> Margin {
    Margin::between(earlier.as_micros(), later.as_micros())
}

impl Metric for ReclaimMetrics {
    fn interest(&self) -> Interest {
        Self::INTEREST
    }

    fn observe(&mut self, event: &Event<'_>) {
        self.observe(event);
    }

    fn finish(&mut self, end: &RunEnd<'_>, figures: &mut Figures) {
        figures.reclaim = Some(self.finish(end.at));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ipam_spiderpool::reclaim::Target;
    use ipam_spiderpool::{Policy, PoolIPAllocation};
    use jiff::SignedDuration;
    use kube_machinery::{Object, ObjectKey};
    use serde_json::json;

    use super::*;
    use kube_sim::cluster::{EPOCH, later};
    use kube_sim::node::PodNote;
    use kube_sim::trace::Note;

    const ADDRESS: &str = "10.0.0.1";

    /// One pod `a` with one address of one pool, and a replica that reclaims it.
    struct Stage {
        registry: Registry,
        metrics: ReclaimMetrics,
        now: SimTime,
    }

    const REPLICA: ProcessId = ProcessId(1);
    const OTHER: ProcessId = ProcessId(2);

    fn pool(uids: &[&str]) -> Obj {
        let mut pool: SpiderIPPool = serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {"subnet": "10.0.0.0/24"}})).unwrap();
        let records = pool.status.get_or_insert_default().allocated_ips.make_mut().unwrap();
        for uid in uids {
            records.insert(ip(), PoolIPAllocation { interface: None, pod: "ns/a".to_owned(), pod_uid: (*uid).to_owned() });
        }
        Arc::new(pool)
    }

    fn ip() -> IpAddr {
        ADDRESS.parse().unwrap()
    }

    impl Stage {
        fn new(grace_delay: i64) -> Self {
            let registry = sim_harness::served::registry();
            let mut settings = ReclaimSettings::new(&Policy::hardened());
            settings.grace_delay = SignedDuration::from_secs(grace_delay);
            let metrics = ReclaimMetrics::new(settings, &registry);
            let mut stage = Self { registry, metrics, now: SimTime::from_secs(1) };
            stage.kubelet(PodNote::SandboxStarted { sandbox: "s".into(), pod: ObjectKey::namespaced("ns", "a"), uid: "a".into() });
            stage.kubelet(PodNote::Attached { sandbox: "s".into(), nic: "eth0".into(), addresses: [ip()].into() });
            stage
        }

        fn at(&mut self, seconds: u64) {
            self.now = SimTime::from_secs(seconds);
        }

        fn note(&mut self, note: &dyn Note) {
            self.metrics.observe(&Event { at: self.now, kind: EventKind::Note { process: REPLICA, note } });
        }

        fn kubelet(&mut self, note: PodNote) {
            self.note(&note);
        }

        fn commit<T: Object>(&mut self, client: ProcessId, key: &ObjectKey, before: Option<&Obj>, after: Option<&Obj>) {
            let kind = self.registry.id::<T>();
            let kind =
                EventKind::Commit { client, server: ProcessId(0), verb: Verb::Update, kind, key, revision: 1, before, after, content: 0 };
            self.metrics.observe(&Event { at: self.now, kind });
        }

        /// The pod is deleted at `seconds` with a grace of 30 s.
        fn terminate(&mut self, seconds: u64) {
            self.at(seconds);
            let ends = later(EPOCH, SignedDuration::from_secs(seconds as i64 + 30));
            let pod = json!({"metadata": {
                "name": "a", "namespace": "ns", "uid": "a", "deletionTimestamp": ends, "deletionGracePeriodSeconds": 30,
            }});
            let pod: Pod = serde_json::from_value(pod).unwrap();
            self.commit::<Pod>(OTHER, &ObjectKey::namespaced("ns", "a"), None, Some(&(Arc::new(pod) as Obj)));
        }

        fn vanish(&mut self, seconds: u64) {
            self.at(seconds);
            let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "a", "namespace": "ns", "uid": "a"}})).unwrap();
            self.commit::<Pod>(OTHER, &ObjectKey::namespaced("ns", "a"), Some(&(Arc::new(pod) as Obj)), None);
        }

        fn announce(&mut self, by: Releaser) {
            let what = Arc::from([Target { pool: "p".into(), ip: ip(), uid: "a".into() }]);
            self.note(&ReclaimNote::ReleaseBegun { by, key: "ns/a".into(), what, endpoint: false, row: Row::NoPod });
        }

        fn remove(&mut self, client: ProcessId, seconds: u64) {
            self.at(seconds);
            self.commit::<SpiderIPPool>(client, &ObjectKey::cluster("p"), Some(&pool(&["a"])), Some(&pool(&[])));
        }

        /// Path, margin, whether the address was answered on, and delay; times in seconds.
        fn figures(mut self) -> Vec<(ReclaimPath, Option<i64>, bool, Option<i64>)> {
            let run = self.metrics.finish(SimTime::ZERO + Duration::from_secs(1_000));
            let seconds = |margin: Margin| margin.as_micros() / 1_000_000;
            run.records.iter().map(|record| (record.path, record.margin.map(seconds), record.answered, record.delay.map(seconds))).collect()
        }
    }

    #[test]
    fn a_removal_after_the_sandbox_has_a_positive_margin() {
        let mut stage = Stage::new(0);
        stage.vanish(10);
        stage.at(12);
        stage.kubelet(PodNote::DelAsked { sandbox: "s".into(), nic: "eth0".into(), netns: true });
        stage.at(14);
        stage.kubelet(PodNote::SandboxGone { sandbox: "s".into() });
        stage.announce(Releaser::Scan);
        stage.remove(REPLICA, 40);
        assert_eq!(stage.figures(), [(ReclaimPath::Scan, Some(28), false, Some(30))]);
    }

    #[test]
    fn a_removal_before_the_sandbox_is_silent_has_a_negative_margin_until_then_or_until_the_end() {
        for (silent, margin) in [(Some(50), -10), (None, -960)] {
            let mut stage = Stage::new(5);
            stage.terminate(5);
            stage.announce(Releaser::Trace);
            stage.remove(REPLICA, 40);
            if let Some(seconds) = silent {
                stage.at(seconds);
                stage.kubelet(PodNote::SandboxGone { sandbox: "s".into() });
            }
            // Its entitlement ended at 5 s + 30 s + 30 s + 5 s.
            assert_eq!(stage.figures(), [(ReclaimPath::Trace, Some(margin), true, Some(-30))]);
        }
    }

    #[test]
    fn what_never_answered_has_no_margin_and_what_lives_has_no_delay() {
        let mut stage = Stage::new(0);
        stage.metrics.silence = Silence::default();
        stage.announce(Releaser::Sweep);
        stage.remove(REPLICA, 40);
        assert_eq!(stage.figures(), [(ReclaimPath::Sweep, None, false, None)]);
    }

    #[test]
    fn only_who_announced_reclaims_and_only_once() {
        let mut stage = Stage::new(0);
        stage.vanish(10);
        stage.announce(Releaser::Scan);
        stage.announce(Releaser::Trace);
        stage.remove(OTHER, 20);
        stage.remove(REPLICA, 30);
        stage.remove(REPLICA, 31);
        assert_eq!(stage.figures(), [(ReclaimPath::Trace, Some(-970), true, Some(20))]);
    }

    #[test]
    fn a_release_that_failed_may_still_come_true_and_one_that_succeeded_is_over() {
        for (ok, count) in [(false, 1), (true, 0)] {
            let mut stage = Stage::new(0);
            stage.announce(Releaser::Scan);
            stage.note(&ReclaimNote::ReleaseEnded { by: Releaser::Scan, key: "ns/a".into(), ok });
            stage.remove(REPLICA, 30);
            assert_eq!(stage.figures().len(), count);
        }
    }
}
