//! What the clients of a run do.
//!
//! A workload is a [`Draft`] in a scenario, with values that may be open, and [`Work`] in a plan. [`WorkloadDraft`] and [`WorkloadPlan`]
//! are those of any registered system.

pub mod backoff;
pub mod declare;
pub mod draft;
pub mod life;
pub mod misnamed;
pub mod objects;
pub mod planned;
pub mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_sim::cluster::Cluster;
pub use kube_sim::fault::FaultTargets;
use sim_config::{Problems, Source};

use crate::deviation::DeviationName;
use crate::operation::{Op, OpKind};
use crate::upgrade::{Upgrade, Version};

pub use backoff::BackoffPlan;
pub use declare::WorkloadKinds;
pub use draft::{Adoption, AnyDraft, Draft, DraftKinds, WorkloadDraft, at_least_one, at_most, from_one_to};
pub use life::{Life, live};
pub use misnamed::Misnamed;
pub use objects::{plain_pod, preload_namespace};
pub use planned::{Workload, WorkloadPlan, problems_of_ops};
#[doc(no_inline)]
pub use sim_config::kinds::kinds;
pub use turns::Turns;

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
    fn takes(&self, op: &OpKind) -> Result<(), InvalidValue>;

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

    /// Whether the controllers run that bring about what is to come true in the end. Shrinking takes the last of them away only where a
    /// claim about what holds at every step fails: without them the others fail of themselves.
    fn has_controllers(&self) -> bool {
        true
    }

    /// What faults can be about, as far as it takes part when its actors do `ops`.
    fn fault_targets(&self, ops: &[Op]) -> FaultTargets {
        let _ = ops;
        FaultTargets::alone(self.actor_names(), &[])
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
    fn preload(&self, cluster: &Arc<Cluster>) {
        let _ = cluster;
    }

    /// Adds the processes, and starts those that run from the beginning.
    fn install(&self, cluster: &Arc<Cluster>, run: &RunContext<'_>);
}

/// What a workload is told of the run that it is installed for.
#[derive(Clone, Copy, Debug)]
pub struct RunContext<'a> {
    /// The seed from which processes draw.
    pub seed: u64,
    /// What the system under test does differently.
    pub deviations: &'a [DeviationName],
    /// Who begins in an older version, or is rolled back to it.
    pub upgrade: Option<&'a Upgrade>,
    /// What the actors do.
    pub ops: &'a [Op],
}

impl<'a> RunContext<'a> {
    /// What the process of this name does differently in the course of the run.
    pub fn version_of(&self, process: &str) -> Version<&'a [DeviationName]> {
        let version = Version::present(self.deviations);
        let older = self.upgrade.and_then(|upgrade| Some((upgrade.older(process)?, &upgrade.deviations[..])));
        older.map_or(version, |(during, older)| version.with_older(during, older))
    }

    /// What the actor of this name does, in the order of the plan.
    pub fn turns_of(&self, actor: &str) -> Turns<OpKind> {
        let own = self.ops.iter().filter(|op| op.common.actor == actor);
        Turns::new(own.map(|op| (op.common.at, op.kind.clone())))
    }
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
    /// The simpler workload, whose actors do `ops`.
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

/// A value of an operation or a plan that nothing can be done with.
pub struct InvalidValue {
    /// What stands in the file.
    pub found: String,
    /// What is wrong with it.
    pub wrong: String,
    /// What would be right.
    pub right: String,
}

impl InvalidValue {
    /// An operation of another workload.
    pub fn of(op: &OpKind, right: &str) -> Self {
        let found = op.kind().to_owned();
        Self { wrong: format!("this workload has no operation `{found}`"), found, right: right.to_owned() }
    }

    /// A value of an operation.
    pub fn value(found: &str, wrong: impl Into<String>, right: impl Into<String>) -> Self {
        Self { found: found.to_owned(), wrong: wrong.into(), right: right.into() }
    }
}
