//! A run: turns a plan into a cluster, its actors and its faults, and returns the outcome.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use ipam_reports::finding::{Kind, Violation};
use ipam_reports::{Digest, Seconds, human};
use k8s_openapi::api::core::v1::Namespace;
use kube_sim::cluster::{Cluster, ClusterConfig, Logged};
use kube_sim::fault::Faults;
use kube_sim::kinds::{KindId, Registry};
use kube_sim::object::Obj;
use kube_sim::rt::{self, Rt};
use kube_sim::trace::budget::Spin;
use kube_sim::trace::coverage::CoveragePoint;
use kube_sim::trace::record::Record;
use kube_sim::trace::recorder::{self, ApiCounts, Listener, Recorder};
use kube_sim::trace::{Event, Interest};
use sim_config::time::SimTime;

use crate::causality::Narrator;
use crate::claim::{Claims, Context, SPEND};
use crate::feature::FeatureCollector;
use crate::plan::{Checkpoint, ClusterPlan, Plan, Recorded, host_name, server_name};
use crate::served;
use crate::system::{Figures, Metric, RunEnd, RunOptions, systems};
use crate::workload::OutOfReach;

/// The common parts of all runs of a sweep: the served types and the objects that exist at the beginning.
#[derive(Clone)]
pub struct Stage {
    /// The types that every cluster of the sweep serves: those of Kubernetes and of all registered systems.
    pub registry: Arc<Registry>,
    /// The objects that exist at the beginning, in this order.
    pub objects: Vec<(KindId, Obj)>,
    /// Identifies the content of the manifests that the objects come from; empty if there were none.
    pub manifests: Arc<str>,
}

impl Stage {
    /// All types that a simulated cluster can serve, and `objects`.
    pub fn new(objects: Vec<(KindId, Obj)>) -> Self {
        Self { registry: Arc::new(served::registry()), objects, manifests: Arc::default() }
    }
}

