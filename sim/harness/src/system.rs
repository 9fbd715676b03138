//! The seam for a system under test: everything that the harness knows of one goes through [`System`].
//!
//! ```text
//!   scenario file ─► WorkloadDraft ─(seed)─► WorkloadPlan + operations ─► world ─► trace ─┬─► claims ─► verdict
//!                    └────────────── workloads, operations ──────────────┘  types         └─► metrics ─► figures
//! ```
//! The systems of a program are registered once, by [`install`], before anything is read or run.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::OnceLock;

use ipam_reports::addresses::AddressRun;
use ipam_reports::finding::ClaimCount;
use ipam_reports::pool::PoolRun;
use ipam_reports::reclaim::ReclaimRun;
use kube_sim::kinds::{Registry, TypeDef};
use kube_sim::object::Obj;
use kube_sim::rt::Rt;
use kube_sim::trace::coverage::CoveragePoint;
use kube_sim::trace::entity::Touch;
use kube_sim::trace::{Event, Interest};
use sim_config::manifest::Manifest;
use sim_config::time::SimTime;
use sim_config::{Problems, Source};

use crate::check::claim_name::Names;
use crate::check::{self, Excuse, KnownClaim};
use crate::claim::{self, ClaimSuite};
use crate::deviation::{self, Deviation};
use crate::explainer::Explainer;
use crate::operation;
use crate::plan::Plan;
use crate::records;
use crate::registered::{Open, assert_unique};
use crate::served;
use crate::webhook::Webhooks;
use crate::workload::{self, WorkloadDraft, WorkloadKinds};

/// A system under test: what scenarios can say of it, what it does in a run, and how it is judged.
///
/// All but its name and its workloads has a default: nothing.
pub trait System: Sync {
    /// Its name: lower-case letters, digits and hyphens. `NAME/*` stands for its claims.
    fn name(&self) -> &'static str;

    /// What it is, in a sentence.
    fn about(&self) -> &'static str;

    /// Its workloads, and what their actors can be told to do.
    fn kinds(&self) -> WorkloadKinds;

    /// The types that the API serves for it, besides those of Kubernetes. A type that takes the place of one of Kubernetes' own (of the
    /// same group and Kind) is how that one is stored.
    fn types(&self) -> Vec<TypeDef> {
        Vec::new()
    }

    /// Its invariants by subject, in the order in which they are listed. Each suite is named after the system: `NAME` or `NAME/subject`.
    fn claims(&self) -> Vec<ClaimSuite> {
        Vec::new()
    }

    /// Of these claims, those whose violation hurts users, the worst first: an address that has two owners, is lost, or is taken from or
    /// refused to who needs it. In a report they come in this order, before those that say that a rule or a policy was not followed.
    fn hurting_claims(&self) -> &'static [&'static str] {
        &[]
    }

    /// Claims that had another name before: the former name and the present one. Plans and scenarios with the former name are still read.
    fn renamed_claims(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// The documented hazards by which its claims excuse a violation.
    fn excuses(&self) -> &'static [Excuse] {
        &[]
    }

    /// What it can be told to do wrong, in the order in which it is listed.
    fn mutations(&self) -> Vec<Deviation> {
        Vec::new()
    }

    /// Who counts in a run of `plan`, which has one of its own workloads.
    fn metrics(&self, plan: &Plan, registry: &Registry, options: RunOptions) -> Vec<Box<dyn Metric>> {
        let _ = (plan, registry, options);
        Vec::new()
    }

    /// The points that its runs can reach ([`Cluster::reach`](kube_sim::cluster::Cluster::reach)). A gate fails if no run of what must hold
    /// reaches one that its scenarios do not call rare: no claim could then notice what goes wrong there.
    fn coverage(&self) -> Vec<CoveragePoint> {
        Vec::new()
    }

    /// What is odd about an object that a manifest holds, beyond its type: texts that the system keeps in it.
    ///
    /// # Errors
    /// What cannot be read: a run on such a cluster would fail for a reason that nobody asked about.
    fn check_manifest(&self, manifest: &Manifest) -> Result<Problems, Problems> {
        let _ = manifest;
        Ok(Problems::new())
    }

    /// What is odd about a workload of its own in a scenario that can be run all the same. `source` is the file, or a variant of it.
    fn check_workload(&self, workload: &WorkloadDraft, source: Source<'_>) -> Problems {
        let _ = (workload, source);
        Problems::new()
    }

    /// Its webhooks, for `check`: what it refuses of manifests. Of the systems of a program one at most has some, as `check` has their
    /// arguments.
    fn webhooks(&self) -> Option<&dyn Webhooks> {
        None
    }

    /// Who explains its decisions. A program none of whose systems has one does not have the verb `explain`, and one at most has.
    fn explainer(&self) -> Option<&dyn Explainer> {
        None
    }

    /// The addresses that an object of one of its types records, and the pod of each as `NAMESPACE/NAME`; `None` = it is no such object.
    /// A system that has this need not say what the next three methods ask: what follows from it is their default.
    fn records(&self, object: &Obj) -> Option<BTreeMap<IpAddr, String>> {
        let _ = object;
        None
    }

    /// Whether the object is one that several actors share and write: its states are shown before those of others.
    fn is_shared(&self, object: &Obj) -> bool {
        self.records(object).is_some()
    }

    /// What a commit changed in what an object of one of its types says of addresses, allocations and pods; `None` = the type is not its
    /// own.
    fn touches(&self, before: Option<&Obj>, after: Option<&Obj>) -> Option<Vec<Touch>> {
        self.records(after.or(before)?)?;
        let of = |object: Option<&Obj>| object.and_then(|object| self.records(object)).unwrap_or_default();
        Some(records::touches(&of(before), &of(after)))
    }

    /// The state of an object of one of its types as names and short values, in the order in which they are shown; `None` = the type is not
    /// its own.
    fn fields(&self, object: &Obj) -> Option<Vec<(String, String)>> {
        Some(self.records(object)?.into_iter().map(|(address, pod)| (address.to_string(), pod)).collect())
    }
}

