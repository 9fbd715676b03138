//! The workload of a scenario, whose values may be open.

use std::any::Any;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use kube_sim::kinds::KindId;
use kube_sim::object::Obj;
use serde::{Serialize, Serializer};
use sim_config::draw::Draw;
use sim_config::kinds::Kinds;
use sim_config::{Problem, Problems, Source};

use super::{Misnamed, Work, WorkloadPlan};
use crate::operation::Op;
use crate::registered::open_set;

open_set!(WorkloadDraft, DRAFTS);

/// The actors of a scenario, with values that may be open: a workload of one of the registered systems.
#[derive(Debug)]
pub struct WorkloadDraft(Box<dyn DraftOfSystem>);

/// The workloads of a system in scenarios, as it declares them with [`kinds!`](macro@sim_config::kinds): one variant for each kind.
pub trait DraftKinds: Kinds + Clone + PartialEq + fmt::Debug + Serialize + Send + Sync + 'static {
    /// The draft, whatever its kind.
    fn draft(&self) -> &dyn AnyDraft;
    /// The same draft, mutable.
    fn draft_mut(&mut self) -> &mut dyn AnyDraft;
}

trait DraftOfSystem: Any + fmt::Debug + erased_serde::Serialize + Send + Sync {
    fn draft(&self) -> &dyn AnyDraft;
    fn draft_mut(&mut self) -> &mut dyn AnyDraft;
    fn kind(&self) -> &'static str;
    fn copy(&self) -> WorkloadDraft;
    fn equals(&self, other: &dyn DraftOfSystem) -> bool;
}

impl<D: DraftKinds> DraftOfSystem for D {
    fn draft(&self) -> &dyn AnyDraft {
        DraftKinds::draft(self)
    }
    fn draft_mut(&mut self) -> &mut dyn AnyDraft {
        DraftKinds::draft_mut(self)
    }
    fn kind(&self) -> &'static str {
        Kinds::kind(self)
    }
    fn copy(&self) -> WorkloadDraft {
        WorkloadDraft(Box::new(self.clone()))
    }
    fn equals(&self, other: &dyn DraftOfSystem) -> bool {
        (other as &dyn Any).downcast_ref().is_some_and(|other: &D| self == other)
    }
}

impl WorkloadDraft {
    /// Wraps the workload of a system.
    pub fn new(draft: impl DraftKinds) -> Self {
        Self(Box::new(draft))
    }

    /// The draft, whatever its system.
    pub fn draft(&self) -> &dyn AnyDraft {
        self.0.draft()
    }

    /// The name of its kind in a file.
    pub fn kind(&self) -> &'static str {
        self.0.kind()
    }

    /// The draft, mutable, whatever its system.
    pub fn draft_mut(&mut self) -> &mut dyn AnyDraft {
        self.0.draft_mut()
    }

    /// The workload, if `D` are the workloads of its system.
    pub fn get<D: DraftKinds>(&self) -> Option<&D> {
        (&*self.0 as &dyn Any).downcast_ref()
    }

    /// The same workload, mutable.
    pub fn get_mut<D: DraftKinds>(&mut self) -> Option<&mut D> {
        (&mut *self.0 as &mut dyn Any).downcast_mut()
    }
}

impl<D: DraftKinds> From<D> for WorkloadDraft {
    fn from(draft: D) -> Self {
        Self::new(draft)
    }
}

impl Clone for WorkloadDraft {
    fn clone(&self) -> Self {
        self.0.copy()
    }
}

impl PartialEq for WorkloadDraft {
    fn eq(&self, other: &Self) -> bool {
        self.0.equals(&*other.0)
    }
}

impl Serialize for WorkloadDraft {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        erased_serde::serialize(&*self.0, serializer)
    }
}

/// A workload of a scenario, whose values may be open.
pub trait Draft {
    /// The workload with every value drawn, as a plan has it.
    type Plan: Work + Into<WorkloadPlan>;

    /// The workload with the fewest actors and the one with the most; only called if [`Draft::problems`] finds none.
    fn bounds(&self) -> [Self::Plan; 2];

