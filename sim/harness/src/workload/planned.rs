//! The workload of a plan, whatever its system.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;

use serde::{Serialize, Serializer};
use sim_config::kinds::Kinds;
use sim_config::time::SimTime;
use sim_config::{Problems, Source};

use super::{InvalidValue, Work};
use crate::operation::{Op, Turn};
use crate::registered::open_set;

open_set!(WorkloadPlan, PLANS);

/// The actors of a plan: the workload of one of the registered systems.
#[derive(Debug)]
pub struct WorkloadPlan(Box<dyn AnyWorkload>);

/// A workload of a plan, as its system declares it with [`kinds!`](macro@sim_config::kinds): one variant for each kind.
pub trait Workload: Kinds + Clone + PartialEq + fmt::Debug + Serialize + Send + Sync + 'static {
    /// The work, whatever its kind.
    fn work(&self) -> &dyn Work;
}

trait AnyWorkload: Any + fmt::Debug + erased_serde::Serialize + Send + Sync {
    fn work(&self) -> &dyn Work;
    fn kind(&self) -> &'static str;
    fn copy(&self) -> WorkloadPlan;
    fn equals(&self, other: &dyn AnyWorkload) -> bool;
}

impl<W: Workload> AnyWorkload for W {
    fn work(&self) -> &dyn Work {
        Workload::work(self)
    }
    fn kind(&self) -> &'static str {
        Kinds::kind(self)
    }
    fn copy(&self) -> WorkloadPlan {
        WorkloadPlan(Box::new(self.clone()))
    }
    fn equals(&self, other: &dyn AnyWorkload) -> bool {
        (other as &dyn Any).downcast_ref().is_some_and(|other: &W| self == other)
    }
}

impl WorkloadPlan {
    /// Wraps the workload of a system.
    pub fn new(workload: impl Workload) -> Self {
        Self(Box::new(workload))
    }

    /// The work, whatever its system.
    pub fn work(&self) -> &dyn Work {
        self.0.work()
    }

    /// The name of its kind in a file.
    pub fn kind(&self) -> &'static str {
        self.0.kind()
    }

    /// The workload, if `W` are the workloads of its system.
    pub fn get<W: Workload>(&self) -> Option<&W> {
        (&*self.0 as &dyn Any).downcast_ref()
    }
}

impl<W: Workload> From<W> for WorkloadPlan {
    fn from(workload: W) -> Self {
        Self::new(workload)
    }
}

impl Clone for WorkloadPlan {
    fn clone(&self) -> Self {
        self.0.copy()
    }
}

impl PartialEq for WorkloadPlan {
    fn eq(&self, other: &Self) -> bool {
        self.0.equals(&*other.0)
    }
}

impl Serialize for WorkloadPlan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        erased_serde::serialize(&*self.0, serializer)
    }
}

/// Operations that could not be executed.
pub fn problems_of_ops(source: Source<'_>, ops: &[Op], workload: &dyn Work) -> Problems {
    let names = workload.actor_names();
    let known: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let mut problems = Problems::new();
    for (row, op) in ops.iter().enumerate() {
        let Turn { at, actor } = &op.common;
        if !known.contains(actor.as_str()) {
            let right = match names.as_slice() {
                [] => "the workload has no clients".to_owned(),
                [only] => format!("the actor `{only}`"),
                [first, .., last] => format!("one of {first} to {last}"),
            };
            problems.push(source.problem_of_row(("op", row), "actor", actor, format!("an operation names the actor `{actor}`"), right));
        }
        if let Err(InvalidValue { found, wrong, right }) = workload.takes(&op.kind) {
            problems.push(source.problem_in_row(("op", row), &found, wrong, right));
        }
        if *at == SimTime::NEVER {
            let wrong = format!("an operation of `{actor}` would never take place");
            problems.push(source.problem_of_row(("op", row), "at", "never", wrong, "a point in time".to_owned()));
        }
    }
    problems
}