/// The outcome of a run.
pub struct Outcome {
    /// The digest over all events.
    pub digest: Digest,
    /// The number of events.
    pub events: u64,
    /// The digests on the way.
    pub checkpoints: Vec<Checkpoint>,
    /// The time at which the run ended.
    pub ended_at: SimTime,
    /// The violations, by time.
    pub violations: Vec<Violation>,
    /// The `sometimes` and `reachable` claims that held.
    pub held: Vec<String>,
    /// The `always` claims, and whether each judged something that could have been false.
    pub judged: Vec<(&'static str, bool)>,
    /// The `eventually` claims, and whether each had something to wait for at one of the periodic looks.
    pub awaited: Vec<(&'static str, bool)>,
    /// The faults of the plan that took effect, by their position.
    pub fired: BTreeSet<u32>,
    /// The points of the system under test that it reached, sorted.
    pub coverage: Vec<CoveragePoint>,
    /// The points that it reached while a fault was active, sorted, if features are wanted.
    pub coverage_under_faults: Vec<CoveragePoint>,
    /// The features of the run, in order, if wanted.
    pub features: Vec<String>,
    /// The number of writes that each process sent, by its name.
    pub writes: Vec<(Arc<str>, u32)>,
    /// Every request in the order in which they were sent, with the name of its process, if wanted.
    pub requests: Vec<(Arc<str>, Logged)>,
    /// The counts of requests, writes, conflicts and the like.
    pub counts: ApiCounts,
    /// The numbers that the metrics of its system found.
    pub figures: Figures,
    /// The times at which servers began to work on requests, and how long each had waited for it; unset = the capacity is unlimited, or
    /// waits were not wanted.
    pub waits: Option<Vec<(SimTime, Duration)>>,
    /// A panic outside the system under test: a bug of the harness.
    pub broken: Option<String>,
    /// Every event, with a narrator to write it, if wanted.
    pub recording: Option<(Vec<Record>, Narrator)>,
    /// Every object by type and key, if wanted.
    pub objects: Vec<(KindId, Obj)>,
    /// Identifies the manifests of the cluster: [`Stage::manifests`].
    pub manifests: Arc<str>,
}

impl Outcome {
    /// The record of this run, made by `build`, for the file of `plan`.
    pub fn recorded(&self, plan: &Plan, build: &str) -> Recorded {
        let recorded = Recorded {
            build: build.to_owned(),
            digest: self.digest,
            events: self.events,
            plan: String::new(),
            manifests: self.manifests.to_string(),
            provenance: None,
            checkpoints: self.checkpoints.clone(),
        };
        // The fingerprint of the plan with its record, which decides whether the paths of the manifests count.
        let plan = Plan { recorded: Some(recorded.clone()), ..plan.clone() }.fingerprint();
        Recorded { plan, ..recorded }
    }
}

/// The downtime of a process that panicked: the first back-off of a kubelet.
pub const BACK_OFF: Duration = Duration::from_secs(10);

/// The number of processes that are named when a run has spent its events, and of requests of each.
const SPINNING_MAX: usize = 3;

/// Runs a plan. The same plan gives the same digest in every thread, process and build profile.
pub fn run(plan: &Plan, stage: &Stage, options: RunOptions) -> Outcome {
    rt::run(plan.seed, async |rt| World::build(&rt, plan, stage, options).live(options).await)
}

/// The claims and metrics of a run.
pub struct Judges {
    claims: Claims,
    metrics: Vec<(Interest, Box<dyn Metric>)>,
    features: Option<Box<FeatureCollector>>,
}

impl Judges {
    /// The judges of a plan. `registry`: the types that its cluster serves.
    pub fn of(plan: &Plan, rt: &Rt, registry: &Registry, options: RunOptions) -> Self {
        let out_of_reach = OutOfReach::of(plan.workload.work(), &plan.op, plan.lost_for_good());
        let claims = Claims::new(&Context { rt, plan, registry, out_of_reach });
        let metrics = systems().of_plan(plan).into_iter().flat_map(|system| system.metrics(plan, registry, options));
        let features = options.features.then(|| Box::new(FeatureCollector::new(plan, rt, registry)));
        Self { claims, metrics: metrics.map(|metric| (metric.interest(), metric)).collect(), features }
    }
}

impl Listener for Judges {
    fn observe(&mut self, event: &Event<'_>) {
        self.claims.observe(event);
        let kind = event.kind.interest();
        for (_, metric) in self.metrics.iter_mut().filter(|(interest, _)| interest.meets(kind)) {
            metric.observe(event);
        }
        if let Some(features) = &mut self.features {
            features.observe(event, &self.claims);
        }
    }
}

fn claims_of(recorder: &mut Recorder) -> &mut Claims {
    &mut recorder.listener::<Judges>().claims
}

struct World<'a> {
    rt: Rt,
    plan: &'a Plan,
    manifests: Arc<str>,
    max_events: u64,
    cluster: Arc<Cluster>,
    faults: Arc<Faults>,
}

impl<'a> World<'a> {
    fn build(rt: &Rt, plan: &'a Plan, stage: &Stage, options: RunOptions) -> Self {
        let max_events = plan.max_events(stage.objects.len());
        let recorder = Recorder::new(Judges::of(plan, rt, &stage.registry, options), options.recording).within(max_events);
        let ClusterPlan { knobs, links, delays, capacity, .. } = plan.cluster;
        let config = ClusterConfig { seed: plan.seed, knobs, links, delays, capacity, told_at_once: options.told_at_once };
        let cluster = Cluster::new(rt.clone(), stage.registry.clone(), &config, recorder);
        if options.planner && capacity.is_some() {
            cluster.keep_waits();
        }
        if options.requests {
            cluster.keep_requests();
        }
        for name in ["default", "kube-system"] {
            let mut namespace = Namespace::default();
            namespace.metadata.name = Some(name.to_owned());
            cluster.preload(stage.registry.id::<Namespace>(), Arc::new(namespace));
        }
        for (kind, object) in &stage.objects {
            cluster.preload(*kind, object.clone());
        }
        let work = plan.workload.work();
        work.preload(&cluster);
        if cluster.recorder(|recorder| claims_of(recorder).want_beginning()) {
            let objects = cluster.dump();
            cluster.recorder(|recorder| claims_of(recorder).begin(&objects));
        }
        for number in 0..plan.cluster.api_servers {
            let host = rt.add_host(&host_name(number));
            cluster.add_server(rt.add_process(host, &server_name(number)));
        }
        work.install(&cluster, &plan.run_context());
        let shared = Arc::downgrade(&cluster);
        rt.on_panic(move |panic| {
            if let Some(cluster) = shared.upgrade().filter(|_| panic.in_core) {
                cluster.panicked(panic.process, BACK_OFF);
            }
        });
        cluster.compact_regularly();
        if let Some(upgrade) = &plan.upgrade {
            upgrade.schedule(&cluster);
        }
        // Faults heal by themselves.
        let faults = Faults::schedule(&cluster, &plan.fault, plan.heal_at);
        Self { rt: rt.clone(), plan, manifests: stage.manifests.clone(), max_events, cluster, faults }
    }

    /// Runs the safety phase, the heal and the liveness phase.
    async fn live(self, options: RunOptions) -> Outcome {
        let end = options.until.map_or(self.plan.end_at, |until| until.min(self.plan.end_at));
        let bounds = self.cluster.recorder(|recorder| claims_of(recorder).bounds());
        for bound in bounds.into_iter().filter(|&bound| bound <= end) {
            if self.reach(bound).await.is_break() {
                return self.outcome(options);
            }
            self.cluster.recorder(|recorder| claims_of(recorder).judge_bounds(bound));
        }
        let _spent = self.reach(end).await;
        self.outcome(options)
    }

