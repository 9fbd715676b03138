//! What the clients of a run do.
//!
//! A workload is a [`Draft`] in a scenario, with values that may be open, and [`Work`] in a plan. `WorkloadDraft` and `WorkloadPlan`
//! name the kinds there are.

pub mod in_turn;
pub mod misnamed;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube_machinery::ObjectKey;
use kube_sim::cluster::Fabric;
pub use kube_sim::fault::FaultTargets;
use kube_sim::kinds::KindId;
use kube_sim::object::Obj;
use kube_sim::rt::ProcessId;
use sim_config::draw::Draw;
use sim_config::{Problem, Problems, Source};

use crate::plan::{Op, OpKind, Plan, WorkloadPlan};

pub use misnamed::Misnamed;
#[doc(no_inline)]
pub use sim_config::kinds::kinds;

/// A workload of a plan: who works on the cluster.
pub trait Work {
    /// The names of the processes that carry operations out.
    fn actor_names(&self) -> Vec<String>;

    /// The names of all processes that the workload adds.
    fn process_names(&self) -> Vec<String> {
        self.actor_names()
    }

    /// The names of hosts that are not called as a process is.
    fn host_names(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether an actor of this workload can carry `op` out.
    ///
    /// # Errors
    /// Why not.
    fn takes(&self, op: &OpKind) -> Result<(), Misfit>;

    /// Values that are impossible or far too large.
    fn problems(&self, source: Source<'_>) -> Problems;

    /// Simpler variants of the workload in which its actors do `ops`, the ones that save most first; for shrinking what fails.
    /// Following any of them again and again comes to an end.
    fn smaller(&self, ops: &[Op]) -> Vec<Smaller> {
        let _ = ops;
        Vec::new()
    }

    /// Whether these operations make sense together. Shrinking leaves operations out, and what is left may ask for something that
    /// could never come true, such as a second pod of a name whose first one nobody deletes: that would be another failure.
    fn sensible(&self, ops: &[Op]) -> bool {
        let _ = ops;
        true
    }

    /// What faults can be about, as far as it takes part when its actors do `ops`.
    fn fault_targets(&self, ops: &[Op]) -> FaultTargets {
        let _ = ops;
        FaultTargets { processes: self.actor_names(), hosts: self.actor_names(), ..FaultTargets::default() }
    }

    /// The pods, as `NAMESPACE/NAME`, that cannot run when these processes and hosts are gone and the actors have done `ops`.
    fn pods_on(&self, ops: &[Op], names: &BTreeSet<String>) -> BTreeSet<String> {
        let _ = (ops, names);
        BTreeSet::new()
    }

    /// Who cannot do its work either when these processes and hosts are gone: a node without its kubelet, an agent without its host.
    fn lost_with(&self, names: &BTreeSet<String>) -> BTreeSet<String> {
        let _ = names;
        BTreeSet::new()
    }

    /// Puts objects into the store before the cluster starts.
    fn preload(&self, fabric: &Arc<Fabric>, plan: &Plan) {
        let _ = (fabric, plan);
    }

    /// Adds the processes, and starts those that run from the beginning.
    fn install(&self, fabric: &Arc<Fabric>, plan: &Plan);
}

/// What nobody can wait for, because it is on hosts that stay broken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutOfReach {
    /// The processes and hosts that are down or cut off for good, and those that can do nothing without them.
    pub names: BTreeSet<String>,
    /// The pods that run there or would, as `NAMESPACE/NAME`.
    pub pods: BTreeSet<String>,
}

impl OutOfReach {
    /// What that is when these processes and hosts are lost for good.
    pub fn of(work: &dyn Work, ops: &[Op], lost: BTreeSet<String>) -> Self {
        let mut names = lost;
        if names.is_empty() {
            return Self::default();
        }
        names.extend(work.lost_with(&names));
        Self { pods: work.pods_on(ops, &names), names }
    }
}

/// A simpler variant of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Smaller {
    /// The workload.
    pub workload: WorkloadPlan,
    /// What its actors do. Operations of actors that are gone may be among them.
    pub ops: Vec<Op>,
    /// Processes and hosts that are called otherwise now, each with its new name, because they move into the place of one that is gone.
    pub renamed: BTreeMap<String, String>,
}

impl Smaller {
    /// The same actors under the same names do the same.
    pub fn same_ops(workload: impl Into<WorkloadPlan>, ops: &[Op]) -> Self {
        Self { workload: workload.into(), ops: ops.to_vec(), renamed: BTreeMap::new() }
    }
}

/// Which of `count` numbered things move where if only those remain for which `stays` is true, and how many those are. At least one
/// remains.
pub fn closed_ranks(count: u32, stays: impl Fn(u32) -> bool) -> (u32, BTreeMap<u32, u32>) {
    let mut kept: Vec<u32> = (0..count).filter(|&number| stays(number)).collect();
    if kept.is_empty() && count > 0 {
        kept.push(0);
    }
    (kept.len() as u32, kept.into_iter().zip(0..).filter(|(from, to)| from != to).collect())
}

