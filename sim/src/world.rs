//! A run: a plan turned into a cluster, its actors and its faults, and what came of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ipam_byom::PoolConfigMap;
use ipam_reports::Digest;
use ipam_reports::addresses::AddressRun;
use ipam_reports::finding::Violation;
use ipam_reports::pool::PoolRun;
use ipam_reports::reclaim::ReclaimRun;
use k8s_openapi::api::core::v1::Namespace;

use crate::claim::{Claims, Context};
use crate::cluster::{ClusterConfig, Fabric};
use crate::fault::apply::Faults;
use crate::kinds::{self, KindId, Registry};
use crate::meter::{AddressMeter, AgentsMeter, PoolMeter, ReclaimMeter};
use crate::object::Obj;
use crate::plan::{Checkpoint, Plan, Recorded, host_name, server_name};
use crate::record::{Narrator, Record};
use crate::recorder::{ApiCounts, Recorder};
use crate::rt::{self, Rt};
use crate::time::SimTime;

/// What all runs of a sweep share: the served types and the objects that exist at the beginning.
#[derive(Clone)]
pub struct Stage {
    /// The served types.
    pub registry: Arc<Registry>,
    /// The objects that exist at the beginning, in this order.
    pub objects: Vec<(KindId, Obj)>,
}

impl Stage {
    /// All types that a simulated cluster can serve, and `objects`.
    pub fn new(objects: Vec<(KindId, Obj)>) -> Self {
        Self { registry: Arc::new(registry()), objects }
    }
}

/// The types that a simulated cluster serves.
pub fn registry() -> Registry {
    Registry::new(kinds::all())
}

/// What is wanted of a run besides its verdict.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wish {
    /// Every event.
    pub recording: bool,
    /// The objects as they are at the end.
    pub dump: bool,
    /// Each call for an address by itself.
    pub calls: bool,
    /// What planners ask about Spiderpool: what its agents do to each other, and how many addresses are held for whom.
    pub planner: bool,
    /// The run ends here instead of where its plan says.
    pub until: Option<SimTime>,
}

/// What came of a run.
pub struct Outcome {
    /// The digest over all events.
    pub digest: Digest,
    /// How many events there were.
    pub events: u64,
    /// Digests on the way.
    pub checkpoints: Vec<Checkpoint>,
    /// When the run ended.
    pub ended_at: SimTime,
    /// What was violated, by time.
    pub violations: Vec<Violation>,
    /// Which `sometimes` and `reachable` claims held.
    pub held: Vec<String>,
    /// The `always` claims, and whether each looked at something that could have been false.
    pub judged: Vec<(&'static str, bool)>,
    /// The faults of the plan that took hold of something, by their position.
    pub fired: BTreeSet<u32>,
    /// How many writes each process sent, by its name.
    pub writes: Vec<(Arc<str>, u32)>,
    /// How often each thing happened.
    pub counts: ApiCounts,
    /// What the run did with its BYOM pool, if it has one; what agents did with the pools of Spiderpool, if that is wanted.
    pub pool: Option<PoolRun>,
    /// How many addresses of Spiderpool were held, if wanted.
    pub addresses: Option<AddressRun>,
    /// What the run reclaimed, if it reclaims.
    pub reclaim: Option<ReclaimRun>,
    /// A panic outside the system under test: a bug of the harness.
    pub broken: Option<String>,
    /// Every event and how to tell it, if wanted.
    pub recording: Option<(Vec<Record>, Narrator)>,
    /// Every object by type and key, if wanted.
    pub objects: Vec<(KindId, Obj)>,
}

impl Outcome {
    /// What the file of `plan` keeps of this run, made by `build`.
    pub fn recorded(&self, plan: &Plan, build: &str) -> Recorded {
        Recorded {
            build: build.to_owned(),
            digest: self.digest,
            events: self.events,
            plan: plan.fingerprint(),
            checkpoints: self.checkpoints.clone(),
        }
    }
}

/// How long a process that panicked stays down: the first back-off of a kubelet.
pub(crate) const BACK_OFF: Duration = Duration::from_secs(10);

/// Runs a plan. The same plan gives the same digest in every thread, process and build profile.
pub fn run(plan: &Plan, stage: &Stage, wish: Wish) -> Outcome {
    rt::run(plan.seed, async |rt| World::build(&rt, plan, stage, wish).live(wish).await)
}

struct World<'a> {
    rt: Rt,
    plan: &'a Plan,
    fabric: Arc<Fabric>,
    faults: Arc<Faults>,
}

