//! What the clients of a run do, and what they say of it.
//!
//! A workload is a [`Draft`] in a scenario, with values that may be open, and [`Work`] in a plan. `WorkloadDraft` and `WorkloadPlan`
//! name the kinds there are.

pub mod byom;
pub mod counter;
mod in_turn;
pub(crate) mod misnamed;
mod pod_note;
pub mod spiderpool;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ipam_spiderpool::reclaim::ReclaimSettings;
use k8s_openapi::api::core::v1::Namespace;
use kube_machinery::ObjectKey;

use crate::cluster::Fabric;
use crate::draw::Draw;
use crate::input::kinds::Kinds;
use crate::input::{Problem, Problems, Source};
use crate::kinds::KindId;
use crate::object::Obj;
use crate::plan::{Op, OpKind, Plan, WorkloadPlan};
use crate::rt::ProcessId;
use crate::story::About;
use crate::trace::EventKind;
use byom::PoolNote;
use spiderpool::{HookNote, IpamNote, ReclaimNote};

pub use misnamed::Misnamed;
pub use pod_note::{AddFailure, PodNote};

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

    /// Where the document of the BYOM pool is kept that the workload works on, if it works on one: figures are taken of it.
    fn pool(&self) -> Option<ObjectKey> {
        None
    }

    /// The settings with which Spiderpool's controller reclaims addresses, if the workload has it do so: figures are taken of that.
    fn reclaim(&self) -> Option<ReclaimSettings> {
        None
    }

    /// How many addresses the pools of Spiderpool have at the beginning, if the workload has any: figures are taken of them when planners ask.
    fn addresses(&self) -> Option<u64> {
        None
    }

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
    fn stake(&self, ops: &[Op]) -> Stake {
        let _ = ops;
        Stake { processes: self.actor_names(), hosts: self.actor_names(), ..Stake::default() }
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

/// What of a workload a swarm of faults can be about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stake {
    /// Processes that do something: the system under test and those it cannot do without.
    pub processes: Vec<String>,
    /// Their hosts.
    pub hosts: Vec<String>,
    /// What else they talk to, besides API servers.
    pub peers: Vec<String>,
    /// The plurals of the types that they read and write.
    pub resources: Vec<String>,
    /// Objects that others may write, too, as `PLURAL/NAMESPACE/NAME`.
    pub objects: Vec<String>,
    /// Those of the processes that are kubelets with a container runtime and plugins (`actor::kubelet`).
    pub kubelets: Vec<String>,
    /// Addresses that machines outside the cluster may use.
    pub addresses: Vec<String>,
    /// Those of the hosts whose Nodes may be lost, where somebody looks after such Nodes.
    pub nodes: Vec<String>,
    /// Those of the processes that serve webhooks.
    pub webhooks: Vec<String>,
    /// The leases of leaders, as `leases/NAMESPACE/NAME`.
    pub leases: Vec<String>,
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
fn closed_ranks(count: u32, stays: impl Fn(u32) -> bool) -> (u32, BTreeMap<u32, u32>) {
    let mut kept: Vec<u32> = (0..count).filter(|&number| stays(number)).collect();
    if kept.is_empty() && count > 0 {
        kept.push(0);
    }
    (kept.len() as u32, kept.into_iter().zip(0..).filter(|(from, to)| from != to).collect())
}

/// The workload that `of` makes of a number of actors, with fewer of `count`: those without operations are given up. `name`: what each
/// is called.
fn without_idle(count: u32, ops: &[Op], name: fn(u32) -> String, of: impl Fn(u32) -> WorkloadPlan) -> Vec<Smaller> {
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

    /// Reads the files that the workload names, relative to `folder`; once, before anything is drawn.
    ///
    /// # Errors
    /// What is wrong with them.
    fn read_files(&mut self, folder: &Path) -> Result<(), Problems> {
        let _ = folder;
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
    pub(crate) fn of(op: &OpKind, right: &str) -> Self {
        let found = op.kind().to_owned();
        Self { wrong: format!("the operation `{found}` is none of this workload"), found, right: right.to_owned() }
    }

    /// A value of an operation.
    pub(crate) fn value(found: &str, wrong: impl Into<String>, right: impl Into<String>) -> Self {
        Self { found: found.to_owned(), wrong: wrong.into(), right: right.into() }
    }
}

/// A problem with the value of `key`, described as `what`, if it is 0.
fn at_least_one(source: Source<'_>, key: &str, what: &str, value: u32) -> Problems {
    let mut problems = Problems::new();
    if value == 0 {
        problems.push(source.problem(key, format!("{what} may be 0"), "at least 1"));
    }
    problems
}

/// A problem with the value of `key`, described as `what`, if it is over its limit.
fn at_most(source: Source<'_>, key: &str, what: &str, value: u64, limit: u64) -> Problems {
    let mut problems = Problems::new();
    if value > limit {
        problems.push(source.problem(key, format!("{what} may be {value}"), format!("at most {limit}")));
    }
    problems
}

/// What an actor says it did: one vocabulary for all workloads.
#[derive(Clone, Debug)]
pub enum Note {
    /// A counter was incremented, and the increment acknowledged.
    Counted {
        /// The value that was written.
        value: u64,
    },
    /// Nobody knows whether an increment took place: its answer was lost, or its client crashed.
    LeftOpen,
    /// An operation gave up because its last retry failed, too.
    RetriesExhausted,
    /// Something about a BYOM pool, its adaptors or its VMs.
    Pool(PoolNote),
    /// Something about a Spiderpool agent.
    Ipam(IpamNote),
    /// Something about what Spiderpool's controller reclaims.
    Reclaim(ReclaimNote),
    /// Something about what Spiderpool's controller admits.
    Hook(HookNote),
    /// Something about a pod and its sandboxes on its node.
    Pod(PodNote),
}

impl Note {
    /// Which addresses, allocations and pods it is about, and whether an operation begins or ends with it. A counter has none.
    pub fn about(&self) -> About {
        match self {
            Note::Counted { .. } | Note::LeftOpen | Note::RetriesExhausted => About::passing([]),
            Note::Pool(note) => note.about(),
            Note::Ipam(note) => note.about(),
            Note::Reclaim(note) => note.about(),
            Note::Hook(note) => note.about(),
            Note::Pod(note) => note.about(),
        }
    }

    /// What of the note enters the digest.
    pub(crate) fn word(&self) -> u64 {
        match self {
            Note::Counted { value } => value << 2,
            Note::LeftOpen => 1,
            Note::RetriesExhausted => 2,
            Note::Pool(note) => note.word() << 2 | 3,
            // The tags of these are distinct, though the uppermost bits are lost.
            Note::Ipam(note) => note.word() << 2 | 1,
            Note::Reclaim(note) => note.word() << 2 | 1,
            Note::Hook(note) => note.word() << 2 | 1,
            // Never that of `RetriesExhausted`: the word of a pod's note is not 0.
            Note::Pod(note) => note.word() << 2 | 2,
        }
    }
}

/// Has the trace say that `process` said `note`, now.
pub(crate) fn note(fabric: &Fabric, process: ProcessId, note: &Note) {
    let at = fabric.rt.now();
    fabric.recorder(|recorder| recorder.observe(at, EventKind::Note { process, note }));
}

/// Says what a process does in each of its lives, with `site`, which its neighbours share.
fn live<S: Send + Sync + 'static, F: Future<Output = ()> + Send + 'static>(
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
fn preload_namespace(fabric: &Fabric, name: &str) {
    if !fabric.holds::<Namespace>(&ObjectKey::cluster(name)) {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.to_owned());
        fabric.preload_typed(namespace);
    }
}
