//! The interface of a system under test: the harness knows a system only as a [`System`].
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

/// A system under test: its part of scenarios, its behaviour in a run, and the claims about it.
///
/// All methods but `name`, `about` and `kinds` have a default: nothing.
pub trait System: Sync {
    /// Its name: lower-case letters, digits and hyphens. `NAME/*` stands for its claims.
    fn name(&self) -> &'static str;

    /// A description of the system, in a sentence.
    fn about(&self) -> &'static str;

    /// Its workloads, and the operations of their actors.
    fn kinds(&self) -> WorkloadKinds;

    /// The types that the API serves for it, besides those of Kubernetes. A type of the same group and Kind as one of Kubernetes' own
    /// replaces that one in the store.
    fn types(&self) -> Vec<TypeDef> {
        Vec::new()
    }

    /// Its invariants by subject, in the order in which they are listed. Each suite is named after the system: `NAME` or `NAME/subject`.
    fn claims(&self) -> Vec<ClaimSuite> {
        Vec::new()
    }

    /// The claims whose violation hurts users, the worst first: an address has two owners, is lost, or is taken from or refused to a pod
    /// that needs it. Reports have them in this order, before claims that say that a rule or a policy was not followed.
    fn hurting_claims(&self) -> &'static [&'static str] {
        &[]
    }

    /// Claims that were renamed: the former name and the present one. Plans and scenarios with the former name are still read.
    fn renamed_claims(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// The documented hazards that can excuse violations of its claims.
    fn excuses(&self) -> &'static [Excuse] {
        &[]
    }

    /// Its mutations, in the order in which they are listed.
    fn mutations(&self) -> Vec<Deviation> {
        Vec::new()
    }

    /// The metrics for a run of `plan`, whose workload is one of its own.
    fn metrics(&self, plan: &Plan, registry: &Registry, options: RunOptions) -> Vec<Box<dyn Metric>> {
        let _ = (plan, registry, options);
        Vec::new()
    }

    /// The points that its runs can reach ([`Cluster::reach`](kube_sim::cluster::Cluster::reach)). A gate fails if no run that must hold
    /// reaches a point that its scenarios do not call rare: no claim could then notice a bug there.
    fn coverage(&self) -> Vec<CoveragePoint> {
        Vec::new()
    }

    /// Remarks on an object from a manifest, beyond its type: on texts that the system keeps in it.
    ///
    /// # Errors
    /// Returns texts that cannot be parsed: a run on such a cluster would fail for an unrelated reason.
    fn check_manifest(&self, manifest: &Manifest) -> Result<Problems, Problems> {
        let _ = manifest;
        Ok(Problems::new())
    }

    /// Remarks on one of its workloads in a scenario that can run nevertheless. `source` is the file, or a variant of it.
    fn check_workload(&self, workload: &WorkloadDraft, source: Source<'_>) -> Problems {
        let _ = (workload, source);
        Problems::new()
    }

    /// Its webhooks, for `check`: they reject manifests. At most one system of a program has webhooks, as `check` has their arguments.
    fn webhooks(&self) -> Option<&dyn Webhooks> {
        None
    }

    /// The explainer of its decisions. At most one system of a program has one; if none has, the verb `explain` is missing.
    fn explainer(&self) -> Option<&dyn Explainer> {
        None
    }

    /// The addresses that an object of one of its types records, with the pod of each as `NAMESPACE/NAME`; `None` = the object has no such
    /// records. A system that implements this need not implement the next three methods: their defaults follow from it.
    fn records(&self, object: &Obj) -> Option<BTreeMap<IpAddr, String>> {
        let _ = object;
        None
    }

    /// Whether the object is shared and written by several actors: its states are shown before those of others.
    fn is_shared(&self, object: &Obj) -> bool {
        self.records(object).is_some()
    }

    /// The changes of a commit to the addresses, allocations and pods in an object of one of its types; `None` = the type is not its own.
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