    /// Values from which nothing could be drawn, or far too much; [`Work::problems`] of the [`bounds`](Self::bounds) are found separately.
    fn problems(&self, source: Source<'_>) -> Problems;

    /// Draws the actors and their operations.
    fn draw(&self, draw: &mut Draw) -> (Self::Plan, Vec<Op>);

    /// Operations that differ a little from `ops`, which this workload has drawn, and that it could have drawn for the same actors as well:
    /// the next ones that a guided search tries. Claims that must hold for `ops` must hold for them, too. `None` = there are none, or none
    /// is known.
    fn vary(&self, ops: &[Op], draw: &mut Draw) -> Option<Vec<Op>> {
        let _ = (ops, draw);
        None
    }

    /// Reads the files that the workload names, relative to `folder`; once, before anything is drawn. `source` has the text that names
    /// them.
    ///
    /// # Errors
    /// Returns the problems of the files.
    fn read_files(&mut self, source: Source<'_>, folder: &Path) -> Result<(), Problems> {
        let _ = (source, folder);
        Ok(())
    }

    /// The part of the files that a run of at most this duration does not use, in a sentence, if there is any.
    ///
    /// # Errors
    /// Fails if the run uses nothing of the files.
    fn left_out(&self, lasts: Duration) -> Result<Option<String>, Problem> {
        let _ = lasts;
        Ok(None)
    }

    /// Whether a user provides a cluster to see its pods get addresses: a sweep in which no pod asks for one is vacuous then.
    fn wants_addresses(&self) -> bool {
        false
    }

    /// The names in scripted operations that nothing can have in any run, whatever is drawn. `objects`: those of manifests, which were
    /// passed to [`Draft::adopt`] before.
    fn misnamed(&self, ops: &[Op], objects: &[(KindId, Obj)]) -> Vec<Misnamed> {
        let _ = (ops, objects);
        Vec::new()
    }

    /// Adopts the cluster that manifests hold: its nodes and applications replace generated ones.
    fn adopt(&mut self, objects: &[(KindId, Obj)]) -> Adoption {
        let _ = objects;
        Adoption::NotAsked
    }
}

/// A [`Draft`] of any type of plan.
pub trait AnyDraft {
    /// The workload with the fewest actors and the one with the most: [`Draft::bounds`].
    fn bounds(&self) -> [WorkloadPlan; 2];
    /// Values from which nothing or far too much could be drawn: [`Draft::problems`].
    fn problems(&self, source: Source<'_>) -> Problems;
    /// The drawn workload and the operations of its actors: [`Draft::draw`].
    fn draw(&self, draw: &mut Draw) -> (WorkloadPlan, Vec<Op>);
    /// Other operations like these: see [`Draft::vary`].
    fn vary(&self, ops: &[Op], draw: &mut Draw) -> Option<Vec<Op>>;
    /// See [`Draft::read_files`].
    ///
    /// # Errors
    /// Returns the problems of the files.
    fn read_files(&mut self, source: Source<'_>, folder: &Path) -> Result<(), Problems>;
    /// See [`Draft::left_out`].
    ///
    /// # Errors
    /// Fails if the run uses nothing of the files.
    fn left_out(&self, lasts: Duration) -> Result<Option<String>, Problem>;
    /// Whether a cluster is provided to see its pods get addresses: [`Draft::wants_addresses`].
    fn wants_addresses(&self) -> bool;
    /// Names in scripted operations that nothing can have: [`Draft::misnamed`].
    fn misnamed(&self, ops: &[Op], objects: &[(KindId, Obj)]) -> Vec<Misnamed>;
    /// Adopts the cluster that manifests hold, if there is one: [`Draft::adopt`].
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
    fn vary(&self, ops: &[Op], draw: &mut Draw) -> Option<Vec<Op>> {
        Draft::vary(self, ops, draw)
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

/// The result of adopting the cluster that manifests hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adoption {
    /// The workload uses that cluster; nothing is generated beside it.
    MovedIn,
    /// The manifests hold no cluster that the workload could use: it generates its own.
    NothingThere,
    /// The workload always generates its own cluster.
    NotAsked,
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

/// A problem with the value of `key` if it is not from 1 to `limit`.
pub fn from_one_to(source: Source<'_>, key: &str, value: u32, limit: u32) -> Problems {
    let what = format!("`{key}`");
    let mut problems = at_least_one(source, key, &what, value);
    problems.append(at_most(source, key, &what, value.into(), limit.into()));
    problems
}