/// The workload that `of` makes of a number of actors, with fewer of `count`: those without operations are given up. `name`: what each
/// is called.
pub fn without_idle(count: u32, ops: &[Op], name: fn(u32) -> String, of: impl Fn(u32) -> WorkloadPlan) -> Vec<Smaller> {
    let works = |number: u32| ops.iter().any(|op| op.common.actor == name(number));
    let (left, moved) = closed_ranks(count, works);
    let renamed: BTreeMap<String, String> = moved.iter().map(|(&from, &to)| (name(from), name(to))).collect();
    let mut closed = ops.to_vec();
    for op in &mut closed {
        if let Some(name) = renamed.get(&op.common.actor) {
            op.common.actor.clone_from(name);
        }
    }
    // Who is called otherwise makes other draws. Those behind the last that works go without any change.
    let last = (0..count).rev().find(|&number| works(number)).map_or(1, |last| last + 1);
    let mut all = Vec::new();
    if left < count {
        all.push(Smaller { workload: of(left), ops: closed, renamed });
    }
    if last < count {
        all.push(Smaller::same_ops(of(last), ops));
    }
    all
}

/// A workload of a scenario: what can be drawn.
pub trait Draft {
    /// What is drawn.
    type Plan: Work + Into<WorkloadPlan>;

    /// The workload with the fewest actors and the one with the most; only asked without [`Draft::problems`].
    fn bounds(&self) -> [Self::Plan; 2];

    /// Values with which nothing could be drawn, or far too much.
    fn problems(&self, source: Source<'_>) -> Problems;

    /// Draws the actors and what they do.
    fn draw(&self, draw: &mut Draw) -> (Self::Plan, Vec<Op>);

    /// Reads the files that the workload names, relative to `folder`; once, before anything is drawn. `source` has the text that names them.
    ///
    /// # Errors
    /// What is wrong with them.
    fn read_files(&mut self, source: Source<'_>, folder: &Path) -> Result<(), Problems> {
        let _ = (source, folder);
        Ok(())
    }

    /// What a run that lasts at most so long does not take of the files, in a sentence, if there is any.
    ///
    /// # Errors
    /// It takes nothing of them.
    fn left_out(&self, lasts: Duration) -> Result<Option<String>, Problem> {
        let _ = lasts;
        Ok(None)
    }

    /// Whether a user who brings a cluster does so in order that its pods get addresses: a sweep in which none asks for one says nothing then.
    fn wants_addresses(&self) -> bool {
        false
    }

    /// The names in scripted operations that nothing can have in any run, whatever is drawn. `objects`: what manifests hold, of which
    /// [`Draft::adopt`] was told before.
    fn misnamed(&self, ops: &[Op], objects: &[(KindId, Obj)]) -> Vec<Misnamed> {
        let _ = (ops, objects);
        Vec::new()
    }

    /// Takes over the cluster that manifests hold: its nodes and applications stand for generated ones.
    fn adopt(&mut self, objects: &[(KindId, Obj)]) -> Adoption {
        let _ = objects;
        Adoption::NotAsked
    }
}

/// A [`Draft`] of whichever plan.
pub trait AnyDraft {
    /// See [`Draft::bounds`].
    fn bounds(&self) -> [WorkloadPlan; 2];
    /// See [`Draft::problems`].
    fn problems(&self, source: Source<'_>) -> Problems;
    /// See [`Draft::draw`].
    fn draw(&self, draw: &mut Draw) -> (WorkloadPlan, Vec<Op>);
    /// See [`Draft::read_files`].
    ///
    /// # Errors
    /// What is wrong with the files.
    fn read_files(&mut self, source: Source<'_>, folder: &Path) -> Result<(), Problems>;
    /// See [`Draft::left_out`].
    ///
    /// # Errors
    /// The run takes nothing of the files.
    fn left_out(&self, lasts: Duration) -> Result<Option<String>, Problem>;
    /// See [`Draft::wants_addresses`].
    fn wants_addresses(&self) -> bool;
    /// See [`Draft::misnamed`].
    fn misnamed(&self, ops: &[Op], objects: &[(KindId, Obj)]) -> Vec<Misnamed>;
    /// See [`Draft::adopt`].
    fn adopt(&mut self, objects: &[(KindId, Obj)]) -> Adoption;
}

impl<D: Draft> AnyDraft for D {
    fn bounds(&self) -> [WorkloadPlan; 2] {
        Draft::bounds(self).map(Into::into)
    }
    fn problems(&self, source: Source<'_>) -> Problems {
        Draft::problems(self, source)
    }
    fn draw(&self, draw: &mut Draw) -> (WorkloadPlan, Vec<Op>) {
        let (plan, ops) = Draft::draw(self, draw);
        (plan.into(), ops)
    }
    fn read_files(&mut self, source: Source<'_>, folder: &Path) -> Result<(), Problems> {
        Draft::read_files(self, source, folder)
    }
    fn left_out(&self, lasts: Duration) -> Result<Option<String>, Problem> {
        Draft::left_out(self, lasts)
    }
    fn wants_addresses(&self) -> bool {
        Draft::wants_addresses(self)
    }
    fn misnamed(&self, ops: &[Op], objects: &[(KindId, Obj)]) -> Vec<Misnamed> {
        Draft::misnamed(self, ops, objects)
    }
    fn adopt(&mut self, objects: &[(KindId, Obj)]) -> Adoption {
        Draft::adopt(self, objects)
    }
}

/// What a workload makes of the cluster that manifests hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adoption {
    /// It lives in that cluster; nothing is generated beside it.
    MovedIn,
    /// They hold nothing of a cluster that it could live in: it generates its own.
    NothingThere,
    /// It always makes its own.
    NotAsked,
}

/// An operation that nobody can carry out.
pub struct Misfit {
    /// What stands in the file.
    pub found: String,
    /// What is wrong with it.
    pub wrong: String,
    /// What would be right.
    pub right: String,
}

impl Misfit {
    /// An operation of another workload.
    pub fn of(op: &OpKind, right: &str) -> Self {
        let found = op.kind().to_owned();
        Self { wrong: format!("the operation `{found}` is none of this workload"), found, right: right.to_owned() }
    }

