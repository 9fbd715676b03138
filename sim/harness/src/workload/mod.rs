//! The work of a run's clients.
//!
//! A workload is a [`Draft`] in a scenario, with values that may be open, and [`Work`] in a plan. [`WorkloadDraft`] and [`WorkloadPlan`]
//! hold those of any registered system.

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

/// A workload of a plan: its actors and their work.
pub trait Work {
    /// The names of the processes that execute operations.
    fn actor_names(&self) -> Vec<String>;

    /// The names of all processes that the workload adds.
    fn process_names(&self) -> Vec<String> {
        self.actor_names()
    }

    /// The names of hosts that are not also those of processes.
    fn host_names(&self) -> Vec<String> {
        Vec::new()
    }

    /// Checks that an actor of this workload can execute `op`.
    ///
    /// # Errors
    /// Returns the reason why it cannot.
    fn takes(&self, op: &OpKind) -> Result<(), InvalidValue>;

    /// Values that are impossible or far too large.
    fn problems(&self, source: Source<'_>) -> Problems;

    /// Simpler variants of the workload in which its actors do `ops`, the ones that save most first; for shrinking. Following any of them
    /// repeatedly must come to an end.
    fn smaller(&self, ops: &[Op]) -> Vec<Smaller> {
        let _ = ops;
        Vec::new()
    }

    /// Whether these operations make sense together. Shrinking leaves operations out, and the rest may ask for something impossible, such
    /// as a second pod with a name whose first one is never deleted: that would be another failure.
    fn sensible(&self, ops: &[Op]) -> bool {
        let _ = ops;
        true
    }

    /// Whether the controllers run that `eventually` claims rely on. Shrinking removes the last of them only if an `always` claim fails:
    /// without them `eventually` claims always fail.
    fn has_controllers(&self) -> bool {
        true
    }

    /// The targets that faults can have when the actors do `ops`.
    fn fault_targets(&self, ops: &[Op]) -> FaultTargets {
        let _ = ops;
        FaultTargets::alone(self.actor_names(), &[])
    }

    /// The pods, as `NAMESPACE/NAME`, that cannot run when these processes and hosts are gone and the actors have done `ops`.
    fn pods_on(&self, ops: &[Op], names: &BTreeSet<String>) -> BTreeSet<String> {
        let _ = (ops, names);
        BTreeSet::new()
    }

    /// Processes and hosts that cannot work either when these are gone: a node without its kubelet, an agent without its host.
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

/// The information about a run that a workload needs to install itself.
#[derive(Clone, Copy, Debug)]
pub struct RunContext<'a> {
    /// The seed from which processes draw.
    pub seed: u64,
    /// Deviations of the system under test.
    pub deviations: &'a [DeviationName],
    /// Processes that begin in an older version, or are rolled back to it.
    pub upgrade: Option<&'a Upgrade>,
    /// Operations of the actors.
    pub ops: &'a [Op],
}

impl<'a> RunContext<'a> {
    /// The deviations of this process in the course of the run.
    pub fn version_of(&self, process: &str) -> Version<&'a [DeviationName]> {
        let version = Version::present(self.deviations);
        let older = self.upgrade.and_then(|upgrade| Some((upgrade.older(process)?, &upgrade.deviations[..])));
        older.map_or(version, |(during, older)| version.with_older(during, older))
    }

    /// The operations of this actor, in the order of the plan.
    pub fn turns_of(&self, actor: &str) -> Turns<OpKind> {
        let own = self.ops.iter().filter(|op| op.common.actor == actor);
        Turns::new(own.map(|op| (op.common.at, op.kind.clone())))
    }
}

/// Processes, hosts and pods that claims cannot wait for, because they are on hosts that stay broken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutOfReach {
    /// The processes and hosts that are down or cut off permanently, and those that can do nothing without them.
    pub names: BTreeSet<String>,
    /// The pods that run there or would, as `NAMESPACE/NAME`.
    pub pods: BTreeSet<String>,
}

impl OutOfReach {
    /// Everything out of reach if these processes and hosts are lost permanently.
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
    /// The operations of its actors. Operations of removed actors may be among them.
    pub ops: Vec<Op>,
    /// The processes and hosts that were renamed, each with its new name, because they replace removed ones.
    pub renamed: BTreeMap<String, String>,
}

impl Smaller {
    /// A variant in which the same actors have the same names and operations.
    pub fn same_ops(workload: impl Into<WorkloadPlan>, ops: &[Op]) -> Self {
        Self { workload: workload.into(), ops: ops.to_vec(), renamed: BTreeMap::new() }
    }
}

/// The number of things that remain of `count`, and the new numbers of those that move up, if only those remain for which `stays` is true.
/// At least one remains.
pub fn closed_ranks(count: u32, stays: impl Fn(u32) -> bool) -> (u32, BTreeMap<u32, u32>) {
    let mut kept: Vec<u32> = (0..count).filter(|&number| stays(number)).collect();
    if kept.is_empty() && count > 0 {
        kept.push(0);
    }
    (kept.len() as u32, kept.into_iter().zip(0..).filter(|(from, to)| from != to).collect())
}

/// Variants with fewer than `count` actors: those without operations are removed. `of` makes the workload of a number of actors; `name` is
/// the name of each.
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
    // A renamed actor has other draws. Removing the actors after the last that works renames none.
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

/// An unusable value of an operation or a plan.
pub struct InvalidValue {
    /// The text in the file.
    pub found: String,
    /// The problem with it.
    pub wrong: String,
    /// The remedy, or correct values.
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
