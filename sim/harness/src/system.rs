//! The seam for a system under test: everything that the harness knows of one goes through [`System`].
//!
//! ```text
//!   scenario file ─► WorkloadDraft ─(seed)─► WorkloadPlan + operations ─► world ─► trace ─┬─► claims ─► verdict
//!                    └────────────── workloads, operations ──────────────┘  types         └─► metrics ─► figures
//! ```
//! The systems of a program are registered once, by [`install`], before anything is read or run.

use std::sync::OnceLock;

use ipam_reports::addresses::AddressRun;
use ipam_reports::pool::PoolRun;
use ipam_reports::reclaim::ReclaimRun;
use kube_sim::kinds::{Registry, TypeDef};
use kube_sim::object::Obj;
use kube_sim::rt::Rt;
use kube_sim::trace::entity::Touch;
use kube_sim::trace::{Event, Interest};
use sim_config::Problems;
use sim_config::kinds::OpenKinds;
use sim_config::manifest::Manifest;
use sim_config::time::SimTime;

use crate::claim::{self, ClaimDef, ClaimSuite};
use crate::deviation::Deviation;
use crate::plan::{OpKind, Plan, WorkloadPlan};
use crate::scenario::WorkloadDraft;
use crate::world::RunOptions;

/// A system under test: what scenarios can say of it, what it does in a run, and how it is judged.
///
/// All but its name, workloads and operations has a default: nothing.
pub trait System: Sync {
    /// Its name: lower-case letters, digits and hyphens. `NAME/*` stands for its claims.
    fn name(&self) -> &'static str;

    /// What it is, in a sentence.
    fn about(&self) -> &'static str;

    /// The kinds of workloads in scenario files.
    fn drafts(&self) -> OpenKinds<WorkloadDraft>;

    /// The same kinds in plans, where every value is drawn.
    fn plans(&self) -> OpenKinds<WorkloadPlan>;

    /// What its actors can be told to do.
    fn operations(&self) -> OpenKinds<OpKind>;

    /// The types that the API serves for it, besides those of Kubernetes. A type that takes the place of one of Kubernetes' own (of the same group and
    /// Kind) is how that one is stored.
    fn types(&self) -> Vec<TypeDef> {
        Vec::new()
    }

    /// Its invariants by subject, in the order in which they are listed. Each suite is named after the system: `NAME` or `NAME/subject`.
    fn claims(&self) -> Vec<ClaimSuite> {
        Vec::new()
    }

    /// Claims that had another name before: the former name and the present one. Plans and scenarios with the former name are still read.
    fn renamed_claims(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// The documented hazards by which its claims excuse a violation.
    fn excuses(&self) -> &'static [&'static str] {
        &[]
    }

    /// What it can be told to do wrong, in the order in which it is listed.
    fn mutations(&self) -> Vec<Deviation> {
        Vec::new()
    }

    /// Who counts in a run of `plan`; none where it is the plan of another system.
    fn metrics(&self, plan: &Plan, registry: &Registry, options: RunOptions) -> Vec<Box<dyn Metric>> {
        let _ = (plan, registry, options);
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

    /// Whether the object is one that several actors share and write: its states are shown before those of others.
    fn is_shared(&self, object: &Obj) -> bool {
        let _ = object;
        false
    }

    /// What a commit changed in what an object of one of its types says of addresses, allocations and pods; `None` = the type is not its own.
    fn touches(&self, before: Option<&Obj>, after: Option<&Obj>) -> Option<Vec<Touch>> {
        let _ = (before, after);
        None
    }

    /// The state of an object of one of its types as names and short values, in the order in which they are shown; `None` = the type is not its own.
    fn fields(&self, object: &Obj) -> Option<Vec<(String, String)>> {
        let _ = object;
        None
    }
}

/// Sees the events of a run as claims do, and counts instead of judging. It has no influence on the run.
pub trait Metric: Send {
    /// Which events it wants to see.
    fn interest(&self) -> Interest;

    /// Something happened.
    fn observe(&mut self, event: &Event<'_>);

    /// The run is over: adds what was counted.
    fn finish(&mut self, end: &RunEnd<'_>, figures: &mut Figures);
}

/// The end of a run.
pub struct RunEnd<'a> {
    /// When.
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
    /// What was reclaimed.
    pub reclaim: Option<ReclaimRun>,
    /// Other numbers, each with its name; names are unique in a run.
    pub values: Vec<(&'static str, f64)>,
}

/// The registered systems, and what they add together.
pub struct Systems {
    build: &'static str,
    systems: Vec<&'static dyn System>,
    drafts: Open<WorkloadDraft>,
    plans: Open<WorkloadPlan>,
    operations: Open<OpKind>,
    suites: Vec<ClaimSuite>,
    claims: Vec<ClaimDef>,
    renamed_claims: Vec<(&'static str, &'static str)>,
    excuses: Vec<&'static str>,
    mutations: Vec<Deviation>,
}

/// An open set of kinds: what each system adds.
struct Open<T: 'static> {
    names: &'static [&'static str],
    parties: Vec<OpenKinds<T>>,
}

impl<T> Open<T> {
    fn new(parties: Vec<OpenKinds<T>>) -> Self {
        let names: Vec<&'static str> = parties.iter().flat_map(|party| party.names.iter().copied()).collect();
        assert_unique("a kind", &names);
        // Once a process.
        Self { names: names.leak(), parties }
    }