    /// A value of an operation.
    pub fn value(found: &str, wrong: impl Into<String>, right: impl Into<String>) -> Self {
        Self { found: found.to_owned(), wrong: wrong.into(), right: right.into() }
    }
}

/// A problem with the value of `key`, described as `what`, if it is 0.
pub fn at_least_one(source: Source<'_>, key: &str, what: &str, value: u32) -> Problems {
    let mut problems = Problems::new();
    if value == 0 {
        problems.push(source.problem(key, format!("{what} may be 0"), "at least 1"));
    }
    problems
}

/// A problem with the value of `key`, described as `what`, if it is over its limit.
pub fn at_most(source: Source<'_>, key: &str, what: &str, value: u64, limit: u64) -> Problems {
    let mut problems = Problems::new();
    if value > limit {
        problems.push(source.problem(key, format!("{what} may be {value}"), format!("at most {limit}")));
    }
    problems
}

/// Says what a process does in each of its lives, with `site`, which its neighbours share.
pub fn live<S: Send + Sync + 'static, F: Future<Output = ()> + Send + 'static>(
    site: &Arc<S>,
    fabric: &Arc<Fabric>,
    process: ProcessId,
    main: impl Fn(Arc<S>, Arc<Fabric>) -> F + Send + Sync + 'static,
) {
    let (site, shared) = (site.clone(), Arc::downgrade(fabric));
    fabric.rt.set_main(process, move |_| {
        let life = shared.upgrade().map(|fabric| main(site.clone(), fabric));
        async move {
            if let Some(life) = life {
                life.await;
            }
        }
    });
}

/// Puts a namespace into the store unless it is there.
pub fn preload_namespace(fabric: &Fabric, name: &str) {
    if !fabric.holds::<Namespace>(&ObjectKey::cluster(name)) {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.to_owned());
        fabric.preload_typed(namespace);
    }
}

/// The kinds of a system with one workload: the enums `Drafts` and `Plans`, as [`System`](crate::system::System) wants them, around a draft and a plan of
/// this name, and what makes them and the operations those of the harness.
///
/// ```text
/// only_workload! {
///     /// Clients that increment a number.
///     "counter" => CounterDraft, CounterPlan, Operation
/// }
/// ```
#[macro_export]
macro_rules! only_workload {
    ($(#[$doc:meta])* $name:literal => $Draft:ty, $Plan:ty, $Operation:ty) => {
        $crate::workload::kinds! {
            /// The workload of a plan.
            pub enum Plans {
                $(#[$doc])*
                $name => Only($Plan),
            }
        }

        $crate::workload::kinds! {
            /// The workload of a scenario.
            pub enum Drafts {
                $(#[$doc])*
                $name => Only($Draft),
            }
        }

        impl From<$Operation> for $crate::plan::OpKind {
            fn from(operation: $Operation) -> Self {
                Self::new(operation)
            }
        }

        impl From<Plans> for $crate::plan::WorkloadPlan {
            fn from(plan: Plans) -> Self {
                Self::new(plan)
            }
        }

        impl From<$Plan> for $crate::plan::WorkloadPlan {
            fn from(plan: $Plan) -> Self {
                Self::new(Plans::Only(plan))
            }
        }

        impl From<Drafts> for $crate::scenario::WorkloadDraft {
            fn from(draft: Drafts) -> Self {
                Self::new(draft)
            }
        }

        impl $crate::plan::Workload for Plans {
            fn work(&self) -> &dyn $crate::workload::Work {
                let Self::Only(plan) = self;
                plan
            }
        }

        impl $crate::scenario::DraftKinds for Drafts {
            fn draft(&self) -> &dyn $crate::workload::AnyDraft {
                let Self::Only(draft) = self;
                draft
            }

            fn draft_mut(&mut self) -> &mut dyn $crate::workload::AnyDraft {
                let Self::Only(draft) = self;
                draft
            }
        }
    };
}