impl<'a> World<'a> {
    fn build(rt: &Rt, plan: &'a Plan, stage: &Stage, wish: Wish) -> Self {
        let claims = Claims::new(&Context { rt, plan, registry: &stage.registry });
        let mut recorder = Recorder::new(claims, wish.recording);
        recorder.pool = plan.workload.work().pool().map(|key| PoolMeter::new(key, stage.registry.id::<PoolConfigMap>()));
        recorder.reclaim = plan.workload.work().reclaim().map(|settings| ReclaimMeter::new(settings, &stage.registry));
        recorder.planner = plan.workload.work().addresses().filter(|_| wish.planner).map(|addresses| {
            let meters = (AgentsMeter::new(&stage.registry), AddressMeter::new(&stage.registry, addresses, plan.end_at));
            Box::new(meters)
        });
        let config = ClusterConfig { seed: plan.seed, knobs: plan.cluster.knobs, links: plan.cluster.links, delays: plan.cluster.delays };
        let fabric = Fabric::new(rt.clone(), stage.registry.clone(), &config, recorder);
        for name in ["default", "kube-system"] {
            let mut namespace = Namespace::default();
            namespace.metadata.name = Some(name.to_owned());
            fabric.preload(stage.registry.id::<Namespace>(), Arc::new(namespace));
        }
        for (kind, object) in &stage.objects {
            fabric.preload(*kind, object.clone());
        }
        let work = plan.workload.work();
        work.preload(&fabric, plan);
        if fabric.recorder(|recorder| recorder.claims.want_beginning()) {
            let objects = fabric.dump();
            fabric.recorder(|recorder| recorder.claims.begin(&objects));
        }
        for number in 0..plan.cluster.api_servers {
            let host = rt.add_host(&host_name(number));
            fabric.add_server(rt.add_process(host, &server_name(number)));
        }
        work.install(&fabric, plan);
        let shared = Arc::downgrade(&fabric);
        rt.on_panic(move |panic| {
            if let Some(fabric) = shared.upgrade().filter(|_| panic.in_core) {
                fabric.panicked(panic.process, BACK_OFF);
            }
        });
        fabric.compact_regularly();
        // They heal by themselves.
        let faults = Faults::schedule(&fabric, &plan.fault, plan.heal_at);
        Self { rt: rt.clone(), plan, fabric, faults }
    }

    /// Safety phase, heal, liveness phase.
    async fn live(self, wish: Wish) -> Outcome {
        let end = wish.until.map_or(self.plan.end_at, |until| until.min(self.plan.end_at));
        let bounds = self.fabric.recorder(|recorder| recorder.claims.bounds());
        for bound in bounds.into_iter().filter(|&bound| bound <= end) {
            self.rt.sleep_until(bound).await;
            self.fabric.recorder(|recorder| recorder.claims.judge_bounds(bound));
        }
        self.rt.sleep_until(end).await;
        self.outcome(wish)
    }

    fn outcome(&self, wish: Wish) -> Outcome {
        let objects = if wish.dump { self.fabric.dump() } else { Vec::new() };
        let broken = self.rt.panics().into_iter().find(|panic| !panic.in_core);
        let narrator = wish.recording.then(|| Narrator::new(&self.rt, &self.fabric.registry, &self.plan.fault));
        let ended_at = self.rt.now();
        self.faults.settle();
        let writes = self.fabric.writes();
        let outcome = self.fabric.recorder(|recorder| {
            recorder.claims.end(ended_at);
            let (violations, held) = recorder.claims.verdict(&self.plan.excuses);
            let pool = recorder.pool.as_mut().map(|meter| meter.finish(wish.calls.then_some(&self.rt)));
            let planner = recorder.planner.as_mut().map(|meters| (meters.0.finish(), meters.1.finish(ended_at)));
            let (agents, addresses) = planner.unzip();
            Outcome {
                digest: Digest(recorder.digest.value()),
                events: recorder.digest.events(),
                checkpoints: recorder.take_checkpoints(),
                ended_at,
                violations,
                held,
                judged: recorder.claims.judged(),
                fired: std::mem::take(&mut recorder.fired),
                writes,
                counts: recorder.counts,
                pool: pool.or(agents),
                addresses,
                reclaim: recorder.reclaim.as_mut().map(|meter| meter.finish(ended_at)),
                broken: broken.map(|panic| format!("{} at {}", panic.message, panic.at)),
                recording: recorder.take_recording().zip(narrator),
                objects,
            }
        });
        self.fabric.tear_down();
        outcome
    }
}