/// What is wanted of a run besides its verdict.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions {
    /// Every event as it happened, for stories and for replays that are compared.
    pub recording: bool,
    /// The objects as they are at the end.
    pub dump: bool,
    /// Each call for an address by itself.
    pub calls: bool,
    /// What planners ask: how long requests wait for servers of a size, what processes of the system do to each other, and how many
    /// addresses are held for whom.
    pub planner: bool,
    /// Every request, in the order in which they are sent.
    pub requests: bool,
    /// Caches that nobody listens to are told of each change when it arrives, too: see [`ClusterConfig`](kube_sim::cluster::ClusterConfig).
    /// For comparisons; the digest is another one.
    pub told_at_once: bool,
    /// What of the run's behaviour tells it from others: [`crate::feature`].
    pub features: bool,
    /// The run ends here instead of where its plan says.
    pub until: Option<SimTime>,
}

/// Sees the events of a run as claims do, and counts instead of judging. It has no influence on the run.
pub trait Metric: Send {
    /// Which events it wants to see.
    fn interest(&self) -> Interest;

    /// Takes in an event of a kind that it wants to see, when it happens.
    fn observe(&mut self, event: &Event<'_>);

    /// The run is over: adds what was counted.
    fn finish(&mut self, end: &RunEnd<'_>, figures: &mut Figures);
}

/// The end of a run.
pub struct RunEnd<'a> {
    /// When the run ended, in model time.
    pub at: SimTime,
    /// The runtime, for names.
    pub rt: &'a Rt,
    /// What was wanted of the run.
    pub options: RunOptions,
}

/// What the metrics of a run found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// What calls for addresses met in a shared pool.
    pub pool: Option<PoolRun>,
    /// How many addresses were held, if wanted.
    pub addresses: Option<AddressRun>,
    /// Which addresses were reclaimed, and at what cost; `None` = no metric of the system asks.
    pub reclaim: Option<ReclaimRun>,
    /// Other numbers, each with its name; names are unique in a run.
    pub values: Vec<(&'static str, f64)>,
}

/// The systems under test of a program, as [`install`] has registered them.
pub struct Systems {
    build: &'static str,
    systems: Vec<&'static dyn System>,
}

fn suites_of(system: &dyn System) -> Vec<ClaimSuite> {
    let suites = system.claims();
    for ClaimSuite { name, .. } in &suites {
        let rest = name.strip_prefix(system.name());
        assert!(
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
            "the suite `{name}` is not named after `{}`",
            system.name()
        );
    }
    suites
}

/// Panics if several systems have what a program has once.
fn assert_one(what: &str, systems: Vec<&str>) {
    assert!(systems.len() <= 1, "more than one system has {what}: {}", systems.join(", "));
}

impl Systems {
    /// Tells everybody what `systems` add. Panics if a name is there twice, or what a program has once.
    fn register(systems: &[&'static dyn System], build: &'static str) -> Self {
        let common = ClaimSuite { name: check::COMMON_SUITE, claims: claim::COMMON };
        let suites: Vec<ClaimSuite> = std::iter::once(common).chain(systems.iter().flat_map(|system| suites_of(*system))).collect();
        let of_suite = |suite: &ClaimSuite| {
            suite.claims.iter().map(|def| KnownClaim { name: def.name, kind: def.kind, suite: suite.name }).collect::<Vec<_>>()
        };
        let claims: Vec<KnownClaim> = suites.iter().flat_map(of_suite).collect();
        for name in systems.iter().flat_map(|system| system.hurting_claims()) {
            assert!(claims.iter().any(|claim| claim.name == *name), "`{name}` hurts users, but is no claim");
        }
        let mutations: Vec<Deviation> = systems.iter().flat_map(|system| system.mutations()).collect();
        assert_unique("a system", &systems.iter().map(|system| system.name()).collect::<Vec<_>>());
        let having =
            |has: fn(&dyn System) -> bool| systems.iter().filter(|system| has(**system)).map(|system| system.name()).collect::<Vec<_>>();
        assert_one("webhooks", having(|system| system.webhooks().is_some()));
        assert_one("an explainer", having(|system| system.explainer().is_some()));
        assert_unique("a suite of claims", &suites.iter().map(|suite| suite.name).collect::<Vec<_>>());
        assert_unique("a claim", &claims.iter().map(|claim| claim.name).collect::<Vec<_>>());
        assert_unique("a mutation", &mutations.iter().map(|mutation| mutation.name).collect::<Vec<_>>());
        let kinds = || systems.iter().map(|system| system.kinds());
        workload::draft::DRAFTS.set(Open::new(kinds().map(|kinds| kinds.drafts).collect()));
        workload::planned::PLANS.set(Open::new(kinds().map(|kinds| kinds.plans).collect()));
        operation::OPERATIONS.set(Open::new(kinds().map(|kinds| kinds.operations).collect()));
        let renamed = systems.iter().flat_map(|system| system.renamed_claims().iter().copied()).collect();
        check::claim_name::CLAIMS.set(Names { claims, renamed });
        let excuses = systems.iter().flat_map(|system| system.excuses()).chain(check::COMMON_EXCUSES);
        check::excuse::EXCUSES.set(excuses.map(|excuse| excuse.name).collect());
        claim::SUITES.set(suites);
        deviation::DEVIATIONS.set(mutations);
        served::TYPES.set(|| crate::system::systems().iter().flat_map(|system| system.types()).collect());
        Self { systems: systems.to_vec(), build }
    }

    /// The name of the build, within which digests are comparable.
    pub fn build(&self) -> &'static str {
        self.build
    }