    fn find(&self, name: &str) -> Option<&OpenKinds<T>> {
        self.parties.iter().find(|party| party.names.contains(&name))
    }
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

fn assert_unique(what: &str, names: &[&str]) {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        assert!(seen.insert(name), "{what} called `{name}` is registered twice");
    }
}

impl Systems {
    fn new(systems: &[&'static dyn System], build: &'static str) -> Self {
        let common = ClaimSuite { name: claim::COMMON_SUITE, claims: claim::COMMON };
        let suites: Vec<ClaimSuite> = std::iter::once(common).chain(systems.iter().flat_map(|system| suites_of(*system))).collect();
        let claims: Vec<ClaimDef> = suites.iter().flat_map(|suite| suite.claims).copied().collect();
        let mutations: Vec<Deviation> = systems.iter().flat_map(|system| system.mutations()).collect();
        assert_unique("a system", &systems.iter().map(|system| system.name()).collect::<Vec<_>>());
        assert_unique("a suite of claims", &suites.iter().map(|suite| suite.name).collect::<Vec<_>>());
        assert_unique("a claim", &claims.iter().map(|claim| claim.name).collect::<Vec<_>>());
        assert_unique("a mutation", &mutations.iter().map(|mutation| mutation.name).collect::<Vec<_>>());
        Self {
            drafts: Open::new(systems.iter().map(|system| system.drafts()).collect()),
            plans: Open::new(systems.iter().map(|system| system.plans()).collect()),
            operations: Open::new(systems.iter().map(|system| system.operations()).collect()),
            suites,
            claims,
            renamed_claims: systems.iter().flat_map(|system| system.renamed_claims().iter().copied()).collect(),
            excuses: systems.iter().flat_map(|system| system.excuses().iter().copied()).collect(),
            mutations,
            systems: systems.to_vec(),
            build,
        }
    }

    /// The name of the build.
    pub fn build(&self) -> &'static str {
        self.build
    }

    /// The systems, in the order of registration.
    pub fn iter(&self) -> impl Iterator<Item = &'static dyn System> + '_ {
        self.systems.iter().copied()
    }

    /// The system that `workload` is one of.
    pub fn of_workload(&self, workload: &WorkloadDraft) -> Option<&'static dyn System> {
        self.iter().find(|system| system.drafts().names.contains(&workload.kind()))
    }

    /// Every claim: those about any run first.
    pub fn claims(&self) -> &[ClaimDef] {
        &self.claims
    }

    /// The same by subject.
    pub fn suites(&self) -> &[ClaimSuite] {
        &self.suites
    }

    /// Claims that had another name before: the former name and the present one.
    pub fn renamed_claims(&self) -> &[(&'static str, &'static str)] {
        &self.renamed_claims
    }

    /// Every excuse that a claim may have.
    pub fn excuses(&self) -> &[&'static str] {
        &self.excuses
    }

    /// Every mutation.
    pub fn mutations(&self) -> &[Deviation] {
        &self.mutations
    }

    /// The types that a simulated cluster serves. Who is registered later is served first: the numbers of types enter digests.
    pub fn types(&self) -> Vec<TypeDef> {
        kube_sim::kinds::all(self.systems.iter().flat_map(|system| system.types()))
    }
}

static SYSTEMS: OnceLock<Systems> = OnceLock::new();

/// Registers the systems of this program, and the name of its build: digests are comparable within one build. Panics if a name is there twice, or if
/// others are registered already: both are mistakes of the program.
pub fn install(systems: &[&'static dyn System], build: &'static str) {
    let names = |systems: &mut dyn Iterator<Item = &'static dyn System>| systems.map(|system| system.name()).collect::<Vec<_>>();
    let installed = SYSTEMS.get_or_init(|| Systems::new(systems, build));
    let (there, wanted) = (names(&mut installed.iter()), names(&mut systems.iter().copied()));
    assert!(there == wanted, "the systems {there:?} are registered already, and cannot be replaced by {wanted:?}");
}

/// The registered systems. Panics if there are none: [`install`] comes first.
pub fn systems() -> &'static Systems {
    SYSTEMS.get().unwrap_or_else(|| panic!("no system under test is registered: call `install` before anything is read or run"))
}

macro_rules! open_set {
    ($Type:ident, $field:ident) => {
        impl<'de> serde::Deserialize<'de> for $Type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                sim_config::kinds::deserialize_open(deserializer, systems().$field.names, |name| systems().$field.find(name))
            }
        }

        impl schemars::JsonSchema for $Type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($Type).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                sim_config::kinds::schema_of_open(generator, &systems().$field.parties)
            }
        }
    };
}

open_set!(WorkloadDraft, drafts);
open_set!(WorkloadPlan, plans);
open_set!(OpKind, operations);