/// The results of a run that are wanted besides its verdict.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions {
    /// Record every event as it happened, to explain runs and to compare replays.
    pub recording: bool,
    /// Return the objects at the end.
    pub dump: bool,
    /// Report each call for an address separately.
    pub calls: bool,
    /// Answer questions of planning: the time that requests wait for servers of a size, the interference between the system's processes,
    /// and the number of addresses held by each holder.
    pub planner: bool,
    /// Log every request, in the order in which they are sent.
    pub requests: bool,
    /// Tell caches of each change when it arrives even if nothing listens to them: see [`ClusterConfig`](kube_sim::cluster::ClusterConfig).
    /// For comparisons; the digest differs.
    pub told_at_once: bool,
    /// Collect the features of the run: [`crate::feature`].
    pub features: bool,
    /// End the run at this time instead of the end of its plan.
    pub until: Option<SimTime>,
}

/// Observes the events of a run as claims do, and counts instead of judging. It has no influence on the run.
pub trait Metric: Send {
    /// The events that it observes.
    fn interest(&self) -> Interest;

    /// Observes an event of one of these kinds, when it happens.
    fn observe(&mut self, event: &Event<'_>);

    /// Adds the counts to `figures` at the end of the run.
    fn finish(&mut self, end: &RunEnd<'_>, figures: &mut Figures);
}

/// The end of a run.
pub struct RunEnd<'a> {
    /// The time at which the run ended, in model time.
    pub at: SimTime,
    /// The runtime, for names.
    pub rt: &'a Rt,
    /// The results that are wanted of the run.
    pub options: RunOptions,
}

/// The numbers that the metrics of a run found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// The contention between calls for addresses in a shared pool.
    pub pool: Option<PoolRun>,
    /// The number of addresses that were held, if wanted.
    pub addresses: Option<AddressRun>,
    /// The addresses that were reclaimed, and the cost of that; `None` = the system does not measure it.
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

/// Panics if several systems have something that a program has only once.
fn assert_one(what: &str, systems: Vec<&str>) {
    assert!(systems.len() <= 1, "more than one system has {what}: {}", systems.join(", "));
}

impl Systems {
    /// Registers everything that `systems` add. Panics if a name occurs twice, or something that a program has only once.
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

    /// The system of `workload`.
    pub fn of_workload(&self, workload: &WorkloadDraft) -> Option<&'static dyn System> {
        self.iter().find(|system| system.kinds().drafts.names.contains(&workload.kind()))
    }

    /// The system of the workload of `plan`.
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

    /// The explainer that answers `explain`; `None` = no system explains its decisions.
    pub fn explainer(&self) -> Option<&'static dyn Explainer> {
        self.iter().find_map(|system| system.explainer())
    }

    /// The rank of the claim called `name` among those whose violation hurts users ([`System::hurting_claims`]); `None` = it is none of
    /// them.
    pub fn rank(&self, name: &str) -> Option<u32> {
        self.systems.iter().find_map(|system| system.hurting_claims().iter().position(|claim| *claim == name)).map(|place| place as u32)
    }

    /// Sets the rank of a claim, and whether its violation hurts users.
    pub fn weigh(&self, count: &mut ClaimCount) {
        count.rank = self.rank(&count.claim);
        count.hurts = count.rank.is_some();
    }

    /// The claims by subject, those that hold for any system first.
    pub fn suites(&self) -> &'static [ClaimSuite] {
        claim::SUITES.get()
    }

    /// The excuses that a claim may have.
    pub fn excuses(&self) -> &'static [&'static str] {
        check::excuse::EXCUSES.get()
    }

    /// The mutations of all systems, by system in the order of registration.
    pub fn mutations(&self) -> &'static [Deviation] {
        deviation::DEVIATIONS.get()
    }
}

static SYSTEMS: OnceLock<Systems> = OnceLock::new();

/// Registers the systems of this program, and the name of its build: digests are comparable within one build. Panics if a name occurs
/// twice, or if others are registered already: both are bugs of the program.
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