    /// Lets time pass until `at`, unless the run spends its events before.
    async fn reach(&self, at: SimTime) -> ControlFlow<()> {
        let mut sleep = std::pin::pin!(self.rt.sleep_until(at));
        std::future::poll_fn(|context| {
            if self.cluster.recorder(|recorder| recorder.poll_spent(context)) {
                return Poll::Ready(ControlFlow::Break(()));
            }
            sleep.as_mut().poll(context).map(ControlFlow::Continue)
        })
        .await
    }

    /// The violation that the run has spent its events, with the processes that spin.
    fn spent(&self, spin: &Spin, max: u64) -> Violation {
        let name = |process| self.rt.process_name(process);
        let looked = human::duration(Seconds::from_micros(spin.until.since(spin.from).as_micros() as u64));
        let mut detail =
            vec![format!("the run had its {} at {} of {}", human::plural(max, "event", "events"), spin.from, self.plan.end_at)];
        for busy in spin.busy.iter().take(SPINNING_MAX) {
            let of = format!(
                "{} has {} of the next {} events, in {looked}",
                name(busy.process),
                human::count(busy.events),
                human::count(spin.events)
            );
            let request = |(verb, kind, times): &(_, KindId, u64)| {
                let verb = format!("{verb:?}").to_lowercase();
                format!("{} {verb} {}", human::count(*times), self.cluster.registry.get(*kind).plural)
            };
            let requests: Vec<String> = busy.requests.iter().take(SPINNING_MAX).map(request).collect();
            let requests = if requests.is_empty() { String::new() } else { format!(": {}", requests.join(", ")) };
            let said = busy.said.as_ref().map(|said| format!("; it says last: {said}")).unwrap_or_default();
            detail.push(of + &requests + &said);
        }
        let at = Seconds::from_micros(spin.from.as_micros());
        Violation { claim: SPEND.to_owned(), kind: Kind::Eventually, at, event: None, excuse: None, detail, needs: None }
    }

    fn outcome(&self, options: RunOptions) -> Outcome {
        let objects = if options.dump { self.cluster.dump() } else { Vec::new() };
        let broken = self.rt.panics().into_iter().find(|panic| !panic.in_core);
        let narrator = options.recording.then(|| Narrator::new(&self.rt, &self.cluster.registry, &self.plan.fault));
        let ended_at = self.rt.now();
        self.faults.settle();
        let writes = self.cluster.writes();
        let requests = self.cluster.take_requests().unwrap_or_default().into_iter();
        let requests = requests.map(|logged| (self.rt.process_name(logged.client()), logged)).collect();
        let waits = self.cluster.take_waits();
        let spin = self.cluster.recorder(|recorder| recorder.spent());
        let spent = spin.map(|spin| self.spent(&spin, self.max_events));
        let outcome = self.cluster.recorder(|recorder| {
            let points = if options.features { recorder.coverage.counts() } else { Vec::new() };
            let Judges { claims, metrics, features } = recorder.listener();
            claims.end(ended_at);
            let (mut violations, held) = claims.verdict(&self.plan.excuses);
            violations.extend(spent);
            let (judged, awaited) = (claims.exercised(), claims.awaited());
            let mut figures = Figures::default();
            let end = RunEnd { at: ended_at, rt: &self.rt, options };
            metrics.iter_mut().for_each(|(_, metric)| metric.finish(&end, &mut figures));
            let features = features.as_ref().map(|features| features.features(&points)).unwrap_or_default();
            let checkpoint = |checkpoint: recorder::Checkpoint| Checkpoint {
                events: checkpoint.events,
                at: Seconds::from_micros(checkpoint.at.as_micros()),
                digest: Digest(checkpoint.digest),
            };
            Outcome {
                digest: Digest(recorder.digest.value()),
                events: recorder.digest.events(),
                checkpoints: recorder.take_checkpoints().into_iter().map(checkpoint).collect(),
                ended_at,
                violations,
                held,
                judged,
                awaited,
                fired: std::mem::take(&mut recorder.fired),
                coverage: recorder.coverage.sorted(),
                coverage_under_faults: if options.features { recorder.coverage.under_faults() } else { Vec::new() },
                features,
                writes,
                requests,
                counts: recorder.counts,
                figures,
                waits,
                broken: broken.map(|panic| format!("{} at {}", panic.message, panic.at)),
                recording: recorder.take_recording().zip(narrator),
                objects,
                manifests: self.manifests.clone(),
            }
        });
        self.cluster.tear_down();
        outcome
    }
}