    /// The systems, in the order of registration.
    pub fn iter(&self) -> impl Iterator<Item = &'static dyn System> + '_ {
        self.systems.iter().copied()
    }

    /// The system that `workload` is one of.
    pub fn of_workload(&self, workload: &WorkloadDraft) -> Option<&'static dyn System> {
        self.iter().find(|system| system.kinds().drafts.names.contains(&workload.kind()))
    }

    /// The system that the workload of `plan` is one of.
    pub fn of_plan(&self, plan: &Plan) -> Option<&'static dyn System> {
        self.iter().find(|system| system.kinds().plans.names.contains(&plan.workload.kind()))
    }

    /// The system that has the mutation called `name`.
    pub fn of_mutation(&self, name: &str) -> Option<&'static dyn System> {
        self.iter().find(|system| system.mutations().iter().any(|mutation| mutation.name == name))
    }

    /// The webhooks that `check` asks.
    pub fn webhooks(&self) -> Option<&'static dyn Webhooks> {
        self.iter().find_map(|system| system.webhooks())
    }

    /// Who answers `explain`; `None` = no system explains its decisions.
    pub fn explainer(&self) -> Option<&'static dyn Explainer> {
        self.iter().find_map(|system| system.explainer())
    }

    /// The place of the claim called `name` among those whose violation hurts users ([`System::hurting_claims`]); `None` = it is none of
    /// them.
    pub fn rank(&self, name: &str) -> Option<u32> {
        self.systems.iter().find_map(|system| system.hurting_claims().iter().position(|claim| *claim == name)).map(|place| place as u32)
    }

    /// Tells how much the violation of a claim hurts.
    pub fn weigh(&self, count: &mut ClaimCount) {
        count.rank = self.rank(&count.claim);
        count.hurts = count.rank.is_some();
    }

    /// Every claim by subject: those about any run first.
    pub fn suites(&self) -> &'static [ClaimSuite] {
        claim::SUITES.get()
    }

    /// Every excuse that a claim may have.
    pub fn excuses(&self) -> &'static [&'static str] {
        check::excuse::EXCUSES.get()
    }

    /// What any system can be told to do wrong, by system in the order of registration.
    pub fn mutations(&self) -> &'static [Deviation] {
        deviation::DEVIATIONS.get()
    }
}

static SYSTEMS: OnceLock<Systems> = OnceLock::new();

/// Registers the systems of this program, and the name of its build: digests are comparable within one build. Panics if a name is there
/// twice, or if others are registered already: both are mistakes of the program.
pub fn install(systems: &[&'static dyn System], build: &'static str) {
    let names = |systems: &mut dyn Iterator<Item = &'static dyn System>| systems.map(|system| system.name()).collect::<Vec<_>>();
    let installed = SYSTEMS.get_or_init(|| Systems::register(systems, build));
    let (there, wanted) = (names(&mut installed.iter()), names(&mut systems.iter().copied()));
    assert!(there == wanted, "the systems {there:?} are registered already, and cannot be replaced by {wanted:?}");
}

/// The registered systems. Panics if there are none: [`install`] comes first.
pub fn systems() -> &'static Systems {
    SYSTEMS.get().unwrap_or_else(|| panic!("no system under test is registered: call `install` before anything is read or run"))
}
