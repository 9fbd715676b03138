//! The operations of actors in a run, each at its time: those that the registered systems define.

pub mod in_turn;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use sim_config::With;
use sim_config::kinds::Kinds;
use sim_config::time::{SimTime, Span};

use crate::registered::open_set;

open_set!(OpKind, OPERATIONS);

/// The actor of an operation, and its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// The earliest time; an actor that is busy or down does it later.
    #[schemars(with = "Span")]
    pub at: SimTime,
    /// The process that does it, one of the workload's actors: `operator`, `client-0`.
    pub actor: String,
}

/// An operation of the workload.
pub type Op = With<Turn, OpKind>;

/// The kind of an operation, with its parameters: one of a registered system. Cheap to clone.
#[derive(Clone, Debug)]
pub struct OpKind(Arc<dyn AnyOperation>);

/// The operations of a system, as it declares them with [`kinds!`](macro@sim_config::kinds).
pub trait Operation: Kinds + Clone + PartialEq + fmt::Debug + Serialize + Send + Sync + 'static {}

impl<O: Kinds + Clone + PartialEq + fmt::Debug + Serialize + Send + Sync + 'static> Operation for O {}

trait AnyOperation: Any + fmt::Debug + erased_serde::Serialize + Send + Sync {
    fn kind(&self) -> &'static str;
    fn equals(&self, other: &dyn AnyOperation) -> bool;
}

impl<O: Operation> AnyOperation for O {
    fn kind(&self) -> &'static str {
        Kinds::kind(self)
    }
    fn equals(&self, other: &dyn AnyOperation) -> bool {
        (other as &dyn Any).downcast_ref().is_some_and(|other: &O| self == other)
    }
}

impl OpKind {
    /// Wraps an operation of any system.
    pub fn new(operation: impl Operation) -> Self {
        Self(Arc::new(operation))
    }

    /// The name of its kind in a file.
    pub fn kind(&self) -> &'static str {
        self.0.kind()
    }

    /// The operation, if `O` are the operations of its system.
    pub fn get<O: Operation>(&self) -> Option<&O> {
        (&*self.0 as &dyn Any).downcast_ref()
    }

    /// The operation, for the workload that executes it. Panics if it is another system's: [`Work::takes`](crate::workload::Work::takes)
    /// rejects that earlier.
    pub fn own<O: Operation>(&self) -> &O {
        self.get().unwrap_or_else(|| panic!("the operation `{}` is another system's", self.kind()))
    }

    /// The operation after `change`. Panics as [`OpKind::own`] does.
    #[must_use]
    pub fn changed<O: Operation>(&self, change: impl FnOnce(&mut O)) -> Self {
        let mut operation = self.own::<O>().clone();
        change(&mut operation);
        Self::new(operation)
    }
}

impl<O: Operation> From<O> for OpKind {
    fn from(operation: O) -> Self {
        Self::new(operation)
    }
}

impl PartialEq for OpKind {
    fn eq(&self, other: &Self) -> bool {
        self.0.equals(&*other.0)
    }
}

impl Serialize for OpKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        erased_serde::serialize(&*self.0, serializer)
    }
}
